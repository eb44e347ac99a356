//! Before root is given up: collects and fixes the programs that run as other users, and starts the privileged
//! process. `inherit` replaces this in a Galley that takes over from another.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use galley_privileged::{BYTES, Report};
use rustix::fs::{Mode, OFlags, fchmod, mkdirat, openat};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use tempfile::TempDir;

use super::plan::{LaunchPlan, PlannedPool, ProgramKind};
use super::{COMMAND, KeeperChannel, KeeperShutdown, SocketPath};
use crate::master::NOT_FOR_PHP;
use crate::pool::SocketAccess;
use crate::prepare::{INNER, PreparedPool, SOCKET, Sockets, directory, pool_parts};
use crate::profile::{self, ProgramProfile};
use crate::{PhpSettings, PhpStartError};
use galley_sys::account::{self, Account};
use galley_sys::{packets, privileges};

/// The programs of users other than Galley's.
#[derive(Debug)]
pub struct PrivilegeSplit {
    plan: LaunchPlan,
    /// The folders of the pools. Once the privileged process runs, it removes them at the end.
    folders: Vec<TempDir>,
}

/// A pool of the privileged process, as Galley knows it.
#[derive(Debug)]
pub struct PrivilegedPool {
    pub(crate) pool: u32,
    /// The folder of the socket.
    pub(crate) folder: PathBuf,
    pub(crate) what: SplitItem,
}

#[derive(Debug)]
pub(crate) enum SplitItem {
    Fpm {
        parts: Box<PreparedPool>,
        socket_path: SocketPath,
    },
    Program(ProgramProfile),
}

impl PrivilegeSplit {
    /// Starts empty, for a Galley that will become `user`, in `group` if one is named.
    pub fn new(user: &str, group: Option<&str>) -> io::Result<Self> {
        let galley = privileges::account_of(user, group)?;
        let pools = Vec::new();
        Ok(Self {
            plan: LaunchPlan { pools, galley },
            folders: Vec::new(),
        })
    }

    /// Adds a program that runs as `user`. Invalid settings are rejected here; errors that only the program can detect are
    /// reported when it is started.
    pub fn add(
        &mut self,
        settings: &PhpSettings,
        user: &str,
    ) -> Result<PrivilegedPool, PhpStartError> {
        let refused = |why| PhpStartError::Setting {
            what: "user",
            value: user.to_owned(),
            why,
        };
        let account = account::named(user).ok_or_else(|| refused("there is no such user"))?;
        if account.uid == 0 {
            return Err(refused("it is root, and PHP never runs as root"));
        }
        if !privileges::is_root() {
            let why = "Galley was not started as root, so it cannot start PHP as another user";
            return Err(refused(why));
        }
        let pool = u32::try_from(self.plan.pools.len()).unwrap_or(u32::MAX);
        let (planned, what, folder) = if settings.command.is_empty() {
            fpm(settings, account)?
        } else {
            program(settings, account)?
        };
        self.plan.pools.push(planned);
        let path = folder.path().to_owned();
        self.folders.push(folder);
        Ok(PrivilegedPool {
            pool,
            folder: path,
            what,
        })
    }

    /// Starts the privileged process, and returns when it is ready.
    pub fn start(self) -> io::Result<Privileged> {
        let (here, there) = packets::pair()?;
        let mut child = self.spawn(there)?;
        match is_ready(&here) {
            Ok(()) => {
                for folder in self.folders {
                    let _ = folder.keep();
                }
                Ok(Privileged {
                    child,
                    socket: here,
                })
            }
            Err(error) => {
                // The process has written the reason to standard error, if it could.
                drop(here);
                let _ = child.kill();
                let _ = child.wait();
                Err(error)
            }
        }
    }

    /// When this returns, only the privileged process has the other end of the socket.
    fn spawn(&self, there: OwnedFd) -> io::Result<Child> {
        let mut command = Command::new("/proc/self/exe");
        command
            .arg0("galley")
            .arg(COMMAND)
            .current_dir("/")
            .stdin(Stdio::from(there))
            .stdout(Stdio::from(self.plan.sealed()?))
            .stderr(Stdio::inherit())
            .process_group(0);
        for name in NOT_FOR_PHP {
            command.env_remove(name);
        }
        command.spawn()
    }
}

