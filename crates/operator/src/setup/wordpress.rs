//! WordPress on the disk, and the data that it reports through PHP.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::Deserialize;

use super::machine::Machine;
use super::wp_config::WpConfig;

/// A WordPress, as detected from its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetectedWordPress {
    /// The folder with `wp-load.php`.
    pub root: PathBuf,
    /// The path of `wp-config.php`: in the folder or, as WordPress permits, in its parent.
    pub config: Option<PathBuf>,
    /// WordPress's version.
    pub version: Option<String>,
    /// `WP_HOME` or `WP_SITEURL`, if the file defines one.
    pub address: Option<String>,
    /// `DB_NAME` and `DB_HOST`, as `name on host`.
    pub database: Option<String>,
    /// The kind of the multisite network, if it is one.
    pub network: Option<NetworkKind>,
    /// The name of the user who owns `wp-content`.
    pub owner: Option<String>,
}

/// How the sites of a network are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkKind {
    /// By folders of the path.
    Folders,
    /// By subdomains.
    Subdomains,
}

impl DetectedWordPress {
    /// The WordPress in a folder, if there is one.
    pub(super) fn at(machine: &Machine, root: &Path) -> Option<Self> {
        if !machine.is_file(&root.join("wp-load.php")) {
            return None;
        }
        let config = config_file(machine, root);
        let text = config.as_ref().and_then(|file| machine.text(file));
        let values = WpConfig::parse(&text.unwrap_or_default());
        let address = values.get("WP_HOME").or_else(|| values.get("WP_SITEURL"));
        let network = values.is_true("MULTISITE").then(|| network_kind(&values));
        let host = values.get("DB_HOST").unwrap_or("localhost");
        let database = values.get("DB_NAME");
        Some(Self {
            root: root.to_owned(),
            config,
            version: version(machine, root),
            address: address.map(str::to_owned),
            database: database.map(|name| format!("{name} on {host}")),
            network,
            owner: owner(machine, root),
        })
    }
}

/// The name of the owner of `wp-content`.
fn owner(machine: &Machine, root: &Path) -> Option<String> {
    let content = fs::metadata(machine.path(&root.join("wp-content"))).ok()?;
    let users = machine.text(Path::new("/etc/passwd"))?;
    let uid = content.uid().to_string();
    let mut users = users.lines();
    let line = users.find(|line| line.split(':').nth(2) == Some(&uid))?;
    line.split(':').next().map(str::to_owned)
}

/// The kind of a network.
fn network_kind(values: &WpConfig) -> NetworkKind {
    if values.is_true("SUBDOMAIN_INSTALL") {
        NetworkKind::Subdomains
    } else {
        NetworkKind::Folders
    }
}

/// The path of `wp-config.php`: in the folder, or in its parent if that is not another WordPress.
fn config_file(machine: &Machine, root: &Path) -> Option<PathBuf> {
    let in_root = root.join("wp-config.php");
    if machine.is_file(&in_root) {
        return Some(in_root);
    }
    let folder = root.parent()?;
    let is_other = machine.is_file(&folder.join("wp-settings.php"));
    let above = folder.join("wp-config.php");
    (!is_other && machine.is_file(&above)).then_some(above)
}

fn version(machine: &Machine, root: &Path) -> Option<String> {
    let text = machine.text(&root.join("wp-includes/version.php"))?;
    let (_, rest) = text.split_once("$wp_version")?;
    let (_, rest) = rest.split_once('\'')?;
    let (version, _) = rest.split_once('\'')?;
    let is_plain = version
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b".-".contains(&b));
    (is_plain && version.len() < 32).then(|| version.to_owned())
}

/// The data that WordPress and its database report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct WordPressInfo {
    /// The option `home`: the URL that visitors use.
    #[serde(default)]
    pub home: String,
    /// PHP's version.
    #[serde(default)]
    pub php: String,
    /// The database server and its version.
    #[serde(default)]
    pub database: String,
    /// Whether a page cache in PHP is in use.
    #[serde(default)]
    pub has_page_cache: bool,
    /// Whether it is a multisite network.
    #[serde(default)]
    pub is_network: bool,
    /// Whether the network's sites are subdomains.
    #[serde(default)]
    pub has_subdomains: bool,
}

