//! Derives the parameters for starting and watching a site's PHP-FPM from its settings: sizes, the text of the configuration,
//! a folder.
//!
//! A PHP-FPM of Galley's user is prepared when it is started. One that the privileged process starts is prepared in two
//! steps: the first as root, the rest after Galley has given up root.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::handover::{Ownership, PoolFolder};
use super::master::{MasterCommand, MasterLauncher, MasterPlan};
use super::numbers::PoolNumbers;
use super::pool::{self, PoolConfig, SocketAccess};
use super::privileged::{KeeperChannel, SocketPath};
use super::watch::{PoolSizing, WatchSettings};
use super::{PhpSettings, PhpStartError, binary, sandbox};
use galley_sys::cgroup::{GroupLimits, GroupState, ProgramGroup};
use galley_sys::sandbox::Sandbox;

/// The parts for starting and watching.
pub(super) struct Prepared {
    pub(super) plan: MasterPlan,
    pub(super) watch: WatchSettings,
    /// The maximum number of workers.
    pub(super) most: usize,
}

/// The part that does not depend on the process that starts it.
#[derive(Debug)]
pub(crate) struct PreparedPool {
    pub(super) binary: PathBuf,
    /// The arguments before those for the configuration file.
    pub(super) arguments: Vec<String>,
    /// The text of the configuration.
    pub(super) text: String,
    pub(super) root: PathBuf,
    /// The sandbox for its processes.
    pub(super) sandbox: Option<Sandbox>,
    limits: GroupLimits,
    /// The name of its control group.
    group: String,
    watch: WatchSettings,
    slots: usize,
    most: usize,
}

/// The paths of the socket for PHP-FPM and for Galley, and the user of PHP-FPM.
pub(super) struct Sockets<'a> {
    /// The folder with the random name.
    pub(super) folder: &'a Path,
    pub(super) listen: &'a Path,
    pub(super) connect: &'a Path,
    pub(super) user: Option<&'a str>,
    pub(super) reach: SocketAccess,
}

/// Creates the folder and writes the configuration. Only a few small files at the start, so that blocking calls suffice.
pub(super) fn prepare(settings: PhpSettings) -> Result<Prepared, PhpStartError> {
    let directory = directory(&settings)?;
    in_folder(
        settings,
        PoolFolder::new(directory.keep(), Ownership::ours()),
    )
}

/// Prepares a PHP-FPM in an existing folder, whatever it contains.
pub(super) fn in_folder(
    settings: PhpSettings,
    directory: PoolFolder,
) -> Result<Prepared, PhpStartError> {
    let folder = directory.path();
    let (config, socket) = (folder.join("fpm.conf"), folder.join(SOCKET));
    let parts = pool_parts(
        &settings,
        &Sockets {
            folder,
            listen: &socket,
            connect: &socket,
            user: user(&settings),
            reach: SocketAccess::Owner,
        },
    )?;
    std::fs::write(&config, &parts.text).map_err(|source| PhpStartError::Files {
        path: config.clone(),
        source,
    })?;
    let own = MasterCommand {
        arguments: parts.arguments.clone(),
        directory,
        config,
        root: settings.root,
        sandbox: parts.sandbox.clone(),
    };
    prepared(parts, MasterLauncher::Own(own))
}

/// The remaining steps for a pool that the privileged process starts.
pub(super) fn privileged(
    parts: PreparedPool,
    line: KeeperChannel,
    pool: u32,
    socket_path: SocketPath,
) -> Result<Prepared, PhpStartError> {
    prepared(
        parts,
        MasterLauncher::Kept {
            line,
            pool,
            socket_path,
        },
    )
}

fn prepared(parts: PreparedPool, launcher: MasterLauncher) -> Result<Prepared, PhpStartError> {
    let PreparedPool {
        binary,
        sandbox,
        limits,
        group,
        watch,
        slots,
        most,
        ..
    } = parts;
    let level = sandbox::level(sandbox.as_ref(), &watch.site)?;
    let numbers = PoolNumbers::new(slots, watch.budget.share).confined(level);
    let group = limited(limits, &group, &watch.site, &numbers);
    let plan = MasterPlan {
        launcher,
        binary,
        socket: watch.socket.clone(),
        site: watch.site.clone(),
        numbers: Arc::new(numbers),
        current: Arc::default(),
        group,
    };
    Ok(Prepared { plan, watch, most })
}

