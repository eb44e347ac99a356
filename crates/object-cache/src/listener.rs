//! The socket and the thread of the object cache.
//!
//! One thread owns all stores, so that no lock exists and no page waits for it. Every user of the machine may connect, as to the admin
//! socket; the token decides. Connections, message lengths, bytes on their way and idle times are bounded, for each site, so that no site
//! takes them from another; a user who has no token holds a connection for a second at most.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::Hash;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use galley_sys::sockets;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::announcement::OtherNodes;
use crate::site::ObjectCacheSettings;
use crate::sites::{NodeState, ObjectSites, PhpSession, SessionRefused};
use crate::wire::{MAX_MESSAGE, MAX_START};

/// The running object cache.
#[derive(Debug)]
pub struct ObjectCache {
    settings: watch::Sender<ObjectCacheSettings>,
    /// Dropping it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
}

/// A change of another node: the site, and the announcement; `None`: changes may be missing.
pub type RemoteChange = Option<(String, Vec<u8>)>;

/// Applies changes of other nodes. Clones share it.
#[derive(Clone, Debug)]
pub struct RemoteChanges(mpsc::Sender<RemoteBatch>);

type RemoteBatch = (Vec<RemoteChange>, oneshot::Sender<()>);

impl RemoteChanges {
    /// Applies changes. When this returns, nobody reads the former values any more. Blocks for a moment; not for use in tasks.
    pub fn apply(&self, changes: Vec<RemoteChange>) {
        let (done, wait) = oneshot::channel();
        // Without the thread, no values exist.
        if self.0.blocking_send((changes, done)).is_ok() {
            let _ = wait.blocking_recv();
        }
    }
}

impl ObjectCache {
    /// Binds the socket, replacing an abandoned one, and starts the thread. `nodes`: those of the cluster, if there is one.
    pub fn start(
        socket: &Path,
        settings: ObjectCacheSettings,
        nodes: Option<Arc<dyn OtherNodes>>,
    ) -> io::Result<Self> {
        let listener = bind(socket)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (sender, receiver) = watch::channel(settings);
        let (remote, changes) = mpsc::channel(MAX_BATCHES);
        let remote = RemoteChanges(remote);
        if let Some(nodes) = &nodes {
            nodes.connect(remote);
        }
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("object-cache".to_owned());
        let thread = thread.spawn(move || {
            galley_sys::raise_priority(TURN);
            let local = LocalSet::new();
            let serving = local.run_until(serve(listener, receiver, changes, nodes));
            runtime.block_on(async {
                tokio::select! {
                    result = serving => {
                        if let Err(error) = result {
                            tracing::error!(%error, "the object cache has stopped: WordPress works without it until a restart");
                        }
                    }
                    // Nothing is ever sent: the channel closes.
                    _ = stopped => {}
                }
            });
        })?;
        Ok(Self {
            settings: sender,
            stop: Some(stop),
            thread: Some(thread),
            socket: socket.to_owned(),
        })
    }

    /// The path of the socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Sets the sites. Sites that stay keep their values.
    pub fn configure(&self, settings: ObjectCacheSettings) {
        self.settings.send_replace(settings);
    }

    /// Closes all connections and drops all values. After this no process gets an acknowledgement from here.
    pub fn end(mut self) {
        self.close();
    }

    fn close(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the object cache ended in a panic");
        }
    }
}

impl Drop for ObjectCache {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.close();
        }
    }
}

fn bind(path: &Path) -> io::Result<UnixListenerOfThread> {
    if sockets::is_abandoned(path)? {
        std::fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

type UnixListenerOfThread = std::os::unix::net::UnixListener;

/// What all connections share. Only the thread of the object cache has it.
struct Shared {
    sites: RefCell<ObjectSites>,
    nodes: Option<Arc<dyn OtherNodes>>,
    began: Instant,
    /// Connections that have shown no token, by user.
    unknown: Counts<u32>,
    /// Connections that have, by site.
    started: Counts<String>,
    /// Bytes of large messages and answers on their way, by site.
    moving: Counts<String>,
}

type Counts<K> = RefCell<HashMap<K, usize>>;

impl Shared {
    /// What is known of the other nodes now.
    fn node_state(&self) -> NodeState {
        match &self.nodes {
            None => NodeState::None,
            Some(nodes) if nodes.is_current() => NodeState::Current,
            Some(_) => NodeState::Behind,
        }
    }

    /// Counts the bytes of a message or an answer. Small ones are free, so that large ones never keep anybody from small values.
    fn moves(&self, site: Option<&str>, bytes: usize) -> io::Result<Option<Counted<'_, String>>> {
        if bytes <= SMALL {
            return Ok(None);
        }
        let all: usize = self.moving.borrow().values().sum();
        let site = site.unwrap_or_default().to_owned();
        let counted = Counted::new(&self.moving, site, bytes, MAX_MOVING_OF_SITE);
        let counted = counted.filter(|_| all + bytes <= MAX_MOVING);
        counted
            .map(Some)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }
}

/// A part of a sum that has a limit.
struct Counted<'a, K: Eq + Hash> {
    counts: &'a Counts<K>,
    key: K,
    count: usize,
}

impl<'a, K: Eq + Hash + Clone> Counted<'a, K> {
    fn new(counts: &'a Counts<K>, key: K, count: usize, most: usize) -> Option<Self> {
        let mut sums = counts.borrow_mut();
        let sum = sums.get(&key).copied().unwrap_or_default() + count;
        if sum > most {
            return None;
        }
        sums.insert(key.clone(), sum);
        drop(sums);
        Some(Self { counts, key, count })
    }
}