/// Runs a query in the WordPress in `root` through the `php` command, as the owner of its content: never as root.
///
/// The error is a text for people. Not cancel-safe; PHP is killed after `TIMEOUT`.
pub async fn query_wordpress(root: &Path, host: &str) -> Result<WordPressInfo, String> {
    let mut command = tokio::process::Command::new("php");
    command
        .args(["-d", "display_errors=stderr", "-r", SCRIPT])
        .env("GALLEY_SETUP_HOST", host)
        .env("HOME", "/")
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    if rustix::process::geteuid().is_root() {
        let owner = php_owner(root).ok_or("the user of PHP is not known")?;
        let command = command.as_std_mut();
        command.uid(owner.uid).gid(owner.gid);
    }
    let output = match tokio::time::timeout(TIMEOUT, command.output()).await {
        Err(_) => return Err(format!("PHP did not finish within {TIMEOUT:?}")),
        Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
            return Err("the command `php` is not installed".to_owned());
        }
        Ok(Err(error)) => return Err(format!("`php` does not start: {error}")),
        Ok(Ok(output)) => String::from_utf8_lossy(&output.stdout).into_owned(),
    };
    let json = output.rsplit_once(MARK).map(|(_, json)| json);
    json.and_then(|json| serde_json::from_str(json).ok())
        .ok_or_else(|| {
            "WordPress does not start: its database does not answer, or it is not installed"
                .to_owned()
        })
}

/// The user that PHP runs as: the owner of `wp-content`, or of the folder; `www-data` if root owns both.
struct PhpOwner {
    uid: u32,
    gid: u32,
}

fn php_owner(root: &Path) -> Option<PhpOwner> {
    let folders = [root.join("wp-content"), root.to_owned()];
    let owners = folders
        .iter()
        .filter_map(|folder| fs::metadata(folder).ok());
    let owners = owners.map(|found| PhpOwner {
        uid: found.uid(),
        gid: found.gid(),
    });
    let mut owners = owners.filter(|owner| owner.uid != 0);
    owners.next().or_else(|| {
        let users = fs::read_to_string("/etc/passwd").ok()?;
        let user = users.lines().find(|line| line.starts_with("www-data:"))?;
        let mut fields = user.split(':').skip(2);
        Some(PhpOwner {
            uid: fields.next()?.parse().ok()?,
            gid: fields.next()?.parse().ok()?,
        })
    })
}

/// The query. Loads no plugin and no theme.
const SCRIPT: &str = r#"
define( 'SHORTINIT', true );
$_SERVER['HTTP_HOST'] = getenv( 'GALLEY_SETUP_HOST' );
$_SERVER['REQUEST_URI'] = '/';
$_SERVER['REQUEST_METHOD'] = 'GET';
$_SERVER['SERVER_PROTOCOL'] = 'HTTP/1.1';
require 'wp-load.php';
$galley_home = defined( 'WP_HOME' ) ? WP_HOME : get_option( 'home' );
if ( is_string( $galley_home ) && '' !== $galley_home ) {
	echo "\x01galley\x01" . json_encode( array(
		'home'           => $galley_home,
		'php'            => PHP_VERSION,
		'database'       => (string) $wpdb->get_var( 'SELECT VERSION()' ),
		'has_page_cache' => defined( 'WP_CACHE' ) && WP_CACHE && file_exists( WP_CONTENT_DIR . '/advanced-cache.php' ),
		'is_network'     => defined( 'MULTISITE' ) && MULTISITE,
		'has_subdomains' => defined( 'SUBDOMAIN_INSTALL' ) && SUBDOMAIN_INSTALL,
	) );
}
"#;

/// The text before the result, because WordPress may print text in front of it.
const MARK: &str = "\u{1}galley\u{1}";

const TIMEOUT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::super::machine::sample::SampleMachine;
    use super::*;

    #[test]
    fn a_wordpress_by_its_files() {
        let sample = SampleMachine::new(&[
            ("srv/site/wp-load.php", "<?php"),
            (
                "srv/wp-config.php",
                "<?php define('DB_NAME','n'); define('WP_HOME','https://e.com'); define('MULTISITE', true); define('SUBDOMAIN_INSTALL', false);",
            ),
            (
                "srv/site/wp-includes/version.php",
                "<?php\n$wp_version = '6.6.1';",
            ),
        ]);
        let machine = sample.machine();
        let found = DetectedWordPress::at(&machine, Path::new("/srv/site")).unwrap();
        assert_eq!(
            found.config.as_deref(),
            Some(Path::new("/srv/wp-config.php"))
        );
        assert_eq!(found.version.as_deref(), Some("6.6.1"));
        assert_eq!(found.database.as_deref(), Some("n on localhost"));
        assert_eq!(found.network, Some(NetworkKind::Folders));
        assert_eq!(DetectedWordPress::at(&machine, Path::new("/srv")), None);
        // The file belongs to another WordPress.
        sample.write("srv/wp-settings.php", "");
        let found = DetectedWordPress::at(&machine, Path::new("/srv/site")).unwrap();
        assert_eq!(found.config, None);
    }
}
