//! A WordPress on the disk: the plugin's files, the connection file, and PHP on the command line.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::FileType;

use super::PluginError;
use super::folder::{FileOwner, PluginFolder, temporary};

/// The result of installing the plugin's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InstallResult {
    New,
    Replaced,
    Same,
}

impl InstallResult {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::New => "installed",
            Self::Replaced => "replaced",
            Self::Same => "unchanged",
        }
    }
}

/// The open folders of a WordPress.
pub(super) struct WordPress {
    pub(super) root: PathBuf,
    pub(super) content: PluginFolder,
    plugins: PluginFolder,
}

impl WordPress {
    /// Opens the WordPress in `dir`.
    pub(super) fn open(dir: &Path) -> Result<Self, PluginError> {
        let root = dir
            .canonicalize()
            .map_err(|cause| PluginError::file("open", dir, &cause))?;
        if !root.join("wp-load.php").is_file() {
            return Err(PluginError::Usage(format!(
                "`{}` is not the folder of a WordPress: it has no wp-load.php",
                root.display()
            )));
        }
        let folder =
            PluginFolder::open(&root).map_err(|cause| PluginError::file("open", &root, &cause))?;
        let content = enter(&folder, "wp-content")?;
        let plugins = enter(&content, "plugins")?;
        Ok(Self {
            root,
            content,
            plugins,
        })
    }

    /// The owner of the plugins folder: PHP's user, if WordPress may install plugins itself.
    pub(super) fn owner(&self) -> Result<FileOwner, PluginError> {
        let path = self.plugins.path();
        self.plugins
            .owner()
            .map_err(|cause| PluginError::file("look at", path, &cause))
    }

    /// The path of the plugin.
    pub(super) fn plugin(&self) -> PathBuf {
        self.plugins.path().join(PLUGIN)
    }

    /// Writes the plugin to a temporary folder, and moves that to the plugin's path atomically.
    pub(super) fn put_plugin(&self, files: &[(&str, &[u8])]) -> Result<InstallResult, PluginError> {
        let there = self.ours()?;
        if there == Some(true) && self.is_same(files) {
            return Ok(InstallResult::Same);
        }
        let owner = if rustix::process::geteuid().is_root() {
            Some(self.owner()?)
        } else {
            None
        };
        let failed = |cause: io::Error| PluginError::file("write", &self.plugin(), &cause);
        let new = temporary(PLUGIN).map_err(failed)?;
        let put = self
            .write_all(&new, files, owner)
            .and_then(|()| self.plugins.replace(&new, PLUGIN));
        if let Err(cause) = put {
            let _ = self.plugins.remove_tree(&new);
            return Err(failed(cause));
        }
        Ok(match there {
            None => InstallResult::New,
            Some(_) => InstallResult::Replaced,
        })
    }

    fn write_all(
        &self,
        new: &str,
        files: &[(&str, &[u8])],
        owner: Option<FileOwner>,
    ) -> io::Result<()> {
        let top = self.plugins.make(new, owner)?;
        for (name, bytes) in files {
            let (folders, name) = name.rsplit_once('/').unwrap_or(("", name));
            let mut inner = None;
            for folder in folders.split('/').filter(|part| !part.is_empty()) {
                inner = Some(inner.as_ref().unwrap_or(&top).make(folder, owner)?);
            }
            let folder = inner.as_ref().unwrap_or(&top);
            folder.write_new(name, bytes, 0o644, owner)?;
        }
        Ok(())
    }

    /// Whether the folder at the plugin's path is this plugin; `None` if there is none.
    fn ours(&self) -> Result<Option<bool>, PluginError> {
        let path = self.plugin();
        let kind = self.plugins.kind(PLUGIN);
        match kind.map_err(|cause| PluginError::file("look at", &path, &cause))? {
            None => return Ok(None),
            Some(FileType::Directory) => {}
            Some(_) => {
                return Err(PluginError::Failed(format!(
                    "`{}` is a link or a file, not the plugin's folder: move it away first",
                    path.display()
                )));
            }
        }
        let head = self.plugins.enter(PLUGIN).and_then(|folder| {
            let head = folder.read(MAIN, HEAD_BYTES)?;
            Ok(is_ours(&String::from_utf8_lossy(&head)))
        });
        match head {
            Ok(true) => Ok(Some(true)),
            _ => Err(PluginError::Failed(format!(
                "`{}` is another plugin's folder, or a damaged copy: move it away first",
                path.display()
            ))),
        }
    }

