//! Installs a private WordPress: a copy of Debian's package with its own configuration and database, optionally with a sample
//! site.
//!
//! Debian's package has symbolic links to other packages and its configuration in `/etc`; the copy has only regular files. It
//! sends no requests to other hosts: external requests, updates and avatars are disabled. If root installs it, the files
//! belong to `www-data`, so that WordPress can write the same files as on a real machine.

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
    process::run,
    programs,
};

/// The content of a new site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SampleContent {
    /// The content of a new WordPress: one post, one page, one comment.
    None,
    /// Posts, pages, images, comments, menus, widgets and a post of each special kind; see assets/seed.php.
    Full,
}

/// When WordPress runs its scheduled tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cron {
    /// Never automatically, so that visits have no side effects. For tests.
    Off,
    /// During visits, the default of WordPress.
    OnVisits,
}

/// The options of an installation.
#[derive(Debug, Clone)]
pub struct Options {
    /// URL of the site without a trailing slash. With `None`, WordPress uses the `Host` of each request, so that the same
    /// installation works at any port.
    pub url: Option<String>,
    /// Title of the site.
    pub title: String,
    /// Name of the administrator.
    pub user: String,
    /// Password of the administrator and of the other users of the sample site.
    pub password: String,
    /// The content of the site.
    pub sample: SampleContent,
    /// When scheduled tasks run.
    pub cron: Cron,
    /// Must-use plugins: file name and PHP code.
    pub mu_plugins: Vec<(String, String)>,
    /// Additional PHP code for wp-config.php.
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

/// An installed WordPress. The caller owns its database and the web server.
#[derive(Debug, Clone)]
pub struct WordPress {
    /// The document root.
    pub root: PathBuf,
    /// Name of the administrator.
    pub user: String,
    /// Password of the administrator.
    pub password: String,
    /// Where [`php`](Self::php) keeps compiled files, which saves most of the time of a short script. A file that changes twice within
    /// a second can run in its old form.
    pub compiled: Option<PathBuf>,
}

impl WordPress {
    /// Copies, configures and installs WordPress into `dir`, which must not exist or be empty, with its tables in
    /// `database`. For an existing installation, it only writes the configuration again.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] if the packages are not installed; [`TestkitError::Ended`] with PHP's output if the
    /// installation fails.
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
        if let Some(user) = account::web_user() {
            user.chown(dir)?;
        }
        wordpress.run_installer(options)?;
        Ok(wordpress)
    }

    /// Writes wp-config.php, .htaccess and the must-use plugins of an installation whose tables exist.
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
            account::web_user().map_or(Ok(()), |user| user.chown(&path))
        };
        write("wp-config.php", &configuration(socket, options)?)?;
        write(".htaccess", HTACCESS)?;
        if !options.mu_plugins.is_empty() {
            fs::create_dir_all(root.join("wp-content/mu-plugins"))
                .context("create the folder of must-use plugins")?;
        }
        for (name, text) in &options.mu_plugins {
            write(&format!("wp-content/mu-plugins/{name}"), text)?;
        }
        Ok(Self {
            root,
            user: options.user.clone(),
            password: options.password.clone(),
            compiled: None,
        })
    }

    /// Copies Galley's plugin from `folder` and activates it.
    ///
    /// # Errors
    /// [`TestkitError::Missing`] if `folder` has no plugin, [`TestkitError::Refused`] if WordPress does not activate it.
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
        if let Some(user) = account::web_user() {
            user.chown(&target)?;
        }
        let output = self.php(
            "require_once ABSPATH . 'wp-admin/includes/plugin.php'; \
             $failed = activate_plugin('galley/galley.php'); \
             echo is_wp_error($failed) ? $failed->get_error_message() : 'active';",
        )?;
        if output.trim_end().ends_with("active") {
            return Ok(());
        }
        Err(TestkitError::Refused(format!(
            "the plugin was not activated: {output}"
        )))
    }

    /// Runs PHP code, which has no opening tag, in this WordPress as the user of its files; returns the output.
    pub fn php(&self, code: &str) -> Result<String, TestkitError> {
        let script = format!(
            "$_SERVER += ['HTTP_HOST' => 'localhost', 'REQUEST_URI' => '/', 'REQUEST_METHOD' => 'GET', \
             'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1']; require 'wp-load.php'; {code}"
        );
        run("php", self.php_command()?.args(["-r", &script]))
    }

    fn run_installer(&self, options: &Options) -> Result<(), TestkitError> {
        // Outside the document root, because the installer must never be served.
        let scripts = self.root.with_extension("installer");
        fs::create_dir_all(&scripts).context(format_args!("create {}", scripts.display()))?;
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
        let output = run("the installer of WordPress", &mut command)?;
        fs::remove_dir_all(&scripts).context("remove the installer")?;
        // If WordPress fails, it exits with status 0 and prints an error page.
        if output.contains("installed ") {
            return Ok(());
        }
        Err(TestkitError::Ended {
            program: "the installer of WordPress".to_owned(),
            status: "an error page".to_owned(),
            log: output,
        })
    }

    fn php_command(&self) -> Result<Command, TestkitError> {
        let mut command = Command::new(programs::find(&["php"])?);
        command.args([
            "-d",
            "display_errors=stderr",
            "-d",
            "sendmail_path=/bin/true",
            "-d",
            "memory_limit=512M",
        ]);
        if let Some(folder) = &self.compiled {
            let file_cache = format!("opcache.file_cache={}", folder.display());
            for setting in [
                "opcache.enable_cli=1",
                "opcache.file_cache_only=1",
                &file_cache,
            ] {
                command.args(["-d", setting]);
            }
        }
        command.current_dir(&self.root).env("HOME", "/nonexistent");
        if let Some(user) = account::web_user() {
            command.uid(user.uid).gid(user.gid);
        }
        Ok(command)
    }
}

