//! The admin thread: its listener, its routes, start and end.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use galley_config::AdminListen;
use tokio::sync::oneshot;

use super::gate::{self, MAX_BODY};
use super::health_problem::Beginnings;
use super::listener::ListenerSites;
use super::listings::Listings;
use super::site_dashboard::SiteDashboards;
use super::site_login::SiteLogins;
use super::socket::{AdminSocketAccess, bind_unix, set_access};
use super::spec::AdminSpec;
use super::state::{AdminProcessState, AdminShared, AdminState};
use super::{
    audit, cache, config, cron, health, history, metrics, not_cached, purge_list, purges, reload,
    status, upgrade, verdict, why,
};
use crate::doctor::RecentCounters;
use crate::operator_http::{self, OperatorLimits, OperatorListener};
use galley_request::{Site, Sites};
use galley_sys::Lock;

/// The admin thread; without a thread if the admin interface is off.
pub struct AdminThread {
    /// `None`: the admin interface is off.
    shared: Option<AdminShared>,
    address: Option<String>,
    /// A message stops accepting connections; dropping the sender ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    socket: Option<PathBuf>,
    /// A duplicate of the listener, for another process.
    listener: Option<AdminListener>,
    listen: AdminListen,
}

/// The listener of the previous process.
#[derive(Debug)]
pub struct InheritedAdmin {
    /// The address as in the configuration.
    pub listen: String,
    /// The socket.
    pub socket: OwnedFd,
}

impl AdminThread {
    /// The address: `unix:/path` or `http://address`.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref()
    }

    /// Applies another configuration. The listener stays the same.
    pub fn replace(&self, spec: AdminSpec) {
        let Some(shared) = &self.shared else { return };
        if let Some(socket) = &self.socket
            && let Err(error) = set_access(socket, access(&spec))
        {
            tracing::error!(%error, "cannot change the mode of the admin socket");
        }
        let process_state = Arc::clone(&shared.now().process_state);
        shared.replace(state(spec, process_state));
        history::begin(&shared.now());
    }

    /// The listener for another process.
    pub fn handed_over(&self) -> Option<AdminHandover<'_>> {
        let socket = match self.listener.as_ref()? {
            AdminListener::Tcp(listener) => listener.as_fd(),
            AdminListener::Unix(listener) => listener.as_fd(),
        };
        Some(AdminHandover {
            listen: self.listen.to_string(),
            socket,
        })
    }

    /// Stops accepting connections; the thread ends after the requests in progress. The socket's file stays for another process.
    pub fn retire(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended.
            let _ = stop.send(());
        }
        self.socket = None;
    }

    /// Serves again after [`AdminThread::retire`], on the same socket. Does nothing if it has not retired.
    pub fn resume(&mut self, spec: AdminSpec) -> io::Result<()> {
        let Some(listener) = self.listener.as_ref().filter(|_| self.stop.is_none()) else {
            return Ok(());
        };
        let socket = match listener.try_clone()? {
            AdminListener::Tcp(listener) => listener.into(),
            AdminListener::Unix(listener) => listener.into(),
        };
        let listen = self.listen.to_string();
        let before = InheritedAdmin { listen, socket };
        *self = start(spec, Some(before))?;
        Ok(())
    }

    /// The value for `listen = "off"`.
    fn none(listen: AdminListen) -> Self {
        Self {
            shared: None,
            address: None,
            stop: None,
            thread: None,
            socket: None,
            listener: None,
            listen,
        }
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

/// The listener of the admin interface, for another process.
pub struct AdminHandover<'a> {
    /// The address as in the configuration.
    pub listen: String,
    /// The socket.
    pub socket: BorrowedFd<'a>,
}

enum AdminListener {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

impl AdminListener {
    /// Uses the inherited listener if it has the same address, or opens a new one.
    fn open(spec: &AdminSpec, inherited: Option<InheritedAdmin>) -> io::Result<Option<Self>> {
        let inherited = inherited.filter(|before| before.listen == spec.listen.to_string());
        let inherited = inherited.map(|before| before.socket);
        let listener = match (&spec.listen, inherited) {
            (AdminListen::Off, _) => return Ok(None),
            (AdminListen::Tcp(_), Some(socket)) => Self::Tcp(socket.into()),
            (AdminListen::Tcp(address), None) => Self::Tcp(std::net::TcpListener::bind(address)?),
            (AdminListen::Unix(path), Some(socket)) => {
                set_access(path, access(spec))?;
                Self::Unix(socket.into())
            }
            (AdminListen::Unix(path), None) => Self::Unix(bind_unix(path, access(spec))?),
        };
        Ok(Some(listener))
    }

    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
        }
    }
}

