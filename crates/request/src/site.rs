//! The sites of the running server by host, and the services that all exchanges share.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use galley_cache::budget::MemoryBudget;
use galley_cache::entry::Entry;
use galley_cache::fill::FillError;
use galley_cache::memory::Memory;
use galley_cluster::ClusterPublisher;
use galley_cluster::lease::Lease;
use galley_config::SiteConfig;
use galley_files::SentFiles;
use galley_policy::forward::Schedule;
use galley_policy::headers::HeadChanges;
use galley_policy::key;
use galley_policy::outcome::RefusedWhy;
use galley_policy::proxied::Proxies;
use galley_policy::request_info::RequestInfo;
use galley_policy::route::{HostPattern, HostTable, names_site};
use galley_policy::site::Rule;

use super::access_control::AccessControl;
use super::dashboard_gateway::{DashboardGateway, SiteDashboard};
use super::error_page::ErrorPages;
use super::folder::{SiteFiles, SmallFiles};
use super::refreshed_pages::RefreshedPages;
use super::slow_requests::SlowRequests;
use crate::fault::Fault;
use galley_access::{ClientState, Visits};
use galley_codec::compress::Compressor;
use galley_fetch::IncludeLookup;
use galley_php::PoolNumbers;
use galley_php::privileged::KeeperState;
use galley_purging::purge_forward::PurgeForwarder;
use galley_purging::{Durable, SitePurges};
use galley_sys::clock::Clock;
use galley_sys::sandbox::SandboxLevel;
use galley_telemetry::errors::{LogInterval, RateLimited};
use galley_telemetry::trace::Tracer;
use galley_tls::acme::Acme;
use galley_tls::{Certificates, SelectedCertificates};
use galley_upstream::UpstreamStats;
use galley_upstream::body::body_spools::BodySpools;
use galley_upstream::switch::Tunnels;

/// A site, as the front threads use it.
pub struct Site {
    /// The configuration of the site.
    pub config: Arc<SiteConfig>,
    /// The part that fetch threads use, too.
    pub core: Arc<galley_fetch::FetchSite>,
    /// The purges of the site. The same as in `core`, without the indirection, for the fast path.
    pub purges: Arc<SitePurges>,
    /// The files below the site's root.
    pub folder: Option<Arc<SiteFiles>>,
    /// The files that only responses of the upstream may name.
    pub sent_files: Arc<SentFiles>,
    /// The upstream that generates its pages.
    pub upstream: Upstream,
    /// The upstreams that its rules name, in the order of [`galley_policy::site::Rule::upstream`].
    pub further: Vec<Upstream>,
    /// Statistics of the PHP-FPM that Galley runs for the site.
    pub php: Option<Arc<PoolNumbers>>,
    /// The site's error pages, which replace Galley's own.
    pub error_pages: ErrorPages,
    /// The changes of response fields that the configuration prescribes.
    pub heads: HeadChanges,
    /// The site's access control.
    pub access: AccessControl,
    /// The secret that allows `PURGE` from other networks.
    pub purge_secret: Option<String>,
    /// The dashboard on the site's own address.
    pub dashboard: Option<SiteDashboard>,
    /// The token that allows access to this site in the admin API.
    pub token: Option<String>,
    /// Pages that were refreshed because they named missing files.
    pub refreshed_pages: RefreshedPages,
    /// Requests that waited long for the upstream.
    pub slow_requests: SlowRequests,
    /// The clients that have visited the site; `None`: their requests need no proof.
    pub visits: Option<Arc<Visits>>,
    /// How Galley runs the site's scheduled tasks; `None`: it does not run them.
    pub cron: Option<SiteCron>,
    /// The site's index in the configuration.
    pub number: u32,
    /// The site's row in the counters. A site of the same name keeps its row when the configuration is reloaded.
    pub row: u32,
    /// Part of every key: two sites on different listeners may have the same host, and entries that were stored under other
    /// key rules must not be found. Unlike the index, it stays the same after a restart or a reload.
    pub mark: u32,
    /// The access log of the site: an index into the logs of each front thread.
    pub log: usize,
    /// Finds the includes of ESI pages, if the site permits them; set once, before the first request.
    pub includes: OnceLock<Arc<dyn IncludeLookup>>,
}

impl Site {
    /// Writes the key of a request: the part that identifies the page within its site, then the site's mark.
    pub fn write_key(&self, info: &RequestInfo, out: &mut Vec<u8>) {
        key::write_key(info, out);
        out.extend_from_slice(&self.mark.to_be_bytes());
    }

    /// Whether Galley serves the site over TLS. Internal requests for it then use the scheme `https`, too.
    pub fn speaks_tls(&self) -> bool {
        !self.config.listen_tls.is_empty()
    }

    /// Whether a text names the site: by its name, or by one of its hosts as configured.
    pub fn is_named(&self, text: &str) -> bool {
        names_site(text, &self.core.name, &self.config.hosts)
    }

