//! `galley plugin install` and `galley plugin remove`.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::error::PluginError;
use super::folder::FileOwner;
use super::target::{self, PluginTarget};
use super::wordpress::{InstallResult, MARK, WordPress};
use crate::options::{PluginCommand, PluginOptions, RemoveOptions};
use crate::{ask, show};

/// Runs `galley plugin ...`.
pub fn plugin(command: &PluginCommand) -> ExitCode {
    let (done, as_json) = match command {
        PluginCommand::Install(options) => (install(options), options.json),
        PluginCommand::Remove(options) => (remove(options), options.json),
    };
    match done {
        Ok(done) => {
            if as_json {
                show::data(&done.value);
            } else {
                done.lines.iter().for_each(|line| show::line(line));
            }
            done.code
        }
        Err(trouble) => trouble.message(),
    }
}

/// The result, for people and for programs.
struct PluginReport {
    lines: Vec<String>,
    value: Value,
    code: ExitCode,
}

fn install(options: &PluginOptions) -> Result<PluginReport, PluginError> {
    let wordpress = WordPress::open(&options.dir)?;
    let target = target::target(options, &wordpress.root)?;
    let php = target::php_user(&target, wordpress.owner()?)?;
    let put = wordpress.put_plugin(FILES)?;
    let connection = wordpress.connect(&target.address, &target.token, php)?;
    let installed = Installed {
        put,
        plugin: wordpress.plugin(),
        connection,
        active: activate(&wordpress, &target, php),
        object_cache: options
            .object_cache
            .then(|| install_object_cache(&wordpress, &target, php)),
        server: check_token(&target),
        closed: target::closed_folder(&target.address, php),
        target,
    };
    Ok(installed.report())
}

/// The result of an installation.
struct Installed {
    put: InstallResult,
    plugin: PathBuf,
    connection: PathBuf,
    /// The reason if the plugin is not active.
    active: Result<(), String>,
    /// Whether the object cache is installed; `None`: nobody asked for it.
    object_cache: Option<Result<(), String>>,
    /// The reason if the server does not accept the token.
    server: Result<(), String>,
    /// The folder because of which PHP cannot reach the socket.
    closed: Option<PathBuf>,
    target: PluginTarget,
}

impl Installed {
    fn report(&self) -> PluginReport {
        let mut lines = vec![
            format!(
                "plugin      {} in {}",
                self.put.word(),
                self.plugin.display()
            ),
            format!(
                "connection  to {}, in {}",
                self.target.address,
                self.connection.display()
            ),
            format!(
                "token       {} {}",
                if self.target.is_new { "made:" } else { "in" },
                self.target.token_file.display()
            ),
        ];
        let state = |name: &str, yes: &str, state: &Result<(), String>| match state {
            Ok(()) => format!("{name:<10}  {yes}"),
            Err(why) => format!("{name:<10}  {why}"),
        };
        lines.push(state("WordPress", "the plugin is active", &self.active));
        lines.push(self.object_cache.as_ref().map_or_else(
            || "objects     `--object-cache` also installs the object cache".to_owned(),
            |installed| state("objects", "the object cache is installed", installed),
        ));
        lines.push(state("server", "it knows the token", &self.server));
        if let Some(folder) = &self.closed {
            lines.push(format!(
                "to do       PHP cannot come through `{0}` to the admin socket: `chmod o+x {0}`, or another `[admin] listen`",
                folder.display()
            ));
        }
        let value = json!({
            "ok": self.active.is_ok(),
            "plugin": self.plugin,
            "files": self.put.word(),
            "connection": self.connection,
            "address": self.target.address,
            "token_file": self.target.token_file,
            "token_is_new": self.target.is_new,
            "active": self.active.is_ok(),
            "active_why": self.active.as_ref().err(),
            "object_cache": self.object_cache.as_ref().map(Result::is_ok),
            "object_cache_why": self.object_cache.as_ref().and_then(|installed| installed.as_ref().err()),
            "connected": self.server.is_ok(),
            "connected_why": self.server.as_ref().err(),
            "closed_folder": self.closed,
        });
        let code = match (&self.active, &self.object_cache) {
            (Ok(()), None | Some(Ok(()))) => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        };
        PluginReport { lines, value, code }
    }
}

