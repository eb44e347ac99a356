//! Runs a planned configuration on a loopback port, next to the current server, and compares pages.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::compare::PageComparison;
use super::fetch::{PageSummary, ServerEndpoint, fetch_page};
use super::plan::{SetupPlan, SiteDraft};

/// A running Galley for a test. Killed when this is dropped.
#[derive(Debug)]
pub struct TestInstance {
    child: Child,
    listeners: TrialListeners,
    _folder: tempfile::TempDir,
}

/// The listeners of the test instance.
#[derive(Clone, Copy, Debug, Default)]
struct TrialListeners {
    plain: Option<SocketAddr>,
    tls: Option<SocketAddr>,
}

/// The reason why a test failed.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The folder cannot be created, or the program cannot be started.
    #[error("the test does not start: {0}")]
    Start(#[from] std::io::Error),
    /// The server ended; contains its output.
    #[error("Galley does not start with this configuration:\n{0}")]
    Ended(String),
    /// A request of the test failed.
    #[error("{0}")]
    Fetch(String),
}

impl TestInstance {
    /// Starts a plan, as `user` if this process is root.
    pub async fn start(plan: &SetupPlan, user: Option<&str>) -> Result<Self, TrialError> {
        Self::run(&plan.trial(user)).await
    }

    /// Starts a configuration that listens only on loopback ports.
    pub async fn run(configuration: &str) -> Result<Self, TrialError> {
        let folder = tempfile::Builder::new().prefix("galley-setup-").tempdir()?;
        // The user needs access to the sockets of a managed PHP.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o711))?;
        let file = folder.path().join("galley.toml");
        fs::write(&file, configuration)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg("run")
            .arg("--config")
            .arg(&file)
            .env("RUNTIME_DIRECTORY", folder.path())
            .env_remove("LISTEN_FDS")
            .env_remove("NOTIFY_SOCKET")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let ready = tokio::time::timeout(START_TIMEOUT, ready(&mut child)).await;
        let listeners = ready.unwrap_or_else(|_| {
            Err(TrialError::Ended(format!(
                "it is not ready within {START_TIMEOUT:?}"
            )))
        })?;
        Ok(Self {
            child,
            listeners,
            _folder: folder,
        })
    }

    /// The endpoint for requests to a site, depending on whether its visitors use `https`.
    pub fn endpoint(&self, is_https: bool) -> ServerEndpoint {
        ServerEndpoint {
            // `ready` has waited for this listener.
            address: self.plain().unwrap_or(NOWHERE),
            is_tls: false,
            is_forwarded_https: is_https,
        }
    }

    /// The first listener without TLS.
    pub fn plain(&self) -> Option<SocketAddr> {
        self.listeners.plain
    }

    /// The first listener with TLS.
    pub fn tls(&self) -> Option<SocketAddr> {
        self.listeners.tls
    }

    /// Ends the server and its PHP.
    pub async fn stop(mut self) {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        if let Some(pid) = id.and_then(Pid::from_raw) {
            // Not reaped yet, so the id has not been reused.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let _ = tokio::time::timeout(STOP_TIMEOUT, self.child.wait()).await;
    }
}

/// Reads the server's output until it is ready; a task continues to read afterwards, so that the server never blocks on its output.
async fn ready(child: &mut Child) -> Result<TrialListeners, TrialError> {
    let Some(errors) = child.stderr.take() else {
        return Err(TrialError::Ended(String::new()));
    };
    let mut lines = BufReader::new(errors).lines();
    let mut listeners = TrialListeners::default();
    let mut log: Vec<String> = Vec::new();
    while let Some(line) = lines.next_line().await? {
        let address = |start: &str| {
            let (_, text) = line.split_once(start)?;
            text.trim_end_matches('/').parse().ok()
        };
        listeners.plain = listeners.plain.or_else(|| address("listening on http://"));
        listeners.tls = listeners.tls.or_else(|| address("listening on https://"));
        match listeners.plain {
            Some(_) if line == "galley: ready" => {
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(listeners);
            }
            _ => log.push(line),
        }
        if log.len() > MAX_LINES {
            log.remove(0);
        }
    }
    Err(TrialError::Ended(log.join("\n")))
}

async fn fetched(
    server: ServerEndpoint,
    host: &str,
    path: &str,
) -> Result<PageSummary, TrialError> {
    fetch_page(server, host, path)
        .await
        .map_err(TrialError::Fetch)
}

/// Compares pages of a site: the front page, pages that it links to, the login, a file, and a page that does not exist.
pub async fn compare_pages(
    site: &SiteDraft,
    current: Option<ServerEndpoint>,
    galley: ServerEndpoint,
) -> Result<Vec<PageComparison>, TrialError> {
    let host = site.host();
    let mut paths = vec!["/".to_owned()];
    let mut compared = Vec::new();
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        next += 1;
        let now = match current {
            Some(current) => Some(fetched(current, host, &path).await?),
            None => None,
        };
        let then = fetched(galley, host, &path).await?;
        if path == "/" {
            paths.extend(now.as_ref().unwrap_or(&then).links.iter().cloned());
            let has_file = |path: &&&str| site.root.join(path.trim_start_matches('/')).is_file();
            let further = FURTHER.iter().chain(FILES.iter().find(has_file));
            paths.extend(further.map(|path| (*path).to_owned()));
        }
        compared.push(PageComparison {
            host: host.to_owned(),
            path,
            current: now,
            galley: then,
        });
    }
    Ok(compared)
}

const FURTHER: &[&str] = &[
    "/wp-login.php",
    "/galley-setup-looks-for-a-page-that-does-not-exist/",
];

/// Files of WordPress, of which the first existing one is requested.
const FILES: &[&str] = &[
    "/wp-includes/js/wp-embed.min.js",
    "/wp-includes/css/buttons.min.css",
];

/// An address without a listener.
const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

const START_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_LINES: usize = 30;
