//! The configuration as the rest of Galley sees it: checked values.
//!
//! Every path is absolute, every default is set, and options that exclude each other have been rejected. These types do not
//! contain where a value came from.

use std::path::PathBuf;
use std::time::Duration;

use galley_certs::CertificateFiles;
use galley_policy::compress::Compress;
use galley_policy::images::ImageSiblings;
use galley_policy::proxied::Proxies;
use galley_policy::route::HostPattern;
use galley_policy::send_file::InternalFolder;
use galley_policy::site::{NamePattern, Policy};
use ipnet::IpNet;

use crate::config_files::{ConfigFiles, MachineFinding};
use crate::crawlers::CrawlerLists;
use crate::diagnostic::{Diagnostics, Warning};
use crate::effective_option::EffectiveOption;
use crate::forward::PurgeForward;
use crate::listen::{AdminListen, Listen};
use crate::log::{LogConfig, LogTarget};
use crate::options::OptionRow;
use crate::quantity::RunInterval;
use crate::upstream::{LoadBalancing, ManagedPhp, UpstreamConfig, UpstreamLimits, UpstreamTls};

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// `[server]`: listeners and limits for clients.
    pub server: ServerConfig,
    /// `[admin]`: the admin interface.
    pub admin: AdminConfig,
    /// `[cache]`: sizes of the cache.
    pub cache: Cache,
    /// `[log]`: destinations and formats of logs.
    pub log: LogConfig,
    /// `[acme]`: automatic certificates; `None` if no site uses them.
    pub acme: Option<AcmeConfig>,
    /// `[cluster]`: the connection to other nodes; `None` if there are none.
    pub cluster: Option<ClusterConfig>,
    /// The sites in file order; never empty.
    pub sites: Vec<SiteConfig>,
    /// Warnings: Galley can start nevertheless.
    pub warnings: Vec<Warning>,
    /// Every file that was read, absolute, the main file first; empty for a configuration without a file.
    pub files: Vec<PathBuf>,
    /// The patterns of `include`, absolute; [`crate::included`] returns the files that match now.
    pub patterns: Vec<PathBuf>,
    /// The positions of all options.
    pub(crate) origin: Option<ConfigFiles>,
    /// Options that have the values of the previous configuration, whatever the files contain; `None`: not set.
    pub(crate) kept: Vec<(&'static OptionRow, Option<EffectiveOption>)>,
}

impl Config {
    /// Problems on this machine as diagnostics.
    pub fn diagnostics(&self, findings: &[MachineFinding]) -> Diagnostics {
        let origin = self.origin.as_ref();
        origin.map_or_else(Diagnostics::default, |origin| origin.diagnostics(findings))
    }

    /// Problems on this machine as warnings.
    pub fn warnings_of(&self, findings: &[MachineFinding]) -> Vec<Warning> {
        let origin = self.origin.as_ref();
        origin.map_or_else(Vec::new, |origin| origin.warnings(findings))
    }

    /// The UDP addresses at which a site is served over HTTP/3. By default those of its TLS listeners without the PROXY protocol, which
    /// does not exist for UDP.
    pub fn quic_listeners(&self, site: &SiteConfig) -> Vec<Listen> {
        let has_certificate = site.has_auto_tls || !site.certificates.is_empty();
        if !site.policy.flags.http3 || !has_certificate {
            return Vec::new();
        }
        if let Some(named) = &self.server.listen_quic {
            return named.clone();
        }
        let proxied = &self.server.proxy_protocol;
        let direct = site.listen_tls.iter().filter(|one| !proxied.contains(one));
        let mut all: Vec<Listen> = Vec::new();
        for listen in direct {
            let listen = match listen {
                Listen::Passed(_) => Listen::Passed(PASSED_QUIC.to_owned()),
                Listen::Tcp(_) | Listen::Unix(_) => listen.clone(),
            };
            if !all.contains(&listen) {
                all.push(listen);
            }
        }
        all
    }

