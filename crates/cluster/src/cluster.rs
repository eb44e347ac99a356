//! The parts of a running cluster node, and its handles.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use galley_policy::purge::Purge;
use galley_policy::time::Tick;
use tokio::sync::oneshot;

use crate::engine::{Engine, random_word};
use crate::error::EngineError;
use crate::lease::Lease;
use crate::message::RemotePurge;
use crate::position::PositionFile;
use crate::publisher::Publisher;
use crate::reader::Reader;
use crate::shared::{Outgoing, PurgeReach, PurgeSink, SERVES, Shared};
use crate::status::ClusterStatus;

/// Where the engine is, and who this node is.
#[derive(Clone, Debug)]
pub struct ClusterSettings {
    /// `redis://host:port/`, `rediss://..`, `redis+unix:///path`, `redis+sentinel://host,host/primary`.
    pub engine: String,
    /// A file with the engine's password.
    pub password_file: Option<PathBuf>,
    /// The cluster's name: several may share an engine.
    pub name: String,
    /// This node's name.
    pub node: String,
    /// Whether stored pages are used without a lease.
    pub serve_through_partitions: bool,
    /// Where the position in the stream is kept from run to run; `None`: pages do not survive either.
    pub position_file: Option<PathBuf>,
}

/// Publishes purges to the other nodes. Clones are the same.
#[derive(Clone)]
pub struct ClusterPublisher {
    outgoing: mpsc::Sender<Outgoing>,
    shared: Arc<Shared>,
}

impl ClusterPublisher {
    /// Queues a purge, which holds on this node already. The receiver gets its reach within `LONGEST_WAIT` (5 s).
    pub fn publish(&self, site: &str, purge: &Purge) -> oneshot::Receiver<PurgeReach> {
        let (reply, receiver) = oneshot::channel();
        let outgoing = Outgoing {
            content: RemotePurge {
                site: site.to_owned(),
                purge: purge.clone(),
            },
            reply: Some(reply),
            since: Instant::now(),
        };
        // Without a publisher the receiver says so: the server ends.
        let _ = self.outgoing.send(outgoing);
        receiver
    }

    /// Whether stored pages may be used; without a cluster always.
    pub fn lease(publisher: Option<&Self>) -> Arc<Lease> {
        match publisher {
            Some(publisher) => Arc::clone(&publisher.shared.lease),
            None => Arc::new(Lease::unlimited()),
        }
    }

    /// The state of the node.
    pub fn status(&self) -> ClusterStatus {
        let mut status = self.shared.status().clone();
        status.applied = self.shared.applied.load(Ordering::Relaxed);
        status.gaps = self.shared.gaps.load(Ordering::Relaxed);
        status.acknowledged = self.shared.acknowledged.load(Ordering::Relaxed);
        status.local_only = self.shared.local_only.load(Ordering::Relaxed);
        status
    }
}

/// A node that is not started yet: purges can be published, and wait.
pub struct Cluster {
    engine: Engine,
    settings: ClusterSettings,
    shared: Arc<Shared>,
    publisher: ClusterPublisher,
    outgoing: mpsc::Receiver<Outgoing>,
}

/// The threads of a node. They end when this is dropped.
pub struct RunningCluster {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Cluster {
    /// Prepares a node; connects to nothing.
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
        let shared = Arc::new(Shared {
            lease: Arc::new(lease),
            incarnation: random_word(),
            member: if serves {
                format!("{}{SERVES}", settings.node)
            } else {
                settings.node.clone()
            },
            serves_through_partitions: serves,
            ..Shared::default()
        });
        let (sender, outgoing) = mpsc::channel();
        let publisher = ClusterPublisher {
            outgoing: sender,
            shared: Arc::clone(&shared),
        };
        Ok(Self {
            engine,
            settings,
            shared,
            publisher,
            outgoing,
        })
    }

    /// The handle for purges.
    pub fn publisher(&self) -> ClusterPublisher {
        self.publisher.clone()
    }

    /// Starts the reader and the publisher. `tick_at` converts moments to the ticks that [`Lease::holds`] is asked with.
    pub fn start(
        self,
        sink: Arc<dyn PurgeSink>,
        tick_at: impl Fn(Instant) -> Tick + Send + 'static,
    ) -> io::Result<RunningCluster> {
        let reader = Reader::new(
            self.engine.clone(),
            Arc::clone(&self.shared),
            sink,
            self.settings.position_file.map(PositionFile::new),
            Box::new(tick_at),
        );
        let sentinels = self.engine.sentinels().cloned();
        let watched = Arc::clone(&self.shared);
        let publisher = Publisher::new(self.engine, Arc::clone(&self.shared), self.outgoing);
        let mut running = RunningCluster {
            shared: self.shared,
            threads: Vec::with_capacity(3),
        };
        let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(work)
        };
        if let Some(sentinels) = sentinels {
            let watch = Box::new(move || sentinels.watch(&watched));
            running.threads.push(spawn("cluster-sentinel", watch)?);
        }
        running
            .threads
            .push(spawn("cluster-read", Box::new(|| reader.run()))?);
        running
            .threads
            .push(spawn("cluster-publish", Box::new(|| publisher.run()))?);
        Ok(running)
    }
}

impl Drop for RunningCluster {
    /// Asks the threads to end; each does when its present wait is over, and nobody waits for it.
    fn drop(&mut self) {
        self.shared.stop();
        self.threads.clear();
    }
}
