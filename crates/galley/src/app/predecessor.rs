//! Takes over from the process that started this one: what this process receives, and when it reports its progress.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use galley_cache::disk::DiskClock;
use galley_certs::CertificateFiles;
use tokio::sync::oneshot;

use super::listeners::InheritedSockets;
use super::process_state::ProcessState;
use super::quic::InheritedQuic;
use super::site_states::PurgesByName;
use crate::binary_upgrade::{
    ListenerName, PoolOffer, Predecessor, PrivilegedPoolMessage, ReceivedMessage, UpgradeChannel,
    UpgradeMessage, exchange_purges, read_certificate, read_pages,
};
use galley_admin::InheritedAdmin;
use galley_object_cache::ObjectHandover;
use galley_php::privileged::{KeeperChannel, KeeperOffer, PrivilegedPoolOffer, SocketOffer};
use galley_php::{ManagedOffer, MasterHandles, Ownership};
use galley_purging::{PurgeRelay, RelayedPurges};
use galley_tls::CertificateSource;

/// The sockets, certificates and programs that the previous process hands over first.
#[derive(Default)]
pub struct Inheritance {
    pub(super) sockets: BTreeMap<ListenerName, InheritedSockets>,
    pub(super) quic: Option<InheritedQuic>,
    pub(super) admin: Option<InheritedAdmin>,
    pub(super) certificates: Vec<CertificateSource>,
    pub(super) pools: Vec<InheritedPool>,
    pub(super) keeper: Option<InheritedKeeper>,
}

/// The privileged process, and the pools that it starts.
pub(super) struct InheritedKeeper {
    pub(super) keeper: KeeperOffer,
    pub(super) pools: Vec<InheritedPrivileged>,
}

/// A pool of the privileged process.
pub(super) struct InheritedPrivileged {
    /// The site's name.
    pub(super) site: String,
    /// The settings, in the form of [`galley_php::PhpSettings::likeness`].
    pub(super) settings: String,
    pub(super) offer: PrivilegedPoolOffer,
}

/// A PHP-FPM of the previous process.
pub(super) struct InheritedPool {
    /// The site's name.
    pub(super) site: String,
    /// The settings, in the form of [`galley_php::PhpSettings::likeness`].
    pub(super) settings: String,
    pub(super) offer: ManagedOffer,
}

impl Inheritance {
    /// Waits for all parts. If the other process ends during the transfer, returns the parts that have arrived: this process must
    /// then serve alone.
    pub fn receive(before: &Predecessor) -> io::Result<Self> {
        let mut handed_over = Self::default();
        loop {
            let ReceivedMessage {
                message,
                descriptors,
            } = match before.receive() {
                Err(error) if is_end(&error) => return Ok(handed_over),
                received => received?,
            };
            match message {
                UpgradeMessage::Listener { name, file } => {
                    let inherited = handed_over.sockets.entry(name).or_default();
                    inherited.file = file;
                    inherited.sockets.extend(descriptors);
                }
                UpgradeMessage::Quic(heritage) => {
                    let line = descriptors.into_iter().next();
                    handed_over.quic = line.map(|line| InheritedQuic { heritage, line });
                }
                UpgradeMessage::Admin { listen } => {
                    let socket = descriptors.into_iter().next();
                    handed_over.admin = socket.map(|socket| InheritedAdmin { listen, socket });
                }
                UpgradeMessage::Certificate {
                    cert,
                    key,
                    cert_bytes,
                } => {
                    let file = descriptors.into_iter().next().ok_or_else(out_of_turn)?;
                    let files = CertificateFiles { cert, key };
                    handed_over
                        .certificates
                        .push(read_certificate(files, cert_bytes, file)?);
                }
                UpgradeMessage::Pool(offer) => {
                    handed_over
                        .pools
                        .extend(InheritedPool::new(offer, descriptors));
                }
                UpgradeMessage::Keeper => {
                    let socket = descriptors.into_iter().next();
                    handed_over.keeper = socket.map(InheritedKeeper::new);
                }
                UpgradeMessage::PrivilegedOutput { process } => {
                    if let Some(InheritedKeeper { keeper, .. }) = &mut handed_over.keeper {
                        let outputs = descriptors.into_iter().map(|output| (process, output));
                        keeper.outputs.extend(outputs);
                    }
                }
                UpgradeMessage::PrivilegedPool(pool) => {
                    if let Some(InheritedKeeper { pools, .. }) = &mut handed_over.keeper {
                        pools.extend(InheritedPrivileged::new(pool, descriptors));
                    }
                }
                UpgradeMessage::Start => return Ok(handed_over),
                UpgradeMessage::Prepared
                | UpgradeMessage::Failed { .. }
                | UpgradeMessage::Position { .. }
                | UpgradeMessage::Released
                | UpgradeMessage::Serving { .. }
                | UpgradeMessage::Objects
                | UpgradeMessage::ObjectProcesses
                | UpgradeMessage::ObjectsEnd => return Err(out_of_turn()),
            }
        }
    }

