//! The arguments with which the admin thread is started.

use std::collections::HashMap;
use std::sync::Arc;

use galley_config::{AdminListen, Config};
use tokio::sync::mpsc;

use super::reload_result::{ControlRequest, LastReload};
use galley_fetch::Handle;
use galley_object_cache::Figures;
use galley_request::{Services, Site, Sites};
use galley_telemetry::access::AccessLog;
use galley_telemetry::counters::CounterReader;

/// The arguments of the admin thread.
pub struct AdminSpec {
    /// The current configuration.
    pub config: Arc<Config>,
    /// The address of the listener.
    pub listen: AdminListen,
    /// The server's token, which is valid for every site.
    pub token: Option<String>,
    /// All sites.
    pub sites: Arc<Vec<Arc<Site>>>,
    /// The services that all threads share.
    pub services: Arc<Services>,
    /// The counters of the front threads.
    pub counters: Vec<CounterReader>,
    /// The fetch threads.
    pub fetch_threads: Vec<Handle>,
    /// The access logs.
    pub logs: Vec<AccessLog>,
    /// Receives requests for reloads and upgrades.
    pub control: mpsc::Sender<ControlRequest>,
    /// The result of the last reload.
    pub last_reload: Arc<LastReload>,
    /// The URL and the sites of each listener.
    pub listeners: Vec<(String, Arc<Sites>)>,
    /// The counters of object caches, by the names of the sites.
    pub object_caches: HashMap<String, Arc<Figures>>,
}