fn is_ready(socket: &OwnedFd) -> io::Result<()> {
    set_socket_timeout(socket, Timeout::Recv, Some(READY_TIMEOUT))?;
    let mut packet = [0; BYTES + 1];
    let (length, _) = packets::receive(socket, &mut packet)?;
    let report = packet.get(..length).and_then(Report::read);
    if report != Some(Report::Ready) {
        return Err(io::Error::other("it ended at once"));
    }
    set_socket_timeout(socket, Timeout::Recv, None)?;
    Ok(())
}

/// Plans a PHP-FPM. Its folder is closed to all other users; Galley accesses the inner folder by a descriptor.
fn fpm(
    settings: &PhpSettings,
    account: Account,
) -> Result<(PlannedPool, SplitItem, TempDir), PhpStartError> {
    let directory = directory(settings)?;
    let socket_path =
        create_folders(directory.path(), &account).map_err(files(directory.path()))?;
    let (parts, socket) = fpm_parts(settings, directory.path(), &socket_path)?;
    let pool = PlannedPool {
        program: parts.binary.clone(),
        arguments: parts.arguments.clone(),
        kind: ProgramKind::Fpm {
            config: parts.text.clone(),
            socket,
        },
        account,
        root: parts.root.clone(),
        slots: 1,
        folder: directory.path().to_owned(),
        sandbox: parts.sandbox.clone(),
    };
    let parts = Box::new(parts);
    Ok((pool, SplitItem::Fpm { parts, socket_path }, directory))
}

/// The parameters for starting and watching a PHP-FPM in this folder, and its socket.
pub(super) fn fpm_parts(
    settings: &PhpSettings,
    folder: &Path,
    socket_path: &SocketPath,
) -> Result<(PreparedPool, PathBuf), PhpStartError> {
    let socket = folder.join(INNER).join(SOCKET);
    let parts = pool_parts(
        settings,
        &Sockets {
            folder,
            listen: &socket,
            connect: socket_path.path(),
            user: None,
            reach: SocketAccess::Folder,
        },
    )?;
    Ok((parts, socket))
}

/// Creates the inner folder and gives both folders to the user. Uses descriptors, because the runtime folder belongs to
/// Galley's user. The account may be compromised.
fn create_folders(folder: &Path, account: &Account) -> io::Result<SocketPath> {
    let outer = privileges::own_folder(folder)?;
    let mode = Mode::RWXU | Mode::XGRP | Mode::XOTH;
    mkdirat(&outer, INNER, mode)?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inner = openat(&outer, INNER, flags, Mode::empty())?;
    // Independent of the umask.
    fchmod(&inner, mode)?;
    privileges::chown_open(&inner, account)?;
    // A descriptor that only permits path lookups.
    let way = openat(&outer, INNER, flags | OFlags::PATH, Mode::empty())?;
    privileges::chown_open(&outer, account)?;
    SocketPath::new(way, SOCKET, account.uid)
}

/// Plans another program. Its folder belongs to Galley.
fn program(
    settings: &PhpSettings,
    account: Account,
) -> Result<(PlannedPool, SplitItem, TempDir), PhpStartError> {
    let directory = directory(settings)?;
    let profile = ProgramProfile::new(settings, directory.path());
    let path = settings.command.first();
    let path = path.map(PathBuf::from).unwrap_or_default();
    if let Err(source) = fs::metadata(&path) {
        let program = path;
        return Err(PhpStartError::Spawn { program, source });
    }
    let pool = PlannedPool {
        program: path,
        arguments: settings.command.iter().skip(1).cloned().collect(),
        kind: ProgramKind::Program {
            socket: profile.socket.clone(),
            requests: (0..profile.workers).map(profile::requests).collect(),
        },
        account,
        root: settings.root.clone(),
        slots: profile.workers,
        folder: directory.path().to_owned(),
        sandbox: None,
    };
    Ok((pool, SplitItem::Program(profile), directory))
}

fn files(path: &Path) -> impl FnOnce(io::Error) -> PhpStartError + use<> {
    let path = path.to_owned();
    |source| PhpStartError::Files { path, source }
}

/// The privileged process, before the runtime exists. The process ends when this is dropped.
#[derive(Debug)]
pub struct Privileged {
    child: Child,
    socket: OwnedFd,
}

impl Privileged {
    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The channel to the process, and the handle that ends it after all its programs have ended. Must be called within a runtime.
    pub fn open(self) -> io::Result<(KeeperChannel, KeeperShutdown)> {
        let line = KeeperChannel::new(self.socket)?;
        let shutdown = KeeperShutdown::of_child(&line, self.child);
        Ok((line, shutdown))
    }
}

/// The time limit for the start of the privileged process, which starts nothing else.
const READY_TIMEOUT: Duration = Duration::from_secs(10);
