//! The running server's sites by host, and the services that all exchanges share.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use galley_cache::budget::MemoryBudget;
use galley_cache::entry::Entry;
use galley_cache::fill::FillError;
use galley_cache::memory::Memory;
use galley_cluster::ClusterPublisher;
use galley_cluster::lease::Lease;
use galley_policy::forward::Schedule;
use galley_policy::headers::HeadChanges;
use galley_policy::key;
use galley_policy::proxied::Proxies;
use galley_policy::request_info::RequestInfo;
use galley_policy::route::{HostPattern, HostTable};
use galley_policy::site::Rule;
use ipnet::IpNet;

use super::access_control::AccessControl;
use super::dashboard_door::{DashboardDoor, SiteDashboard};
use super::error_page::ErrorPages;
use super::folder::{SiteFiles, SmallFiles};
use super::refreshed_pages::RefreshedPages;
use super::slow_requests::SlowRequests;
use crate::access::ClientState;
use crate::acme::Acme;
use crate::body::body_spools::BodySpools;
use crate::clock::Clock;
use crate::compress::Compressor;
use crate::durable::{Durable, SitePurges};
use crate::fault::Fault;
use crate::fetch::{self, IncludeLookup};
use crate::php::PoolNumbers;
use crate::php::privileged::KeeperState;
use crate::purge_forward::PurgeForwarder;
use crate::sys::sandbox::SandboxLevel;
use crate::telemetry::errors::{RateLimited, Seldom};
use crate::telemetry::trace::Tracer;
use crate::tls::{Certificates, Presented};
use crate::upstream::UpstreamStats;
use crate::upstream::switch::Tunnels;

/// One site, as requests meet it.
pub struct Site {
    /// What fetch threads know of it too.
    pub core: Arc<fetch::FetchSite>,
    /// Its purges: those of `core`, without the indirection, for the fast path.
    pub purges: Arc<SitePurges>,
    /// The files below its root.
    pub folder: Option<Arc<SiteFiles>>,
    /// The upstream of its pages.
    pub upstream: Upstream,
    /// Those that its rules name, in the order of [`galley_policy::site::Rule::upstream`].
    pub further: Vec<Upstream>,
    /// The figures of the PHP that Galley runs for it.
    pub php: Option<Arc<PoolNumbers>>,
    /// What visitors see in place of Galley's own pages for errors.
    pub error_pages: ErrorPages,
    /// The changes of the fields of its responses.
    pub heads: HeadChanges,
    /// Whether it is reached over TLS here; internal requests for it then use the scheme of TLS, too.
    pub speaks_tls: bool,
    /// Its access control.
    pub access: AccessControl,
    /// Largest request body in bytes, unless a rule sets another.
    pub request_body: u64,
    /// The networks that may send `PURGE`.
    pub purge_allow: Vec<IpNet>,
    /// The secret for `PURGE` from other networks.
    pub purge_secret: Option<String>,
    /// Whether `GET /purge/...` may be an order.
    pub purge_get: bool,
    /// Its dashboard on its own address.
    pub dashboard: Option<SiteDashboard>,
    /// The secret that reaches this site over the admin API.
    pub token: Option<String>,
    /// Its pages that were refreshed because they named files that are gone.
    pub refreshed_pages: RefreshedPages,
    /// Its requests that waited long for its upstream.
    pub slow_requests: SlowRequests,
    /// How its scheduled tasks are run; `None`: not by Galley.
    pub cron: Option<SiteCron>,
    /// Whether browsers get hints about the files of a page while it is being generated.
    pub early_hints: bool,
    /// Protocols to which its connections may change, in lower case.
    pub upgrade: Vec<String>,
    /// Its hosts, for the admin API.
    pub hosts: Vec<HostPattern>,
    /// Its place among the sites.
    pub number: u32,
    /// Its row in the counters: the same for its name in every configuration of this process.
    pub row: u32,
    /// Part of every key, because two sites may have one host on different listeners, and because entries that were stored
    /// under other rules for keys must not be found. Unlike the number it is the same after a restart or a reload, whatever
    /// the site's position in the configuration.
    pub mark: u32,
    /// Which access log its requests go to: an index into each core's.
    pub log: usize,
    /// What ESI includes request, where the site may have any; set once, before the first request.
    pub includes: OnceLock<Arc<dyn IncludeLookup>>,
}

impl Site {
    /// Writes the key of a request: what identifies the page among those of its site, then the site's mark.
    pub fn write_key(&self, info: &RequestInfo, out: &mut Vec<u8>) {
        key::write_key(info, out);
        out.extend_from_slice(&self.mark.to_be_bytes());
    }

