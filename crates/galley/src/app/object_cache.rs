//! The object cache of all sites: one thread, which outlives generations.
//!
//! A reload changes its sites. In an upgrade it ends before that of the other process begins: two stores for one database would not see each
//! other's changes. The other one goes on with its values and its connections, except in a cluster.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use galley_cluster::lease::Lease;
use galley_cluster::{ClusterPublisher, PurgeReach, RemotePurge};
use galley_config::{AdminListen, Config};
use galley_object_cache::{
    Figures, ObjectCache, ObjectCacheSettings, ObjectCacheSite, ObjectHandover, OtherNodes,
    PendingAnnouncement, RemoteChange, RemoteChanges,
};
use galley_policy::purge::Scope;
use galley_request::Site;
use galley_sys::Lock;
use galley_sys::clock::Clock;
use tokio::sync::oneshot;
use tokio::time::sleep;

/// The object cache, and the counters of its sites, which survive reloads.
#[derive(Default)]
pub(super) struct ObjectCaches {
    running: Option<ObjectCache>,
    figures: HashMap<String, Arc<Figures>>,
    nodes: Option<Arc<ClusterObjects>>,
    /// The object cache of the previous process, until the thread has started.
    arriving: Option<oneshot::Receiver<ObjectHandover>>,
}

impl ObjectCaches {
    /// Sets where the object cache of the previous process arrives. Without one, the thread begins at once.
    pub(super) fn wait_for(&mut self, arriving: Option<oneshot::Receiver<ObjectHandover>>) {
        self.arriving = arriving;
    }

    /// Ends the thread for another process, and returns what that goes on with.
    pub(super) fn hand_over(&mut self) -> Option<ObjectHandover> {
        self.running.take()?.hand_over()
    }

    /// Sets the cluster. Takes effect with the next start of the thread.
    pub(super) fn join(&mut self, nodes: Option<Arc<ClusterObjects>>) {
        self.nodes = nodes;
    }

    /// Tells other nodes that processes of this machine may have died with it, between a change of the database and its announcement. Call
    /// within a runtime.
    pub(super) fn announce_start(&self) {
        let Some(nodes) = self.nodes.clone() else {
            return;
        };
        let sites: Vec<String> = self.figures.keys().cloned().collect();
        tokio::spawn(async move {
            // After the node has noted where the stream was: pages that were shared before an entry of its own would be of no use to it.
            while !nodes.is_current() {
                sleep(START_INTERVAL).await;
            }
            sleep(START_INTERVAL).await;
            for site in sites {
                // Nobody waits for it.
                drop(nodes.announce(&site, Vec::new()));
            }
        });
    }

    /// Starts the thread, ends it, or changes its sites. A socket that cannot be opened is no reason not to serve pages.
    pub(super) fn configure(&mut self, config: &Config, sites: &[Arc<Site>]) {
        let settings = ObjectCacheSettings {
            sites: self.sites(config, sites),
            limit: usize::try_from(config.cache.memory).unwrap_or(usize::MAX),
        };
        let socket = socket(&config.admin.listen).filter(|_| !settings.sites.is_empty());
        let Some(socket) = socket else {
            self.end();
            return;
        };
        match &self.running {
            Some(running) if running.socket() == socket => running.configure(settings),
            _ => {
                self.end();
                let arriving = self.arriving.take();
                self.running = start(&socket, settings, self.nodes.clone(), arriving);
            }
        }
    }

    /// Closes all connections and drops all values.
    pub(super) fn end(&mut self) {
        drop(self.running.take());
    }

    /// The counters by site.
    pub(super) fn figures(&self) -> HashMap<String, Arc<Figures>> {
        let is_running = self.running.is_some();
        let figures = self.figures.iter().filter(|_| is_running);
        figures
            .map(|(name, figures)| (name.clone(), Arc::clone(figures)))
            .collect()
    }

    fn sites(&mut self, config: &Config, sites: &[Arc<Site>]) -> Vec<ObjectCacheSite> {
        let pairs = config.sites.iter().zip(sites);
        let caching = pairs.filter_map(|(options, site)| {
            let limit = options.object_cache?;
            Some(ObjectCacheSite {
                name: options.name.clone(),
                token: site.token.clone()?,
                limit: usize::try_from(limit).unwrap_or(usize::MAX),
                figures: Arc::clone(self.figures.entry(options.name.clone()).or_default()),
            })
        });
        let caching: Vec<_> = caching.collect();
        self.figures
            .retain(|name, _| caching.iter().any(|site| site.name == *name));
        caching
    }
}

