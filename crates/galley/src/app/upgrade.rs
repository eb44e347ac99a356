//! Hands over to another process, and resumes serving if that process fails. `docs/internals/upgrade.md` describes the steps.

use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use galley_cache::disk::DiskClock;
use galley_cache::entry::Entry;
use galley_cache::purge_table::Validity;
use galley_cluster::RunningCluster;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::connections::ConnectionShare;
use super::control::{ControlThread, RunEnd, admin_spec};
use super::generation::{Generation, GenerationParts};
use super::maintenance::MaintenanceThread;
use super::predecessor::{InheritedNode, InheritedPool, InheritedPrivileged};
use super::process_state::ProcessState;
use super::signals::Signals;
use super::site_states::PurgesByName;
use super::successor::{StartingProcess, Successor};
use super::{ServerStartError, build, cluster, maintenance, service_manager, tls};
use crate::binary_upgrade::{
    PageSource, PoolOffer, PrivilegedPoolMessage, UpgradeMessage, exchange_purges,
    write_certificate, write_pages,
};
use galley_admin::{UpgradeError, UpgradeReport, UpgradeResult};
use galley_object_cache::ObjectHandover;
use galley_php::privileged::KeeperChannel;
use galley_purging::{PurgeSource, RelayedPurge, RelayedPurges};
use galley_request::{Site, site_mark};
use galley_sys::packets;
use galley_tls::CertificateSource;

impl ControlThread {
    /// Hands over to the program in its present version.
    pub(super) async fn upgrade(
        &mut self,
        reply: Option<oneshot::Sender<UpgradeResult>>,
        signals: &mut Signals,
    ) -> ControlFlow<RunEnd> {
        let began = Instant::now();
        tracing::info!("upgrade: starting another process");
        let (result, end) = match self.hand_over(signals).await {
            Ok(successor) => {
                let report = Self::report(&successor, began);
                let UpgradeReport {
                    pid,
                    pages,
                    pools,
                    milliseconds,
                } = report;
                tracing::info!(
                    pid,
                    pages,
                    pools,
                    milliseconds,
                    "upgrade: another process has taken over"
                );
                (
                    Ok(report),
                    ControlFlow::Break(RunEnd::Replaced(Box::new(successor))),
                )
            }
            Err(HandoverError::Stopped) => return ControlFlow::Break(RunEnd::Stopped),
            Err(HandoverError::Refused(why)) => {
                tracing::error!("upgrade: this process continues");
                for line in why.reason().lines().filter(|line| !line.is_empty()) {
                    tracing::error!("upgrade: {line}");
                }
                (Err(why), ControlFlow::Continue(()))
            }
        };
        if let Some(reply) = reply {
            // The requester may no longer wait.
            let _ = reply.send(result);
        }
        end
    }

    /// Starts the program again and hands over to it. `Err`: the reason why this process continues.
    async fn hand_over(&mut self, signals: &mut Signals) -> Result<Successor, HandoverError> {
        let refused = |why: String| HandoverError::Refused(UpgradeError::Failed(why));
        self.can_be_replaced()
            .map_err(|why| HandoverError::Refused(UpgradeError::NeedsRestart(why)))?;
        tokio::select! {
            alone = self.is_alone() => alone.map_err(refused)?,
            () = signals.stop() => return Err(HandoverError::Stopped),
        }
        let mut starting = self.program.start().map_err(refused)?;
        let prepared = tokio::select! {
            prepared = self.prepare_successor(&mut starting) => prepared,
            () = signals.stop() => return Err(HandoverError::Stopped),
        };
        if let Err(why) = prepared {
            starting.kill().await;
            return Err(HandoverError::Refused(why));
        }
        // From here on purges also wait for the new process.
        let purges = self.process_state.durable.relay().begin(true);
        let serving = self.release(&mut starting).await;
        match serving {
            Ok(UpgradeMessage::Serving { pools, pages }) => {
                starting.serves = true;
                Ok(Successor {
                    starting,
                    purges,
                    pools,
                    pages,
                })
            }
            other => {
                let why = other.err().unwrap_or_else(out_of_turn);
                starting.kill().await;
                self.restore(Vec::new(), purges).await;
                Err(HandoverError::Refused(why))
            }
        }
    }