    /// The UDP addresses of HTTP/3 of all sites, each once.
    pub fn all_quic_listeners(&self) -> Vec<Listen> {
        let mut all: Vec<Listen> = Vec::new();
        for listen in self.sites.iter().flat_map(|site| self.quic_listeners(site)) {
            if !all.contains(&listen) {
                all.push(listen);
            }
        }
        all
    }

    /// The number of pools that Galley runs: one for each managed site and each program of a rule.
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
    /// The listeners of sites without `listen`; no address is repeated, unless its port is 0.
    pub listen: Vec<Listen>,
    /// The TLS listeners of sites that have a certificate but no `listen_tls`.
    pub listen_tls: Vec<Listen>,
    /// The UDP addresses of HTTP/3, never a path; `None`: those of the TLS listeners.
    pub listen_quic: Option<Vec<Listen>>,
    /// Whether HTTP/3 accepts requests before a handshake is complete.
    pub early_data: bool,
    /// The oldest TLS version that Galley accepts from clients.
    pub tls_min_version: TlsVersion,
    /// What the process has from its start until its end.
    pub process: ProcessConfig,
    /// The maximum size of a request body, in bytes.
    pub request_body: u64,
    /// The storage for bodies in transit.
    pub spool: SpoolConfig,
    /// The maximum size of a request head, in bytes.
    pub head_size: usize,
    /// The maximum time from the first byte of a head to its last.
    pub head_timeout: Duration,
    /// The maximum time that a connection waits for its next request.
    pub idle_timeout: Duration,
    /// The maximum time between two reads of a request body.
    pub body_timeout: Duration,
    /// The maximum time without progress in sending a response.
    pub write_timeout: Duration,
    /// The maximum time for requests in progress when Galley stops.
    pub drain_timeout: Duration,
    /// The maximum number of concurrent connections; 0: derived from the descriptor limit.
    pub max_connections: usize,
    /// Whether hits take the fast path.
    pub fast_path: bool,
    /// Whether clients may use HTTP/2 without TLS.
    pub h2c: bool,
    /// The maximum number of concurrent connections of one client; 0: no limit.
    pub connections_per_address: usize,
    /// Networks that are exempt from `connections_per_address` and from the limits of sites.
    pub limit_exempt: Vec<IpNet>,
    /// The database of countries (`GeoIP`).
    pub geoip: Option<PathBuf>,
    /// The published addresses of crawlers.
    pub crawlers: CrawlerLists,
    /// The minimum rate of a request body, and of a client that receives a response, in bytes per second.
    pub min_rate: u64,
    /// The trusted proxies.
    pub proxies: Proxies,
    /// The listeners whose connections begin with a header of the PROXY protocol.
    pub proxy_protocol: Vec<Listen>,
    /// Whether the kernel confines the threads that serve clients (sandbox).
    pub sandbox: bool,
    /// Whether Galley reloads the configuration when a file changes.
    pub watch: bool,
    /// The maximum number of connections that have switched to another protocol.
    pub max_upgrades: usize,
    /// The maximum time without data on a connection that has switched to another protocol.
    pub upgrade_timeout: Duration,
}

/// The options of `[server]` that the process has from its start until its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessConfig {
    /// The number of front threads; 0: one per core.
    pub workers: usize,
    /// The permission bits of unix sockets.
    pub socket_mode: u32,
    /// The user that Galley switches to after it has bound its sockets; never `root`.
    pub user: Option<String>,
    /// The group that Galley switches to; `None`: the user's group.
    pub group: Option<String>,
}

/// The storage for bodies in transit, from the start of the process until its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpoolConfig {
    /// The folder for bodies that do not fit in memory; `None`: the system's folder for temporary files.
    pub folder: Option<PathBuf>,
    /// The maximum size of all files in `folder` together, in bytes.
    pub size: u64,
    /// The maximum size of the file of one response, in bytes.
    pub response: u64,
    /// The maximum memory of all bodies in transit, in bytes.
    pub memory: u64,
}

