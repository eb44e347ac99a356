//! The packets between two processes during an upgrade, possibly of different versions.
//!
//! ```text
//! M  a message, as JSON; an unknown message ends the upgrade
//! P  number (u64, little-endian), a purge in the format of `PurgeRecord`
//! D  number: the purge with that number is in effect
//! ```

use std::path::PathBuf;

use galley_cache::log::PurgeRecord;
use serde::{Deserialize, Serialize};

/// A message between the processes. A packet carries its descriptors in the order given here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpgradeMessage {
    /// Old: a socket of a listener, which the packet carries.
    Listener {
        /// The listener.
        name: ListenerName,
        /// The path of a socket in the file system.
        file: Option<PathBuf>,
    },
    /// Old: the keys of HTTP/3. Carries a line for the datagrams of the old process's connections.
    Quic(QuicHeritage),
    /// Old: the socket of the admin interface, which the packet carries.
    Admin {
        /// The address as in the configuration.
        listen: String,
    },
    /// Old: a certificate whose files only root can read. Carries a sealed file in memory with the contents of both.
    Certificate {
        /// The path of the certificate's file.
        cert: PathBuf,
        /// The path of the key's file.
        key: PathBuf,
        /// The length of the certificate at the start of the file in memory, in bytes; the rest is the key.
        cert_bytes: usize,
    },
    /// Old: a running PHP-FPM. Carries its process, its watcher's process, the watcher's pipe, and the pipe of its output.
    Pool(PoolOffer),
    /// Old: the process that keeps root, for PHP of other users. Carries a connection to it.
    Keeper,
    /// Old: the output of a program that this process has started. Carries the pipe.
    PrivilegedOutput {
        /// The process id of the program.
        process: u32,
    },
    /// Old: a pool of the process that keeps root. Carries the folder of the socket if the pool's user creates the socket.
    PrivilegedPool(PrivilegedPoolMessage),
    /// Old: all messages are sent, and the new process may start.
    Start,
    /// New: every step that may fail is done, except for opening the disk cache.
    Prepared,
    /// New: the process cannot start.
    Failed {
        /// The reason.
        why: String,
        /// Whether the process could start after a restart of the service.
        #[serde(default)]
        needs_restart: bool,
    },
    /// Old: the process has left the cluster. Sent before `Released`.
    Position {
        /// The position in the purges of the other nodes.
        position: String,
    },
    /// Old: the disk cache is closed. May carry a file of pages.
    Released,
    /// New: the process serves requests.
    Serving {
        /// The folders of the PHP-FPMs that were taken over.
        pools: Vec<PathBuf>,
        /// The number of pages in memory.
        pages: u64,
    },
    /// Old: the object cache, after `Serving`. Carries its state and its socket.
    Objects,
    /// Old: connections of PHP to the object cache, which the packet carries, in the order of the state.
    ObjectProcesses,
    /// Old: the object cache is sent, or there is none.
    ObjectsEnd,
}

/// What the next process needs to know the connections of HTTP/3 of this one.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuicHeritage {
    /// The secret of connection ids and tokens.
    pub secret: [u8; 32],
    /// The number of the process that sends it, in the order of upgrades.
    pub epoch: u8,
}

impl std::fmt::Debug for QuicHeritage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "QuicHeritage of {}", self.epoch)
    }
}

/// Identifies a listener.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ListenerName {
    /// Whether the address is in `listen_tls`.
    pub speaks_tls: bool,
    /// Whether the sockets are those of HTTP/3, on UDP.
    #[serde(default)]
    pub is_quic: bool,
    /// The address as in the configuration.
    pub listen: String,
}

/// A PHP-FPM that the new process may take over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolOffer {
    /// The name of the site.
    pub site: String,
    /// The settings; only a pool with the same settings is taken over.
    pub settings: String,
    /// The folder with the socket and the configuration.
    pub folder: PathBuf,
    /// The process id of the master.
    pub master: u32,
}

/// A pool of the process that keeps root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PrivilegedPoolMessage {
    /// The name of the site.
    pub site: String,
    /// The settings, which cannot be changed.
    pub settings: String,
    /// The number of the pool in the plan of that process.
    pub pool: u32,
    /// The folder with the socket.
    pub folder: PathBuf,
    /// The id of the user that creates the socket; `None`: the process that keeps root has the socket.
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
                // Only texts and numbers, so serializing cannot fail.
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

    /// Reads a packet; `None`: this version does not know it.
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

/// The maximum size of a packet, in bytes: a purge has up to 64 KiB of text, and a message a few paths.
pub(super) const MAX_BYTES: usize = 96 * 1024;

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
                is_quic: false,
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
        assert!(Packet::Purge(0, record).bytes().len() < MAX_BYTES);
    }

    proptest! {
        #[test]
        fn any_bytes_are_decoded_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = Packet::read(&bytes);
        }
    }
}
