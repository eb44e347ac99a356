//! The configuration as the rest of Galley sees it: checked values.
//!
//! Every path is absolute, every default is filled in, and options that exclude each other have been rejected. Nothing here
//! knows where a value came from.

use std::path::PathBuf;
use std::time::Duration;

use galley_certs::CertificateFiles;
use galley_policy::compress::Compress;
use galley_policy::images::ImageSiblings;
use galley_policy::proxied::Proxies;
use galley_policy::route::HostPattern;
use galley_policy::site::{NamePattern, Policy};
use ipnet::IpNet;

use crate::complaint::{Complaints, Warning};
use crate::forward::PurgeForward;
use crate::kept::KeptValue;
use crate::listen::{AdminListen, Listen};
use crate::log::{LogConfig, LogTarget};
use crate::origin::{MachineFinding, Origin};
use crate::quantity::Pace;
use crate::upstream::{LoadBalancing, ManagedPhp, UpstreamConfig, UpstreamLimits, UpstreamTls};

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[server]`: listeners and limits towards clients.
    pub server: ServerConfig,
    /// `[admin]`: the admin interface.
    pub admin: AdminConfig,
    /// `[cache]`: sizes of the cache.
    pub cache: Cache,
    /// `[log]`: targets and formats of logs.
    pub log: LogConfig,
    /// `[acme]`: automatic certificates; `None`: no site uses them.
    pub acme: Option<AcmeConfig>,
    /// `[cluster]`: other Galleys; `None`: there are none.
    pub cluster: Option<ClusterConfig>,
    /// The sites in file order; never empty.
    pub sites: Vec<SiteConfig>,
    /// Warnings: Galley can start nevertheless.
    pub warnings: Vec<Warning>,
    /// Every file that was read, absolute, the first one first; empty for a configuration without a file.
    pub files: Vec<PathBuf>,
    /// The patterns of `include`, absolute; what they match now, [`crate::included`] says.
    pub patterns: Vec<PathBuf>,
    /// Where its options stand.
    pub(crate) origin: Option<Origin>,
    /// What stays in effect of the configuration before, whatever the files say.
    pub(crate) kept: Vec<KeptValue>,
}

impl Config {
    /// The problems with it on this machine, as complaints.
    pub fn complaints(&self, findings: &[MachineFinding]) -> Complaints {
        let origin = self.origin.as_ref();
        origin.map_or_else(Complaints::default, |origin| origin.complaints(findings))
    }

    /// What should be looked at on this machine.
    pub fn warnings_of(&self, findings: &[MachineFinding]) -> Vec<Warning> {
        let origin = self.origin.as_ref();
        origin.map_or_else(Vec::new, |origin| origin.warnings(findings))
    }

    /// How many pools Galley runs for it: one for each site and each program of a rule.
    pub fn managed_pools(&self) -> usize {
        let upstreams = self.sites.iter().flat_map(|site| {
            let programs = site.further.iter();
            let programs = programs.filter(|one| matches!(one, UpstreamConfig::Program(_)));
            programs.chain([&site.upstream])
        });
        upstreams.filter(|one| one.is_managed()).count()
    }
}

/// `[server]`.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The listeners of sites without their own; no address twice, unless its port is 0.
    pub listen: Vec<Listen>,
    /// The TLS listeners of sites that have a certificate and no own `listen_tls`.
    pub listen_tls: Vec<Listen>,
    /// The oldest TLS version that Galley accepts from clients.
    pub tls_min_version: TlsVersion,
    /// Front threads; 0: one per core.
    pub workers: usize,
    /// Largest request body, in bytes.
    pub request_body: u64,
    /// The folder for bodies in transit that do not fit in memory; `None`: the system's folder for temporary files.
    pub spool: Option<PathBuf>,
    /// The limit of these files together, in bytes.
    pub spool_size: u64,
    /// The limit of one response's file, in bytes.
    pub spool_response: u64,
    /// The memory limit of bodies in transit together, in bytes.
    pub spool_memory: u64,
    /// Largest request head, in bytes.
    pub head_size: usize,
    /// From the first byte of a head to its last.
    pub head_timeout: Duration,
    /// How long a connection may wait for its next request.
    pub idle_timeout: Duration,
    /// Longest silence inside a request body.
    pub body_timeout: Duration,
    /// Longest time without progress in sending a response.
    pub write_timeout: Duration,
    /// How long requests in progress may take when Galley stops.
    pub drain_timeout: Duration,
    /// Connections at one time; 0: from the descriptor limit.
    pub max_connections: usize,
    /// Whether hits take the fast path.
    pub fast_path: bool,
    /// Whether clients may use HTTP/2 without TLS.
    pub h2c: bool,
    /// Connections of one client at one time; 0: any number.
    pub connections_per_address: usize,
    /// Networks to which that and the sites' limits do not apply.
    pub limit_exempt: Vec<IpNet>,
    /// The database of countries.
    pub geoip: Option<PathBuf>,
    /// The minimum rate of a request body, and of a client that receives a response, in bytes per second.
    pub min_rate: u64,
    /// The trusted proxies.
    pub proxies: Proxies,
    /// The listeners whose connections begin with a header of the PROXY protocol.
    pub proxy_protocol: Vec<Listen>,
    /// The permission bits of unix sockets.
    pub socket_mode: u32,
    /// The user that Galley switches to after it has bound its sockets; never `root`.
    pub user: Option<String>,
    /// The group; `None`: the user's own.
    pub group: Option<String>,
    /// Whether the kernel confines the threads that serve clients.
    pub sandbox: bool,
    /// Whether a change of a file is a reload.
    pub watch: bool,
    /// The maximum number of connections that have switched to another protocol.
    pub max_upgrades: usize,
    /// How long such a connection may carry nothing.
    pub upgrade_timeout: Duration,
}

/// `[admin]`.
#[derive(Clone, Debug)]
pub struct AdminConfig {
    /// Its listener.
    pub listen: AdminListen,
    /// The file with the token; always present for [`AdminListen::Tcp`].
    pub token_file: Option<PathBuf>,
}

/// `[cluster]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The engine's URL.
    pub engine: String,
    /// The file with its password.
    pub password_file: Option<PathBuf>,
    /// The cluster's name.
    pub name: String,
    /// This node's name.
    pub node: String,
    /// Whether stored pages are used while the node cannot read the purges of the others.
    pub serve_through_partitions: bool,
    /// The file with the cluster's secret; `None`: nodes share neither pages nor certificates.
    pub key_file: Option<PathBuf>,
    /// Pages that the nodes share; `None`: they share none.
    pub pages: Option<SharedPagesConfig>,
}