/// `[admin]`.
#[derive(Clone, Debug)]
pub struct AdminConfig {
    /// The listener of the admin interface.
    pub listen: AdminListen,
    /// The file with the token; always present for [`AdminListen::Tcp`].
    pub token_file: Option<PathBuf>,
}

/// `[cluster]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// The URL of the engine.
    pub engine: String,
    /// The file with the engine's password.
    pub password_file: Option<PathBuf>,
    /// The name of the cluster.
    pub name: String,
    /// The name of this node.
    pub node: String,
    /// Whether stored pages are used while the node cannot read the purges of other nodes.
    pub serve_through_partitions: bool,
    /// The file with the cluster's secret; `None`: nodes share neither pages nor certificates.
    pub key_file: Option<PathBuf>,
    /// The sharing of pages between nodes; `None`: they share none.
    pub pages: Option<SharedPagesConfig>,
}

/// The sharing of pages between the nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPagesConfig {
    /// The maximum size of a shared body, in bytes.
    pub most_bytes: u64,
    /// The maximum time that a page stays in the engine.
    pub lifetime: Duration,
}

/// `[cache]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The maximum memory of the cache, in bytes.
    pub memory: u64,
    /// The maximum memory of one site, in bytes.
    pub memory_per_site: Option<u64>,
    /// The maximum size of a stored body, in bytes; at most `memory`, or half of the disk's budget if that is more.
    pub max_object: u64,
    /// The maximum size of a file that Galley keeps in memory, in bytes; 0: none.
    pub max_file: u64,
    /// The disk cache; `None`: memory only.
    pub disk: Option<CacheDisk>,
}

/// The disk cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDisk {
    /// The folder of the cache, created if it does not exist.
    pub path: PathBuf,
    /// The maximum size of all pages, in bytes.
    pub bytes: u64,
    /// The maximum size of one site, in bytes.
    pub site_bytes: Option<u64>,
    /// How long a page stays on disk without a request.
    pub inactive: Duration,
}

/// `[acme]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcmeConfig {
    /// The mail address for the account.
    pub email: Option<String>,
    /// The URL of the ACME directory: an `https` address.
    pub directory: String,
    /// An additional root certificate for the connection to the directory.
    pub ca: Option<PathBuf>,
    /// The folder for the account and certificates, created if it does not exist.
    pub storage: PathBuf,
    /// The challenges that prove control over names, the preferred one first; never empty.
    pub challenges: Vec<AcmeChallenge>,
    /// How DNS records are set, if `challenges` contains [`AcmeChallenge::Dns01`].
    pub dns: Option<DnsProof>,
    /// The profile of certificates to order.
    pub profile: Option<String>,
    /// External account binding: the account's name, and the file with its key.
    pub binding: Option<(String, PathBuf)>,
    /// The delay after the first failure.
    pub retry: Duration,
}

/// A challenge that proves control over a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcmeChallenge {
    /// By a file on port 80 (RFC 8555 section 8.3).
    Http01,
    /// By a certificate on port 443 (RFC 8737).
    TlsAlpn01,
    /// By a record in the DNS (RFC 8555 section 8.4), the only way for wildcards.
    Dns01,
}

/// The configuration of challenges by DNS records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DnsProof {
    /// The program that changes records.
    pub hook: PathBuf,
    /// The maximum time until all DNS servers of the zone have a new record.
    pub wait: Duration,
}