    /// Whether every file has the right contents. Additional files are ignored.
    fn is_same(&self, files: &[(&str, &[u8])]) -> bool {
        let same = |name: &str, bytes: &[u8]| -> io::Result<bool> {
            let mut folder = self.plugins.enter(PLUGIN)?;
            let (folders, name) = name.rsplit_once('/').unwrap_or(("", name));
            for part in folders.split('/').filter(|part| !part.is_empty()) {
                folder = folder.enter(part)?;
            }
            Ok(folder.read(name, bytes.len() as u64 + 1)? == bytes)
        };
        files
            .iter()
            .all(|(name, bytes)| same(name, bytes).unwrap_or(false))
    }

    /// Writes the connection file, readable only by PHP's user.
    pub(super) fn connect(
        &self,
        address: &str,
        token: &str,
        php: Option<FileOwner>,
    ) -> Result<PathBuf, PluginError> {
        let text = format!(
            "<?php\n// Written by `galley plugin install`: how this WordPress reaches its Galley. Keep it to yourself.\n\
             defined( 'ABSPATH' ) || exit;\n\nreturn array(\n\t'address' => {},\n\t'token'   => {},\n);\n",
            quoted(address),
            quoted(token)
        );
        let path = self.content.path().join(CONNECTION);
        self.content
            .write(CONNECTION, text.as_bytes(), 0o600, php)
            .map_err(|cause| PluginError::file("write", &path, &cause))?;
        Ok(path)
    }

    /// Removes the plugin and the connection file; returns false if neither existed.
    pub(super) fn remove(&self) -> Result<bool, PluginError> {
        let there = self.ours()?;
        let plugin = self.plugin();
        if there.is_some() {
            self.plugins
                .remove_tree(PLUGIN)
                .map_err(|cause| PluginError::file("remove", &plugin, &cause))?;
        }
        let connection = self.content.remove_file(CONNECTION);
        let path = self.content.path().join(CONNECTION);
        let was_connected =
            connection.map_err(|cause| PluginError::file("remove", &path, &cause))?;
        Ok(there.is_some() || was_connected)
    }

    /// Runs PHP inside this WordPress as `user`; returns the output between two marks. `Ok(None)`: PHP is not installed.
    pub(super) fn php(
        &self,
        code: &str,
        host: &str,
        user: Option<FileOwner>,
    ) -> Result<Option<String>, PluginError> {
        let script = format!(
            "$_SERVER += array( 'HTTP_HOST' => {}, 'REQUEST_URI' => '/', 'REQUEST_METHOD' => 'GET', \
             'SERVER_PROTOCOL' => 'HTTP/1.1', 'REMOTE_ADDR' => '127.0.0.1' );\n{AS_NETWORK}\
             require 'wp-load.php';\nrequire_once ABSPATH . 'wp-admin/includes/plugin.php';\n{code}",
            quoted(host)
        );
        let mut command = tokio::process::Command::new("php");
        command
            .args(["-d", "display_errors=stderr", "-r", &script])
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        if let Some(user) = user {
            command.uid(user.uid).gid(user.gid).env("HOME", "/");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|cause| PluginError::Failed(cause.to_string()))?;
        let output =
            runtime.block_on(async { tokio::time::timeout(TIMEOUT, command.output()).await });
        let output = match output {
            Ok(Ok(output)) => output,
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Ok(Err(error)) => return Err(PluginError::Failed(format!("cannot run php: {error}"))),
            Err(_) => {
                return Err(PluginError::Failed(format!(
                    "PHP did not end within {TIMEOUT:?}"
                )));
            }
        };
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        if let Some((_, rest)) = stdout.split_once(MARK)
            && let Some((result, _)) = rest.split_once(MARK)
        {
            return Ok(Some(result.to_owned()));
        }
        let printed_text = format!("{}{stdout}", String::from_utf8_lossy(&output.stderr));
        let printed = Some(in_short(&printed_text)).filter(|text| !text.is_empty());
        let printed = printed.unwrap_or_else(|| format!("PHP printed nothing ({})", output.status));
        Err(PluginError::Failed(format!(
            "WordPress did not answer on the command line: {printed}"
        )))
    }
}

