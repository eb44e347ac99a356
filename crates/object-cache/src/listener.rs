//! The socket and the thread of the object cache.
//!
//! One thread owns all stores, so that no lock exists and no page waits for it. Every user of the machine may connect, as to the admin
//! socket; the token decides. Connections, message lengths, bytes on their way and idle times are bounded, for each site, so that no site
//! takes them from another; a user who has no token holds a connection for a second at most.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use galley_sys::{memory_file, sockets};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::task::LocalSet;

use crate::announcement::{OtherNodes, RemoteBatch, RemoteChanges};
use crate::connection::{
    Limits, MAX_MOVING, MAX_MOVING_OF_SITE, MAX_OF_SITE, MAX_UNKNOWN, Shared, TalkEnd, talk,
};
use crate::site::ObjectCacheSettings;
use crate::sites::{ObjectSites, PhpSession};

/// The running object cache.
#[derive(Debug)]
pub struct ObjectCache {
    settings: watch::Sender<ObjectCacheSettings>,
    /// Dropping it ends the thread; what is sent gets the state.
    stop: Option<oneshot::Sender<oneshot::Sender<ObjectHandover>>>,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
}

/// The state of the object cache, for the process that takes over in an upgrade.
#[derive(Debug)]
pub struct ObjectHandover {
    /// A sealed file in memory.
    pub state: OwnedFd,
    /// The socket, on which new processes of PHP wait.
    pub listener: OwnedFd,
    /// The connections of processes, in the order of the state.
    pub processes: Vec<OwnedFd>,
}

impl ObjectCache {
    /// Binds the socket, replacing an abandoned one, and starts the thread. `nodes`: those of the cluster, if there is one. `before`: a
    /// process that may hand over its object cache, which has the socket until then.
    pub fn start(
        socket: &Path,
        settings: ObjectCacheSettings,
        nodes: Option<Arc<dyn OtherNodes>>,
        before: Option<oneshot::Receiver<ObjectHandover>>,
    ) -> io::Result<Self> {
        let start = match before {
            Some(before) => ListenerStart::After(before, socket.to_owned()),
            None => ListenerStart::Bound(bind(socket)?),
        };
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
            let result = runtime.block_on(LocalSet::new().run_until(async {
                let mut inputs = Inputs {
                    configured: receiver,
                    remote: changes,
                };
                run(start, &mut inputs, nodes, stopped).await
            }));
            if let Err(error) = result {
                tracing::error!(%error, "the object cache has stopped: WordPress works without it until a restart");
            }
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

    /// Ends without closing the connections. `None`: a process is in the middle of a message, so the values are lost.
    pub fn hand_over(mut self) -> Option<ObjectHandover> {
        let (reply, mut handover) = oneshot::channel();
        // The thread may have ended.
        let _ = self.stop.take()?.send(reply);
        self.join();
        // The thread has ended, so it waits for nothing.
        handover.try_recv().ok()
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the object cache ended in a panic");
        }
    }
}

impl Drop for ObjectCache {
    /// Closes all connections and drops all values. After this no process gets an acknowledgement from here.
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = std::fs::remove_file(&self.socket);
            drop(self.stop.take());
            self.join();
        }
    }
}

