//! Where a site's pages come from: PHP, another program, or HTTP servers, and the limits on requests to them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// What generates a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UpstreamConfig {
    /// FastCGI servers that Galley does not run; never empty.
    Php(Vec<PhpServer>),
    /// PHP-FPM that Galley runs.
    Managed,
    /// Another FastCGI program that Galley runs.
    Program(Program),
    /// HTTP/1.1 servers; never empty.
    Http(Vec<HttpUpstream>),
    /// None: files below the root only.
    Files,
}

impl UpstreamConfig {
    /// Whether Galley runs it.
    pub fn is_managed(&self) -> bool {
        matches!(self, Self::Managed | Self::Program(_))
    }
}

/// A FastCGI program that takes its socket as standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its absolute path, then its arguments; never empty.
    pub command: Vec<String>,
    /// Processes; 0: from memory and cores.
    pub workers: usize,
}

/// Where PHP-FPM listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PhpAddress {
    /// A socket in the file system.
    Unix(PathBuf),
    /// `host:port`, with `[...]` around an IPv6 address.
    Tcp(String),
}

impl fmt::Display for PhpAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => f.write_str(address),
        }
    }
}

/// One FastCGI server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpServer {
    /// Its address.
    pub address: PhpAddress,
    /// Its part of the requests.
    pub share: ServerShare,
}

/// The part of the requests that one of several servers gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerShare {
    /// In proportion to the other servers; at least 1.
    pub weight: u32,
    /// Whether it gets requests only while all servers that are no backups are out.
    pub is_backup: bool,
    /// Requests at one time; `None`: as many as come.
    pub max: Option<usize>,
}

impl Default for ServerShare {
    fn default() -> Self {
        Self {
            weight: 1,
            is_backup: false,
            max: None,
        }
    }
}

/// How the requests of a site are spread over the servers of each of its upstreams.
#[derive(Clone, Debug)]
pub struct LoadBalancing {
    /// How a server is chosen.
    pub method: BalanceMethod,
    /// How long the weight of a server rises that has come back.
    pub slow_start: Duration,
    /// How servers are checked; `None`: only failed requests take one out.
    pub check: Option<HealthCheckConfig>,
}

/// How a server is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BalanceMethod {
    /// In turn, by weight.
    RoundRobin,
    /// The one with the fewest requests in progress, by weight.
    LeastConnections,
    /// By the client's address.
    Client,
    /// By the value of this cookie, else by the client's address.
    Cookie(String),
}

/// Requests that find out whether a server works.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheckConfig {
    /// The path that is requested.
    pub path: String,
    /// Between two checks.
    pub interval: Duration,
    /// For one check.
    pub timeout: Duration,
    /// Passed checks in succession that bring a server back.
    pub rise: u32,
    /// Failed checks in succession that take a server out.
    pub fall: u32,
    /// Statuses that pass; empty: 200 to 399.
    pub statuses: Vec<u16>,
}

/// One HTTP/1.1 upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUpstream {
    /// Name or address, canonical, with `[...]` around an IPv6 address.
    pub host: String,
    /// Port; 80, or 443 with TLS, where the file names none.
    pub port: u16,
    /// Whether Galley connects over TLS.
    pub tls: bool,
    /// Its part of the requests.
    pub share: ServerShare,
}

/// TLS towards upstreams.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// The name in their certificate; `None`: that of the URL.
    pub name: Option<String>,
    /// A file with the certificate authorities that Galley trusts for them; `None`: the system's.
    pub ca: Option<PathBuf>,
    /// Whether Galley verifies their certificates.
    pub verify: bool,
}

impl Default for UpstreamTls {
    fn default() -> Self {
        Self {
            name: None,
            ca: None,
            verify: true,
        }
    }
}

impl fmt::Display for HttpUpstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// Limits towards the upstreams of a site.
#[derive(Clone, Debug)]
pub struct UpstreamLimits {
    /// Requests at one time; 0 only with [`UpstreamConfig::Managed`] and [`UpstreamConfig::Program`]: as many as workers.
    pub in_flight: usize,
    /// Requests that may wait for a slot.
    pub queue: usize,
    /// How long one may wait for a slot.
    pub queue_timeout: Duration,
    /// How long a fetch may make no progress before Galley sends the next request for the page to the upstream.
    pub lock_age: Duration,
    /// Requests that may wait for one fetch.
    pub waiters: usize,
    /// How long a connection attempt may take.
    pub connect_timeout: Duration,
    /// From the last byte of the request to the first of the response.
    pub first_byte_timeout: Duration,
    /// Longest silence inside a response.
    pub read_timeout: Duration,
    /// What part of `in_flight` may be connections to an HTTP upstream that are kept without a request, in hundredths.
    pub idle_share: usize,
    /// How long such a connection is kept.
    pub idle_age: Duration,
}

/// PHP-FPM as Galley runs it.
#[derive(Clone, Debug)]
pub struct ManagedPhp {
    /// Workers; 0: from memory, cores and what a worker is seen to take.
    pub workers: usize,
    /// How long one request may take; at least the first byte's timeout.
    pub timeout: Duration,
    /// What a script may take, in bytes.
    pub memory_limit: Option<u64>,
    /// The user it runs as.
    pub user: Option<String>,
    /// The program; without it, it is looked for.
    pub binary: Option<PathBuf>,
    /// What it may reach; `None`: what its user may.
    pub sandbox: Option<PhpSandbox>,
    /// Bytes of memory above which the kernel slows all of it down.
    pub memory_high: Option<u64>,
    /// Its processes and those that they start.
    pub pids_max: Option<u64>,
}

/// What a PHP-FPM that Galley runs may reach, in addition to what every PHP needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpSandbox {
    /// Where it may write in the site's root, all of which it may read.
    pub writable: PhpWritable,
    /// Further files and folders that it may read and write.
    pub paths: Vec<PathBuf>,
    /// The TCP ports that it may connect to; `None`: all.
    pub connect_ports: Option<Vec<u16>>,
}

/// Which part of a site's root PHP may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhpWritable {
    /// All of it.
    Root,
    /// `wp-content`.
    Content,
}
