//! The front door: a PHP-FPM that runs from [`Managed::start`] to [`Managed::stop`], however often its master dies.
//!
//! One task owns the master and the files, watches it and starts it again. It ends when it is told to, or when
//! [`Managed`] is dropped; if the runtime is torn down under it, dropping the master kills what is there.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::backoff::Backoff;
use super::master::{Master, Plan};
use super::pool::{self, Pool};
use super::{PhpSettings, StartError, binary, size};

/// A PHP-FPM of our own.
#[derive(Debug)]
pub struct Managed {
    socket: PathBuf,
    workers: usize,
    life: watch::Receiver<Life>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Where it stands; anyone may watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The socket accepts connections.
    Running {
        /// Process id of the master.
        master: u32,
    },
    /// The master died; another is started after a pause.
    Restarting,
    /// Stopped.
    Ended,
}

impl Managed {
    /// Writes the pool's configuration, starts PHP-FPM and returns when its socket accepts. Later deaths are logged and
    /// mended without further ado. Dropped midway, nothing is left. Call within a tokio runtime that lives as long.
    pub async fn start(settings: PhpSettings) -> Result<Managed, StartError> {
        let workers = size::workers(settings.workers);
        let plan = prepare(settings, workers)?;
        let master = Master::start(&plan).await?;
        tracing::info!(site = plan.site, workers, pid = master.pid(), program = %plan.binary.display(), "php-fpm is running");
        let socket = plan.socket.clone();
        let (life_tx, life) = watch::channel(Life::Running {
            master: master.pid(),
        });
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(supervise(plan, master, life_tx, stopped));
        Ok(Managed {
            socket,
            workers,
            life,
            stop,
            task,
        })
    }

    /// The unix socket; the same for the whole life. While the master is down, connecting to it fails.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Worker processes, hence requests at a time.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Whether it runs, to be read or waited on.
    pub fn life(&self) -> watch::Receiver<Life> {
        self.life.clone()
    }

    /// Ends it and returns when all its processes and files are gone: at once when no request is running, after 12 s at
    /// most. Close kept connections first, since a worker does not leave one that is open. Dropped midway, the end goes on.
    pub async fn stop(self) {
        // The task may have ended by itself only if it panicked; then the master has been killed.
        let _ = self.stop.send(());
        if let Err(error) = self.task.await {
            tracing::error!("supervising php-fpm failed: {error}");
        }
    }
}

/// Runs until `stop` is sent or dropped.
async fn supervise(
    plan: Plan,
    first: Master,
    life: watch::Sender<Life>,
    mut stop: oneshot::Receiver<()>,
) {
    let site = plan.site.as_str();
    let mut backoff = Backoff::new();
    let mut master = first;
    loop {
        let since = Instant::now();
        let status = tokio::select! {
            status = master.ended() => status,
            _ = &mut stop => {
                master.end().await;
                break;
            }
        };
        life.send_replace(Life::Restarting);
        match status {
            Ok(status) => tracing::warn!(site, "php-fpm ended ({status}); it is started again"),
            Err(error) => tracing::warn!(
                site,
                "php-fpm cannot be waited for ({error}); it is started again"
            ),
        }
        master.bury().await;
        // Stopping wins over a start that is under way, which leaves nothing when it is dropped.
        master = tokio::select! {
            master = again(&plan, &mut backoff, since.elapsed()) => master,
            _ = &mut stop => break,
        };
        tracing::info!(site, pid = master.pid(), "php-fpm is running again");
        life.send_replace(Life::Running {
            master: master.pid(),
        });
    }
    tracing::info!(site, "php-fpm has ended");
    // The directory goes before anybody hears of the end.
    drop(plan);
    life.send_replace(Life::Ended);
}

/// Tries until one runs; the pauses grow.
async fn again(plan: &Plan, backoff: &mut Backoff, mut lived: Duration) -> Master {
    loop {
        tokio::time::sleep(backoff.pause(lived)).await;
        match Master::start(plan).await {
            Ok(master) => return master,
            Err(error) => {
                let cause = std::error::Error::source(&error)
                    .map(|cause| format!(": {cause}"))
                    .unwrap_or_default();
                tracing::error!(
                    site = plan.site,
                    "php-fpm cannot be started again: {error}{cause}"
                );
            }
        }
        lived = Duration::ZERO;
    }
}

/// Makes the directory and writes the configuration. A few small files at start, so plain blocking calls.
///
/// The directory is new each time, with a random name and for us alone: a PHP-FPM that is still ending (of a Galley that
/// was killed, or of the configuration before a reload) removes its own socket, never ours.
fn prepare(settings: PhpSettings, workers: usize) -> Result<Plan, StartError> {
    let binary = settings
        .binary
        .or_else(binary::find)
        .ok_or(StartError::NoBinary)?;
    let files = |path: &Path| {
        let path = path.to_owned();
        |source| StartError::Files { path, source }
    };
    std::fs::create_dir_all(&settings.runtime_dir).map_err(files(&settings.runtime_dir))?;
    let runtime_dir = settings
        .runtime_dir
        .canonicalize()
        .map_err(files(&settings.runtime_dir))?;
    let directory = tempfile::Builder::new()
        .prefix(&format!("php-{}-", file_name(&settings.site_name)))
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(&runtime_dir)
        .map_err(files(&runtime_dir))?;
    let (config, socket) = (
        directory.path().join("fpm.conf"),
        directory.path().join("fpm.sock"),
    );
    let user = settings
        .user
        .as_deref()
        .or(Some(DEFAULT_USER))
        .filter(|_| rustix::process::geteuid().is_root());
    let text = pool::text(&Pool {
        socket: &socket,
        workers,
        user,
        request_body: settings.request_body,
    })?;
    std::fs::write(&config, text).map_err(files(&config))?;
    Ok(Plan {
        binary,
        directory,
        config,
        socket,
        root: settings.root,
        site: settings.site_name,
    })
}

/// The socket of the PHP-FPM that some Galley runs for a site, by what [`prepare`] calls it.
pub fn socket_of(runtime_dir: &Path, site: &str) -> Option<PathBuf> {
    let prefix = format!("php-{}-", file_name(site));
    let folders = std::fs::read_dir(runtime_dir).ok()?.filter_map(Result::ok);
    folders
        .filter(|folder| {
            folder
                .file_name()
                .to_str()
                .is_some_and(|name| name.starts_with(&prefix))
        })
        .map(|folder| folder.path().join("fpm.sock"))
        .find(|socket| socket.exists())
}

/// A site's name as a part of a file name: short, and without odd characters (`*`, `[::1]`).
fn file_name(site: &str) -> String {
    site.chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '-') {
                c
            } else {
                '_'
            }
        })
        .take(24)
        .collect()
}

/// Debian's and Alpine's user for web content.
const DEFAULT_USER: &str = "www-data";
