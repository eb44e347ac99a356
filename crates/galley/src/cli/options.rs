//! The command line's options.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

pub(super) use galley_operator::AdminOptions;
use galley_operator::{ImportOptions, LoadOptions, PluginCommand, SetupOptions};

/// The web server for WordPress.
#[derive(Debug, Parser)]
#[command(name = "galley", version, about, max_term_width = 100)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Start the server
    Run(RunOptions),
    /// Read the configuration and report every error in it
    Check(CheckOptions),
    /// Make the running server read its configuration again
    Reload(ReloadOptions),
    /// Replace the running server with the installed version, without downtime
    Upgrade(UpgradeOptions),
    /// Purge pages from the cache of a running server
    Purge(PurgeOptions),
    /// Generate all stored pages again, and purge and list those that are out of date
    Audit(AuditOptions),
    /// Show whether visitors are served, and the state of the running server
    Status(StatusOptions),
    /// Show a running server in the browser
    Dashboard(DashboardOptions),
    /// Explain how a running server would handle a request, without sending it to PHP
    Why(WhyOptions),
    /// Show the lists of good crawlers, or tell whether a client is one
    Crawlers(CrawlersOptions),
    /// Find problems of the machine, of PHP and of WordPress
    Doctor(DoctorOptions),
    /// Find the WordPress of this machine, and set Galley up for it
    Setup(SetupOptions),
    /// Convert the configuration of nginx, Varnish, Apache or Caddy, and report every statement
    Import(ImportOptions),
    /// Load-test your site and find its capacity
    Load(Box<LoadOptions>),
    /// Install the WordPress plugin, or remove it
    #[command(subcommand)]
    Plugin(PluginCommand),
    /// Keep root for a Galley that has given it up, which starts this itself
    #[command(hide = true)]
    Privileged(PrivilegedOptions),
}

/// Without any: the process that keeps root. With both: from root to the program of a pool.
#[derive(Args, Debug)]
pub(super) struct PrivilegedOptions {
    /// Which pool of the plan
    #[arg(requires = "place")]
    pub(super) pool: Option<usize>,
    /// Which of its processes
    pub(super) place: Option<usize>,
}

#[derive(Args, Debug)]
pub(super) struct RunOptions {
    /// Configuration file [default: /etc/galley/galley.toml]
    #[arg(long, value_name = "FILE", conflicts_with = "root")]
    pub(super) config: Option<PathBuf>,
    /// Serve this WordPress folder on port 8080 without a configuration file; Galley runs PHP
    #[arg(long, value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
    /// With --root: another address than 0.0.0.0:8080
    #[arg(long, value_name = "ADDRESS", requires = "root")]
    pub(super) listen: Option<std::net::SocketAddr>,
}

#[derive(Args, Debug)]
pub(super) struct CheckOptions {
    /// Configuration file [default: /etc/galley/galley.toml]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print what a reload would change about the running server
    #[arg(long)]
    pub(super) diff: bool,
    /// Print the findings as JSON on stdout
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct ReloadOptions {
    #[command(flatten)]
    pub(super) admin: AdminOptions,
    /// Print the result as JSON on stdout
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct UpgradeOptions {
    #[command(flatten)]
    pub(super) admin: AdminOptions,
    /// Print the result as JSON on stdout
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct PurgeOptions {
    #[command(flatten)]
    pub(super) admin: AdminOptions,
    /// Only this site, by its name or one of its hosts [default: the URL's site, else all]
    #[arg(long, value_name = "NAME")]
    pub(super) site: Option<String>,
    #[command(flatten)]
    pub(super) what: PurgeSelection,
    /// Serve the old page while PHP generates the new one
    #[arg(long)]
    pub(super) soft: bool,
    /// Print the response as JSON on stdout
    #[arg(long)]
    pub(super) json: bool,
}

/// At least one of these is needed; each but `--all` may be given several times.
#[derive(Args, Debug)]
#[group(required = true, multiple = true)]
pub(super) struct PurgeSelection {
    /// Every page
    #[arg(long)]
    pub(super) all: bool,
    /// One page, by its URL
    #[arg(long, value_name = "URL")]
    pub(super) url: Vec<String>,
    /// Every page with this tag
    #[arg(long, value_name = "TAG")]
    pub(super) tag: Vec<String>,
    /// Every page at this path and below it
    #[arg(long, value_name = "PATH")]
    pub(super) prefix: Vec<String>,
    /// Every page whose path and query match this regular expression
    #[arg(long, value_name = "REGEX")]
    pub(super) pattern: Vec<String>,
}

#[derive(Args, Debug)]
pub(super) struct WhyOptions {
    #[command(flatten)]
    pub(super) admin: AdminOptions,
    /// The URL, as a browser shows it
    #[arg(value_name = "URL")]
    pub(super) url: String,
    /// A header of the request; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(super) headers: Vec<String>,
    /// The site, by its name, one of its hosts or its listener (`192.0.2.1:8080`), if several sites have the URL's host
    #[arg(long, value_name = "SITE")]
    pub(super) site: Option<String>,
    /// The request method
    #[arg(long, value_name = "METHOD", default_value = "GET")]
    pub(super) method: String,
    /// The client's address [default: this machine's]
    #[arg(long, value_name = "ADDRESS")]
    pub(super) from: Option<std::net::IpAddr>,
    /// Print the result as JSON on stdout
    #[arg(long)]
    pub(super) json: bool,
}

/// Exit code 0: no page was out of date; 1: some were; 2: an error.
#[derive(Args, Debug)]
pub(super) struct AuditOptions {
    #[command(flatten)]
    pub(super) admin: AdminOptions,
    /// Only this site, by its name or one of its hosts [default: all]
    #[arg(long, value_name = "NAME")]
    pub(super) site: Option<String>,
    /// Print the results as JSON on stdout
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct StatusOptions {
    #[command(flatten)]
    pub(super) admin: AdminOptions,
    /// Exit with 1 only if visitors get errors or the server does not respond, for the health check of a container
    #[arg(long, conflicts_with = "json")]
    pub(super) serving: bool,
    /// Print the result as JSON on stdout
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct DashboardOptions {
    #[command(flatten)]
    pub(super) admin: AdminOptions,
    /// The port on 127.0.0.1 where the dashboard listens [default: a free one]
    #[arg(
        long,
        value_name = "PORT",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub(super) port: u16,
    /// Print the address and open no browser
    #[arg(long)]
    pub(super) no_open: bool,
}

/// Exit code 0: the lists are in order, and the client is a proven crawler; 1: it is not; 2: wrong usage or configuration.
#[derive(Args, Debug)]
pub(super) struct CrawlersOptions {
    /// A client's address, from the access log
    #[arg(value_name = "ADDRESS")]
    pub(super) address: Option<std::net::IpAddr>,
    /// The client's `User-Agent`: looks up the name of the address if it names a crawler, and shows the sites' `crawler_rules` for it
    #[arg(long, value_name = "TEXT")]
    pub(super) agent: Option<String>,
    /// Configuration file [default: /etc/galley/galley.toml]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print the result as JSON on stdout
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Args, Debug)]
pub(super) struct DoctorOptions {
    /// Configuration file [default: /etc/galley/galley.toml]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print the findings as JSON on stdout
    #[arg(long)]
    pub(super) json: bool,
    /// Where the machine's `/proc` and `/run` lie
    #[arg(long, value_name = "DIR", default_value = "/", hide = true)]
    pub(super) machine: PathBuf,
}