    /// The upstream of a request: that of the rule, or that of the site.
    pub fn upstream_of(&self, info: &RequestInfo) -> &Upstream {
        let further = self
            .rule_of(info)
            .and_then(|rule| rule.upstream)
            .and_then(|index| self.further.get(index));
        further.unwrap_or(&self.upstream)
    }

    /// The rule that applies to a request.
    pub fn rule_of(&self, info: &RequestInfo) -> Option<&Rule> {
        self.core.policy.rules.get(info.rule()?)
    }

    /// The maximum size of a request's body, in bytes.
    pub fn request_body_of(&self, info: &RequestInfo) -> u64 {
        let rule = self.rule_of(info);
        rule.and_then(|rule| rule.request_body)
            .unwrap_or(self.config.request_body)
    }

    /// The load of the site's upstreams, each once, the upstream of its pages first.
    pub fn upstream_stats(&self) -> Vec<Arc<UpstreamStats>> {
        let mut stats_of_pools: Vec<Arc<UpstreamStats>> = Vec::new();
        for upstream in std::iter::once(&self.upstream).chain(&self.further) {
            // A rule may name the site's own upstream.
            if let Some(stats) = upstream.upstream_stats()
                && !stats_of_pools.iter().any(|known| Arc::ptr_eq(known, stats))
            {
                stats_of_pools.push(Arc::clone(stats));
            }
        }
        stats_of_pools
    }

    /// Whether a rule sends a request to a separate FastCGI program, so that any file may be the script.
    pub fn names_program(&self, info: &RequestInfo) -> bool {
        let upstream = self.upstream_of(info);
        let by_rule = !std::ptr::eq(upstream, &raw const self.upstream);
        by_rule && matches!(upstream, Upstream::Php(_))
    }

    /// The scheduler of the site's tasks, for the plugin: Galley, as long as its runs succeed.
    pub fn schedule(&self) -> Schedule {
        if self.core.cron.is_relied_on() {
            Schedule::Kept
        } else {
            Schedule::Own
        }
    }

    /// Whether the disk may contain an entry for a key. Does not read the disk.
    pub fn may_be_on_disk(&self, key: &[u8]) -> bool {
        let disk = self.core.disk.as_ref();
        disk.is_some_and(|disk| disk.may_hold(key))
    }

    /// The entry of a key, from memory or from the disk. An entry from the disk is copied into memory if it fits.
    pub async fn stored(&self, memory: &Memory, key: &[u8]) -> Option<Arc<Entry>> {
        if let Some(entry) = memory.get(key) {
            return Some(entry);
        }
        self.on_disk(key).await
    }

    /// The entry of a key on the disk, copied into memory if it fits.
    pub async fn on_disk(&self, key: &[u8]) -> Option<Arc<Entry>> {
        let disk = self.core.disk.as_ref()?;
        let entry = disk.find(key, self.core.purges.table()).await?;
        if let Some(variant) = key::variant_id(key) {
            for fragment in entry.fragments() {
                self.core.fragments.recall(variant, &fragment.version);
            }
        }
        Some(entry)
    }
}

/// The upstream that generates pages.
#[derive(Clone)]
pub enum Upstream {
    /// None: the site consists of files.
    Files,
    /// PHP over FastCGI.
    Php(PoolHandle),
    /// HTTP/1.1.
    Http(PoolHandle),
}

impl Upstream {
    /// The load of the upstream; `None` without an upstream.
    pub fn upstream_stats(&self) -> Option<&Arc<UpstreamStats>> {
        match self {
            Self::Files => None,
            Self::Php(pool) | Self::Http(pool) => pool.stats(),
        }
    }
}

/// The pool of an upstream, which its fetch thread owns.
#[derive(Clone)]
pub struct PoolHandle {
    /// The fetch thread.
    pub fetch_thread: galley_fetch::Handle,
    /// The pool's index in the fetch thread.
    pub index: usize,
}

impl PoolHandle {
    /// The pool's load.
    pub fn stats(&self) -> Option<&Arc<UpstreamStats>> {
        self.fetch_thread.upstream_stats().get(self.index)
    }

    /// The response to a client whose request failed at this pool, with a `Retry-After` from the state of the queue.
    pub fn fault(&self, failure: FillError) -> Fault {
        let mut fault = Fault::from(failure);
        if fault.why == RefusedWhy::UpstreamDown
            && let Some(stats) = self.stats()
        {
            let failures = stats.connect_failures();
            let failures = failures.map(|(address, failure)| format!("{address}: {failure}"));
            let failures: Vec<String> = failures.collect();
            if !failures.is_empty() {
                fault.note = format!("{}: {}", fault.note, failures.join(", ")).into();
            }
        }
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
    /// The interval between two runs.
    pub every: Duration,
    /// The host that the internal request names.
    pub host: String,
    /// A pool that is used for nothing else.
    pub pool: PoolHandle,
}

/// The sites of one listener that one connection may reach.
pub struct Sites {
    table: Arc<HostTable>,
    all: Arc<Vec<Arc<Site>>>,
    /// The proxies that are trusted to name their clients.
    proxies: Arc<Proxies>,
    /// The certificate that a client over TLS was shown.
    presented: Option<SelectedCertificates>,
}

impl Sites {
    /// Sites by host. `rows` are host patterns with the index of their site in `all`; `proxies` are the trusted proxies.
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