    /// The upstream of a request: the rule's or the site's.
    pub fn upstream_of(&self, info: &RequestInfo) -> &Upstream {
        let further = self
            .rule_of(info)
            .and_then(|rule| rule.upstream)
            .and_then(|index| self.further.get(index));
        further.unwrap_or(&self.upstream)
    }

    /// The rule that applies to a request.
    pub fn rule_of(&self, info: &RequestInfo) -> Option<&Rule> {
        self.core.rules.rules.get(info.rule()?)
    }

    /// The largest body of a request, in bytes.
    pub fn request_body_of(&self, info: &RequestInfo) -> u64 {
        let rule = self.rule_of(info);
        rule.and_then(|rule| rule.request_body)
            .unwrap_or(self.request_body)
    }

    /// What its upstreams are busy with: its own first, each once.
    pub fn upstream_stats(&self) -> Vec<Arc<UpstreamStats>> {
        let mut found: Vec<Arc<UpstreamStats>> = Vec::new();
        for upstream in std::iter::once(&self.upstream).chain(&self.further) {
            // A rule may name the site's own.
            if let Some(stats) = upstream.upstream_stats()
                && !found.iter().any(|known| Arc::ptr_eq(known, stats))
            {
                found.push(Arc::clone(stats));
            }
        }
        found
    }

    /// Whether a rule sends a request to a FastCGI program of its own, so that any file may be the script.
    pub fn names_program(&self, info: &RequestInfo) -> bool {
        let upstream = self.upstream_of(info);
        let by_rule = !std::ptr::eq(upstream, &raw const self.upstream);
        by_rule && matches!(upstream, Upstream::Php(_))
    }

    /// Who runs its scheduled tasks, for the plugin: Galley, as long as that works.
    pub fn schedule(&self) -> Schedule {
        if self.core.cron.is_relied_on() {
            Schedule::Kept
        } else {
            Schedule::Own
        }
    }

    /// Whether the disk may contain something for a key. Does not read the disk.
    pub fn may_be_on_disk(&self, key: &[u8]) -> bool {
        let shelved = self.core.disk.as_ref();
        shelved.is_some_and(|shelved| shelved.may_hold(key))
    }

    /// The entry of a key: in memory, or on the disk, from where it is copied into the memory if it fits there.
    pub async fn stored(&self, memory: &Memory, key: &[u8]) -> Option<Arc<Entry>> {
        if let Some(entry) = memory.get(key) {
            return Some(entry);
        }
        self.on_disk(key).await
    }

    /// The entry of a key on the disk, from where it is copied into the memory if it fits there.
    pub async fn on_disk(&self, key: &[u8]) -> Option<Arc<Entry>> {
        let shelved = self.core.disk.as_ref()?;
        let entry = shelved.find(key, self.core.purges.table()).await?;
        if let Some(variant) = key::variant_id(key) {
            for fragment in entry.fragments() {
                self.core.fragments.recall(variant, &fragment.version);
            }
        }
        Some(entry)
    }
}

/// The upstream of pages.
#[derive(Clone)]
pub enum Upstream {
    /// None: files only.
    Files,
    /// PHP over FastCGI.
    Php(PoolHandle),
    /// HTTP/1.1.
    Http(PoolHandle),
}

impl Upstream {
    /// The load of its upstream; `None` if there is none.
    pub fn upstream_stats(&self) -> Option<&Arc<UpstreamStats>> {
        match self {
            Self::Files => None,
            Self::Php(pool) | Self::Http(pool) => pool.stats(),
        }
    }
}

/// A pool at a fetch thread.
#[derive(Clone)]
pub struct PoolHandle {
    /// The fetch thread.
    pub fetch_thread: fetch::Handle,
    /// The pool's index there.
    pub index: usize,
}

impl PoolHandle {
    /// Its load.
    pub fn stats(&self) -> Option<&Arc<UpstreamStats>> {
        self.fetch_thread.upstream_stats().get(self.index)
    }

    /// The text of a failure for a client, with a time from the queue after which to retry.
    pub fn fault(&self, failure: FillError) -> Fault {
        let mut fault = Fault::from(failure);
        if fault.retry_after_s.is_some()
            && let Some(stats) = self.stats()
        {
            fault.retry_after_s = Some(stats.retry_after_s());
        }
        fault
    }
}

/// How Galley runs a site's scheduled tasks.
pub struct SiteCron {
    /// From one run to the next.
    pub every: Duration,
    /// The requested host.
    pub host: String,
    /// A pool for nothing else.
    pub pool: PoolHandle,
}