/// Opens the listener, unless it was inherited, and starts the thread.
pub fn start(spec: AdminSpec, inherited: Option<InheritedAdmin>) -> io::Result<AdminThread> {
    let listen = spec.listen.clone();
    let Some(listener) = AdminListener::open(&spec, inherited)? else {
        return Ok(AdminThread::none(listen));
    };
    let (address, socket) = match (&listener, &listen) {
        (AdminListener::Tcp(listener), _) => (format!("http://{}", listener.local_addr()?), None),
        (AdminListener::Unix(_), AdminListen::Unix(path)) => {
            (format!("unix:{}", path.display()), Some(path.clone()))
        }
        (AdminListener::Unix(_), _) => (listen.to_string(), None),
    };
    let duplicate = listener.try_clone()?;
    let process_state = process_state(&spec);
    let shared = AdminShared::new(state(spec, process_state));
    history::begin(&shared.now());
    let (stop, stopped) = oneshot::channel();
    let thread = spawn(listener, shared.clone(), stopped)?;
    Ok(AdminThread {
        shared: Some(shared),
        address: Some(address),
        stop: Some(stop),
        thread: Some(thread),
        socket,
        listener: Some(duplicate),
        listen,
    })
}

fn spawn(
    listener: AdminListener,
    shared: AdminShared,
    stopped: oneshot::Receiver<()>,
) -> io::Result<JoinHandle<()>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let router = router(&shared);
    let dashboards = Arc::clone(&shared.now().services.dashboards);
    dashboards.open(SiteDashboards::new(
        runtime.handle().clone(),
        router.clone(),
        shared.clone(),
    ));
    let thread = std::thread::Builder::new().name("admin".to_owned());
    thread.spawn(move || {
        runtime.block_on(serve(listener, router, shared, stopped));
        // Breaks a reference cycle with the services: fetch threads end when the last reference to the services is dropped.
        dashboards.close();
    })
}

fn router(shared: &AdminShared) -> Router {
    Router::new()
        .route("/purge", post(purges::purge))
        .route("/audit", post(audit::begin).get(audit::report))
        .route("/cron", post(cron::announce))
        .route("/status", get(status::status))
        .route("/cache", get(cache::cache))
        .route("/config", get(config::config))
        .route("/history", get(history::history))
        .route("/not-cached", get(not_cached::not_cached))
        .route("/purges", get(purge_list::purges))
        .route("/metrics", get(metrics::metrics))
        .route("/why", post(why::why))
        .route("/why/batch", post(why::batch))
        .route("/reload", post(reload::reload))
        .route("/upgrade", post(upgrade::upgrade))
        .route("/livez", get(health::live))
        .route("/readyz", get(health::ready))
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(from_fn_with_state(shared.clone(), gate::authorized))
        .with_state(shared.clone())
}

/// The state that survives a reload.
fn process_state(spec: &AdminSpec) -> Arc<AdminProcessState> {
    Arc::new(AdminProcessState {
        history: Lock::default(),
        last_hour: Lock::new(RecentCounters::new(history::reading(&spec.services))),
        beginnings: Beginnings::default(),
        listings: Listings::default(),
        logins: SiteLogins::default(),
        ready_sites: tokio::sync::Mutex::default(),
        control: spec.control.clone(),
        last_reload: Arc::clone(&spec.last_reload),
    })
}

fn state(spec: AdminSpec, process_state: Arc<AdminProcessState>) -> AdminState {
    AdminState {
        config: spec.config,
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
        object_caches: spec.object_caches,
        process_state,
    }
}

fn hosts(sites: &Arc<Vec<Arc<Site>>>) -> Sites {
    let rows = sites.iter().enumerate();
    let rows = rows.flat_map(|(index, site)| {
        site.config
            .hosts
            .iter()
            .map(move |host| (host.clone(), index))
    });
    Sites::new(rows, Arc::clone(sites), Arc::default())
}

async fn serve(
    listener: AdminListener,
    router: Router,
    shared: AdminShared,
    stopped: oneshot::Receiver<()>,
) {
    let (retire, retired) = oneshot::channel();
    let ends = async {
        if stopped.await.is_err() {
            return;
        }
        let _ = retire.send(());
        // `listen` ends first, after the requests in progress.
        std::future::pending::<()>().await;
    };
    let result = tokio::select! {
        result = listen(listener, router, retired) => result,
        () = history::keep(&shared) => Ok(()),
        () = verdict::watch(&shared) => Ok(()),
        () = ends => Ok(()),
    };
    if let Err(error) = result {
        tracing::error!(%error, "the admin interface has stopped");
    }
}

/// Serves until `retired`, and then finishes the requests in progress.
async fn listen(
    listener: AdminListener,
    router: Router,
    retired: oneshot::Receiver<()>,
) -> io::Result<()> {
    let retired = async {
        if retired.await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let listener = match listener {
        AdminListener::Tcp(listener) => OperatorListener::tcp(listener)?,
        AdminListener::Unix(listener) => OperatorListener::unix(listener)?,
    };
    let limits = OperatorLimits {
        connections: operator_http::max_connections(galley_sys::raise_descriptor_limit()),
        response_time: Some(RESPONSE_TIME),
    };
    operator_http::serve(listener, limits, router, retired).await
}

fn access(spec: &AdminSpec) -> AdminSocketAccess {
    let has_token = spec.token.is_some() || spec.sites.iter().any(|site| site.token.is_some());
    if has_token {
        AdminSocketAccess::Tokens
    } else {
        AdminSocketAccess::Own
    }
}

/// How long a client may take to read a response. `GET /cache` and `GET /metrics` of a large server have some megabytes.
const RESPONSE_TIME: Duration = Duration::from_secs(60);
