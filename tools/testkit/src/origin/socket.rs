//! The server of both kinds of scripted upstream: a listener and one thread per connection; dropping it joins all threads.

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

    pub(super) fn close(&self) {
        // Fails if the connection is closed already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }

    /// Resets a TCP connection; closes a unix socket.
    pub(super) fn reset(&self) {
        if let Self::Tcp(stream) = self {
            // Dissolving the association resets the connection, even if another process has the descriptor (connect(2), AF_UNSPEC).
            let _ = rustix::net::connect_unspec(stream);
        } else {
            self.close();
        }
    }

    pub(super) fn set_write_timeout(&self, timeout: Duration) {
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
pub(super) enum Listener {
    Tcp(TcpListener, SocketAddr),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    pub(super) fn tcp() -> Result<Self, TestkitError> {
        let listener = TcpListener::bind("127.0.0.1:0").context("listen on 127.0.0.1")?;
        let addr = listener.local_addr().context("get the local address")?;
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

    /// The address in the syntax of Galley's configuration.
    pub(super) fn address(&self) -> String {
        match self {
            Self::Tcp(_, addr) => addr.to_string(),
            Self::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    /// Wakes a thread that is blocked in `accept`.
    fn wake(&self) {
        let _ = match self {
            Self::Tcp(_, addr) => TcpStream::connect(addr).map(drop),
            Self::Unix(_, path) => UnixStream::connect(path).map(drop),
        };
    }
}

/// A running accept loop with the threads of its connections.
#[derive(Debug)]
pub(super) struct ScriptServer {
    pub(super) listener: Arc<Listener>,
    pub(super) connections: Arc<AtomicUsize>,
    state: Arc<ServerState>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct ServerState {
    is_stopping: AtomicBool,
    /// By number. A connection is removed when its thread ends, so that a test may make thousands.
    open: Mutex<BTreeMap<usize, Socket>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Panicked scripts of threads that have been joined.
    panicked: AtomicUsize,
}

impl ServerState {
    /// Starts a thread for a connection and joins those that have ended, to free their stacks.
    fn spawn(self: &Arc<Self>, number: usize, serve: impl FnOnce() + Send + 'static) {
        let state = Arc::clone(self);
        let thread = thread::spawn(move || {
            let _guard = ConnectionGuard { state, number };
            serve();
        });
        let mut threads = lock(&self.threads);
        for ended in threads.extract_if(.., |thread| thread.is_finished()) {
            if ended.join().is_err() {
                self.panicked.fetch_add(1, Ordering::SeqCst);
            }
        }
        threads.push(thread);
    }
}

/// Removes a connection from the open ones when its thread ends, including by a panic.
struct ConnectionGuard {
    state: Arc<ServerState>,
    number: usize,
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        lock(&self.state.open).remove(&self.number);
    }
}

impl ScriptServer {
    /// Calls `serve` with each connection and its number, on a separate thread.
    pub(super) fn start(
        listener: Listener,
        serve: impl Fn(Socket, usize) + Send + Sync + 'static,
    ) -> Self {
        let listener = Arc::new(listener);
        let state = Arc::new(ServerState::default());
        let connections = Arc::new(AtomicUsize::new(0));
        let serve = Arc::new(serve);
        let acceptor = {
            let (listener, state, connections) = (
                Arc::clone(&listener),
                Arc::clone(&state),
                Arc::clone(&connections),
            );
            thread::spawn(move || {
                while let Ok(socket) = listener.accept() {
                    if state.is_stopping.load(Ordering::SeqCst) {
                        return;
                    }
                    let number = connections.fetch_add(1, Ordering::SeqCst);
                    let Ok(copy) = socket.try_clone() else {
                        continue;
                    };
                    lock(&state.open).insert(number, copy);
                    let serve = Arc::clone(&serve);
                    state.spawn(number, move || serve(socket, number));
                }
            })
        };
        Self {
            listener,
            connections,
            state,
            acceptor: Some(acceptor),
        }
    }

    /// Closes all open connections, even during a response.
    pub(super) fn drop_connections(&self) {
        for socket in lock(&self.state.open).values() {
            socket.close();
        }
    }
}

impl Drop for ScriptServer {
    fn drop(&mut self) {
        self.state.is_stopping.store(true, Ordering::SeqCst);
        self.listener.wake();
        let acceptor = self.acceptor.take().map(JoinHandle::join);
        self.drop_connections();
        if let Listener::Unix(_, path) = &*self.listener {
            let _ = fs::remove_file(path);
        }
        if thread::panicking() {
            // A script may wait at a gate that the failed test does not open.
            return;
        }
        let threads: Vec<_> = lock(&self.state.threads).drain(..).collect();
        let outcomes = threads.into_iter().map(JoinHandle::join).chain(acceptor);
        let panicked =
            outcomes.filter(Result::is_err).count() + self.state.panicked.load(Ordering::SeqCst);
        assert!(
            panicked == 0,
            "{panicked} scripts of an origin panicked: see above"
        );
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