/// Pages that the nodes of a cluster share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPagesConfig {
    /// The largest body, in bytes.
    pub most_bytes: u64,
    /// How long they stay in the engine at most.
    pub lifetime: Duration,
}

/// `[cache]`.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The memory limit of the cache, in bytes.
    pub memory: u64,
    /// The limit of one site, in bytes.
    pub memory_per_site: Option<u64>,
    /// Largest body that Galley stores, in bytes; at most `memory`, or half of the disk's budget if that is more.
    pub max_object: u64,
    /// Largest file below a root that Galley keeps in memory, in bytes; 0: none.
    pub max_file: u64,
    /// The disk cache; `None`: memory only.
    pub disk: Option<CacheDisk>,
}

/// The cache's part on disk.
#[derive(Clone, Debug)]
pub struct CacheDisk {
    /// The folder, created if it does not exist.
    pub path: PathBuf,
    /// Budget for all pages, in bytes.
    pub bytes: u64,
    /// The limit of one site, in bytes.
    pub site_bytes: Option<u64>,
    /// How long a page stays without a request.
    pub inactive: Duration,
}

/// `[acme]`.
#[derive(Clone, Debug)]
pub struct AcmeConfig {
    /// The mail address for the directory.
    pub email: Option<String>,
    /// The directory: an `https` address.
    pub directory: String,
    /// A further root for the directory's own certificate.
    pub ca: Option<PathBuf>,
    /// The folder for account and certificates, created if it does not exist.
    pub storage: PathBuf,
    /// How names are proved, the preferred way first; never empty.
    pub challenges: Vec<AcmeChallenge>,
    /// How records in the DNS are set, if `challenges` has [`AcmeChallenge::Dns01`].
    pub dns: Option<DnsProof>,
    /// Which kind of certificate is ordered.
    pub profile: Option<String>,
    /// An account that exists elsewhere: its name, and the file with its key.
    pub binding: Option<(String, PathBuf)>,
    /// The pause after a first failure.
    pub retry: Duration,
}

/// How a name is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// By a file on port 80 (RFC 8555 section 8.3).
    Http01,
    /// By a certificate on port 443 (RFC 8737).
    TlsAlpn01,
    /// By a record in the DNS (RFC 8555 section 8.4), the only way for wildcards.
    Dns01,
}