    /// The same sites for a connection on which the client was shown the certificate `presented`.
    #[must_use]
    pub fn under(&self, presented: SelectedCertificates) -> Self {
        Self {
            table: Arc::clone(&self.table),
            all: Arc::clone(&self.all),
            proxies: Arc::clone(&self.proxies),
            presented: Some(presented),
        }
    }

    /// The same sites for queries about requests, in which no proxy is trusted to name its client.
    #[must_use]
    pub fn without_proxies(&self) -> Self {
        Self {
            table: Arc::clone(&self.table),
            all: Arc::clone(&self.all),
            proxies: Arc::default(),
            presented: None,
        }
    }

    /// The trusted proxies of this listener.
    pub fn proxies(&self) -> &Proxies {
        &self.proxies
    }

    /// The site of a canonical host, if it may be requested over this connection.
    pub fn find(&self, host: &str) -> Option<Arc<Site>> {
        let site = self.all.get(self.table.find(host)?)?;
        self.may_be_asked(host).then(|| Arc::clone(site))
    }

    /// Whether the site of a host exists but may not be requested over this connection.
    pub fn is_misdirected(&self, host: &str) -> bool {
        self.table.find(host).is_some() && !self.may_be_asked(host)
    }

    fn may_be_asked(&self, host: &str) -> bool {
        let presented = self.presented.as_ref();
        presented.is_none_or(|presented| presented.allows(host))
    }
}

/// The services that all exchanges share. They outlive any configuration.
pub struct Services {
    /// The memory cache.
    pub memory: Arc<Memory>,
    /// The clock.
    pub clock: Clock,
    /// The name of this process in `CDN-Loop`, unique among all processes.
    pub identity: String,
    /// The disk cache and the purge log.
    pub durable: Durable,
    /// Whether stored pages may be sent. False only for a node that cannot read the purges of its cluster.
    pub lease: Arc<Lease>,
    /// The other nodes of the cluster.
    pub cluster: Option<ClusterPublisher>,
    /// Caches on other machines to which purges are forwarded.
    pub forwarder: Arc<PurgeForwarder>,
    /// Spools response bodies for slow clients.
    pub spools: Arc<BodySpools>,
    /// The compressor of pages and files.
    pub compressor: Arc<Compressor>,
    /// The certificates that TLS handshakes use.
    pub certificates: Arc<Certificates>,
    /// The certificates that Galley obtains through ACME, if any.
    pub acme: Option<Arc<Acme>>,
    /// The kernel's restrictions on threads that handle input from clients and upstreams.
    pub sandbox: SandboxLevel,
    /// The process that keeps root privileges, to start PHP as other users.
    pub privileged: KeeperState,
    /// Upgraded connections.
    pub tunnels: Tunnels,
    /// Begins traces of requests that no stored page answers, if a collector is configured.
    pub tracer: Option<Arc<Tracer>>,
    /// The cache of small files, unless it is disabled.
    pub small_files: Option<Arc<SmallFiles>>,
    /// The channel to the thread that serves the dashboards of sites.
    pub dashboards: Arc<DashboardGateway>,
    /// Rate limits and password checks by client.
    pub clients: Arc<ClientState>,
    /// Warnings about upstreams, rate-limited because any visitor's request can cause one.
    pub upstream_warnings: UpstreamWarnings,
    /// The memory that the streams of all HTTP/2 and HTTP/3 connections may use together, and windows of HTTP/3.
    pub http2_memory: MemoryBudget,
    /// Warnings about clients that flood their HTTP/2 connections.
    pub http2_floods: LogInterval,
}

impl Services {
    /// Whether a host can be reached over TLS: not while the first certificate of a site with `tls = "auto"` is still being issued.
    pub fn has_tls(&self, site: &Site, host: &str) -> bool {
        let waits = self.acme.is_some()
            && site.speaks_tls()
            && self.certificates.find(Some(host)).is_none();
        !waits
    }
}

/// Logs warnings about failing upstreams without filling the log.
pub struct UpstreamWarnings(RateLimited);

impl UpstreamWarnings {
    /// Logs at most `per_second` lines per second.
    pub fn new(per_second: u32) -> Self {
        Self(RateLimited::new("upstream", per_second))
    }

    /// Logs the number of suppressed lines; called once a second.
    pub fn settle(&self) {
        self.0.settle();
    }

    /// Logs that a request failed because of the upstream.
    pub fn warn(&self, site: &str, request_id: &str, note: &str) {
        if self.0.admit() {
            tracing::error!(site, request = request_id, "{note}");
        }
    }
}
