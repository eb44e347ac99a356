//! Hands the privileged process over from one Galley to the next, with all processes that it has started.
//!
//! It cannot be restarted, because only root could do that. Nor can its plan be changed: a program is handed over only for the
//! settings in the plan.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use super::shutdown::end_of_peer;
use super::split::fpm_parts;
use super::{KeeperChannel, KeeperShutdown, PrivilegedPool, SocketPath, SplitItem};
use crate::handover::copy;
use crate::prepare::SOCKET;
use crate::profile::ProgramProfile;
use crate::{PhpSettings, PhpStartError};

/// The connection and pipes that another Galley needs in order to continue with the privileged process.
#[derive(Debug)]
pub struct KeeperOffer {
    /// A connection to the process.
    pub socket: OwnedFd,
    /// The pipes with the output of its programs, by process.
    pub outputs: Vec<(u32, OwnedFd)>,
}

/// The parts that another Galley needs in order to continue with one of its pools.
#[derive(Debug)]
pub struct PrivilegedPoolOffer {
    /// The pool's number.
    pub pool: u32,
    /// The folder of its socket.
    pub folder: PathBuf,
    /// The access to the socket of a PHP-FPM; `None` for another program.
    pub socket: Option<SocketOffer>,
}

/// The access to a socket that PHP's own user has created.
#[derive(Debug)]
pub struct SocketOffer {
    /// The folder of the socket.
    pub folder: OwnedFd,
    /// The id of the user.
    pub owner: u32,
}

impl KeeperChannel {
    /// Creates an offer for another Galley.
    pub async fn offer(&self) -> io::Result<KeeperOffer> {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.connect());
        let socket = connected.await.map_err(|_| io::ErrorKind::TimedOut)??;
        let outputs = self.outputs();
        Ok(KeeperOffer { socket, outputs })
    }
}

impl KeeperOffer {
    /// Returns the channel to the process, and the handle that ends it. Must be called within a runtime.
    pub async fn accept(self) -> io::Result<(KeeperChannel, KeeperShutdown)> {
        let process = end_of_peer(&self.socket)?;
        let outputs: HashMap<u32, OwnedFd> = self.outputs.into_iter().collect();
        let line = KeeperChannel::inherit(self.socket, outputs);
        let line = tokio::time::timeout(CONNECT_TIMEOUT, line)
            .await
            .map_err(|_| io::ErrorKind::TimedOut)??;
        let shutdown = KeeperShutdown::of_inherited(&line, process);
        Ok((line, shutdown))
    }
}

impl PrivilegedPoolOffer {
    /// The offer of a pool; `None` if no descriptor is available.
    pub(crate) fn of(kept: &PrivilegedPool) -> Option<Self> {
        let socket = match &kept.what {
            SplitItem::Fpm { socket_path, .. } => Some(SocketOffer {
                folder: copy(socket_path.folder()).ok()?,
                owner: socket_path.owner(),
            }),
            SplitItem::Program(_) => None,
        };
        Some(Self {
            pool: kept.pool,
            folder: kept.folder.clone(),
            socket,
        })
    }

    /// Duplicates the offer for another Galley.
    pub(crate) fn copy(&self) -> Option<Self> {
        let socket = match &self.socket {
            Some(SocketOffer { folder, owner }) => Some(SocketOffer {
                folder: copy(folder.as_fd()).ok()?,
                owner: *owner,
            }),
            None => None,
        };
        Some(Self {
            pool: self.pool,
            folder: self.folder.clone(),
            socket,
        })
    }

    /// Accepts the pool. `settings` must be those in the plan.
    pub fn accept(self, settings: &PhpSettings) -> Result<PrivilegedPool, PhpStartError> {
        let what = match self.socket {
            Some(SocketOffer { folder, owner }) => {
                let socket_path = SocketPath::new(folder, SOCKET, owner);
                let socket_path = socket_path.map_err(|source| PhpStartError::Files {
                    path: self.folder.clone(),
                    source,
                })?;
                let (parts, _) = fpm_parts(settings, &self.folder, &socket_path)?;
                let parts = Box::new(parts);
                SplitItem::Fpm { parts, socket_path }
            }
            None => SplitItem::Program(ProgramProfile::new(settings, &self.folder)),
        };
        Ok(PrivilegedPool {
            pool: self.pool,
            folder: self.folder,
            what,
        })
    }
}

/// The time limit for a connection. The privileged process is busy only while it starts programs.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
