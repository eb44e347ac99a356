//! A WordPress of its own: a copy of Debian's package as plain files, its own configuration and database, installed
//! without a click and, on request, filled with a sample site.
//!
//! Debian's package points into other packages by symbolic links and keeps its configuration in /etc; the copy has real
//! files only. Nothing is asked of foreign hosts: external requests, updates and avatars are off. Started by root, the
//! files belong to `www-data`, so that WordPress may write what it writes on real machines.

use std::{
    env,
    fmt::Write as _,
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    MariaDb, account,
    error::{Context, TestkitError},
    place,
    process::run,
};

/// What the site contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SampleContent {
    /// What WordPress itself installs: one post, one page, one comment.
    None,
    /// Posts, pages, pictures, comments, menus, widgets and a post of each special kind; see assets/seed.php.
    Full,
}

/// When WordPress runs its scheduled tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cron {
    /// Never by itself: visits have no side effects. For tests.
    Off,
    /// On visits, as WordPress does by default.
    OnVisits,
}

/// How a WordPress is installed.
#[derive(Debug, Clone)]
pub struct Options {
    /// Address of the site without a slash at the end. Without one it follows each request's Host, so that the same
    /// installation answers behind any port.
    pub url: Option<String>,
    /// Title of the site.
    pub title: String,
    /// Name of the administrator.
    pub user: String,
    /// Password of the administrator and of the sample site's other users.
    pub password: String,
    /// What the site contains.
    pub sample: SampleContent,
    /// When scheduled tasks run.
    pub cron: Cron,
    /// Must-use plugins: file name and PHP text.
    pub mu_plugins: Vec<(String, String)>,
    /// Further lines of PHP for wp-config.php.
    pub extra_config: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            url: None,
            title: "The Tide Table".to_owned(),
            user: "admin".to_owned(),
            password: "galley-test".to_owned(),
            sample: SampleContent::Full,
            cron: Cron::Off,
            mu_plugins: Vec::new(),
            extra_config: String::new(),
        }
    }
}

/// An installed WordPress: files and accounts. Its database and a web server are the caller's.
#[derive(Debug, Clone)]
pub struct WordPress {
    /// Its folder: what a web server takes as document root.
    pub root: PathBuf,
    /// Name of the administrator.
    pub user: String,
    /// Password of the administrator.
    pub password: String,
}

impl WordPress {
    /// Copies, configures and installs WordPress into `dir`, which must not exist or be empty, with its tables in
    /// `database`. Called again on a finished installation it only writes the configuration anew.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] without the packages; [`TestkitError::Ended`] with PHP's words when the installation fails.
    pub fn install(
        dir: &Path,
        database: &MariaDb,
        options: &Options,
    ) -> Result<Self, TestkitError> {
        if !dir.join("wp-load.php").exists() {
            copy_package(dir)?;
        }
        database.sql(&format!(
            "CREATE DATABASE IF NOT EXISTS {NAME} CHARACTER SET utf8mb4;
             CREATE USER IF NOT EXISTS {NAME}@localhost;
             SET PASSWORD FOR {NAME}@localhost = PASSWORD('{DATABASE_PASSWORD}');
             GRANT ALL ON {NAME}.* TO {NAME}@localhost;"
        ))?;
        let wordpress = Self::configure(dir, database.socket(), options)?;
        if let Some(user) = account::for_web() {
            user.own(dir)?;
        }
        wordpress.run_installer(options)?;
        Ok(wordpress)
    }

    /// Writes wp-config.php, .htaccess and the must-use plugins for a folder whose tables exist already.
    pub(crate) fn configure(
        dir: &Path,
        socket: &Path,
        options: &Options,
    ) -> Result<Self, TestkitError> {
        let root = fs::canonicalize(dir).context(format_args!("find {}", dir.display()))?;
        account::require_reachable(&root)?;
        let write = |name: &str, text: &str| {
            let path = root.join(name);
            fs::write(&path, text).context(format_args!("write {}", path.display()))?;
            account::for_web().map_or(Ok(()), |user| user.own(&path))
        };
        write("wp-config.php", &configuration(socket, options)?)?;
        write(".htaccess", HTACCESS)?;
        if !options.mu_plugins.is_empty() {
            fs::create_dir_all(root.join("wp-content/mu-plugins"))
                .context("make the folder of must-use plugins")?;
        }
        for (name, text) in &options.mu_plugins {
            write(&format!("wp-content/mu-plugins/{name}"), text)?;
        }
        Ok(Self {
            root,
            user: options.user.clone(),
            password: options.password.clone(),
        })
    }