impl<K: Eq + Hash> Drop for Counted<'_, K> {
    fn drop(&mut self) {
        let mut sums = self.counts.borrow_mut();
        if let Some(sum) = sums.get_mut(&self.key) {
            *sum -= self.count;
            if *sum == 0 {
                sums.remove(&self.key);
            }
        }
    }
}

async fn serve(
    listener: UnixListenerOfThread,
    mut configured: watch::Receiver<ObjectCacheSettings>,
    mut remote: mpsc::Receiver<RemoteBatch>,
    nodes: Option<Arc<dyn OtherNodes>>,
) -> io::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    let mut store_id = [0; 8];
    rustix::rand::getrandom(&mut store_id, rustix::rand::GetRandomFlags::empty())?;
    let mut sites = ObjectSites::new(u64::from_le_bytes(store_id) >> 2);
    sites.configure(&configured.borrow_and_update());
    let shared = Rc::new(Shared {
        sites: RefCell::new(sites),
        nodes,
        began: Instant::now(),
        unknown: Counts::default(),
        started: Counts::default(),
        moving: Counts::default(),
    });
    loop {
        tokio::select! {
            biased;
            Ok(()) = configured.changed() => {
                shared.sites.borrow_mut().configure(&configured.borrow_and_update());
            }
            Some((changes, done)) = remote.recv() => {
                let mut sites = shared.sites.borrow_mut();
                for change in &changes {
                    sites.apply(change.as_ref().map(|(site, bytes)| (&**site, &**bytes)));
                }
                // The reader of the stream may have ended.
                let _ = done.send(());
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => accept(stream, &shared),
                // Too many descriptors: those who wait get a chance to leave.
                Err(error) => {
                    tracing::warn!(%error, "the object cache cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
}

fn accept(stream: UnixStream, shared: &Rc<Shared>) {
    let shared = Rc::clone(shared);
    tokio::task::spawn_local(async move {
        let mut session = PhpSession::default();
        // A lost connection needs no message: PHP sees it, and the session is closed below.
        let _ = talk(stream, &mut session, &shared).await;
        let closed = session.close(&mut shared.sites.borrow_mut());
        if let (Some((site, announcement)), Some(nodes)) = (closed, &shared.nodes) {
            // The process is gone: nobody waits.
            drop(nodes.announce(&site, announcement));
        }
    });
}

async fn talk(mut stream: UnixStream, session: &mut PhpSession, shared: &Shared) -> io::Result<()> {
    let refused = |SessionRefused| io::Error::from(io::ErrorKind::InvalidData);
    let full = || io::Error::from(io::ErrorKind::ResourceBusy);
    let user = stream.peer_cred()?.uid();
    let unknown = Counted::new(&shared.unknown, user, 1, MAX_UNKNOWN).ok_or_else(full)?;
    let (mut unknown, mut started) = (Some(unknown), None);
    for attempt in 0_usize.. {
        let (patience, most, transfer) = if session.has_started() {
            (MAX_IDLE, MAX_MESSAGE, MAX_TRANSFER)
        } else if attempt > START_ATTEMPTS {
            break;
        } else {
            (MAX_START_TIME, MAX_START, MAX_START_TIME)
        };
        let length = timeout(patience, stream.read_u32_le()).await??;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let receiving = shared.moves(session.site(), length)?;
        let mut message = vec![0; length];
        timeout(transfer, stream.read_exact(&mut message)).await??;
        drop(receiving);
        let now = u64::try_from(shared.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let answer = {
            let mut sites = shared.sites.borrow_mut();
            sites.set_nodes(shared.node_state());
            session
                .receive(&mut sites, &message, now)
                .map_err(refused)?
        };
        drop(message);
        if let (None, Some(site)) = (&started, session.site()) {
            let counted = Counted::new(&shared.started, site.to_owned(), 1, MAX_OF_SITE);
            started = Some(counted.ok_or_else(full)?);
            unknown = None;
        }
        if let (Some(announcement), Some(nodes)) = (answer.announcement, &shared.nodes)
            && !nodes
                .announce(session.site().unwrap_or_default(), announcement)
                .await
        {
            // Not acknowledged: the process raises the fence.
            return Err(io::ErrorKind::TimedOut.into());
        }
        if !answer.bytes.is_empty() {
            // A process that does not read occupies it until the time is over.
            let _sending = shared.moves(session.site(), answer.bytes.len())?;
            timeout(MAX_TRANSFER, stream.write_all(&answer.bytes)).await??;
        }
    }
    drop((unknown, started));
    Ok(())
}

/// The time slice of the thread, as for fetch threads: PHP waits for it, and it works for less than a millisecond at a time.
const TURN: Duration = Duration::from_micros(200);

/// Connections of one user that have shown no token. PHP shows it at once.
const MAX_UNKNOWN: usize = 256;

/// Connections of one site: more than PHP-FPM usually has workers.
const MAX_OF_SITE: usize = 512;

/// A process that is behind starts twice; a user without a token gets no more attempts either.
const START_ATTEMPTS: usize = 2;

/// With the limit of connections, all small messages together have at most 32 MiB for each site.
const SMALL: usize = 64 << 10;

/// Large messages and answers of a site on their way, in bytes: the longest message and the longest answer.
const MAX_MOVING_OF_SITE: usize = 24 << 20;

/// Those of all sites.
const MAX_MOVING: usize = 128 << 20;

/// Batches of changes of other nodes that wait: only the thread that reads the stream sends them, and it waits.
const MAX_BATCHES: usize = 4;

/// The time in which a process has to show its token.
const MAX_START_TIME: Duration = Duration::from_secs(1);

/// The time for one message, or one answer. PHP gives up far earlier.
const MAX_TRANSFER: Duration = Duration::from_secs(5);

/// Programs of the command line may work for hours between two messages.
const MAX_IDLE: Duration = Duration::from_secs(24 * 3600);

#[cfg(test)]
mod tests;
