//! The admin interface: purges and queries, on a separate listener and thread.
//!
//! The separate thread keeps it available under load. On a unix socket the kernel identifies the client: the server's own user and
//! root need no token. Other users do, and so do all clients of a TCP listener. The server's token is valid for every site, a
//! site's token only for that site. If no token is configured, other users cannot even connect to the socket.
//!
//! [`start()`] starts the thread from an [`AdminSpec`]; [`AdminThread`] ends it. [`operator_http`] bounds what each client may use;
//! [`doctor`] checks the machine.
//!
//! This crate never serves a visitor's request, never shows a secret, and changes nothing on the machine.

mod audit;
mod auth;
mod bodies;
mod cache;
mod certificates;
mod cluster;
mod config;
mod cron;
mod disk;
mod disk_problems;
pub mod doctor;
mod dry_run;
mod entry;
mod families;
mod gate;
mod health;
mod health_problem;
mod history;
mod http2;
mod listener;
mod listings;
mod load;
mod metrics;
mod not_cached;
mod objects;
pub mod operator_http;
mod php;
mod plugin_problem;
mod purge_forward;
mod purge_list;
mod purges;
mod query;
mod reload;
mod reload_result;
mod site_counters;
mod site_dashboard;
mod site_login;
mod socket;
mod spec;
mod state;
mod status;
mod target;
mod text;
mod thread;
mod tls;
mod upgrade;
mod verdict;
mod why;

pub use self::reload_result::{
    ControlRequest, LastReload, OptionChange, ReloadAction, ReloadError, ReloadReport,
    ReloadRequest, ReloadResult, UpgradeError, UpgradeReport, UpgradeResult,
};
pub use self::socket::is_free;
pub use self::spec::AdminSpec;
use self::state::{AdminShared, AdminState};
pub use self::thread::{AdminThread, InheritedAdmin, start};
