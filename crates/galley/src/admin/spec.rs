//! The arguments with which the admin thread is started.

use std::sync::Arc;

use galley_config::{AdminListen, Config};
use tokio::sync::mpsc;

use super::reload_result::{ControlRequest, LastReload};
use crate::fetch::Handle;
use crate::request::{Services, Site, Sites};
use crate::telemetry::access::AccessLog;
use crate::telemetry::counters::CounterReader;

/// What the admin thread is started with.
pub struct AdminSpec {
    /// The current configuration.
    pub config: Arc<Config>,
    /// Its address.
    pub listen: AdminListen,
    /// The token that reaches every site.
    pub token: Option<String>,
    /// All sites.
    pub sites: Arc<Vec<Arc<Site>>>,
    /// Shared services.
    pub services: Arc<Services>,
    /// The front cores' counters.
    pub counters: Vec<CounterReader>,
    /// The fetch threads.
    pub fetch_threads: Vec<Handle>,
    /// The access logs.
    pub logs: Vec<AccessLog>,
    /// Where reloads and upgrades are ordered.
    pub control: mpsc::Sender<ControlRequest>,
    /// What became of the last.
    pub last_reload: Arc<LastReload>,
    /// The URL of each listener, and the sites that are reached there.
    pub listeners: Vec<(String, Arc<Sites>)>,
}
