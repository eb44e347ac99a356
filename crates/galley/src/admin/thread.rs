//! The admin thread: its listener, its routes, its start and its end.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use galley_config::AdminListen;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

use super::auth::AdminPeer;
use super::listener::ListenerSites;
use super::listings::Listings;
use super::socket::{Openness, bind_unix, set_openness};
use super::spec::AdminSpec;
use super::state::{AdminLasting, AdminShared, AdminState};
use super::{
    cache, cron, health, history, metrics, not_cached, purge_list, purges, reload, status, why,
};
use crate::doctor::RecentCounters;
use crate::request::{Site, Sites};

/// The admin thread, or nothing where it is off.
pub struct AdminThread {
    /// `None` where it is off.
    shared: Option<AdminShared>,
    address: Option<String>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    socket: Option<PathBuf>,
}

impl AdminThread {
    /// `unix:/path` or `http://address`.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Shows another configuration from now on. Its listener stays where it is.
    pub fn replace(&self, spec: AdminSpec) {
        let Some(shared) = &self.shared else { return };
        if let Some(socket) = &self.socket
            && let Err(error) = set_openness(socket, openness(&spec))
        {
            tracing::error!(%error, "the mode of the admin socket cannot be changed");
        }
        let lasting = Arc::clone(&shared.now().lasting);
        shared.replace(state(spec, lasting));
        history::begin(&shared.now());
    }

    /// Ends the thread and removes the socket.
    pub fn end(mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        if let Some(socket) = self.socket.take() {
            let _ = std::fs::remove_file(socket);
        }
    }
}

enum AdminListener {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

/// Opens the listener and starts the thread.
pub fn start(spec: AdminSpec) -> io::Result<AdminThread> {
    let (door, address, socket) = match &spec.listen {
        AdminListen::Off => {
            return Ok(AdminThread {
                shared: None,
                address: None,
                stop: None,
                thread: None,
                socket: None,
            });
        }
        AdminListen::Tcp(address) => {
            let listener = std::net::TcpListener::bind(address)?;
            let bound = listener.local_addr()?;
            (
                AdminListener::Tcp(listener),
                format!("http://{bound}"),
                None,
            )
        }
        AdminListen::Unix(path) => (
            AdminListener::Unix(bind_unix(path, openness(&spec))?),
            format!("unix:{}", path.display()),
            Some(path.clone()),
        ),
    };
    let lasting = Arc::new(AdminLasting {
        history: Mutex::default(),
        last_hour: Mutex::new(RecentCounters::new(history::reading(&spec.services))),
        listings: Listings::default(),
        ready_sites: tokio::sync::Mutex::default(),
        control: spec.control.clone(),
        last_reload: Arc::clone(&spec.last_reload),
    });
    let shared = AdminShared::new(state(spec, lasting));
    history::begin(&shared.now());
    let router = Router::new()
        .route("/purge", post(purges::purge))
        .route("/cron", post(cron::announce))
        .route("/status", get(status::status))
        .route("/cache", get(cache::cache))
        .route("/history", get(history::history))
        .route("/not-cached", get(not_cached::not_cached))
        .route("/purges", get(purge_list::purges))
        .route("/metrics", get(metrics::metrics))
        .route("/why", post(why::why))
        .route("/why/batch", post(why::batch))
        .route("/reload", post(reload::reload))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .with_state(shared.clone());
    let (stop, stopped) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let thread = std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn({
            let shared = shared.clone();
            move || runtime.block_on(serve(door, router, shared, stopped))
        })?;
    Ok(AdminThread {
        shared: Some(shared),
        address: Some(address),
        stop: Some(stop),
        thread: Some(thread),
        socket,
    })
}

fn state(spec: AdminSpec, lasting: Arc<AdminLasting>) -> AdminState {
    AdminState {
        token: spec.token,
        hosts: hosts(&spec.sites),
        listeners: spec
            .listeners
            .into_iter()
            .map(|(url, sites)| ListenerSites::new(url, &sites))
            .collect(),
        sites: spec.sites,
        services: spec.services,
        counters: spec.counters,
        fetch_threads: spec.fetch_threads,
        logs: spec.logs,
        lasting,
    }
}

fn hosts(sites: &Arc<Vec<Arc<Site>>>) -> Sites {
    let rows = sites.iter().enumerate();
    let rows =
        rows.flat_map(|(index, site)| site.hosts.iter().map(move |host| (host.clone(), index)));
    Sites::new(rows, Arc::clone(sites), Arc::default())
}

async fn serve(
    listener: AdminListener,
    router: Router,
    shared: AdminShared,
    stopped: oneshot::Receiver<()>,
) {
    let result = tokio::select! {
        result = listen(listener, router) => result,
        () = history::keep(&shared) => Ok(()),
        _ = stopped => Ok(()),
    };
    if let Err(error) = result {
        tracing::error!(%error, "the admin interface ended");
    }
}

async fn listen(door: AdminListener, router: Router) -> io::Result<()> {
    match door {
        AdminListener::Tcp(listener) => {
            listener.set_nonblocking(true)?;
            let router = router.into_make_service_with_connect_info::<AdminPeer>();
            axum::serve(TcpListener::from_std(listener)?, router).await
        }
        AdminListener::Unix(listener) => {
            listener.set_nonblocking(true)?;
            let router = router.into_make_service_with_connect_info::<AdminPeer>();
            axum::serve(UnixListener::from_std(listener)?, router).await
        }
    }
}

fn openness(spec: &AdminSpec) -> Openness {
    let has_token = spec.token.is_some() || spec.sites.iter().any(|site| site.token.is_some());
    if has_token {
        Openness::Tokens
    } else {
        Openness::Own
    }
}

/// Bytes of an order: thousands of addresses.
const MOST_BODY: usize = 1024 * 1024;
