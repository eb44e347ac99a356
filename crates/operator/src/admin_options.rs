//! Options with which several commands find the running server.

use std::path::PathBuf;

use clap::Args;

/// How to find the running server.
#[derive(Args, Debug)]
pub struct AdminOptions {
    /// The running server's configuration file [default: /etc/galley/galley.toml]
    #[arg(long, value_name = "FILE", conflicts_with = "admin")]
    pub config: Option<PathBuf>,
    /// The running server's admin interface: `unix:/path` or `http://address:port`
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<String>,
    /// File with the admin token [default: the configuration's]
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}
