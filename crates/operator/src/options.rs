//! The options of the commands `setup`, `import` and `plugin`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::admin_options::AdminOptions;

/// Without a file: those in the usual places below /etc.
#[derive(Args, Debug)]
pub struct ImportOptions {
    /// The main file of nginx, or one of its sites; repeatable
    #[arg(long, value_name = "FILE")]
    pub nginx: Vec<PathBuf>,
    /// A VCL file of Varnish; repeatable
    #[arg(long, value_name = "FILE")]
    pub varnish: Vec<PathBuf>,
    /// The main file of Apache, one of its sites, or a `.htaccess`; repeatable
    #[arg(long, value_name = "FILE")]
    pub apache: Vec<PathBuf>,
    /// A Caddyfile; repeatable
    #[arg(long, value_name = "FILE")]
    pub caddy: Vec<PathBuf>,
    /// Write the configuration to this new file [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// List every statement, not only those that were not carried
    #[arg(long)]
    pub all: bool,
    /// Run the old server and Galley side by side on loopback ports, and list what visitors would notice
    #[arg(long = "try")]
    pub is_try: bool,
    /// Compare the GET and HEAD requests of this access log, too
    #[arg(long, value_name = "ACCESS_LOG", requires = "is_try")]
    pub log: Option<PathBuf>,
    /// Compare the pages of this sitemap, too: a file, or a URL of the site
    #[arg(long, value_name = "FILE-OR-URL", requires = "is_try")]
    pub sitemap: Option<String>,
    /// Compare the pages that the front page leads to, too
    #[arg(long, requires = "is_try")]
    pub crawl: bool,
    /// Compare with this configuration of Galley [default: the new one]
    #[arg(long, value_name = "FILE", requires = "is_try")]
    pub draft: Option<PathBuf>,
    /// Print configuration and report, or the comparison, as JSON
    #[arg(long)]
    pub json: bool,
    /// A file of any of these servers
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
}

/// The commands of `galley plugin`.
#[derive(Debug, Subcommand)]
pub enum PluginCommand {
    /// Install or update the plugin in a WordPress, connect it with Galley and activate it
    Install(PluginOptions),
    /// Remove the plugin from a WordPress, with all its data
    Remove(RemoveOptions),
}

/// The options of `galley plugin install`.
#[derive(Args, Debug)]
pub struct PluginOptions {
    /// The WordPress folder, which contains wp-load.php
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// The running server.
    #[command(flatten)]
    pub admin: AdminOptions,
    /// The configured site of this WordPress, by its name or one of its hosts [default: the site with this root]
    #[arg(long, value_name = "NAME")]
    pub site: Option<String>,
    /// Also install the object cache: wp-content/object-cache.php, unless another plugin has one
    #[arg(long)]
    pub object_cache: bool,
    /// Print the actions as JSON on stdout
    #[arg(long)]
    pub json: bool,
}

/// The options of `galley plugin remove`.
#[derive(Args, Debug)]
pub struct RemoveOptions {
    /// The WordPress folder, which contains wp-load.php
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Print the actions as JSON on stdout
    #[arg(long)]
    pub json: bool,
}

/// The options of `galley setup`.
#[derive(Args, Debug)]
pub struct SetupOptions {
    /// Only the WordPress in this folder; repeatable [default: every WordPress that is found]
    #[arg(long, value_name = "DIR")]
    pub wordpress: Vec<PathBuf>,
    /// The configuration file to write
    #[arg(long, value_name = "FILE", default_value = "/etc/galley/galley.toml")]
    pub output: PathBuf,
    /// Where Galley listens [default: port 80, or 127.0.0.1:8080 while another server has that]
    #[arg(long, value_name = "ADDRESS", conflicts_with = "take_over")]
    pub listen: Option<std::net::SocketAddr>,
    /// The PHP-FPM of the sites, `unix:/path` or `host:port` [default: the one that the running server uses, else a pool]
    #[arg(long, value_name = "ADDRESS")]
    pub php: Option<String>,
    /// Certificates: those that are found, automatic ones, or none
    #[arg(long, value_name = "WHICH", default_value = "found")]
    pub tls: TlsOption,
    /// Stop and disable this service, and give its ports to Galley; repeatable
    #[arg(long, value_name = "UNIT")]
    pub take_over: Vec<String>,
    /// Do not install the WordPress plugin
    #[arg(long)]
    pub no_plugin: bool,
    /// Do not start Galley
    #[arg(long)]
    pub no_service: bool,
    /// Do not test the configuration beside the running server
    #[arg(long)]
    pub no_test: bool,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
    /// Print the configuration and change nothing
    #[arg(long, conflicts_with = "undo")]
    pub dry_run: bool,
    /// Restore the state before the first run
    #[arg(long)]
    pub undo: bool,
    /// Print the result as JSON on stdout
    #[arg(long)]
    pub json: bool,
}

/// Which certificates `galley setup` configures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TlsOption {
    /// Those of certbot or of the running server
    Found,
    /// Galley obtains them
    Auto,
    /// None
    Off,
}