/// The WordPress to copy: Debian's package, or the folder in `$GALLEY_TESTKIT_WORDPRESS`, to test another version.
pub(crate) fn package() -> PathBuf {
    env::var_os("GALLEY_TESTKIT_WORDPRESS").map_or_else(|| PathBuf::from(PACKAGE), PathBuf::from)
}

/// Copies Debian's WordPress as regular files: follows symbolic links and omits those to `/etc`.
fn copy_package(dir: &Path) -> Result<(), TestkitError> {
    let package = package();
    if !package.join("wp-load.php").exists() {
        return Err(TestkitError::Missing {
            program: "wordpress".to_owned(),
        });
    }
    // Copies to a temporary name first, so that an interrupted copy is never used.
    let unfinished = dir.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).context("remove an unfinished copy")?;
    }
    copy_dereferenced(&package, &unfinished)?;
    for name in [".htaccess", "wp-config.php"] {
        let path = unfinished.join(name);
        if path.exists() {
            fs::remove_file(&path).context(format_args!("remove {}", path.display()))?;
        }
    }
    let uploads = unfinished.join("wp-content/uploads");
    fs::create_dir_all(&uploads).context(format_args!("create {}", uploads.display()))?;
    fs::rename(&unfinished, dir).context(format_args!("rename a copy to {}", dir.display()))
}

fn copy_dereferenced(from: &Path, to: &Path) -> Result<(), TestkitError> {
    fs::create_dir_all(to).context(format_args!("create {}", to.display()))?;
    for entry in fs::read_dir(from).context(format_args!("read {}", from.display()))? {
        let entry = entry.context(format_args!("read {}", from.display()))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        match fs::metadata(&source) {
            Ok(metadata) if metadata.is_dir() => copy_dereferenced(&source, &target)?,
            Ok(_) => {
                fs::copy(&source, &target).context(format_args!("copy {}", source.display()))?;
            }
            // A link to a recommended package that is not installed.
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

/// 64 random hexadecimal digits.
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

/// Sets the URL of the site from the `Host` of the request, if that is valid.
const DERIVED_URL: &str = r"$galley_host = $_SERVER['HTTP_HOST'] ?? 'localhost';
if ( ! preg_match( '/^[A-Za-z0-9.:\[\]-]{1,255}$/', $galley_host ) ) {
	$galley_host = 'localhost';
}
define( 'WP_HOME', ( ( $_SERVER['HTTPS'] ?? '' ) === 'on' ? 'https' : 'http' ) . '://' . $galley_host );";

/// The rules that WordPress writes for permalinks.
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
/// The folder of Debian's package.
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
/// Not a secret: the database listens only on a socket in a private directory.
const DATABASE_PASSWORD: &str = "wordpress";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn php_string_literals_are_escaped() {
        for (text, expected) in [
            ("a", "'a'"),
            ("it's", r"'it\'s'"),
            (r"\", r"'\\'"),
            (r"\'", r"'\\\''"),
        ] {
            assert_eq!(quoted(text), expected);
        }
    }

    #[test]
    fn options_are_written_to_the_configuration() {
        let fixed = Options {
            url: Some("https://x.test".into()),
            extra_config: "define( 'A', 1 );".into(),
            ..Options::default()
        };
        let text = configuration(Path::new("/s.sock"), &fixed).unwrap();
        for expected in [
            "'https://x.test'",
            "define( 'A', 1 );",
            "DISABLE_WP_CRON",
            "'localhost:/s.sock'",
        ] {
            assert!(text.contains(expected), "{expected} is missing in\n{text}");
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