    /// Certificates that this process need not be able to read.
    pub fn certificates(&self) -> Vec<CertificateFiles> {
        let sources = self.certificates.iter();
        sources.map(|source| source.files.clone()).collect()
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

/// The connection to the previous process, until that has ended.
pub(super) struct Handover {
    channel: UpgradeChannel,
    /// The file with the pages of the previous process.
    file: Option<File>,
    /// The position of the previous process in the purges of other nodes.
    position: Option<String>,
    /// The PHP-FPMs that this process takes over.
    pools: Vec<Ownership>,
}

impl Handover {
    /// Reports that everything that may fail is prepared, and waits until the disk is free. If the previous process has ended,
    /// for any reason, this one starts as if it were the first.
    pub(super) async fn begin(before: &Predecessor, pools: Vec<Ownership>) -> io::Result<Self> {
        let channel = before.channel()?;
        // On failure the previous process has ended, and `receive` reports it.
        let _ = channel.send(UpgradeMessage::Prepared, &[]).await;
        let mut position = None;
        let mut received = channel.receive().await;
        if let Ok(ReceivedMessage {
            message: UpgradeMessage::Position { position: theirs },
            ..
        }) = received
        {
            position = Some(theirs);
            received = channel.receive().await;
        }
        let file = match received {
            Ok(ReceivedMessage {
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

    /// Reads the pages that were handed over, and starts to send every purge to the previous process as well. Must be called
    /// before the first response.
    pub(super) fn take_pages(&mut self, process_state: &ProcessState) -> InheritedPages {
        let purges = process_state.durable.relay().begin(false);
        let now = DiskClock {
            tick: process_state.clock.tick(),
            wall: process_state.clock.wall(),
        };
        let born = process_state.durable.first_number();
        let pages = self
            .file
            .take()
            .map_or(0, |file| read_pages(file, &process_state.memory, born, now));
        InheritedPages { pages, purges }
    }

    /// The state of the previous process's node in its cluster.
    pub(super) fn inherited_node(&mut self) -> InheritedNode {
        InheritedNode {
            has_pages: true,
            position: self.position.take(),
        }
    }

    /// Reports that this process serves visitors, and exchanges purges with the previous process until that has ended. The
    /// remaining files and programs of the previous process then belong to this one.
    pub(super) async fn serve(self, inherited: InheritedPages, taken: PredecessorState) {
        let PredecessorState {
            folders,
            keeper,
            relay,
            purges,
            objects,
        } = taken;
        let mut objects = ArrivingObjects {
            to: Some(objects),
            parts: Vec::new(),
        };
        let InheritedPages {
            pages,
            purges: mut ours,
        } = inherited;
        let serving = UpgradeMessage::Serving {
            pools: folders,
            pages,
        };
        if self.channel.send(serving, &[]).await.is_ok() {
            // Drops the purges that the previous process did not confirm: it does not send pages any more.
            let mut take = |message, carried| objects.take(&message, carried);
            let find = |site: &str| purges.find(site);
            drop(exchange_purges(&self.channel, &mut ours, &find, &mut take).await);
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

/// The state of the previous process's cluster node.
#[derive(Default)]
pub(super) struct InheritedNode {
    /// Whether pages of the previous process may be in memory.
    pub(super) has_pages: bool,
    /// The position of the previous process in the purges; `None` if unknown.
    pub(super) position: Option<String>,
}

/// The pages that this process takes over, and the purges to send to the previous process.
pub(super) struct InheritedPages {
    pages: u64,
    purges: RelayedPurges,
}

/// The state that this process shares with the previous one until that has ended.
pub(super) struct PredecessorState {
    /// The folders of the PHP-FPMs that this process takes over.
    pub(super) folders: Vec<std::path::PathBuf>,
    /// The channel to the privileged process.
    pub(super) keeper: Option<KeeperChannel>,
    pub(super) relay: PurgeRelay,
    pub(super) purges: PurgesByName,
    /// The object cache of this process, which waits.
    pub(super) objects: oneshot::Sender<ObjectHandover>,
}

/// Collects the object cache of the previous process. Without one, dropping the sender lets this one begin empty.
struct ArrivingObjects {
    to: Option<oneshot::Sender<ObjectHandover>>,
    parts: Vec<OwnedFd>,
}

impl ArrivingObjects {
    fn take(&mut self, message: &UpgradeMessage, carried: Vec<OwnedFd>) {
        match message {
            UpgradeMessage::Objects | UpgradeMessage::ObjectProcesses => self.parts.extend(carried),
            UpgradeMessage::ObjectsEnd => {
                let mut parts = std::mem::take(&mut self.parts).into_iter();
                if let (Some(to), Some(state), Some(listener)) =
                    (self.to.take(), parts.next(), parts.next())
                {
                    // The object cache may have been switched off.
                    let _ = to.send(ObjectHandover {
                        state,
                        listener,
                        processes: parts.collect(),
                    });
                }
            }
            _ => {}
        }
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