/// The sites of one listener, as one connection may reach them.
pub struct Sites {
    table: Arc<HostTable>,
    all: Arc<Vec<Arc<Site>>>,
    /// Whose word about clients counts.
    proxies: Arc<Proxies>,
    /// What a client over TLS was shown.
    presented: Option<Presented>,
}

impl Sites {
    /// Sites by host; `rows` are patterns with the index of their site in `all`. `proxies`: whose word about clients counts.
    pub fn new(
        rows: impl Iterator<Item = (HostPattern, usize)>,
        all: Arc<Vec<Arc<Site>>>,
        proxies: Arc<Proxies>,
    ) -> Self {
        Self {
            table: Arc::new(HostTable::new(rows)),
            all,
            proxies,
            presented: None,
        }
    }

    /// The same, over a connection for whose client `presented` stands.
    #[must_use]
    pub fn under(&self, presented: Presented) -> Self {
        Self {
            table: Arc::clone(&self.table),
            all: Arc::clone(&self.all),
            proxies: Arc::clone(&self.proxies),
            presented: Some(presented),
        }
    }

    /// The same for queries about requests: claims about clients do not count.
    #[must_use]
    pub fn without_proxies(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
            all: Arc::clone(&self.all),
            proxies: Arc::default(),
            presented: None,
        }
    }

    /// Whose word about clients counts here.
    pub fn proxies(&self) -> &Proxies {
        &self.proxies
    }

    /// The site of a canonical host, if it may be requested over this connection.
    pub fn find(&self, host: &str) -> Option<Arc<Site>> {
        let site = self.all.get(self.table.find(host)?)?;
        self.may_be_asked(host).then(|| Arc::clone(site))
    }

    /// Whether a host has a site that may not be requested over this connection.
    pub fn is_misdirected(&self, host: &str) -> bool {
        self.table.find(host).is_some() && !self.may_be_asked(host)
    }

    fn may_be_asked(&self, host: &str) -> bool {
        let presented = self.presented.as_ref();
        presented.is_none_or(|presented| presented.allows(host))
    }
}

/// What all exchanges share; outlives any configuration.
pub struct Services {
    /// Stored pages.
    pub memory: Arc<Memory>,
    /// Time.
    pub clock: Clock,
    /// The name of this process for `CDN-Loop`: unique among all.
    pub identity: String,
    /// What survives a restart.
    pub durable: Durable,
    /// Whether stored pages may be used: always, except for a node that cannot read the purges of its cluster.
    pub lease: Arc<Lease>,
    /// The other nodes.
    pub cluster: Option<ClusterPublisher>,
    /// Caches of other machines that get purges.
    pub forwarder: Arc<PurgeForwarder>,
    /// Spools bodies for slow clients.
    pub spools: Arc<BodySpools>,
    /// The compressor of pages and files.
    pub compressor: Arc<Compressor>,
    /// What handshakes are answered with.
    pub certificates: Arc<Certificates>,
    /// Certificates that are got by themselves, if any are.
    pub acme: Option<Arc<Acme>>,
    /// How far the kernel confines the threads that deal with clients and upstreams.
    pub sandbox: SandboxLevel,
    /// The process that keeps root for PHP of other users.
    pub privileged: KeeperState,
    /// Connections that have become something else than HTTP.
    pub tunnels: Tunnels,
    /// Begins traces of requests that no stored page answers, where a collector gets them.
    pub tracer: Option<Arc<Tracer>>,
    /// Small files in memory, if there may be any.
    pub small_files: Option<Arc<SmallFiles>>,
    /// Where dashboards of sites are answered.
    pub dashboards: Arc<DashboardDoor>,
    /// The counters of clients.
    pub clients: Arc<ClientState>,
    /// Warnings about upstreams, which any visitor's request can cause.
    pub upstream_warnings: UpstreamWarnings,
    /// What the streams of all HTTP/2 connections may hold together.
    pub http2_memory: MemoryBudget,
    /// Warnings about clients that flood their HTTP/2 connections.
    pub http2_floods: Seldom,
}

/// Warns about failing upstreams without filling the log.
pub struct UpstreamWarnings(RateLimited);

impl UpstreamWarnings {
    /// At most `per_second` lines.
    pub fn new(per_second: u32) -> Self {
        Self(RateLimited::new("upstream", per_second))
    }

    /// Tells of the lines that were held back; called once a second.
    pub fn settle(&self) {
        self.0.settle();
    }

    /// Notes that a request could not be answered because of the upstream.
    pub fn warn(&self, site: &str, request_id: &str, note: &str) {
        if self.0.admit() {
            tracing::error!(site, request = request_id, "{note}");
        }
    }
}