    /// Waits for the end of the previous process: with three processes, not every purge would reach all of them.
    async fn is_alone(&mut self) -> Result<(), String> {
        let Some(predecessor) = &mut self.predecessor else {
            return Ok(());
        };
        let drain = self.generation.config.server.drain_timeout;
        match timeout(drain + END_TIMEOUT, predecessor).await {
            Ok(_) => {
                self.predecessor = None;
                Ok(())
            }
            Err(_) => Err(
                "the process from before the last upgrade still has requests in progress"
                    .to_owned(),
            ),
        }
    }

    /// Whether another process can take over; the error is the reason why not.
    fn can_be_replaced(&self) -> Result<(), String> {
        if std::process::id() == 1 {
            return Err(
                "this is the first process of a container, which ends with it: \
                 replace the container"
                    .to_owned(),
            );
        }
        if self.php.keeper().word() == Some("gone") {
            return Err(
                "the process that keeps root privileges for PHP as other users has ended; \
                 only a restart can start it again"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Hands over everything that both processes may use, and waits until the new process has prepared everything that may fail.
    async fn prepare_successor(&self, starting: &mut StartingProcess) -> Result<(), UpgradeError> {
        let sent = self.send_all(starting).await;
        match (starting.receive(START_TIMEOUT).await, sent) {
            (Ok(UpgradeMessage::Prepared), Ok(())) => Ok(()),
            (Err(why), _) => Err(why),
            (Ok(_), Err(why)) => Err(why.into()),
            (Ok(_), Ok(())) => Err(out_of_turn()),
        }
    }

    async fn send_all(&self, to: &StartingProcess) -> Result<(), String> {
        for held in self.held.sockets() {
            let listener = UpgradeMessage::Listener {
                name: held.name,
                file: held.file.map(Path::to_owned),
            };
            to.send(listener, &[held.socket]).await?;
        }
        if let Some(router) = self.held.router() {
            to.send_quic(router).await?;
        }
        if let Some(admin) = self.admin.handed_over() {
            let message = UpgradeMessage::Admin {
                listen: admin.listen,
            };
            to.send(message, &[admin.socket]).await?;
        }
        for (_, slot) in &self.generation.tls.known {
            for source in slot.kinds().sources() {
                send_certificate(source, to).await?;
            }
        }
        for pool in self.php.offers() {
            send_pool(pool, to).await?;
        }
        if let Some(line) = self.php.line() {
            send_keeper(line, self.php.privileged_offers(), to).await?;
        }
        to.send(UpgradeMessage::Start, &[]).await
    }

    /// Closes the disk cache and leaves the cluster, hands over the pages in memory, and waits until the new process serves.
    async fn release(
        &mut self,
        starting: &mut StartingProcess,
    ) -> Result<UpgradeMessage, UpgradeError> {
        if self.node.is_some() {
            // Changes of other nodes do not arrive here any more: the other process begins empty.
            self.object_caches.end();
        }
        let node = self.node.take();
        let maintenance = std::mem::replace(&mut self.maintenance, MaintenanceThread::none());
        let durable = self.process_state.durable.clone();
        let (memory, clock) = (
            Arc::clone(&self.process_state.memory),
            self.process_state.clock,
        );
        let sites = Arc::clone(&self.generation.sites);
        let most_bytes = memory.budget().limit() / SHARE_OF_PAGES;
        let released = tokio::task::spawn_blocking(move || {
            let position = node.and_then(RunningCluster::leave);
            maintenance.stop();
            durable.release(DISK_TIMEOUT);
            let now = DiskClock {
                tick: clock.tick(),
                wall: clock.wall(),
            };
            let source = PageSource {
                memory: &memory,
                most_bytes,
                is_valid: &|page| is_valid(&sites, page),
            };
            (position, write_pages(&source, now))
        });
        let (position, pages) = match released.await {
            Ok((position, Ok(pages))) => (position, Some(pages)),
            Ok((position, Err(error))) => {
                tracing::warn!(%error, "cannot hand over the pages in memory");
                (position, None)
            }
            Err(_) => return Err("closing the disk cache ended in a panic".to_owned().into()),
        };
        if let Some(position) = position {
            let message = UpgradeMessage::Position { position };
            starting.send(message, &[]).await?;
        }
        let carried = pages.as_ref().map(AsFd::as_fd);
        starting
            .send(UpgradeMessage::Released, carried.as_slice())
            .await?;
        starting.receive(SERVE_TIMEOUT).await
    }

    /// Finishes the requests in progress while the new process serves all others. `Break`: this process can end. `Continue`: the
    /// new process has ended, and this one serves again.
    pub(super) async fn drain_for_successor(
        &mut self,
        successor: Successor,
        signals: &mut Signals,
    ) -> ControlFlow<()> {
        let Successor {
            starting,
            mut purges,
            pools,
            ..
        } = successor;
        send_objects(self.object_caches.hand_over(), &starting).await;
        self.left_pools = pools;
        service_manager::replaced_by(starting.id());
        self.generation.hand_over();
        self.admin.retire();
        self.retired.stop();
        let tables = self.process_state.states.purges();
        let find = |site: &str| tables.find(site);
        let drained = self.generation.drained(signals);
        // It has said all: `Serving` was the last message.
        let mut ignored = |_, _| {};
        let left = tokio::select! {
            () = drained => None,
            left = exchange_purges(&starting.channel, &mut purges, &find, &mut ignored) => Some(left),
        };
        let Some(left) = left else {
            return ControlFlow::Break(());
        };
        tracing::error!("the process that took over has ended; this one serves again");
        starting.kill().await;
        self.restore(left, purges).await;
        ControlFlow::Continue(())
    }

    /// Serves again like after a start, on the existing sockets and with the running PHP: with the pages on the disk, and no
    /// others. `left`: purges that no other process has. `purges`: purges that requests in progress still publish. The pages on
    /// the disk do not reflect them, so they are applied to the purge tables that are opened here.
    async fn restore(&mut self, left: Vec<RelayedPurge>, mut purges: RelayedPurges) {
        self.left_pools.clear();
        let relay = self.process_state.durable.relay().clone();
        if let Err(error) = self.serve_again().await {
            // Purges and pages are in memory, which is sufficient until a restart.
            relay.end();
            tracing::error!(%error, "the disk cache cannot be used until a restart");
        }
        let counters = self.retired.counters(&self.generation);
        let spec = admin_spec(
            &self.generation,
            &self.logs,
            counters,
            &self.requests.0,
            &self.last_reload,
            &self.object_caches,
        );
        if let Err(error) = self.admin.resume(spec) {
            tracing::error!(%error, "the admin interface cannot be opened until a restart");
        }
        let tables = self.process_state.states.purges();
        tokio::spawn(async move {
            for purge in left {
                publish_again(&tables, purge);
            }
            // Until all senders, which belong to the previous state, are dropped.
            while let Some(purge) = purges.recv().await {
                publish_again(&tables, purge);
            }
        });
    }

    async fn serve_again(&mut self) -> Result<(), ServerStartError> {
        let config = (*self.generation.config).clone();
        let clock = self.process_state.clock;
        let php = self.php.prepare(&config).await?;
        let tls = tls::open(&config, &self.generation.tls)?;
        let node = cluster::Node::prepare(&config)?;
        let mut process_state =
            ProcessState::open(&config, self.php.keeper(), node.publisher(), clock)?;
        let share = ConnectionShare::new(&config, galley_sys::raise_descriptor_limit());
        let logs = self.logs.all();
        let parts = GenerationParts {
            token: build::token(config.admin.token_file.as_ref())?,
            config: config.clone(),
            php: &php.sites,
            tls,
            logs: &logs,
            connections: share.connections,
            acme: None,
        };
        let next = Generation::start(parts, &mut process_state, &self.held)?;
        let purges = process_state.states.purges();
        let objects = node.objects(clock);
        self.object_caches.join(objects.clone());
        let inherited = InheritedNode::default();
        self.node = node.start(&config, purges, objects, clock, &inherited)?;
        self.php.replace(php);
        self.process_state = process_state;
        self.maintenance = maintenance::start(
            self.process_state.durable.clone(),
            Arc::clone(&self.current),
        )?;
        self.replace_generation(next, Vec::new(), Vec::new()).await;
        Ok(())
    }

    /// The report of a successful upgrade for the admin interface.
    fn report(successor: &Successor, began: Instant) -> UpgradeReport {
        UpgradeReport {
            pid: successor.starting.id(),
            pages: successor.pages,
            pools: successor.pools.len(),
            milliseconds: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// The reason why no other process takes over.
enum HandoverError {
    /// The other process cannot take over, and this one continues.
    Refused(UpgradeError),
    /// A signal to stop arrived during the handover.
    Stopped,
}

async fn send_certificate(source: &CertificateSource, to: &StartingProcess) -> Result<(), String> {
    let (message, file) = write_certificate(source)
        .map_err(|error| format!("cannot hand over a certificate: {error}"))?;
    to.send(message, &[file.as_fd()]).await
}

/// Sends the object cache. The other process begins empty if it does not arrive.
async fn send_objects(objects: Option<ObjectHandover>, to: &StartingProcess) {
    let send = async {
        if let Some(objects) = &objects {
            let carried = [objects.state.as_fd(), objects.listener.as_fd()];
            to.send(UpgradeMessage::Objects, &carried).await?;
            for some in objects.processes.chunks(packets::MAX_CARRIED) {
                let carried: Vec<_> = some.iter().map(AsFd::as_fd).collect();
                to.send(UpgradeMessage::ObjectProcesses, &carried).await?;
            }
        }
        to.send(UpgradeMessage::ObjectsEnd, &[]).await
    };
    if let Err(why) = send.await {
        tracing::warn!("the object cache is lost: {why}");
    }
}

async fn send_pool(pool: InheritedPool, to: &StartingProcess) -> Result<(), String> {
    let handles = &pool.offer.handles;
    let message = UpgradeMessage::Pool(PoolOffer {
        site: pool.site,
        settings: pool.settings,
        folder: pool.offer.folder,
        master: handles.master,
    });
    let carried = [
        &handles.process,
        &handles.watcher,
        &handles.pipe,
        &handles.output,
    ];
    to.send(message, &carried.map(OwnedFd::as_fd)).await
}

async fn send_keeper(
    line: &KeeperChannel,
    pools: Vec<InheritedPrivileged>,
    to: &StartingProcess,
) -> Result<(), String> {
    let offer = line.offer().await;
    let offer =
        offer.map_err(|error| format!("cannot hand over the privileged process: {error}"))?;
    to.send(UpgradeMessage::Keeper, &[offer.socket.as_fd()])
        .await?;
    for (process, output) in offer.outputs {
        let message = UpgradeMessage::PrivilegedOutput { process };
        to.send(message, &[output.as_fd()]).await?;
    }
    for InheritedPrivileged {
        site,
        settings,
        offer,
    } in pools
    {
        let message = UpgradeMessage::PrivilegedPool(PrivilegedPoolMessage {
            site,
            settings,
            pool: offer.pool,
            folder: offer.folder,
            socket_owner: offer.socket.as_ref().map(|socket| socket.owner),
        });
        let carried = offer.socket.as_ref().map(|socket| socket.folder.as_fd());
        to.send(message, carried.as_slice()).await?;
    }
    Ok(())
}

/// Publishes a purge that no other process has, and notifies its publisher when it is acknowledged.
fn publish_again(purges: &PurgesByName, RelayedPurge { record, done }: RelayedPurge) {
    let receipt = purges
        .find(&record.site)
        .map(|site| site.publish(&record.purge, PurgeSource::Upgrade));
    tokio::spawn(async move {
        if let Some(receipt) = receipt {
            receipt.acknowledged().await.log(&record.site);
        }
        // The publisher may no longer wait.
        let _ = done.send(());
    });
}

/// Whether a page belongs to one of the sites and no purge has invalidated it.
fn is_valid(sites: &[Arc<Site>], page: &Entry) -> bool {
    let mark = site_mark(page.key.bytes());
    let site = sites.iter().find(|site| Some(site.mark) == mark);
    site.is_some_and(|site| site.purges.validity_waiting(page) == Validity::Valid)
}

/// The divisor for the part of the memory that may be handed over: for a moment both processes have their pages, and the file
/// is in memory, too.
const SHARE_OF_PAGES: u64 = 2;

fn out_of_turn() -> UpgradeError {
    UpgradeError::Failed("the new process sent an unexpected message".to_owned())
}

/// The time limit for the preparations of the new process, which may have to start PHP.
const START_TIMEOUT: Duration = Duration::from_secs(120);

/// The time limit for opening the disk and reading pages.
const SERVE_TIMEOUT: Duration = Duration::from_secs(30);

/// The time limit for pending writes to the disk; purges wait during this time.
const DISK_TIMEOUT: Duration = Duration::from_secs(2);

/// The time that the previous process gets in addition to its drain.
const END_TIMEOUT: Duration = Duration::from_secs(5);