/// Activates the plugin, for the whole network in a multisite installation.
fn activate(
    wordpress: &WordPress,
    target: &PluginTarget,
    php: Option<FileOwner>,
) -> Result<(), String> {
    let code = format!(
        "$galley_result = activate_plugin( 'galley/galley.php', '', is_multisite() );\n\
         $galley_said = is_wp_error( $galley_result ) ? $galley_result->get_error_message() : \
         ( is_plugin_active( 'galley/galley.php' ) ? 'active' : 'inactive' );\n\
         echo '{MARK}' . $galley_said . '{MARK}';"
    );
    match wordpress.php(&code, &target.host, php) {
        Ok(Some(reported)) if reported == "active" => Ok(()),
        Ok(Some(reported)) => Err(format!("the plugin is not active: WordPress says `{reported}`")),
        Ok(None) => Err(
            "the plugin is not active: there is no `php` command here; activate Galley under Plugins in the administration"
                .to_owned(),
        ),
        Err(trouble) => Err(format!(
            "the plugin is not active: {trouble}; activate Galley under Plugins in the administration"
        )),
    }
}

/// Installs the drop-in of the object cache, as the user of PHP.
fn install_object_cache(
    wordpress: &WordPress,
    target: &PluginTarget,
    php: Option<FileOwner>,
) -> Result<(), String> {
    let code = format!(
        "$galley_why = Galley\\install_drop_in(); echo '{MARK}' . ( '' === $galley_why ? 'installed' : $galley_why ) . '{MARK}';"
    );
    match wordpress.php(&code, &target.host, php) {
        Ok(Some(reported)) if reported == "installed" => Ok(()),
        Ok(Some(reported)) => Err(format!("the object cache is not installed: {reported}")),
        Ok(None) => Err(
            "the object cache is not installed: there is no `php` command here; switch it on under Settings > Galley"
                .to_owned(),
        ),
        Err(trouble) => Err(format!("the object cache is not installed: {trouble}")),
    }
}

/// Whether the running server accepts the token.
fn check_token(target: &PluginTarget) -> Result<(), String> {
    let admin = ask::AdminAddress::at(&target.address, &target.token).map_err(|e| e.to_string())?;
    match admin.get("/status") {
        Ok(_) => Ok(()),
        Err(ask::AdminError::Refused { status: 401, .. }) => {
            Err("the running Galley does not know the token yet: run `galley reload`".to_owned())
        }
        Err(ask::AdminError::Unreachable { address, .. }) => Err(format!(
            "Galley is not running at {address}: it reads the token when it starts"
        )),
        Err(trouble) => Err(trouble.to_string()),
    }
}

fn remove(options: &RemoveOptions) -> Result<PluginReport, PluginError> {
    let wordpress = WordPress::open(&options.dir)?;
    let owner = wordpress.owner()?;
    let php = rustix::process::geteuid().is_root().then_some(owner);
    // WordPress first, so that the plugin's data in the database is removed. Deactivating runs in a separate process, because
    // the plugin may write data when that process ends, which would be after the cleanup.
    let deactivate = "deactivate_plugins( 'galley/galley.php', false, is_multisite() );";
    let clean = "if ( is_uninstallable_plugin( 'galley/galley.php' ) ) { uninstall_plugin( 'galley/galley.php' ); }";
    let cleaned = [deactivate, clean].into_iter().try_fold(None, |_, code| {
        wordpress.php(
            &format!("{code}\necho '{MARK}done{MARK}';"),
            "localhost",
            php,
        )
    });
    let was_there = wordpress.remove()?;
    let (is_clean, reported) = match cleaned {
        Ok(Some(_)) => (true, "its options are removed".to_owned()),
        Ok(None) => (
            false,
            "there is no `php` command here: its options are still in the database".to_owned(),
        ),
        Err(trouble) => (
            false,
            format!("its options are still in the database: {trouble}"),
        ),
    };
    let files = if was_there {
        "removed"
    } else {
        "was not there"
    };
    Ok(PluginReport {
        lines: vec![
            format!("plugin      {files}"),
            format!("WordPress   {reported}"),
        ],
        value: json!({ "ok": is_clean, "files": files, "clean": is_clean }),
        code: if is_clean {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        },
    })
}

/// The plugin's files: paths below its folder, and their contents.
static FILES: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/plugin.rs"));