fn enter(folder: &PluginFolder, name: &str) -> Result<PluginFolder, PluginError> {
    folder.enter(name).map_err(|cause| {
        let path = folder.path().join(name);
        if path.is_symlink() {
            return PluginError::Failed(format!(
                "`{}` is a symbolic link, and links out of the site are not followed: name the WordPress that it leads to",
                path.display()
            ));
        }
        PluginError::file("open", &path, &cause)
    })
}

/// Whether the head of a plugin's main file names this plugin.
fn is_ours(head: &str) -> bool {
    let name = head.split_once("Plugin Name:").map(|(_, rest)| rest);
    name.and_then(|rest| rest.lines().next()).map(str::trim) == Some("Galley")
}

/// A PHP string literal.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// The text of an output that may be an HTML page: without tags, on one line, shortened.
fn in_short(text: &str) -> String {
    let mut plain = String::new();
    let mut is_tag = false;
    for character in text.chars() {
        match character {
            '<' => is_tag = true,
            '>' if is_tag => is_tag = false,
            c if !is_tag => plain.push(if c.is_control() { ' ' } else { c }),
            _ => {}
        }
    }
    let words: Vec<&str> = plain.split_whitespace().collect();
    words.join(" ").chars().take(MAX_SHOWN).collect()
}

/// Marks before and after the result, because WordPress and other plugins may print text around it.
pub(super) const MARK: &str = "\u{1}galley\u{1}";

/// A multisite network responds only under the addresses of its sites, port included, and redirects all others. On the command line
/// its first site takes the request instead. WordPress adds hooks from this variable before it loads the network.
const AS_NETWORK: &str = r#"$wp_filter = array( 'pre_get_site_by_path' => array( array( array( 'accepted_args' => 3, 'function' => function ( $galley_site, $galley_domain, $galley_path ) {
    global $wpdb;
    $galley_known = $wpdb->get_var( $wpdb->prepare( "SELECT blog_id FROM $wpdb->blogs WHERE domain = %s AND path = %s", $galley_domain, $galley_path ) );
    return null !== $galley_site || $galley_known ? $galley_site : $wpdb->get_row( "SELECT * FROM $wpdb->blogs ORDER BY blog_id LIMIT 1" );
} ) ) ) );
"#;

const PLUGIN: &str = "galley";
const MAIN: &str = "galley.php";
const CONNECTION: &str = "galley-connection.php";

/// The number of bytes in which WordPress searches for a plugin's name.
const HEAD_BYTES: u64 = 8 * 1024;

/// The time limit for activating a plugin.
const TIMEOUT: Duration = Duration::from_secs(120);

const MAX_SHOWN: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_shortened_to_their_text() {
        let page = "<!doctype html><title>Error</title>\n<p>No\tdatabase</p>\u{1b}[2J";
        assert_eq!(in_short(page), "Error No database [2J");
        assert_eq!(in_short(&"x".repeat(1000)).len(), MAX_SHOWN);
    }

    #[test]
    fn the_plugin_is_recognized_by_its_name() {
        for (head, wanted) in [
            (
                "<?php\n/**\n * Plugin Name:       Galley\n * Version: 1",
                true,
            ),
            ("/* Plugin Name: Galley\r\n", true),
            ("/* Plugin Name: Galley Slaves\n", false),
            ("/* Name: Galley\n", false),
        ] {
            assert_eq!(is_ours(head), wanted, "{head}");
        }
    }

    #[test]
    fn php_strings_are_escaped() {
        assert_eq!(quoted(r"a'b\"), r"'a\'b\\'");
    }
}
