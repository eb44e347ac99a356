//! The parts of a running cluster node, and its handles.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use galley_policy::purge::{Purge, Scope, Strength};
use galley_policy::time::Tick;
use tokio::sync::{mpsc, oneshot};

use crate::cluster_key::ClusterKey;
use crate::engine::{Engine, random_word};
use crate::error::EngineError;
use crate::inbox::Outgoing;
use crate::lease::Lease;
use crate::limit_exchange;
use crate::limits::{ChargeSink, LimitCharge};
use crate::message::RemotePurge;
use crate::outbox::Outbox;
use crate::own_purges::StartedPurge;
use crate::page_command::PageCommand;
use crate::page_thread::PageThread;
use crate::position::{Position, PositionFile};
use crate::publisher::Publisher;
use crate::reach::PendingReach;
use crate::reader::Reader;
use crate::shared::{ClusterState, PurgeSink, member};
use crate::shared_pages::{PageSettings, SharedPages};
use crate::shared_secrets::SharedSecrets;
use crate::status::ClusterStatus;

/// The settings of a cluster and of this node.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// The address of the engine: `redis://host:port/`, `rediss://..`, `redis+unix:///path`, `redis+sentinel://host,host/primary`.
    pub engine: String,
    /// A file with the engine's password.
    pub password_file: Option<PathBuf>,
    /// The name of the cluster. Several clusters may share an engine.
    pub name: String,
    /// The name of this node.
    pub node: String,
    /// Whether stored pages may be sent without a lease.
    pub serve_through_partitions: bool,
    /// A directory that survives restarts, for the position in the stream and for purges that other nodes do not have yet.
    /// `None`: pages do not survive restarts either.
    pub folder: Option<PathBuf>,
    /// The file with the secret of the cluster. `None`: the nodes share neither pages nor secrets.
    pub key_file: Option<PathBuf>,
    /// The settings of shared pages; `None`: the nodes share no pages.
    pub pages: Option<PageSettings>,
    /// Called at the start of the thread that reads and writes shared pages. Visitors wait for that thread.
    pub page_thread_start: fn(),
}

/// Publishes purges to the other nodes. Clones share the state.
#[derive(Clone)]
pub struct ClusterPublisher {
    shared: Arc<ClusterState>,
    pages: Option<SharedPages>,
    secrets: Option<SharedSecrets>,
}

impl ClusterPublisher {
    /// Must be called before a purge is in effect on this node: until the purge is in the stream, no page of another node
    /// counts as newer.
    pub fn begin(&self) -> StartedPurge {
        StartedPurge::new(&self.shared.own)
    }

    /// Queues a purge that is in effect on this node. Its reach is known within 5 s.
    pub fn publish(&self, site: &str, purge: &Purge, begun: StartedPurge) -> PendingReach {
        let (reply, receiver) = oneshot::channel();
        self.shared.inbox.push(Outgoing {
            content: RemotePurge {
                site: site.to_owned(),
                purge: purge.clone(),
            },
            replies: vec![reply],
            since: Instant::now(),
            is_in_outbox: false,
            begun: Some(begun),
        });
        PendingReach::new(receiver)
    }

    /// Queues an announcement that concerns no stored page, for nodes that know the name `to`. `content` is empty if everything of
    /// that name has changed: many announcements may become one that is empty.
    pub fn announce(&self, to: &str, content: Vec<u8>) -> PendingReach {
        let scope = match content.as_slice() {
            [] => Scope::Site,
            _ => Scope::Prefix(content),
        };
        let (reply, receiver) = oneshot::channel();
        self.shared.inbox.push(Outgoing {
            content: RemotePurge {
                site: to.to_owned(),
                purge: Purge {
                    scope,
                    strength: Strength::Hard,
                },
            },
            replies: vec![reply],
            since: Instant::now(),
            is_in_outbox: false,
            begun: None,
        });
        PendingReach::new(receiver)
    }

    /// Sends the charge of a client to a shared limit to the other nodes. Never waits.
    pub fn count(&self, charge: LimitCharge) {
        self.shared.limits.push(charge);
    }

    /// Sets the sink that counts the charges of other nodes; `None`: no limit is shared.
    pub fn share_limits(&self, sink: Option<Arc<dyn ChargeSink>>) {
        self.shared.limits.set_sink(sink);
    }

    /// The lease to send stored pages; unlimited without a cluster.
    pub fn lease(publisher: Option<&Self>) -> Arc<Lease> {
        match publisher {
            Some(publisher) => Arc::clone(&publisher.shared.lease),
            None => Arc::new(Lease::unlimited()),
        }
    }

    /// The pages that the nodes share, if any.
    pub fn pages(&self) -> Option<&SharedPages> {
        self.pages.as_ref()
    }

    /// The secrets that the nodes share, if any.
    pub fn secrets(&self) -> Option<&SharedSecrets> {
        self.secrets.as_ref()
    }

    /// The state of the node.
    pub fn status(&self) -> ClusterStatus {
        let mut status = self.shared.status().clone();
        status.has_read = self.shared.has_read.load(Ordering::Relaxed);
        status.applied = self.shared.applied.load(Ordering::Relaxed);
        status.gaps = self.shared.gaps.load(Ordering::Relaxed);
        status.acknowledged = self.shared.acknowledged.load(Ordering::Relaxed);
        status.local_only = self.shared.local_only.load(Ordering::Relaxed);
        status.pages = self.pages.as_ref().map(SharedPages::status);
        status
    }
}

