//! Starts the cluster node of the configuration.

use std::sync::Arc;
use std::time::{Duration, Instant};

use galley_cluster::{
    Cluster, ClusterPublisher, ClusterSettings, EngineError, NotePoint, PageSettings, PurgeSink,
    RemotePurge, RunningCluster,
};
use galley_config::{Config, MachineFinding, OptionPath};
use galley_policy::purge::{Purge, Scope, Strength};
use tokio::runtime::Handle;

use super::ServerStartError;
use super::object_cache::ClusterObjects;
use super::predecessor::InheritedNode;
use super::site_states::PurgesByName;
use galley_purging::{PurgeSource, Receipt};
use galley_server::QuicSecret;
use galley_sys::clock::Clock;

/// This node before its threads start; empty without a cluster.
pub(super) struct Node(Option<Cluster>);

impl Node {
    /// Prepares the node from the configuration. Does not connect to the engine.
    pub(super) fn prepare(config: &Config) -> Result<Self, ServerStartError> {
        let Some(cluster) = &config.cluster else {
            return Ok(Self(None));
        };
        let disk = config.cache.disk.as_ref();
        let settings = ClusterSettings {
            engine: cluster.engine.clone(),
            password_file: cluster.password_file.clone(),
            name: cluster.name.clone(),
            node: cluster.node.clone(),
            serve_through_partitions: cluster.serve_through_partitions,
            folder: disk.map(|disk| disk.path.clone()),
            key_file: cluster.key_file.clone(),
            pages: cluster.pages.as_ref().map(|pages| PageSettings {
                most_bytes: pages.most_bytes,
                lifetime: pages.lifetime,
            }),
            page_thread_start: || galley_sys::raise_priority(TURN),
        };
        Ok(Self(Some(
            Cluster::new(settings).map_err(|cause| refused(&cause))?,
        )))
    }

    /// The handle for publishing purges.
    pub(super) fn publisher(&self) -> Option<ClusterPublisher> {
        self.0.as_ref().map(Cluster::publisher)
    }

    /// The object caches of the other nodes.
    pub(super) fn objects(&self, clock: Clock) -> Option<Arc<ClusterObjects>> {
        let publisher = self.publisher()?;
        Some(Arc::new(ClusterObjects::new(publisher, clock)))
    }

    /// Starts the node's threads, which apply the purges of other nodes to `sites` and
    /// `objects`.
    pub(super) fn start(
        self,
        config: &Config,
        sites: PurgesByName,
        objects: Option<Arc<ClusterObjects>>,
        clock: Clock,
        inherited: &InheritedNode,
    ) -> Result<Option<RunningCluster>, ServerStartError> {
        let Some(cluster) = self.0 else {
            return Ok(None);
        };
        sites.are_read();
        let sink = SitesSink {
            sites,
            objects,
            has_earlier_pages: config.cache.disk.is_some() || inherited.has_pages,
            runtime: Handle::current(),
        };
        let tick_at = move |at: Instant| clock.tick_at(at);
        Ok(Some(cluster.start(
            Arc::new(sink),
            tick_at,
            inherited.position.as_deref(),
        )?))
    }
}

/// The secret for HTTP/3 of all nodes, if they share secrets.
pub(super) fn quic_secret(config: &Config) -> Result<Option<QuicSecret>, ServerStartError> {
    let Some(cluster) = &config.cluster else {
        return Ok(None);
    };
    let secret = cluster.key_file.as_ref().map(|file| {
        let secret = galley_cluster::quic_secret(file, &cluster.name);
        secret
            .map(QuicSecret::from_bytes)
            .map_err(|cause| refused(&cause))
    });
    secret.transpose()
}

fn refused(cause: &EngineError) -> ServerStartError {
    ServerStartError::Cluster {
        cause: cause.to_string(),
    }
}

/// Checks the engine. Galley starts without it, so all findings are notes.
pub(super) fn examine(config: &Config) -> Vec<MachineFinding> {
    let Some(cluster) = &config.cluster else {
        return Vec::new();
    };
    let note = |why: String, help: &str| MachineFinding {
        at: OptionPath::Cluster("engine"),
        value: "the engine of the cluster".to_owned(),
        why,
        help: help.to_owned(),
    };
    match galley_cluster::inspect(&cluster.engine, cluster.password_file.clone()) {
        Ok(report) => {
            let problems = report.problems.into_iter();
            problems
                .map(|problem| note(problem.why, problem.help))
                .collect()
        }
        Err(error) => vec![note(
            format!("which cannot be used now: {error}"),
            "start it, or correct `engine` and `password_file`",
        )],
    }
}

/// Applies the purges of other nodes to the sites.
struct SitesSink {
    sites: PurgesByName,
    objects: Option<Arc<ClusterObjects>>,
    has_earlier_pages: bool,
    /// The runtime that waits for the disk: the cluster's threads have none.
    runtime: Handle,
}

impl SitesSink {
    /// Waits until the last purge is on the disk. All sites share one log, so that all earlier purges are on the disk, too.
    fn settle(&self, newest: Option<Receipt>) {
        if let Some(receipt) = newest {
            self.runtime
                .block_on(receipt.acknowledged())
                .log("(cluster)");
        }
    }
}

impl PurgeSink for SitesSink {
    fn apply(&self, purges: &[RemotePurge]) {
        if let Some(objects) = &self.objects {
            objects.apply(Some(purges));
        }
        let mut newest = None;
        for RemotePurge { site, purge } in purges {
            let Some(purges) = self.sites.find(site) else {
                tracing::debug!(
                    site,
                    "a purge of another node is for a site that this node does not have"
                );
                continue;
            };
            newest = Some(purges.apply(purge, PurgeSource::Cluster));
            tracing::debug!(site, scope = %purge.scope, strength = ?purge.strength, "purged by another node");
        }
        self.settle(newest);
    }

    fn apply_to_all(&self, strength: Strength) {
        if let Some(objects) = &self.objects {
            objects.apply(None);
        }
        let purge = Purge {
            scope: Scope::Site,
            strength,
        };
        let mut newest = None;
        for purges in self.sites.all() {
            newest = Some(purges.apply(&purge, PurgeSource::Cluster));
        }
        self.settle(newest);
    }

    fn has_earlier_pages(&self) -> bool {
        self.has_earlier_pages
    }

    fn has_earlier_purges(&self) -> bool {
        self.sites.all().iter().any(|site| site.has_earlier())
    }

    fn numbers(&self) -> NotePoint {
        let sites = self.sites.all().into_iter();
        let numbers: Vec<_> = sites.map(|site| (site.current(), site)).collect();
        Box::new(move |points| {
            for (number, site) in &numbers {
                site.note_points(points, *number);
            }
        })
    }
}

/// The time slice of the thread for shared pages, as for fetch threads, which wait for it for a few milliseconds at most.
const TURN: Duration = Duration::from_micros(200);
