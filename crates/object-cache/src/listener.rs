//! The socket and the thread of the object cache.
//!
//! One thread owns all stores, so that no lock exists and no page waits for it. Every user of the machine may connect, as to the admin
//! socket; the token decides. Connections, message lengths, bytes on their way and idle times are bounded, and a user who has no token holds
//! a connection for a second at most.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use galley_sys::sockets;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{oneshot, watch};
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::site::ObjectCacheSite;
use crate::sites::{ObjectSites, PhpSession, SessionRefused};
use crate::wire::{MAX_MESSAGE, MAX_START};

/// The running object cache.
#[derive(Debug)]
pub struct ObjectCache {
    sites: watch::Sender<Vec<ObjectCacheSite>>,
    /// Dropping it ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
}

impl ObjectCache {
    /// Binds the socket, replacing an abandoned one, and starts the thread.
    pub fn start(socket: &Path, sites: Vec<ObjectCacheSite>) -> io::Result<Self> {
        let listener = bind(socket)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (sender, receiver) = watch::channel(sites);
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("object-cache".to_owned());
        let thread = thread.spawn(move || {
            galley_sys::raise_priority(TURN);
            let local = LocalSet::new();
            let serving = local.run_until(serve(listener, receiver));
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
            sites: sender,
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
    pub fn configure(&self, sites: Vec<ObjectCacheSite>) {
        self.sites.send_replace(sites);
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
    began: Instant,
    /// Connections by user.
    users: RefCell<HashMap<u32, usize>>,
    /// Bytes of large messages and answers on their way.
    receiving: RefCell<usize>,
}

async fn serve(
    listener: UnixListenerOfThread,
    mut configured: watch::Receiver<Vec<ObjectCacheSite>>,
) -> io::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    let mut store_id = [0; 8];
    rustix::rand::getrandom(&mut store_id, rustix::rand::GetRandomFlags::empty())?;
    let mut sites = ObjectSites::new(u64::from_le_bytes(store_id) >> 2);
    sites.configure(&configured.borrow_and_update());
    let shared = Rc::new(Shared {
        sites: RefCell::new(sites),
        began: Instant::now(),
        users: RefCell::default(),
        receiving: RefCell::default(),
    });
    loop {
        tokio::select! {
            biased;
            Ok(()) = configured.changed() => {
                let sites = configured.borrow_and_update().clone();
                shared.sites.borrow_mut().configure(&sites);
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
    let Ok(peer) = stream.peer_cred() else { return };
    let user = peer.uid();
    {
        let mut users = shared.users.borrow_mut();
        let count = users.entry(user).or_default();
        if *count >= MAX_OF_USER {
            return;
        }
        *count += 1;
    }
    let shared = Rc::clone(shared);
    tokio::task::spawn_local(async move {
        let mut session = PhpSession::default();
        // A lost connection needs no message: PHP sees it, and the session is closed below.
        let _ = talk(stream, &mut session, &shared).await;
        session.close(&mut shared.sites.borrow_mut());
        let mut users = shared.users.borrow_mut();
        if let Some(count) = users.get_mut(&user) {
            *count -= 1;
            if *count == 0 {
                users.remove(&user);
            }
        }
    });
}

async fn talk(mut stream: UnixStream, session: &mut PhpSession, shared: &Shared) -> io::Result<()> {
    let mut attempts = 0;
    loop {
        let started = session.has_started();
        let (patience, most, transfer) = if started {
            (MAX_IDLE, MAX_MESSAGE, MAX_TRANSFER)
        } else {
            (MAX_START_TIME, MAX_START, MAX_START_TIME)
        };
        if !started && attempts > START_ATTEMPTS {
            return Ok(());
        }
        attempts += usize::from(!started);
        let length = timeout(patience, stream.read_u32_le()).await??;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > most {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let receiving = Receiving::new(shared, length)?;
        let mut message = vec![0; length];
        timeout(transfer, stream.read_exact(&mut message)).await??;
        drop(receiving);
        if !started {
            // What other processes have sent until now comes first: they do not wait for all of it.
            tokio::task::yield_now().await;
        }
        let now = u64::try_from(shared.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let answer = session.receive(&mut shared.sites.borrow_mut(), &message, now);
        let answer =
            answer.map_err(|SessionRefused| io::Error::from(io::ErrorKind::InvalidData))?;
        drop(message);
        if !answer.is_empty() {
            // A process that does not read occupies it until the time is over.
            let _sending = Receiving::new(shared, answer.len())?;
            timeout(MAX_TRANSFER, stream.write_all(&answer)).await??;
        }
    }
}

/// The bytes of one message or answer in `Shared::receiving`.
struct Receiving<'a> {
    shared: &'a Shared,
    bytes: usize,
}

impl<'a> Receiving<'a> {
    /// Small messages are free, so that large ones of some processes never keep others from their values.
    fn new(shared: &'a Shared, bytes: usize) -> io::Result<Self> {
        let bytes = if bytes <= SMALL { 0 } else { bytes };
        let mut receiving = shared.receiving.borrow_mut();
        if *receiving + bytes > MAX_RECEIVING {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        *receiving += bytes;
        Ok(Self { shared, bytes })
    }
}

impl Drop for Receiving<'_> {
    fn drop(&mut self) {
        *self.shared.receiving.borrow_mut() -= self.bytes;
    }
}

/// The time slice of the thread, as for fetch threads: PHP waits for it, and it works for less than a millisecond at a time.
const TURN: Duration = Duration::from_micros(200);

/// Connections of one user: more than PHP-FPM usually has workers.
const MAX_OF_USER: usize = 512;

/// A process that is behind starts twice; a user without a token gets no more attempts either.
const START_ATTEMPTS: usize = 2;

/// With the limit of connections, all small messages together have at most 32 MiB for each user.
const SMALL: usize = 64 << 10;

/// Large messages and answers on their way, in bytes.
const MAX_RECEIVING: usize = 64 << 20;

/// The time in which a process has to show its token.
const MAX_START_TIME: Duration = Duration::from_secs(1);

/// The time for one message, or one answer. PHP gives up far earlier.
const MAX_TRANSFER: Duration = Duration::from_secs(5);

/// Programs of the command line may work for hours between two messages.
const MAX_IDLE: Duration = Duration::from_secs(24 * 3600);
