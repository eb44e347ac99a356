//! The process that keeps root, handed from one Galley to the next with all that it has started.
//!
//! It cannot be started again, because only root could. Nor can its plan be changed: a program is handed over only for the
//! settings that it was planned with.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use super::shutdown::end_of_peer;
use super::split::fpm_pieces;
use super::{KeeperChannel, KeeperShutdown, PrivilegedPool, SocketPath, SplitItem};
use crate::php::handover::copy;
use crate::php::outlook::Outlook;
use crate::php::prepare::SOCKET;
use crate::php::{PhpSettings, PhpStartError};

/// What another Galley needs to go on with the process.
#[derive(Debug)]
pub struct KeeperOffer {
    /// A connection to it.
    pub socket: OwnedFd,
    /// The pipes of messages of what it has started, by process.
    pub outputs: Vec<(u32, OwnedFd)>,
}

/// What another Galley needs to go on with one of its pools.
#[derive(Debug)]
pub struct PrivilegedPoolOffer {
    /// Its number.
    pub pool: u32,
    /// The folder of its socket.
    pub folder: PathBuf,
    /// The way to the socket of a PHP-FPM; `None`: it is another program.
    pub socket: Option<SocketOffer>,
}

/// The way to a socket that PHP's own user has made.
#[derive(Debug)]
pub struct SocketOffer {
    /// The folder in which it is.
    pub folder: OwnedFd,
    /// Number of that user.
    pub owner: u32,
}

impl KeeperChannel {
    /// What another Galley needs to go on.
    pub async fn offer(&self) -> io::Result<KeeperOffer> {
        let connected = tokio::time::timeout(CONNECT_PATIENCE, self.connect());
        let socket = connected.await.map_err(|_| io::ErrorKind::TimedOut)??;
        let outputs = self.outputs();
        Ok(KeeperOffer { socket, outputs })
    }
}

impl KeeperOffer {
    /// The line to the process, and what ends it. Call within a runtime.
    pub async fn accept(self) -> io::Result<(KeeperChannel, KeeperShutdown)> {
        let process = end_of_peer(&self.socket)?;
        let outputs: HashMap<u32, OwnedFd> = self.outputs.into_iter().collect();
        let line = KeeperChannel::inherit(self.socket, outputs);
        let line = tokio::time::timeout(CONNECT_PATIENCE, line)
            .await
            .map_err(|_| io::ErrorKind::TimedOut)??;
        let shutdown = KeeperShutdown::of_inherited(&line, process);
        Ok((line, shutdown))
    }
}

impl PrivilegedPoolOffer {
    /// Of a pool; `None` if the descriptors are used up.
    pub(crate) fn of(kept: &PrivilegedPool) -> Option<Self> {
        let socket = match &kept.what {
            SplitItem::Fpm { door, .. } => Some(SocketOffer {
                folder: copy(door.folder()).ok()?,
                owner: door.owner(),
            }),
            SplitItem::Program(_) => None,
        };
        Some(Self {
            pool: kept.pool,
            folder: kept.folder.clone(),
            socket,
        })
    }

    /// The same again, for yet another Galley.
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

    /// The pool, which was planned with the same settings.
    pub fn accept(self, settings: &PhpSettings) -> Result<PrivilegedPool, PhpStartError> {
        let what = match self.socket {
            Some(SocketOffer { folder, owner }) => {
                let door = SocketPath::new(folder, SOCKET, owner);
                let door = door.map_err(|source| PhpStartError::Files {
                    path: self.folder.clone(),
                    source,
                })?;
                let (pieces, _) = fpm_pieces(settings, &self.folder, &door)?;
                let pieces = Box::new(pieces);
                SplitItem::Fpm { pieces, door }
            }
            None => SplitItem::Program(Outlook::new(settings, &self.folder)),
        };
        Ok(PrivilegedPool {
            pool: self.pool,
            folder: self.folder,
            what,
        })
    }
}

/// The process does nothing else meanwhile than to start programs.
const CONNECT_PATIENCE: Duration = Duration::from_secs(10);