/// A node before its start. Purges can be published; they wait.
pub struct Cluster {
    engine: Engine,
    settings: ClusterSettings,
    shared: Arc<ClusterState>,
    pages: Option<(SharedPages, mpsc::Receiver<PageCommand>)>,
    secrets: Option<SharedSecrets>,
    key: Option<Arc<ClusterKey>>,
}

/// The threads of a node. They end when this is dropped.
pub struct RunningCluster {
    shared: Arc<ClusterState>,
    publisher: Option<JoinHandle<()>>,
}

impl Cluster {
    /// Prepares a node without connecting.
    pub fn new(settings: ClusterSettings) -> Result<Self, EngineError> {
        let engine = Engine::new(
            &settings.engine,
            settings.password_file.clone(),
            &settings.name,
        )?;
        let serves = settings.serve_through_partitions;
        let lease = if serves {
            Lease::unlimited()
        } else {
            Lease::expired()
        };
        let incarnation = random_word();
        let shared = Arc::new(ClusterState {
            lease: Arc::new(lease),
            member: member(&settings.node, &incarnation, serves),
            incarnation,
            serves_through_partitions: serves,
            ..ClusterState::default()
        });
        let key = settings.key_file.as_ref();
        let key = key.map(|file| ClusterKey::read(file, &settings.name));
        let key = key.transpose()?.map(Arc::new);
        let pages = settings.pages.as_ref().zip(key.as_ref());
        let pages =
            pages.map(|(pages, key)| SharedPages::new(pages, Arc::clone(key), Arc::clone(&shared)));
        Ok(Self {
            pages,
            secrets: (key.clone()).map(|key| SharedSecrets::new(engine.clone(), key)),
            key,
            engine,
            settings,
            shared,
        })
    }

    /// The handle that publishes purges.
    pub fn publisher(&self) -> ClusterPublisher {
        ClusterPublisher {
            shared: Arc::clone(&self.shared),
            pages: self.pages.as_ref().map(|(pages, _)| pages.clone()),
            secrets: self.secrets.clone(),
        }
    }

    /// Starts the threads. `tick_at` converts times to the ticks of [`Lease::holds`]. `inherited`: the result of
    /// [`RunningCluster::leave`] in the process that this one replaces.
    pub fn start(
        self,
        sink: Arc<dyn PurgeSink>,
        tick_at: impl Fn(Instant) -> Tick + Send + 'static,
        inherited: Option<&str>,
    ) -> io::Result<RunningCluster> {
        let file = |name: &str| self.settings.folder.as_ref().map(|dir| dir.join(name));
        let reader = Reader::new(
            self.engine.clone(),
            Arc::clone(&self.shared),
            sink,
            file("cluster-position").map(PositionFile::new),
            Box::new(tick_at),
            inherited.and_then(Position::parse),
        );
        let reader = reader.with_key(self.key.clone());
        let outbox = Outbox::new(file("cluster-outbox"));
        let sentinels = self.engine.sentinels().cloned();
        let watched = Arc::clone(&self.shared);
        let (engine, counted) = (self.engine.clone(), Arc::clone(&self.shared));
        let pages = self
            .pages
            .map(|(pages, commands)| PageThread::new(self.engine.clone(), &pages, commands));
        let publisher = Publisher::new(self.engine, Arc::clone(&self.shared), self.key, outbox);
        let mut running = RunningCluster {
            shared: self.shared,
            publisher: None,
        };
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(work)
        };
        if let Some(sentinels) = sentinels {
            spawn(
                "cluster-sentinel",
                Box::new(move || sentinels.watch(&watched)),
            )?;
        }
        let exchange = move || limit_exchange::exchange(&engine, &counted);
        spawn("cluster-limits", Box::new(exchange))?;
        if let Some(pages) = pages {
            let prepare = self.settings.page_thread_start;
            let work = move || {
                prepare();
                pages.run();
            };
            spawn("cluster-pages", Box::new(work))?;
        }
        spawn("cluster-read", Box::new(|| reader.run()))?;
        running.publisher = Some(spawn("cluster-publish", Box::new(|| publisher.run()))?);
        Ok(running)
    }
}

impl RunningCluster {
    /// Leaves the cluster. When this returns, pending purges are sent or in the outbox. Blocks for `LEAVE_WITHIN` at most. The
    /// result contains the stream position for the process that replaces this one.
    pub fn leave(mut self) -> Option<String> {
        self.shared.stop();
        let until = Instant::now() + LEAVE_WITHIN;
        if let Some(publisher) = self.publisher.take() {
            while !publisher.is_finished() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        self.shared.position().map(|position| position.to_string())
    }
}

/// The maximum wait for the publisher while the engine does not reply.
const LEAVE_WITHIN: Duration = Duration::from_secs(3);

impl Drop for RunningCluster {
    /// Makes the threads end after their current wait, without waiting for them.
    fn drop(&mut self) {
        self.shared.stop();
    }
}
