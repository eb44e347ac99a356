//! The front door: a PHP-FPM, or another program, that runs from [`Managed::start`] to [`Managed::stop`], however often it dies.
//!
//! One task owns the master and the files, watches it and starts it again. It ends when it is told to, or when
//! [`Managed`] is dropped; if the runtime is torn down under it, dropping the master kills what is there.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use super::backoff::Backoff;
use super::master::{Master, Plan};
use super::numbers::{Numbers, count};
use super::pool::{self, Pool};
use super::program;
use super::watch::{Post, Size, Watch};
use super::{PhpSettings, StartError, binary, modules};

/// A PHP-FPM or another FastCGI program of our own.
#[derive(Debug)]
pub struct Managed {
    socket: PathBuf,
    most: usize,
    numbers: Arc<Numbers>,
    life: watch::Receiver<Life>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

/// Where it stands; anyone may watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The socket accepts connections.
    Running {
        /// Process id of the master; of a program, of the process that watches over it.
        master: u32,
    },
    /// The master died; another is started after a pause.
    Restarting,
    /// Stopped.
    Ended,
}

impl Managed {
    /// Writes the pool's configuration, starts PHP-FPM or the program and returns when its socket accepts. Later deaths are
    /// logged and mended without further ado. Dropped midway, nothing is left. Call within a tokio runtime that lives as long.
    pub async fn start(settings: PhpSettings) -> Result<Managed, StartError> {
        if !settings.command.is_empty() {
            return program::start(settings).map(Self::of_program);
        }
        let Prepared { plan, post, most } = prepare(settings)?;
        let (master, lacks) =
            tokio::join!(Master::start(&plan), modules::lacks(Some(&plan.binary)));
        let master = master?;
        // It runs, so what it does not tell cannot be serious.
        for lack in lacks.unwrap_or_default() {
            tracing::warn!(site = plan.site, "{lack}");
        }
        let numbers = Arc::clone(&plan.numbers);
        tracing::info!(
            site = plan.site,
            pid = master.pid(),
            program = %plan.binary.display(),
            places = numbers.places().load(std::sync::atomic::Ordering::Relaxed),
            share_mib = post.budget.share >> 20,
            opcache_mib = post.budget.opcache >> 20,
            memory_limit_mib = post.memory_limit >> 20,
            "php-fpm is running"
        );
        let socket = plan.socket.clone();
        let (life_tx, life) = watch::channel(Life::Running {
            master: master.pid(),
        });
        let (stop, stopped) = oneshot::channel();
        let watch = Watch::new(post, Arc::clone(&numbers));
        let task = tokio::spawn(supervise(plan, master, watch, (life_tx, stopped)));
        Ok(Managed {
            socket,
            most,
            numbers,
            life,
            stop,
            task,
        })
    }

    fn of_program(running: program::Running) -> Self {
        Managed {
            socket: running.socket,
            most: running.workers,
            numbers: running.numbers,
            life: running.life,
            stop: running.stop,
            task: running.task,
        }
    }

    /// The unix socket; the same for the whole life. While the master is down, connecting to it fails.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Worker processes at most. How many requests it may work at is [`Numbers::places`].
    pub fn most_workers(&self) -> usize {
        self.most
    }

    /// What is known of it.
    pub fn numbers(&self) -> Arc<Numbers> {
        Arc::clone(&self.numbers)
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

/// Runs until the second of `ends` is sent or dropped.
async fn supervise(
    plan: Plan,
    first: Master,
    mut watch: Watch,
    ends: (watch::Sender<Life>, oneshot::Receiver<()>),
) {
    let (life, mut stop) = ends;
    let site = plan.site.as_str();
    let mut backoff = Backoff::new();
    let mut master = first;
    loop {
        let since = Instant::now();
        let pid = master.pid();
        let status = tokio::select! {
            status = master.ended() => status,
            never = watch.run(pid) => match never {},
            _ = &mut stop => {
                master.end().await;
                break;
            }
        };
        count(&plan.numbers.restarts);
        watch.forget();
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

/// What it takes to start and to watch.
struct Prepared {
    plan: Plan,
    post: Post,
    /// Workers at most.
    most: usize,
}

/// Makes the directory and writes the configuration. A few small files at start, so plain blocking calls.
fn prepare(settings: PhpSettings) -> Result<Prepared, StartError> {
    let binary = settings
        .binary
        .clone()
        .or_else(binary::find)
        .ok_or(StartError::NoBinary)?;
    let directory = directory(&settings)?;
    let (config, socket) = (
        directory.path().join("fpm.conf"),
        directory.path().join(SOCKET),
    );
    let budget = settings.budget;
    let (size, places, most) = match settings.workers {
        0 => (Size::Measured, budget.places_at_start(), budget.ceiling()),
        named => (Size::Named(named), named, named),
    };
    let memory_limit = settings
        .memory_limit
        .unwrap_or_else(|| budget.memory_limit());
    // The directory's name is random already.
    let page = format!("/galley-status-{}", file_name_of(directory.path()));
    let text = pool::text(&Pool {
        socket: &socket,
        size,
        ceiling: most,
        page: &page,
        user: user(&settings),
        request_body: settings.request_body,
        memory_limit,
        first_byte_timeout: settings.first_byte_timeout,
        timeout: settings.timeout,
    })?;
    std::fs::write(&config, text).map_err(|source| StartError::Files {
        path: config.clone(),
        source,
    })?;
    let post = Post {
        site: settings.site_name.clone(),
        socket: socket.clone(),
        page,
        size,
        budget,
        memory_limit,
    };
    let plan = Plan {
        binary,
        arguments: pool::arguments(budget.opcache),
        directory,
        config,
        socket,
        root: settings.root,
        site: settings.site_name,
        numbers: Arc::new(Numbers::new(places, budget.share)),
    };
    Ok(Prepared { plan, post, most })
}

/// Whom the workers run as, where it can be chosen.
pub(super) fn user(settings: &PhpSettings) -> Option<&str> {
    settings
        .user
        .as_deref()
        .or(Some(DEFAULT_USER))
        .filter(|_| rustix::process::geteuid().is_root())
}

/// A directory for the socket and what belongs to it.
///
/// It is new each time, with a random name and for us alone: a PHP-FPM that is still ending (of a Galley that
/// was killed, or of the configuration before a reload) removes its own socket, never ours.
pub(super) fn directory(settings: &PhpSettings) -> Result<tempfile::TempDir, StartError> {
    let files = |path: &Path| {
        let path = path.to_owned();
        |source| StartError::Files { path, source }
    };
    std::fs::create_dir_all(&settings.runtime_dir).map_err(files(&settings.runtime_dir))?;
    let runtime_dir = settings
        .runtime_dir
        .canonicalize()
        .map_err(files(&settings.runtime_dir))?;
    tempfile::Builder::new()
        .prefix(&format!("php-{}-", file_name(&settings.site_name)))
        .permissions(std::fs::Permissions::from_mode(0o700))
        .tempdir_in(&runtime_dir)
        .map_err(files(&runtime_dir))
}

fn file_name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.chars().filter(char::is_ascii_alphanumeric).collect()
}

/// The socket of the PHP-FPM that some Galley runs for a site, by the name that its folder has.
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
        .map(|folder| folder.path().join(SOCKET))
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

/// In its directory; also in the watcher's script.
const SOCKET: &str = "fpm.sock";

/// Debian's and Alpine's user for web content.
const DEFAULT_USER: &str = "www-data";
