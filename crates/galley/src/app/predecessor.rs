//! A process that takes over from the one that started it: what it receives, and when it reports what.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use galley_cache::disk::DiskClock;
use galley_certs::CertificateFiles;

use super::lasting::Lasting;
use super::listeners::InheritedSockets;
use super::site_states::PurgesByName;
use crate::admin::InheritedAdmin;
use crate::binary_upgrade::{
    ListenerName, PoolOffer, Predecessor, PrivilegedPoolMessage, PurgeTables, Received,
    UpgradeChannel, UpgradeMessage, exchange_purges, read_certificate, read_pages,
};
use crate::durable::{PurgeRelay, RelayedPurges, SitePurges};
use crate::php::privileged::{KeeperChannel, KeeperOffer, PrivilegedPoolOffer, SocketOffer};
use crate::php::{ManagedOffer, MasterHandles, Ownership};
use crate::tls::CertificateSource;

/// What the process before hands over at once.
#[derive(Default)]
pub struct Inheritance {
    pub(super) sockets: BTreeMap<ListenerName, InheritedSockets>,
    pub(super) admin: Option<InheritedAdmin>,
    pub(super) certificates: Vec<CertificateSource>,
    pub(super) pools: Vec<InheritedPool>,
    pub(super) keeper: Option<InheritedKeeper>,
}

/// The process that keeps root, and what it starts.
pub(super) struct InheritedKeeper {
    pub(super) keeper: KeeperOffer,
    pub(super) pools: Vec<InheritedPrivileged>,
}

/// A pool of that process.
pub(super) struct InheritedPrivileged {
    /// As [`super::site_states::names`] calls it.
    pub(super) site: String,
    /// As [`crate::php::PhpSettings::likeness`] gives them.
    pub(super) settings: String,
    pub(super) offer: PrivilegedPoolOffer,
}

/// A PHP-FPM of the process before.
pub(super) struct InheritedPool {
    /// As [`super::site_states::names`] calls it.
    pub(super) site: String,
    /// As [`crate::php::PhpSettings::likeness`] gives them.
    pub(super) settings: String,
    pub(super) offer: ManagedOffer,
}

impl Inheritance {
    /// Waits for all of it. If the other process ends meanwhile, the parts that have arrived: nobody else serves then.
    pub fn receive(before: &Predecessor) -> io::Result<Self> {
        let mut all = Self::default();
        loop {
            let Received {
                message,
                descriptors,
            } = match before.receive() {
                Err(error) if is_end(&error) => return Ok(all),
                received => received?,
            };
            match message {
                UpgradeMessage::Listener { name, file } => {
                    let inherited = all.sockets.entry(name).or_default();
                    inherited.file = file;
                    inherited.sockets.extend(descriptors);
                }
                UpgradeMessage::Admin { listen } => {
                    let socket = descriptors.into_iter().next();
                    all.admin = socket.map(|socket| InheritedAdmin { listen, socket });
                }
                UpgradeMessage::Certificate {
                    cert,
                    key,
                    cert_bytes,
                } => {
                    let file = descriptors.into_iter().next().ok_or_else(out_of_turn)?;
                    let files = CertificateFiles { cert, key };
                    all.certificates
                        .push(read_certificate(files, cert_bytes, file)?);
                }
                UpgradeMessage::Pool(offer) => {
                    all.pools.extend(InheritedPool::new(offer, descriptors));
                }
                UpgradeMessage::Keeper => {
                    let socket = descriptors.into_iter().next();
                    all.keeper = socket.map(InheritedKeeper::new);
                }
                UpgradeMessage::PrivilegedOutput { process } => {
                    if let Some(InheritedKeeper { keeper, .. }) = &mut all.keeper {
                        let outputs = descriptors.into_iter().map(|output| (process, output));
                        keeper.outputs.extend(outputs);
                    }
                }
                UpgradeMessage::PrivilegedPool(pool) => {
                    if let Some(InheritedKeeper { pools, .. }) = &mut all.keeper {
                        pools.extend(InheritedPrivileged::new(pool, descriptors));
                    }
                }
                UpgradeMessage::Start => return Ok(all),
                UpgradeMessage::Prepared
                | UpgradeMessage::Failed { .. }
                | UpgradeMessage::Position { .. }
                | UpgradeMessage::Released
                | UpgradeMessage::Serving { .. } => return Err(out_of_turn()),
            }
        }
    }
}

impl Inheritance {
    /// Certificates that this process need not be able to read.
    pub fn certificates(&self) -> Vec<CertificateFiles> {
        let all = self.certificates.iter();
        all.map(|source| source.files.clone()).collect()
    }
}

impl InheritedPool {
    fn new(offer: PoolOffer, descriptors: Vec<OwnedFd>) -> Option<Self> {
        let mut descriptors = descriptors.into_iter();
        let handles = MasterHandles {
            master: offer.master,
            process: descriptors.next()?,
            watcher: descriptors.next()?,
            pipe: descriptors.next()?,
            output: descriptors.next()?,
        };
        Some(Self {
            site: offer.site,
            settings: offer.settings,
            offer: ManagedOffer {
                folder: offer.folder,
                handles,
                ownership: Ownership::not_yet(),
            },
        })
    }
}