/// The other nodes of a cluster, whose changes travel in the stream of purges.
pub(super) struct ClusterObjects {
    publisher: ClusterPublisher,
    lease: Arc<Lease>,
    clock: Clock,
    changes: Lock<Option<RemoteChanges>>,
    /// Announcements of each site in the second that began then.
    rates: Lock<HashMap<String, (Instant, u32)>>,
}

impl ClusterObjects {
    pub(super) fn new(publisher: ClusterPublisher, clock: Clock) -> Self {
        Self {
            lease: ClusterPublisher::lease(Some(&publisher)),
            publisher,
            clock,
            changes: Lock::default(),
            rates: Lock::default(),
        }
    }

    /// Whether a site announces so much that it would push the purges of other sites out of the stream.
    fn is_too_fast(&self, site: &str) -> bool {
        let mut rates = self.rates.lock();
        let now = Instant::now();
        let (since, count) = rates.entry(site.to_owned()).or_insert((now, 0));
        if now.duration_since(*since) > SECOND {
            (*since, *count) = (now, 0);
        }
        *count += 1;
        *count > MAX_A_SECOND
    }

    /// Applies those entries of the stream that are for object caches. `None`: entries may be missing. Blocks until they are applied.
    pub(super) fn apply(&self, entries: Option<&[RemotePurge]>) {
        let changes: Vec<RemoteChange> = match entries {
            None => vec![None],
            Some(entries) => entries.iter().filter_map(remote_change).map(Some).collect(),
        };
        let running = self.changes.lock().clone();
        // Without an object cache, there are no values.
        if let Some(running) = running.filter(|_| !changes.is_empty()) {
            running.apply(changes);
        }
    }
}

impl OtherNodes for ClusterObjects {
    fn connect(&self, changes: RemoteChanges) {
        let mut running = self.changes.lock();
        *running = Some(changes);
    }

    fn is_current(&self) -> bool {
        self.lease.holds(self.clock.tick())
    }

    fn announce(&self, site: &str, announcement: Vec<u8>) -> PendingAnnouncement {
        let name = format!("{OBJECTS}{site}");
        // Everything: those that wait for the engine become one.
        let announcement = Some(announcement).filter(|_| !self.is_too_fast(site));
        let reach = self
            .publisher
            .announce(&name, announcement.unwrap_or_default());
        Box::pin(async { reach.reach().await == PurgeReach::Cluster })
    }
}

fn remote_change(RemotePurge { site, purge }: &RemotePurge) -> Option<(String, Vec<u8>)> {
    let site = site.strip_prefix(OBJECTS)?.to_owned();
    match &purge.scope {
        Scope::Prefix(announcement) => Some((site, announcement.clone())),
        _ => Some((site, Vec::new())),
    }
}

/// How often a node that starts looks whether it reads the stream, and longer than it takes to note where that was.
const START_INTERVAL: Duration = Duration::from_secs(1);

/// The beginning of the names of entries for object caches. No site has such a name, so nodes that know no object cache ignore them.
const OBJECTS: &str = "objects/";

/// Changes of a busy shop are fewer by far.
const MAX_A_SECOND: u32 = 1000;

const SECOND: Duration = Duration::from_secs(1);

fn start(
    socket: &Path,
    settings: ObjectCacheSettings,
    nodes: Option<Arc<ClusterObjects>>,
    arriving: Option<oneshot::Receiver<ObjectHandover>>,
) -> Option<ObjectCache> {
    let nodes = nodes.map(|nodes| nodes as Arc<dyn OtherNodes>);
    match ObjectCache::start(socket, settings, nodes, arriving) {
        Ok(running) => Some(running),
        Err(error) => {
            tracing::error!(
                %error,
                "the object cache cannot listen on `{}`: WordPress works without it; remove what is there, or permit this user to create it, and reload",
                socket.display()
            );
            None
        }
    }
}

/// The socket beside that of the admin interface, which users without a token may reach, too.
fn socket(listen: &AdminListen) -> Option<PathBuf> {
    match listen {
        AdminListen::Unix(path) => Some(path.with_file_name("objects.sock")),
        AdminListen::Tcp(_) | AdminListen::Off => None,
    }
}