    /// Copies Galley's plugin from `folder` and activates it.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] without the plugin, [`TestkitError::Refused`] when WordPress does not activate it.
    pub fn install_plugin(&self, folder: &Path) -> Result<(), TestkitError> {
        if !folder.join("galley.php").is_file() {
            return Err(TestkitError::Missing {
                program: format!("{} (the plugin)", folder.join("galley.php").display()),
            });
        }
        let target = self.root.join("wp-content/plugins/galley");
        run(
            "cp",
            Command::new("cp")
                .args(["-r", "--no-target-directory"])
                .arg(folder)
                .arg(&target),
        )?;
        if let Some(user) = account::for_web() {
            user.own(&target)?;
        }
        let printed = self.php(
            "require_once ABSPATH . 'wp-admin/includes/plugin.php'; \
             $failed = activate_plugin('galley/galley.php'); \
             echo is_wp_error($failed) ? $failed->get_error_message() : 'active';",
        )?;
        if printed.trim_end().ends_with("active") {
            return Ok(());
        }
        Err(TestkitError::Refused(format!(
            "the plugin was not activated: {printed}"
        )))
    }

    /// Runs PHP code inside this WordPress, as its own user; returns what it prints. The code has no opening tag.
    pub fn php(&self, code: &str) -> Result<String, TestkitError> {
        let script = format!(
            "$_SERVER += ['HTTP_HOST' => 'localhost', 'REQUEST_URI' => '/', 'REQUEST_METHOD' => 'GET', \
             'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1']; require 'wp-load.php'; {code}"
        );
        run("php", self.php_command()?.args(["-r", &script]))
    }

    fn run_installer(&self, options: &Options) -> Result<(), TestkitError> {
        // Beside the folder, not in it: the installer must never be served.
        let scripts = self.root.with_extension("installer");
        fs::create_dir_all(&scripts).context(format_args!("make {}", scripts.display()))?;
        for (name, text) in INSTALLER {
            fs::write(scripts.join(name), text).context(format_args!("write {name}"))?;
        }
        let mut command = self.php_command()?;
        command.arg(scripts.join("install.php"));
        command
            .env("GALLEY_TITLE", &options.title)
            .env("GALLEY_USER", &options.user)
            .env("GALLEY_PASSWORD", &options.password);
        command.env(
            "GALLEY_SAMPLE",
            match options.sample {
                SampleContent::None => "none",
                SampleContent::Full => "full",
            },
        );
        let said = run("the installer of WordPress", &mut command)?;
        fs::remove_dir_all(&scripts).context("remove the installer")?;
        // WordPress dies with status 0 and a page that says why.
        if said.contains("installed ") {
            return Ok(());
        }
        Err(TestkitError::Ended {
            program: "the installer of WordPress".to_owned(),
            status: "no success".to_owned(),
            log: said,
        })
    }

    fn php_command(&self) -> Result<Command, TestkitError> {
        let mut command = Command::new(place::program(&["php"])?);
        command.args([
            "-d",
            "display_errors=stderr",
            "-d",
            "sendmail_path=/bin/true",
            "-d",
            "memory_limit=512M",
        ]);
        command.current_dir(&self.root).env("HOME", "/nonexistent");
        if let Some(user) = account::for_web() {
            command.uid(user.uid).gid(user.gid);
        }
        Ok(command)
    }
}

/// The WordPress that is copied: Debian's, or the one that `$GALLEY_TESTKIT_WORDPRESS` names, to try another version.
pub(crate) fn package() -> PathBuf {
    env::var_os("GALLEY_TESTKIT_WORDPRESS").map_or_else(|| PathBuf::from(PACKAGE), PathBuf::from)
}

/// Copies Debian's WordPress as real files: links are followed, the links into /etc left out.
fn copy_package(dir: &Path) -> Result<(), TestkitError> {
    let package = package();
    if !package.join("wp-load.php").exists() {
        return Err(TestkitError::Missing {
            program: "wordpress".to_owned(),
        });
    }
    // Beside the final place first: an interrupted copy is never taken for a whole one.
    let unfinished = dir.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).context("remove an unfinished copy")?;
    }
    copy_following(&package, &unfinished)?;
    for name in [".htaccess", "wp-config.php"] {
        let path = unfinished.join(name);
        if path.exists() {
            fs::remove_file(&path).context(format_args!("remove {}", path.display()))?;
        }
    }
    let uploads = unfinished.join("wp-content/uploads");
    fs::create_dir_all(&uploads).context(format_args!("make {}", uploads.display()))?;
    fs::rename(&unfinished, dir).context(format_args!("move a copy to {}", dir.display()))
}

fn copy_following(from: &Path, to: &Path) -> Result<(), TestkitError> {
    fs::create_dir_all(to).context(format_args!("make {}", to.display()))?;
    for entry in fs::read_dir(from).context(format_args!("read {}", from.display()))? {
        let entry = entry.context(format_args!("read {}", from.display()))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match fs::metadata(&source) {
            Ok(what) if what.is_dir() => copy_following(&source, &target)?,
            Ok(_) => {
                fs::copy(&source, &target).context(format_args!("copy {}", source.display()))?;
            }
            // A link into a package that is only recommended and not installed.
            Err(_) => {}
        }
    }
    Ok(())
}