impl InheritedKeeper {
    fn new(socket: OwnedFd) -> Self {
        Self {
            keeper: KeeperOffer {
                socket,
                outputs: Vec::new(),
            },
            pools: Vec::new(),
        }
    }
}

impl InheritedPrivileged {
    fn new(message: PrivilegedPoolMessage, descriptors: Vec<OwnedFd>) -> Option<Self> {
        let socket = match message.socket_owner {
            Some(owner) => Some(SocketOffer {
                folder: descriptors.into_iter().next()?,
                owner,
            }),
            None => None,
        };
        Some(Self {
            site: message.site,
            settings: message.settings,
            offer: PrivilegedPoolOffer {
                pool: message.pool,
                folder: message.folder,
                socket,
            },
        })
    }
}

/// The process before, until it has ended.
pub(super) struct Handover {
    channel: UpgradeChannel,
    /// Of its pages.
    file: Option<File>,
    /// Its position in the purges of other nodes.
    position: Option<String>,
    /// Of the PHP-FPMs that this process takes over.
    pools: Vec<Ownership>,
}

impl Handover {
    /// Says that everything is there that may fail, and waits until the disk is free. A process before that has ended, ended in any
    /// case: then this one starts as if it were the first.
    pub(super) async fn begin(before: &Predecessor, pools: Vec<Ownership>) -> io::Result<Self> {
        let channel = before.channel()?;
        // It does not wait for what it can no longer get.
        let _ = channel.send(UpgradeMessage::Prepared, &[]).await;
        let mut position = None;
        let mut received = channel.receive().await;
        if let Ok(Received {
            message: UpgradeMessage::Position { position: theirs },
            ..
        }) = received
        {
            position = Some(theirs);
            received = channel.receive().await;
        }
        let file = match received {
            Ok(Received {
                message: UpgradeMessage::Released,
                descriptors,
            }) => descriptors.into_iter().next().map(File::from),
            Ok(_) => return Err(out_of_turn()),
            Err(error) if is_end(&error) => {
                tracing::warn!("the previous process has ended early: its pages are lost");
                before.wait_for_end().await;
                None
            }
            Err(error) => return Err(error),
        };
        Ok(Self {
            channel,
            file,
            position,
            pools,
        })
    }

    /// Reads the pages that were handed over, and has every purge sent to the process before as well. Before anything is answered.
    pub(super) fn take_pages(&mut self, lasting: &Lasting) -> InheritedPages {
        let purges = lasting.durable.relay().begin(false);
        let now = DiskClock {
            tick: lasting.clock.tick(),
            wall: lasting.clock.wall(),
        };
        let born = lasting.durable.first_number();
        let pages = self
            .file
            .take()
            .map_or(0, |file| read_pages(file, &lasting.memory, born, now));
        InheritedPages { pages, purges }
    }

    /// The part of the process before in its cluster.
    pub(super) fn inherited_node(&mut self) -> InheritedNode {
        InheritedNode {
            has_pages: true,
            position: self.position.take(),
        }
    }

    /// Reports that it serves visitors, and shares purges with the process before until that has ended. What remains of it
    /// then belongs to this process.
    pub(super) async fn serve(self, inherited: InheritedPages, taken: TakenOver) {
        let TakenOver {
            folders,
            keeper,
            relay,
            purges,
        } = taken;
        let InheritedPages {
            pages,
            purges: mut ours,
        } = inherited;
        let serving = UpgradeMessage::Serving {
            pools: folders,
            pages,
        };
        if self.channel.send(serving, &[]).await.is_ok() {
            // Purges that it did not confirm: it sends no page any more.
            drop(exchange_purges(&self.channel, &mut ours, &purges).await);
        }
        relay.end();
        drop(ours);
        self.pools.iter().for_each(Ownership::take);
        if let Some(keeper) = keeper {
            keeper.take_over();
        }
        tracing::info!("the previous process has ended");
    }
}

/// What the node of the process before leaves.
#[derive(Default)]
pub(super) struct InheritedNode {
    /// Whether pages of it may be in the memory.
    pub(super) has_pages: bool,
    /// Its position; `None`: it is unknown.
    pub(super) position: Option<String>,
}

/// The pages that a process takes over.
pub(super) struct InheritedPages {
    pages: u64,
    purges: RelayedPurges,
}

/// What this process shares with the one before for a while.
pub(super) struct TakenOver {
    /// Of the PHP-FPMs that it takes over.
    pub(super) folders: Vec<std::path::PathBuf>,
    /// The line to the process that keeps root.
    pub(super) keeper: Option<KeeperChannel>,
    pub(super) relay: PurgeRelay,
    pub(super) purges: PurgesByName,
}

impl PurgeTables for PurgesByName {
    fn find(&self, site: &str) -> Option<Arc<SitePurges>> {
        self.find(site)
    }
}

/// Whether the other process has ended.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
    )
}

fn out_of_turn() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the previous process sent an unexpected message",
    )
}
