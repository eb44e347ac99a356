//! The sources of a site's pages: PHP, another program, or HTTP servers, and the limits on requests to them.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// An upstream that generates pages.
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
    /// No upstream, only files below the root.
    Files,
}

impl UpstreamConfig {
    /// Whether Galley runs the upstream.
    pub fn is_managed(&self) -> bool {
        matches!(self, Self::Managed | Self::Program(_))
    }
}

/// A FastCGI program that gets its socket as standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The absolute path of the program and its arguments; never empty.
    pub command: Vec<String>,
    /// The number of processes; 0: derived from memory and cores.
    pub workers: usize,
}

/// The address of PHP-FPM.
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

/// A FastCGI server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpServer {
    /// The address of the server.
    pub address: PhpAddress,
    /// The share of the requests.
    pub share: ServerShare,
}

/// The share of the requests that one of several servers gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerShare {
    /// The weight relative to the other servers; at least 1.
    pub weight: u32,
    /// Whether the server gets requests only while all servers that are not backups are down.
    pub is_backup: bool,
    /// The maximum number of concurrent requests; `None`: no limit.
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

/// How the requests of a site are distributed over the servers of each upstream.
#[derive(Clone, Debug)]
pub struct LoadBalancing {
    /// How a server is chosen.
    pub method: BalanceMethod,
    /// How long the weight of a server increases after it has recovered.
    pub slow_start: Duration,
    /// Health checks; `None`: only failed requests mark a server as down.
    pub check: Option<HealthCheckConfig>,
}

/// How a server is chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BalanceMethod {
    /// Servers in turn, by weight.
    RoundRobin,
    /// The server with the fewest requests in progress, by weight.
    LeastConnections,
    /// By the client's address.
    Client,
    /// By the value of this cookie, otherwise by the client's address.
    Cookie(String),
}

/// Health checks: requests that test whether a server works.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthCheckConfig {
    /// The requested path.
    pub path: String,
    /// The time between two checks.
    pub interval: Duration,
    /// The timeout of one check.
    pub timeout: Duration,
    /// The number of successive passed checks after which a server is up.
    pub rise: u32,
    /// The number of successive failed checks after which a server is down.
    pub fall: u32,
    /// The statuses of a passed check; empty: 200 to 399.
    pub statuses: Vec<u16>,
}

/// An HTTP/1.1 upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUpstream {
    /// The name or address, canonical, with `[...]` around an IPv6 address.
    pub host: String,
    /// The port; if the file names none, 80, or 443 with TLS.
    pub port: u16,
    /// Whether Galley connects over TLS.
    pub tls: bool,
    /// The share of the requests.
    pub share: ServerShare,
}

/// TLS for upstreams.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamTls {
    /// The name in the upstreams' certificate; `None`: that of the URL.
    pub name: Option<String>,
    /// A file with the trusted certificate authorities; `None`: those of the system.
    pub ca: Option<PathBuf>,
    /// Whether Galley verifies the upstreams' certificates.
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

/// Limits for the upstreams of a site.
#[derive(Clone, Copy, Debug)]
pub struct UpstreamLimits {
    /// The maximum number of concurrent requests; 0 only with [`UpstreamConfig::Managed`] and [`UpstreamConfig::Program`]: the
    /// number of workers.
    pub in_flight: usize,
    /// The maximum number of requests that wait for a slot.
    pub queue: usize,
    /// The maximum time that a request waits for a slot.
    pub queue_timeout: Duration,
    /// The maximum time without progress of a fetch before Galley sends the next request for the page to the upstream.
    pub lock_age: Duration,
    /// The maximum number of requests that wait for one fetch.
    pub waiters: usize,
    /// The timeout of a connection attempt.
    pub connect_timeout: Duration,
    /// The maximum time from the last byte of the request to the first of the response.
    pub first_byte_timeout: Duration,
    /// The maximum time between two reads of a response.
    pub read_timeout: Duration,
    /// The percentage of `in_flight` that may be idle connections to an HTTP upstream.
    pub idle_share: usize,
    /// How long an idle connection is kept.
    pub idle_age: Duration,
}

/// A PHP-FPM that Galley runs.
#[derive(Clone, Debug)]
pub struct ManagedPhp {
    /// The number of workers; 0: derived from memory, cores and the measured size of a worker.
    pub workers: usize,
    /// The maximum time for one request; at least the timeout of the first byte.
    pub timeout: Duration,
    /// The memory limit of a script, in bytes.
    pub memory_limit: Option<u64>,
    /// The user that runs PHP-FPM.
    pub user: Option<String>,
    /// The program; `None`: Galley searches for it.
    pub binary: Option<PathBuf>,
    /// The sandbox; `None`: PHP has all permissions of its user.
    pub sandbox: Option<PhpSandbox>,
    /// The total memory in bytes above which the kernel throttles PHP-FPM.
    pub memory_high: Option<u64>,
    /// The maximum number of processes, including those that PHP starts.
    pub pids_max: Option<u64>,
}

/// The permissions of a PHP-FPM that Galley runs, in addition to those that every PHP needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PhpSandbox {
    /// The part of the site's root that PHP may write. It may read all of it.
    pub writable: PhpWritable,
    /// Additional files and folders that PHP may read and write.
    pub paths: Vec<PathBuf>,
    /// The TCP ports to which PHP may connect; `None`: all.
    pub connect_ports: Option<Vec<u16>>,
}

/// The part of a site's root that PHP may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhpWritable {
    /// The whole root.
    Root,
    /// `wp-content`.
    Content,
}