/// How names are proved by records in the DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsProof {
    /// What changes the records.
    pub means: DnsMeans,
    /// How long a new record takes until all DNS servers of the zone have it.
    pub wait: Duration,
}

/// What changes records in the DNS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DnsMeans {
    /// A program.
    Hook(PathBuf),
    /// Dynamic updates (RFC 2136).
    Update(DnsServer),
}

/// A DNS server that takes dynamic updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsServer {
    /// Host and port.
    pub address: String,
    /// The file with the key that it shares with Galley (TSIG).
    pub key_file: PathBuf,
}

/// One `[[site]]`.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// The first host, as the file writes it: how people name the site.
    pub name: String,
    /// Its hosts; never empty, and no other site with an overlapping `listen` has one of them.
    pub hosts: Vec<HostPattern>,
    /// Its listeners, or those of [`ServerConfig::listen`] if it names none.
    pub listen: Vec<Listen>,
    /// Its TLS listeners; empty without a certificate.
    pub listen_tls: Vec<Listen>,
    /// Its certificates, which can be used; several for clients that understand different keys.
    pub certificates: Vec<CertificateFiles>,
    /// TLS towards its `https` upstreams.
    pub upstream_tls: UpstreamTls,
    /// The folder with its files; always present with `Php`, `Managed` and `Program`.
    pub root: Option<PathBuf>,
    /// Decoded paths of files that are sent although their names are private.
    pub allow_files: Vec<NamePattern>,
    /// Which files beside a picture are sent in its place to clients that prefer their format.
    pub image_siblings: ImageSiblings,
    /// Whether `103 Early Hints` are sent while a page is being generated.
    pub early_hints: bool,
    /// The upstream that generates its pages.
    pub upstream: UpstreamConfig,
    /// Upstreams that rules name; `Rule::upstream` is an index into it.
    pub further: Vec<UpstreamConfig>,
    /// The page for errors of the upstream: a readable file, not larger than [`MOST_OF_ERROR_PAGE`].
    pub error_page: Option<PathBuf>,
    /// Pages like it for single errors, by status from 400 to 599.
    pub error_pages: Vec<(u16, PathBuf)>,
    /// Largest request body in bytes, unless a rule sets another.
    pub request_body: u64,
    /// The rules for caching.
    pub rules: Policy,
    /// How its pages are compressed.
    pub compress: Compress,
    /// The file with the names and passwords for its dashboard; the path is in `rules`.
    pub dashboard_auth: Option<PathBuf>,
    /// The file with the token that purge requests must carry.
    pub token_file: Option<PathBuf>,
    /// Networks that may purge without a token.
    pub purge_allow: Vec<IpNet>,
    /// The file with the secret that purge requests from elsewhere must carry.
    pub purge_secret_file: Option<PathBuf>,
    /// Whether `GET /purge/...` purges.
    pub purge_get: bool,
    /// The folder that is watched for removals.
    pub purge_directory: Option<PathBuf>,
    /// The folder with a file for each stored page, named as nginx names its own.
    pub nginx_cache_path: Option<PathBuf>,
    /// Caches of other machines that get its purges.
    pub purge_forward: Vec<PurgeForward>,
    /// Whether WordPress runs as a network in sub-directories.
    pub multisite: bool,
    /// How often Galley runs its scheduled tasks; `Off` if it cannot.
    pub cron: Pace,
    /// Protocols that connections to its HTTP upstreams may switch to, in lower case.
    pub upgrade: Vec<String>,
    /// Limits towards its upstreams.
    pub limits: UpstreamLimits,
    /// How requests are spread over several servers.
    pub balancing: LoadBalancing,
    /// How PHP is run, for [`UpstreamConfig::Managed`].
    pub managed: ManagedPhp,
    /// Whether Galley obtains its certificate automatically.
    pub has_auto_tls: bool,
    /// Access log of its own.
    pub access: Option<LogTarget>,
    /// Error log of its own.
    pub errors: Option<LogTarget>,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// RFC 5246.
    V12,
    /// RFC 8446.
    V13,
}

/// The largest error page, in bytes: Galley keeps it in memory.
pub const MOST_OF_ERROR_PAGE: u64 = 256 << 10;

/// The longest file with a token, in bytes: it must fit a request head with room for everything else.
pub const MOST_OF_TOKEN: u64 = 4096;