fn configuration(socket: &Path, options: &Options) -> Result<String, TestkitError> {
    let url = match &options.url {
        Some(url) => format!("define( 'WP_HOME', {} );", quoted(url)),
        None => DERIVED_URL.to_owned(),
    };
    let mut salts = String::new();
    for name in SALTS {
        let _ = writeln!(salts, "define( '{name}', '{}' );", random_hex()?);
    }
    let cron = if options.cron == Cron::Off {
        "define( 'DISABLE_WP_CRON', true );\n"
    } else {
        ""
    };
    let host = quoted(&format!("localhost:{}", socket.display()));
    Ok(format!(
        "<?php
// Written by galley-testkit at each start.
if ( ( $_SERVER['HTTP_X_FORWARDED_PROTO'] ?? '' ) === 'https' ) {{
	$_SERVER['HTTPS'] = 'on';
}}
define( 'DB_NAME', '{NAME}' );
define( 'DB_USER', '{NAME}' );
define( 'DB_PASSWORD', '{DATABASE_PASSWORD}' );
define( 'DB_HOST', {host} );
define( 'DB_CHARSET', 'utf8mb4' );
define( 'DB_COLLATE', '' );
{url}
define( 'WP_SITEURL', WP_HOME );
{salts}{cron}define( 'WP_HTTP_BLOCK_EXTERNAL', true );
define( 'AUTOMATIC_UPDATER_DISABLED', true );
define( 'FS_METHOD', 'direct' );
define( 'WP_DEBUG', false );
$table_prefix = 'wp_';
{extra}
if ( ! defined( 'ABSPATH' ) ) {{
	define( 'ABSPATH', __DIR__ . '/' );
}}
require_once ABSPATH . 'wp-settings.php';
",
        extra = options.extra_config
    ))
}

/// A PHP string literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// 64 hexadecimal digits from the kernel.
fn random_hex() -> Result<String, TestkitError> {
    use std::io::Read;
    let mut bytes = [0_u8; 32];
    let file = fs::File::open("/dev/urandom").context("open /dev/urandom")?;
    file.take(32)
        .read_exact(&mut bytes)
        .context("read /dev/urandom")?;
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Takes the address from the request, if it looks like one.
const DERIVED_URL: &str = r"$galley_host = $_SERVER['HTTP_HOST'] ?? 'localhost';
if ( ! preg_match( '/^[A-Za-z0-9.:\[\]-]{1,255}$/', $galley_host ) ) {
	$galley_host = 'localhost';
}
define( 'WP_HOME', ( ( $_SERVER['HTTPS'] ?? '' ) === 'on' ? 'https' : 'http' ) . '://' . $galley_host );";

/// What WordPress itself writes for permalinks.
const HTACCESS: &str = "# BEGIN WordPress
<IfModule mod_rewrite.c>
RewriteEngine On
RewriteRule .* - [E=HTTP_AUTHORIZATION:%{HTTP:Authorization}]
RewriteBase /
RewriteRule ^index\\.php$ - [L]
RewriteCond %{REQUEST_FILENAME} !-f
RewriteCond %{REQUEST_FILENAME} !-d
RewriteRule . /index.php [L]
</IfModule>
# END WordPress
";

pub(crate) const INSTALLER: &[(&str, &str)] = &[
    ("install.php", include_str!("../assets/install.php")),
    ("seed.php", include_str!("../assets/seed.php")),
    ("seed-text.php", include_str!("../assets/seed-text.php")),
    ("seed-images.php", include_str!("../assets/seed-images.php")),
];
/// Where Debian's package puts it.
const PACKAGE: &str = "/usr/share/wordpress";
const SALTS: &[&str] = &[
    "AUTH_KEY",
    "SECURE_AUTH_KEY",
    "LOGGED_IN_KEY",
    "NONCE_KEY",
    "AUTH_SALT",
    "SECURE_AUTH_SALT",
    "LOGGED_IN_SALT",
    "NONCE_SALT",
];
const NAME: &str = "wordpress";
/// Not a secret: the socket is in a directory of ours and there is no network.
const DATABASE_PASSWORD: &str = "wordpress";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn php_strings_cannot_be_broken_out_of() {
        for (text, wanted) in [
            ("a", "'a'"),
            ("it's", r"'it\'s'"),
            (r"\", r"'\\'"),
            (r"\'", r"'\\\''"),
        ] {
            assert_eq!(quoted(text), wanted);
        }
    }

    #[test]
    fn options_reach_the_configuration() {
        let fixed = Options {
            url: Some("https://x.test".into()),
            extra_config: "define( 'A', 1 );".into(),
            ..Options::default()
        };
        let text = configuration(Path::new("/s.sock"), &fixed).unwrap();
        for wanted in [
            "'https://x.test'",
            "define( 'A', 1 );",
            "DISABLE_WP_CRON",
            "'localhost:/s.sock'",
        ] {
            assert!(text.contains(wanted), "{wanted} is not in\n{text}");
        }
        let live = Options {
            cron: Cron::OnVisits,
            ..Options::default()
        };
        let text = configuration(Path::new("/s.sock"), &live).unwrap();
        assert!(text.contains("HTTP_HOST") && !text.contains("DISABLE_WP_CRON"));
        assert_ne!(random_hex().unwrap(), random_hex().unwrap());
    }
}