/// Creates the control group with the site's limits. If that fails, PHP runs without it.
fn limited(
    limits: GroupLimits,
    name: &str,
    site: &str,
    numbers: &PoolNumbers,
) -> Option<ProgramGroup> {
    if limits == GroupLimits::default() {
        return None;
    }
    match ProgramGroup::new(name, limits) {
        Ok(group) => {
            tracing::info!(site, "the kernel limits PHP");
            numbers.set_limits(GroupState::Whole);
            Some(group)
        }
        Err(error) => {
            tracing::warn!(site, %error, "PHP runs without `php_memory_high` and `php_pids_max`");
            numbers.set_limits(GroupState::Failed(error.to_string()));
            None
        }
    }
}

/// Computes the sizes and the text of the configuration.
pub(super) fn pool_parts(
    settings: &PhpSettings,
    at: &Sockets<'_>,
) -> Result<PreparedPool, PhpStartError> {
    let binary = settings
        .binary
        .clone()
        .or_else(binary::find)
        .ok_or(PhpStartError::NoBinary)?;
    let budget = settings.budget;
    let (size, slots, most) = match settings.workers {
        0 => (
            PoolSizing::Measured,
            budget.slots_at_start(),
            budget.ceiling(),
        ),
        named => (PoolSizing::Named(named), named, named),
    };
    let memory_limit = settings
        .memory_limit
        .unwrap_or_else(|| budget.memory_limit());
    // The folder's name is random.
    let page = format!("/galley-status-{}", file_name_of(at.folder));
    let text = pool::text(&PoolConfig {
        socket: at.listen,
        reach: at.reach,
        size,
        ceiling: most,
        page: &page,
        user: at.user,
        request_body: settings.request_body,
        memory_limit,
        first_byte_timeout: settings.first_byte_timeout,
        timeout: settings.timeout,
    })?;
    let watch = WatchSettings {
        site: settings.site_name.clone(),
        socket: at.connect.to_owned(),
        page,
        size,
        budget,
        memory_limit,
    };
    let wanted = settings.sandbox.as_ref();
    let sandbox = wanted.map(|wanted| sandbox::sandbox(wanted, &settings.root, &binary, at.folder));
    Ok(PreparedPool {
        binary,
        sandbox,
        limits: settings.limits,
        group: name_of(at.folder),
        arguments: pool::arguments(budget.opcache),
        text,
        root: settings.root.clone(),
        watch,
        slots,
        most,
    })
}

/// The user of the workers; `None` if Galley cannot choose it.
pub(super) fn user(settings: &PhpSettings) -> Option<&str> {
    settings
        .user
        .as_deref()
        .or(Some(DEFAULT_USER))
        .filter(|_| rustix::process::geteuid().is_root())
}

/// Creates a folder for the socket and its files.
///
/// The folder is private and has a new random name each time: a PHP-FPM that is still ending (of a Galley that was killed, or
/// of the previous configuration) removes its own socket, never the current one.
pub(super) fn directory(settings: &PhpSettings) -> Result<tempfile::TempDir, PhpStartError> {
    let files = |path: &Path| {
        let path = path.to_owned();
        |source| PhpStartError::Files { path, source }
    };
    std::fs::create_dir_all(&settings.runtime_dir).map_err(files(&settings.runtime_dir))?;
    let runtime_dir = settings
        .runtime_dir
        .canonicalize()
        .map_err(files(&settings.runtime_dir))?;
    tempfile::Builder::new()
        .prefix(&format!("php-{}-", file_name(&settings.site_name)))
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(&runtime_dir)
        .map_err(files(&runtime_dir))
}

fn file_name_of(path: &Path) -> String {
    let name = name_of(path);
    name.chars().filter(char::is_ascii_alphanumeric).collect()
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// A site's name as a part of a file name: short, and without special characters (`*`, `[::1]`).
fn file_name(site: &str) -> String {
    site.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') {
                c
            } else {
                '_'
            }
        })
        .take(24)
        .collect()
}

/// The name of the socket in its folder; also used in the watcher's script.
pub(super) const SOCKET: &str = "fpm.sock";

/// The folder around the socket if PHP's user creates the socket.
pub(super) const INNER: &str = "s";

/// The user for web content on Debian and Alpine.
const DEFAULT_USER: &str = "www-data";
