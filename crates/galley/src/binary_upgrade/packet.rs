//! The packets between two processes during an upgrade, possibly of different versions.
//!
//! ```text
//! M  a message, as JSON; what a version does not know ends the upgrade
//! P  number (u64, little-endian), a purge as `PurgeRecord` has it
//! D  number: the purge of that number is in force
//! ```

use std::path::PathBuf;

use galley_cache::log::PurgeRecord;
use serde::{Deserialize, Serialize};

/// What one process says to the other. Descriptors come with the packet, in the order that is named here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpgradeMessage {
    /// Old: a socket of a listener. Carries it.
    Listener {
        /// Of which listener.
        name: ListenerName,
        /// Its path in the file system.
        file: Option<PathBuf>,
    },
    /// Old: the socket of the admin interface. Carries it.
    Admin {
        /// As the configuration has it.
        listen: String,
    },
    /// Old: a certificate whose files only root can read. Carries a sealed file in memory: the contents of both.
    Certificate {
        /// Path of the certificate's file.
        cert: PathBuf,
        /// Path of the key's file.
        key: PathBuf,
        /// Bytes of the first in the file in memory; the rest is the second.
        cert_bytes: usize,
    },
    /// Old: a running PHP-FPM. Carries its process, its watcher's process, the watcher's pipe, and the pipe of its messages.
    Pool(PoolOffer),
    /// Old: there is a process that keeps root, for PHP of other users. Carries a connection to it.
    Keeper,
    /// Old: what a program says that this process has started. Carries the pipe.
    PrivilegedOutput {
        /// Process id of the program.
        process: u32,
    },
    /// Old: a pool of this process. Carries the folder of the socket if its user makes that.
    PrivilegedPool(PrivilegedPoolMessage),
    /// Old: that is all; start.
    Start,
    /// New: everything is there that may fail, but for the disk.
    Prepared,
    /// New: it cannot start.
    Failed {
        /// Why.
        why: String,
        /// Whether it could after a restart.
        #[serde(default)]
        needs_restart: bool,
    },
    /// Old: it has left the cluster. Before `Released`.
    Position {
        /// Its position in the purges of the other nodes.
        position: String,
    },
    /// Old: the disk is free. May carry a file of pages.
    Released,
    /// New: it answers visitors.
    Serving {
        /// Folders of the PHP-FPMs that it has taken over.
        pools: Vec<PathBuf>,
        /// Pages that it has in memory.
        pages: u64,
    },
}

/// A listener, in words.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListenerName {
    /// Whether it is one of `listen_tls`.
    pub speaks_tls: bool,
    /// As the configuration has it.
    pub listen: String,
}

/// A PHP-FPM that another process may go on with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolOffer {
    /// The site's name among all sites.
    pub site: String,
    /// Its settings; only one with the same settings is taken over.
    pub settings: String,
    /// Where its socket and its configuration are.
    pub folder: PathBuf,
    /// Process id of the master.
    pub master: u32,
}

/// A pool of the process that keeps root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivilegedPoolMessage {
    /// The site's name among all sites.
    pub site: String,
    /// Its settings, which cannot be changed.
    pub settings: String,
    /// Its number in the plan of that process.
    pub pool: u32,
    /// Where its socket is.
    pub folder: PathBuf,
    /// Number of the user who makes the socket; `None`: that process has it.
    pub socket_owner: Option<u32>,
}

/// One packet.
#[derive(Debug)]
pub(super) enum Packet {
    Message(UpgradeMessage),
    Purge(u64, PurgeRecord),
    Done(u64),
}

impl Packet {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let numbered = |kind: u8, number: u64| {
            let mut bytes = vec![kind];
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes
        };
        match self {
            Self::Message(message) => {
                let mut bytes = vec![MESSAGE];
                // Of texts and numbers alone, which cannot fail.
                bytes.extend(serde_json::to_vec(message).unwrap_or_default());
                bytes
            }
            Self::Purge(number, record) => {
                let mut bytes = numbered(PURGE, *number);
                bytes.extend(record.bytes());
                bytes
            }
            Self::Done(number) => numbered(DONE, *number),
        }
    }

    /// `None`: no packet of this version.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (&kind, rest) = bytes.split_first()?;
        let numbered = || {
            let (number, rest) = rest.split_first_chunk()?;
            Some((u64::from_le_bytes(*number), rest))
        };
        match kind {
            MESSAGE => serde_json::from_slice(rest).ok().map(Self::Message),
            PURGE => {
                let (number, rest) = numbered()?;
                Some(Self::Purge(number, PurgeRecord::read(rest)?))
            }
            DONE => Some(Self::Done(numbered()?.0)),
            _ => None,
        }
    }
}

const MESSAGE: u8 = b'M';
const PURGE: u8 = b'P';
const DONE: u8 = b'D';

/// Bytes of a packet at most: a purge has 64 KiB of texts, and a message a few paths.
pub(super) const MOST_BYTES: usize = 96 * 1024;

#[cfg(test)]
mod tests {
    use galley_policy::purge::{Purge, Scope, Strength};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn packets_read_back() {
        let record = PurgeRecord {
            site: "a.test".to_owned(),
            purge: Purge {
                scope: Scope::Tag("post-1".to_owned()),
                strength: Strength::Soft,
            },
        };
        let message = UpgradeMessage::Listener {
            name: ListenerName {
                speaks_tls: true,
                listen: "[::]:443".to_owned(),
            },
            file: None,
        };
        for packet in [
            Packet::Purge(7, record),
            Packet::Done(u64::MAX),
            Packet::Message(message),
        ] {
            let read = Packet::read(&packet.bytes()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{packet:?}"));
        }
    }

    #[test]
    fn the_longest_purge_fits() {
        let record = PurgeRecord {
            site: "s".repeat(1024),
            purge: Purge {
                scope: Scope::Prefix(vec![b'a'; 1 << 20]),
                strength: Strength::Hard,
            },
        };
        assert!(Packet::Purge(0, record).bytes().len() < MOST_BYTES);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Packet::read(&bytes);
        }
    }
}