fn bind(path: &Path) -> io::Result<net::UnixListener> {
    if sockets::is_abandoned(path)? {
        std::fs::remove_file(path)?;
    }
    let listener = net::UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Where the listener comes from.
enum ListenerStart {
    Bound(net::UnixListener),
    After(oneshot::Receiver<ObjectHandover>, PathBuf),
}

/// What other threads send.
struct Inputs {
    configured: watch::Receiver<ObjectCacheSettings>,
    remote: mpsc::Receiver<RemoteBatch>,
}

/// Serves until `stopped`.
async fn run(
    start: ListenerStart,
    inputs: &mut Inputs,
    nodes: Option<Arc<dyn OtherNodes>>,
    mut stopped: oneshot::Receiver<oneshot::Sender<ObjectHandover>>,
) -> io::Result<()> {
    let (listener, before) = match start {
        ListenerStart::Bound(listener) => (listener, None),
        ListenerStart::After(before, path) => tokio::select! {
            handover = arrival(before, &mut inputs.remote) => match handover {
                Some(handover) => (handover.listener.into(), Some((handover.state, handover.processes))),
                None => (bind(&path)?, None),
            },
            _ = &mut stopped => return Ok(()),
        },
    };
    listener.set_nonblocking(true)?;
    let listener = UnixListener::from_std(listener)?;
    let mut sites = ObjectSites::default();
    sites.configure(&inputs.configured.borrow_and_update());
    let shared = Rc::new(Shared {
        sites: RefCell::new(sites),
        nodes,
        began: Instant::now(),
        is_frozen: Cell::new(false),
        freezes: Notify::new(),
        late: Notify::new(),
        left: RefCell::default(),
        unknown: Limits::new(MAX_UNKNOWN),
        started: Limits::new(MAX_OF_SITE),
        moving: Limits::new(MAX_MOVING_OF_SITE),
        all_moving: Limits::new(MAX_MOVING),
    });
    if let (true, Some(nodes)) = (before.is_some(), &shared.nodes) {
        // The process before had no cluster: it has heard of no change of other nodes, nor they of its own.
        for site in shared.sites.borrow().by_name.keys() {
            drop(nodes.announce(site, Vec::new()));
        }
    }
    let before = before.filter(|_| shared.nodes.is_none());
    if let Some((state, processes)) = before
        && let Err(error) = resume(&shared, &state, processes)
    {
        shared.sites.borrow_mut().forget();
        tracing::warn!(%error, "the values of the object cache cannot be taken over: it begins empty");
    }
    let reply = tokio::select! {
        () = serve(&listener, &shared, inputs) => return Ok(()),
        reply = stopped => reply,
    };
    // Otherwise the sender is gone: it ends.
    if let Ok(reply) = reply {
        match freeze(&shared, listener).await {
            // The receiver waits for it.
            Ok(handover) => drop(reply.send(handover)),
            Err(error) => {
                tracing::warn!(%error, "the values of the object cache cannot be handed over: it begins empty");
            }
        }
    }
    Ok(())
}

/// Waits for what the process before hands over. Until then, there are no values that another node could have changed.
async fn arrival(
    mut before: oneshot::Receiver<ObjectHandover>,
    remote: &mut mpsc::Receiver<RemoteBatch>,
) -> Option<ObjectHandover> {
    loop {
        tokio::select! {
            handover = &mut before => return handover.ok(),
            Some((_, done)) = remote.recv() => drop(done.send(())),
        }
    }
}

/// Goes on where the process before has ended.
fn resume(shared: &Rc<Shared>, state: &OwnedFd, processes: Vec<OwnedFd>) -> io::Result<()> {
    let bytes = memory_file::read_sealed(state, MAX_STATE)?;
    let sessions = shared.sites.borrow_mut().take_over(&bytes, 0);
    let sessions = sessions.filter(|sessions| sessions.len() == processes.len());
    let sessions = sessions.ok_or(io::ErrorKind::InvalidData)?;
    for (stream, session) in processes.into_iter().zip(sessions) {
        let stream = net::UnixStream::from(stream);
        stream.set_nonblocking(true)?;
        accept(UnixStream::from_std(stream)?, session, shared);
    }
    Ok(())
}

/// Stops all connections between two messages.
async fn freeze(shared: &Rc<Shared>, listener: UnixListener) -> io::Result<ObjectHandover> {
    shared.is_frozen.set(true);
    shared.freezes.notify_waiters();
    let began = Instant::now();
    let mut late_from: Option<Instant> = None;
    // Each connection has one.
    while Rc::strong_count(shared) > 1 {
        // On a busy machine this thread may be late itself: connections always get a turn after they are told.
        if late_from.is_some_and(|from| from.elapsed() > MAX_FREEZE) {
            return Err(io::Error::other(
                "a process of PHP is in the middle of a message",
            ));
        }
        if began.elapsed() > MAX_FREEZE {
            // Anybody may begin a message. A process that writes sees the end, and its site's store is emptied.
            late_from.get_or_insert_with(Instant::now);
            shared.late.notify_waiters();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (processes, sessions): (Vec<_>, Vec<_>) = shared.left.take().into_iter().unzip();
    let state = shared.sites.borrow().hand_over(sessions, shared.now());
    Ok(ObjectHandover {
        state: memory_file::sealed("galley-objects", &state)?,
        listener: listener.into_std()?.into(),
        processes,
    })
}

async fn serve(listener: &UnixListener, shared: &Rc<Shared>, inputs: &mut Inputs) {
    loop {
        tokio::select! {
            biased;
            Ok(()) = inputs.configured.changed() => {
                let settings = inputs.configured.borrow_and_update();
                shared.sites.borrow_mut().configure(&settings);
            }
            Some((changes, done)) = inputs.remote.recv() => {
                let mut sites = shared.sites.borrow_mut();
                for change in &changes {
                    sites.apply(change.as_ref().map(|(site, bytes)| (&**site, &**bytes)));
                }
                // The reader of the stream may have ended.
                let _ = done.send(());
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => accept(stream, PhpSession::default(), shared),
                // Too many descriptors: those who wait get a chance to leave.
                Err(error) => {
                    tracing::warn!(%error, "the object cache cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
        }
    }
}

fn accept(mut stream: UnixStream, mut session: PhpSession, shared: &Rc<Shared>) {
    let shared = Rc::clone(shared);
    tokio::task::spawn_local(async move {
        // A lost connection needs no message: PHP sees it, and the session is closed below.
        let end = tokio::select! {
            end = talk(&mut stream, &mut session, &shared) => end,
            () = shared.late.notified() => Err(io::ErrorKind::TimedOut.into()),
        };
        if let Ok(TalkEnd::Frozen) = end
            && let Ok(stream) = stream.into_std()
        {
            shared.left.borrow_mut().push((stream.into(), session));
            return;
        }
        let closed = session.close(&mut shared.sites.borrow_mut());
        if let (Some((site, announcement)), Some(nodes)) = (closed, &shared.nodes) {
            // The process is gone: nobody waits.
            drop(nodes.announce(&site, announcement));
        }
    });
}

/// The time slice of the thread, as for fetch threads: PHP waits for it, and it works for less than a millisecond at a time.
const TURN: Duration = Duration::from_micros(200);

/// Batches of changes of other nodes that wait: only the thread that reads the stream sends them, and it waits.
const MAX_BATCHES: usize = 4;

/// The time for the end of messages in progress before a handover, in which PHP waits.
const MAX_FREEZE: Duration = Duration::from_millis(20);

/// The largest state that is read, in bytes: values, and what is known of the processes.
const MAX_STATE: u64 = 128 << 20;

#[cfg(test)]
mod tests;
