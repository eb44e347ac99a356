//! What both kinds of scripted upstream share: a listener, one thread per connection, and an end that joins them all.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::error::{Context, TestkitError};

/// A TCP or unix stream.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    pub(super) fn shut(&self) {
        // It may be closed already: that is as good.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Ends the connection so that the other side sees a reset (TCP only; a unix socket just closes).
    pub(super) fn reset(&self) {
        if let Self::Tcp(stream) = self {
            // Dissolving the association resets at once, whichever process else has the descriptor (connect(2), AF_UNSPEC).
            let _ = rustix::net::connect_unspec(stream);
        } else {
            self.shut();
        }
    }

    pub(super) fn limit_writes(&self, timeout: Duration) {
        let _ = match self {
            Self::Tcp(stream) => stream.set_write_timeout(Some(timeout)),
            Self::Unix(stream) => stream.set_write_timeout(Some(timeout)),
        };
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
pub(super) enum Listening {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl Listening {
    pub(super) fn tcp() -> Result<Self, TestkitError> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen on 127.0.0.1")?;
        let addr = listener.local_addr().context("ask for an address")?;
        Ok(Self::Tcp(listener, addr))
    }

    pub(super) fn unix(path: PathBuf) -> Result<Self, TestkitError> {
        let listener =
            UnixListener::bind(&path).context(format_args!("listen on {}", path.display()))?;
        Ok(Self::Unix(listener, path))
    }

    fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| Socket::Unix(stream)),
        }
    }

    /// The address as Galley's configuration wants it.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Tcp(_, addr) => addr.to_string(),
            Self::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    /// Wakes a thread that waits in `accept`.
    fn poke(&self) {
        let _ = match self {
            Self::Tcp(_, addr) => TcpStream::connect(addr).map(drop),
            Self::Unix(_, path) => UnixStream::connect(path).map(drop),
        };
    }
}

/// A running accept loop.
#[derive(Debug)]
pub(super) struct Serving {
    pub(super) listening: Arc<Listening>,
    pub(super) connections: Arc<AtomicUsize>,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    ending: AtomicBool,
    /// By number; a connection is removed with its thread, so that thousands may come and go.
    open: Mutex<BTreeMap<usize, Socket>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Scripts that panicked, of threads that are joined already.
    failed: AtomicUsize,
}

impl Shared {
    /// Starts a thread; takes back the stacks of those that have ended.
    fn spawn(self: &Arc<Self>, number: usize, serve: impl FnOnce() + Send + 'static) {
        let shared = Arc::clone(self);
        let thread = thread::spawn(move || {
            let _leaving = Leaving { shared, number };
            serve();
        });
        let mut threads = lock(&self.threads);
        for ended in threads.extract_if(.., |thread| thread.is_finished()) {
            if ended.join().is_err() {
                self.failed.fetch_add(1, Ordering::SeqCst);
            }
        }
        threads.push(thread);
    }
}

/// Takes a connection out of the open ones when its thread ends, also by a panic.
struct Leaving {
    shared: Arc<Shared>,
    number: usize,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        lock(&self.shared.open).remove(&self.number);
    }
}

impl Serving {
    /// Calls `serve` with each connection and its number, on a thread of its own.
    pub(super) fn start(
        listening: Listening,
        serve: impl Fn(Socket, usize) + Send + Sync + 'static,
    ) -> Self {
        let listening = Arc::new(listening);
        let shared = Arc::new(Shared::default());
        let connections = Arc::new(AtomicUsize::new(0));
        let serve = Arc::new(serve);
        let acceptor = {
            let (listening, shared, connections) = (
                Arc::clone(&listening),
                Arc::clone(&shared),
                Arc::clone(&connections),
            );
            thread::spawn(move || {
                while let Ok(socket) = listening.accept() {
                    if shared.ending.load(Ordering::SeqCst) {
                        return;
                    }
                    let number = connections.fetch_add(1, Ordering::SeqCst);
                    let Ok(copy) = socket.try_clone() else {
                        continue;
                    };
                    lock(&shared.open).insert(number, copy);
                    let serve = Arc::clone(&serve);
                    shared.spawn(number, move || serve(socket, number));
                }
            })
        };
        Self {
            listening,
            connections,
            shared,
            acceptor: Some(acceptor),
        }
    }

    /// Ends all connections that are open now, in the middle of what they do.
    pub(super) fn drop_connections(&self) {
        for socket in lock(&self.shared.open).values() {
            socket.shut();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.shared.ending.store(true, Ordering::SeqCst);
        self.listening.poke();
        let acceptor = self.acceptor.take().map(JoinHandle::join);
        self.drop_connections();
        if let Listening::Unix(_, path) = &*self.listening {
            let _ = fs::remove_file(path);
        }
        if thread::panicking() {
            // A script may wait at a gate that nobody opens any more.
            return;
        }
        let threads: Vec<_> = lock(&self.shared.threads).drain(..).collect();
        let outcomes = threads.into_iter().map(JoinHandle::join).chain(acceptor);
        let failed =
            outcomes.filter(Result::is_err).count() + self.shared.failed.load(Ordering::SeqCst);
        assert!(
            failed == 0,
            "{failed} scripts of an origin panicked: see above"
        );
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