/// One `[[site]]`.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// The name, which identifies the site; no other site has it.
    pub name: String,
    /// The hosts of the site; never empty. No other site with an overlapping `listen` has one of them.
    pub hosts: Vec<HostPattern>,
    /// The listeners of the site, or those of [`ServerConfig::listen`] if it names none.
    pub listen: Vec<Listen>,
    /// The TLS listeners of the site; empty without a certificate.
    pub listen_tls: Vec<Listen>,
    /// The usable certificates of the site; several for clients that support different kinds of keys.
    pub certificates: Vec<CertificateFiles>,
    /// TLS for the site's `https` upstreams.
    pub upstream_tls: UpstreamTls,
    /// The folder with the site's files; always present with `Php`, `Managed` and `Program`.
    pub root: Option<PathBuf>,
    /// Decoded paths of files that are sent although their names are private.
    pub allow_files: Vec<NamePattern>,
    /// Absolute paths of the folders outside the root to which links below it may lead.
    pub link_targets: Vec<PathBuf>,
    /// The folders whose files only responses of the upstream may name.
    pub internal: Vec<InternalFolder>,
    /// Which siblings of a picture are sent in its place to clients that prefer their format.
    pub image_siblings: ImageSiblings,
    /// Whether stored pages are audited in the background.
    pub audit: bool,
    /// The memory for WordPress's object cache in bytes; `None`: there is none.
    pub object_cache: Option<u64>,
    /// The upstream that generates the site's pages.
    pub upstream: UpstreamConfig,
    /// The upstreams that rules name; `Rule::upstream` is an index into this list.
    pub further: Vec<UpstreamConfig>,
    /// The page for errors of the upstream: a readable file of at most [`MAX_ERROR_PAGE`] bytes.
    pub error_page: Option<PathBuf>,
    /// Pages for single statuses from 400 to 599.
    pub error_pages: Vec<(u16, PathBuf)>,
    /// The maximum size of a request body in bytes, unless a rule sets another.
    pub request_body: u64,
    /// The policy for requests and responses, with the options that are `true` or `false`.
    pub policy: Policy,
    /// How pages are compressed.
    pub compress: Compress,
    /// Whether pages are sent as the difference to a dictionary.
    pub dictionaries: bool,
    /// The file with the names and passwords for the site's dashboard; the path is in `policy`.
    pub dashboard_auth: Option<PathBuf>,
    /// The file with the token that gives access to this site in the admin API.
    pub token_file: Option<PathBuf>,
    /// Networks that may purge without a token.
    pub purge_allow: Vec<IpNet>,
    /// The file with the secret that permits purge requests from any address.
    pub purge_secret_file: Option<PathBuf>,
    /// The folder whose removal events purge the site.
    pub purge_directory: Option<PathBuf>,
    /// The folder with a file for each stored page, named as nginx names its cache files.
    pub nginx_cache_path: Option<PathBuf>,
    /// Caches of other machines to which purges are forwarded.
    pub purge_forward: Vec<PurgeForward>,
    /// How often Galley runs the site's scheduled tasks; `Off` if it cannot.
    pub cron: RunInterval,
    /// The minimum time between two pages for a proven crawler; `None`: that of `robots.txt`.
    pub crawl_delay: Option<RunInterval>,
    /// Protocols to which connections to the HTTP upstreams may switch, in lower case.
    pub upgrade: Vec<String>,
    /// Limits for the site's upstreams.
    pub limits: UpstreamLimits,
    /// How requests are distributed over several servers.
    pub balancing: LoadBalancing,
    /// How Galley runs PHP, for [`UpstreamConfig::Managed`].
    pub managed: ManagedPhp,
    /// Whether Galley obtains the site's certificate automatically.
    pub has_auto_tls: bool,
    /// A separate access log.
    pub access: Option<LogTarget>,
    /// A separate error log.
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

/// The name of the UDP socket of systemd that belongs to a TLS listener of systemd: that of `galley-quic.socket`.
const PASSED_QUIC: &str = "quic";

/// The maximum size of an error page, in bytes: Galley keeps it in memory.
pub const MAX_ERROR_PAGE: u64 = 256 << 10;

/// The maximum size of a token file, in bytes: the token must fit into a request head with all other fields.
pub const MAX_TOKEN_FILE: u64 = 4096;
