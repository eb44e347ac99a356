//! The operator's door: purge orders and questions, on a listener and a thread of its own.
//!
//! It runs where load cannot starve it. On a unix socket the kernel says who connects: the server's own user and root need no
//! token. Everybody else does, and on a TCP listener everybody. The server's token reaches every site, a site's token only that
//! site. While there is no token at all, others cannot even connect to the socket.

mod auth;
mod bodies;
mod cache;
mod certificates;
mod cron;
mod disk;
mod entry;
mod history;
mod http2;
mod listener;
mod load;
mod metrics;
mod php;
mod purges;
mod query;
mod status;
mod target;
mod text;
mod tls;
mod why;

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{get, post};
use galley_config::AdminListen;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

use self::auth::AdminPeer;
use self::listener::ListenerSites;
use crate::doctor::RecentCounters;
use crate::fetch::Handle;
use crate::request::{Services, Site, Sites};
use crate::sys::sockets;
use crate::telemetry::access::AccessLog;
use crate::telemetry::counters::CounterReader;
use crate::telemetry::history::History;

/// What the admin thread is started with.
pub struct AdminSpec {
    /// Where it listens.
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
    /// The URL of each listener, and the sites that are reached there.
    pub listeners: Vec<(String, Arc<Sites>)>,
}

/// What the handlers see.
struct AdminState {
    token: Option<String>,
    sites: Arc<Vec<Arc<Site>>>,
    /// The same by host, of all listeners together.
    hosts: Sites,
    /// The same by listener and host.
    listeners: Vec<ListenerSites>,
    services: Arc<Services>,
    counters: Vec<CounterReader>,
    fetch_threads: Vec<Handle>,
    logs: Vec<AccessLog>,
    /// One for each site, in their order; written by [`history::keep`].
    history: Mutex<Vec<History>>,
    /// Counters of the kernel and the spool over the last hour; written by [`history::keep`].
    last_hour: Mutex<RecentCounters>,
    listings: cache::Listings,
}

/// The admin thread, or nothing where it is off.
pub struct AdminThread {
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
    let state = Arc::new(AdminState {
        history: Mutex::new(history::begin(&spec)),
        last_hour: Mutex::new(RecentCounters::new(history::reading(&spec.services))),
        token: spec.token,
        hosts: hosts(&spec.sites),
        listeners: spec.listeners.into_iter().map(ListenerSites::new).collect(),
        sites: spec.sites,
        services: spec.services,
        counters: spec.counters,
        fetch_threads: spec.fetch_threads,
        logs: spec.logs,
        listings: cache::Listings::default(),
    });
    let router = Router::new()
        .route("/purge", post(purges::purge))
        .route("/cron", post(cron::announce))
        .route("/status", get(status::status))
        .route("/cache", get(cache::cache))
        .route("/history", get(history::history))
        .route("/metrics", get(metrics::metrics))
        .route("/why", post(why::why))
        .layer(DefaultBodyLimit::max(MOST_BODY))
        .with_state(Arc::clone(&state));
    let (stop, stopped) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let thread = std::thread::Builder::new()
        .name("admin".to_owned())
        .spawn(move || runtime.block_on(serve(door, router, state, stopped)))?;
    Ok(AdminThread {
        address: Some(address),
        stop: Some(stop),
        thread: Some(thread),
        socket,
    })
}

fn hosts(sites: &Arc<Vec<Arc<Site>>>) -> Sites {
    let rows = sites.iter().enumerate();
    let rows =
        rows.flat_map(|(index, site)| site.hosts.iter().map(move |host| (host.clone(), index)));
    Sites::new(rows, Arc::clone(sites), Arc::default())
}

async fn serve(
    door: AdminListener,
    router: Router,
    state: Arc<AdminState>,
    stopped: oneshot::Receiver<()>,
) {
    let result = tokio::select! {
        result = listen(door, router) => result,
        () = history::keep(&state) => Ok(()),
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

/// Who may connect to a unix socket; what they may then do is decided by [`auth`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Openness {
    /// The server's own user and root.
    Own,
    /// Everybody: there are tokens to come in with, and PHP usually runs as another user.
    Tokens,
}

fn openness(spec: &AdminSpec) -> Openness {
    let has_token = spec.token.is_some() || spec.sites.iter().any(|site| site.token.is_some());
    if has_token {
        Openness::Tokens
    } else {
        Openness::Own
    }
}

/// Binds a socket in place of one that a dead server left behind.
fn bind_unix(path: &Path, openness: Openness) -> io::Result<std::os::unix::net::UnixListener> {
    if let Some(folder) = path.parent() {
        private_folder(folder)?;
    }
    if sockets::is_abandoned(path)? {
        std::fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    let mode = match openness {
        Openness::Own => 0o600,
        Openness::Tokens => 0o666,
    };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
    Ok(listener)
}

/// Makes a folder that others may walk through and neither list nor write to, so that the socket's own mode decides. One that
/// exists must belong to this user, since it may lie below `/tmp`.
fn private_folder(folder: &Path) -> io::Result<()> {
    if !folder.exists() {
        return std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(folder);
    }
    is_trusted(folder, rustix::process::geteuid().as_raw())
}

/// Whether the user with this number may put its socket here, as far as can be seen without doing it.
///
/// Errors: somebody answers there, a file is in the way, or the folder is another user's.
pub fn is_free(path: &Path, uid: u32) -> io::Result<()> {
    match path.parent() {
        Some(folder) if folder.exists() => is_trusted(folder, uid)?,
        _ => {}
    }
    sockets::is_abandoned(path).map(drop)
}

fn is_trusted(folder: &Path, uid: u32) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let owner = std::fs::symlink_metadata(folder)?.uid();
    if owner == uid || owner == 0 {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        "its folder belongs to another user",
    ))
}

/// Bytes of an order: thousands of addresses.
const MOST_BODY: usize = 1024 * 1024;
