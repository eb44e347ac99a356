//! The running server: builds and connects its parts, handles signals, reloads, drains.
//!
//! The control thread (this one) owns what outlives a request: managed PHP, the log threads, the admin thread, and the
//! generation of front and fetch threads that serves the current configuration. It serves no requests itself, so load
//! cannot keep it from ending the process.

mod acme;
mod audit;
mod audit_counts;
mod build;
mod canary;
mod cluster;
mod confine;
mod connections;
mod control;
mod countries;
mod cron;
mod current;
mod differences;
mod durable;
mod generation;
mod health;
mod listeners;
mod logs;
mod maintenance;
mod object_cache;
mod open_listener;
mod other_users;
mod pacing;
mod php;
mod php_wanted;
mod pools;
mod predecessor;
mod preflight;
mod process_state;
mod purge_counts;
mod quic;
mod reach;
mod refusal;
mod retired;
mod run;
mod service_manager;
mod shared_limits;
mod signals;
mod site_states;
mod spools;
mod successor;
mod sweep;
mod tls;
mod tracing_export;
mod upgrade;
mod watch;

pub use self::acme::files as kept_certificates;
pub use self::other_users::sites_of_other_users;
pub use self::predecessor::Inheritance;
pub use self::preflight::{Preflight, RunningGalley, inspect};
pub use self::reach::addresses as upstream_addresses;
pub use self::refusal::{ServerStartError, of_php};
pub use self::run::run;
