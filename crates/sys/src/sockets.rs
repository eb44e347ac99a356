//! Listening sockets: those that are opened here, and those that the service manager passes.
//!
//! A socket is bound first, while the process has the necessary rights, and listens when everything behind it is ready. An address
//! gets one socket for each core on the same port, and the kernel distributes connections between them (`SO_REUSEPORT`). A socket
//! in the file system, or one that was passed, is one queue from which all cores accept.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use listenfd::ListenFd;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::deferred_accept;

/// A listening socket.
#[derive(Debug)]
pub enum Listening {
    /// IPv4 or IPv6.
    Tcp(TcpListener),
    /// A socket in the file system.
    Unix(UnixListener),
    /// A UDP socket, which receives instead of listening.
    Udp(UdpSocket),
}

/// Bound sockets that do not listen yet: for each address, those of all cores.
#[derive(Debug)]
pub struct BoundSockets {
    sockets: Vec<Vec<Socket>>,
    file: Option<SocketFile>,
}

impl BoundSockets {
    /// Binds an address. Port 0 selects a free port.
    pub fn tcp(address: SocketAddr, cores: usize) -> io::Result<Self> {
        let first = bind(address)?;
        let bound = first.local_addr()?.as_socket().unwrap_or(address);
        let mut sockets = vec![first];
        for _ in 1..cores {
            sockets.push(bind(bound)?);
        }
        Ok(Self {
            sockets: vec![sockets],
            file: None,
        })
    }

    /// Binds a UDP address, as [`BoundSockets::tcp`] does.
    pub fn udp(address: SocketAddr, cores: usize) -> io::Result<Self> {
        let first = bind_udp(address)?;
        let bound = first.local_addr()?.as_socket().unwrap_or(address);
        let mut sockets = vec![first];
        for _ in 1..cores {
            sockets.push(bind_udp(bound)?);
        }
        Ok(Self {
            sockets: vec![sockets],
            file: None,
        })
    }

    /// Binds a socket in the file system, and replaces an abandoned one.
    pub fn unix(path: &Path, mode: u32, cores: usize) -> io::Result<Self> {
        clear(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&SockAddr::unix(path)?)?;
        // Connections are impossible before it listens, so the mode applies from the first one on.
        let file = SocketFile::of(path)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        Ok(Self {
            sockets: vec![shared(socket, cores)?],
            file: Some(file),
        })
    }

    /// Uses the listening sockets of another process, with their file.
    pub fn inherited(
        sockets: Vec<OwnedFd>,
        file: Option<SocketFile>,
        cores: usize,
    ) -> io::Result<Self> {
        let all: Vec<Socket> = sockets.into_iter().map(Socket::from).collect();
        // Each is a separate queue, so all must be used; if there are fewer than cores, some cores share one.
        let missing = cores.saturating_sub(all.len());
        let more = all.iter().cycle().take(missing).map(Socket::try_clone);
        let more = more.collect::<io::Result<Vec<_>>>()?;
        let mut rows: Vec<Vec<Socket>> = Vec::new();
        for socket in all.into_iter().chain(more) {
            match rows.last_mut().filter(|row| row.len() < cores) {
                Some(row) => row.push(socket),
                None => rows.push(vec![socket]),
            }
        }
        Ok(Self {
            sockets: rows,
            file,
        })
    }

    /// The address of the first socket; `None` for a socket in the file system.
    pub fn address(&self) -> Option<SocketAddr> {
        let first = self.sockets.first()?.first()?;
        first.local_addr().ok()?.as_socket()
    }

    /// The file of a unix socket.
    pub fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|file| file.path.as_path())
    }

    /// Starts listening. Returns the sockets of each core, and the file to be removed at the end.
    pub fn listen(self, cores: usize) -> io::Result<(Vec<Vec<Listening>>, Option<SocketFile>)> {
        let mut per_core: Vec<Vec<Listening>> = (0..cores).map(|_| Vec::new()).collect();
        for sockets in self.sockets {
            for (core, socket) in per_core.iter_mut().zip(sockets) {
                socket.set_nonblocking(true)?;
                if socket.r#type()? == Type::DGRAM {
                    core.push(Listening::Udp(socket.into()));
                    continue;
                }
                socket.listen(BACKLOG)?;
                let is_unix = socket.local_addr()?.domain() == Domain::UNIX;
                core.push(if is_unix {
                    Listening::Unix(socket.into())
                } else {
                    // Responses are written completely: waiting to fill a segment would only delay the last one. On Linux, accepted
                    // connections inherit the option, which saves a system call for each.
                    socket.set_tcp_nodelay(true)?;
                    // Without it, connections are reported before their first bytes, which only costs system calls.
                    let _ = deferred_accept::defer(&socket);
                    Listening::Tcp(socket.into())
                });
            }
        }
        Ok((per_core, self.file))
    }
}

impl AsFd for Listening {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
        }
    }
}

impl Listening {
    /// Duplicates the descriptor: both accept from the same queue.
    pub fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(listener) => listener.try_clone().map(Self::Tcp),
            Self::Unix(listener) => listener.try_clone().map(Self::Unix),
            Self::Udp(socket) => socket.try_clone().map(Self::Udp),
        }
    }

    /// The address; `None` for a socket in the file system.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            Self::Udp(socket) => socket.local_addr().ok(),
            Self::Unix(_) => None,
        }
    }

    /// The address: `http://192.0.2.1:80`, with `scheme`, or `unix:/path`.
    pub fn url(&self, scheme: &str) -> io::Result<String> {
        match self {
            Self::Tcp(listener) => Ok(format!("{scheme}://{}", listener.local_addr()?)),
            Self::Unix(listener) => {
                let address = listener.local_addr()?;
                let path = address.as_pathname().unwrap_or(Path::new(""));
                Ok(format!("unix:{}", path.display()))
            }
            Self::Udp(socket) => Ok(format!("{scheme}://{}", socket.local_addr()?)),
        }
    }
}

/// Sockets that the service manager opened (`sd_listen_fds(3)`).
pub struct Passed {
    sockets: ListenFd,
    /// The `FileDescriptorName` of each socket.
    names: Vec<String>,
}

impl Passed {
    /// Takes the sockets from the environment. Call once, before other threads exist.
    pub fn take() -> Self {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        Self {
            sockets: ListenFd::from_env(),
            names: names.split(':').map(str::to_owned).collect(),
        }
    }

    /// Returns all sockets of a name, or the socket at a position, counted from 0.
    pub fn bound(&mut self, name: &str, cores: usize) -> io::Result<BoundSockets> {
        self.take_each(name, cores, |sockets, place| {
            match sockets.take_tcp_listener(place) {
                Ok(listener) => Ok(listener.map(Socket::from)),
                Err(_) => Ok(sockets.take_unix_listener(place)?.map(Socket::from)),
            }
        })
    }

    /// As [`Passed::bound`], for UDP sockets. All cores share each of them.
    pub fn bound_udp(&mut self, name: &str, cores: usize) -> io::Result<BoundSockets> {
        self.take_each(name, cores, |sockets, place| {
            Ok(sockets.take_udp_socket(place)?.map(Socket::from))
        })
    }

    fn take_each(
        &mut self,
        name: &str,
        cores: usize,
        take: impl Fn(&mut ListenFd, usize) -> io::Result<Option<Socket>>,
    ) -> io::Result<BoundSockets> {
        let names = self.names.iter().take(self.sockets.len()).enumerate();
        let mut places: Vec<usize> = names
            .filter(|(_, known)| *known == name)
            .map(|(place, _)| place)
            .collect();
        if places.is_empty() {
            places.extend(name.parse::<usize>());
        }
        let mut sockets = Vec::new();
        for place in places {
            if let Some(socket) = take(&mut self.sockets, place)? {
                sockets.push(shared(socket, cores)?);
            }
        }
        if sockets.is_empty() {
            let count = self.sockets.len();
            let why = format!(
                "systemd has passed {count} socket(s), but no unused one with this name or position"
            );
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        Ok(BoundSockets {
            sockets,
            file: None,
        })
    }
}

/// The file of a unix socket of this process; removed on drop, unless another server has replaced it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    inode: (u64, u64),
}

impl SocketFile {
    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Does not remove the file, which another process uses from now on.
    pub fn keep(mut self) {
        self.inode = NO_INODE;
    }

    /// The file of an existing socket.
    pub fn of(path: &Path) -> io::Result<Self> {
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self {
            path: path.to_owned(),
            inode: (metadata.dev(), metadata.ino()),
        })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let now = fs::symlink_metadata(&self.path);
        if now.is_ok_and(|now| (now.dev(), now.ino()) == self.inode) {
            // If this process may not remove it, the next start does.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Checks that `address` is available. Call it for every address before the first listener is opened: the listeners of several
/// cores share a port, and so would those of two servers, without an error.
pub fn is_free(address: SocketAddr) -> io::Result<()> {
    socket(address)?.bind(&address.into())
}

/// As [`is_free`], for a UDP address.
pub fn is_udp_free(address: SocketAddr) -> io::Result<()> {
    udp(address)?.bind(&address.into())
}

/// Whether a datagram that is sent to the address of these sockets, which share it, arrives at one of them. Blocks for a moment.
pub fn udp_answers(sockets: &[&UdpSocket]) -> bool {
    let Some(mut address) = sockets.first().and_then(|one| one.local_addr().ok()) else {
        return false;
    };
    let loopback = match address {
        SocketAddr::V4(_) => SocketAddr::from((std::net::Ipv4Addr::LOCALHOST, 0)),
        SocketAddr::V6(_) => SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 0)),
    };
    if address.ip().is_unspecified() {
        address.set_ip(loopback.ip());
    }
    let any = SocketAddr::new(
        if address.ip().is_loopback() {
            loopback.ip()
        } else {
            address.ip()
        },
        0,
    );
    let Ok(probe) = UdpSocket::bind(any) else {
        return false;
    };
    let Ok(sender) = probe.local_addr() else {
        return false;
    };
    if probe.send_to(PROBE, address).is_err() {
        return false;
    }
    let mut received = [0; PROBE.len() + 1];
    for _ in 0..PROBE_TRIES {
        for socket in sockets {
            // Datagrams of clients that arrive in this moment are lost; the clients send them again.
            if let Ok((length, from)) = socket.recv_from(&mut received)
                && from == sender
                && received.get(..length) == Some(PROBE)
            {
                return true;
            }
        }
        std::thread::sleep(PROBE_PAUSE);
    }
    false
}

/// Checks that the path of a unix socket is available. Removes nothing.
pub fn is_path_free(path: &Path) -> io::Result<()> {
    is_abandoned(path)?;
    let folder = path.parent().unwrap_or(Path::new("/"));
    super::reach::UserIdentity::this().may_write(folder)
}

/// Removes an abandoned socket. Any other file stays, and prevents binding there.
fn clear(path: &Path) -> io::Result<()> {
    if is_abandoned(path)? {
        fs::remove_file(path)?;
    }
    Ok(())
}

/// Whether the path is a socket on which no process listens; `false` if nothing exists there.
///
/// Errors: a process listens there, or it is not a socket.
pub fn is_abandoned(path: &Path) -> io::Result<bool> {
    let Ok(old) = fs::symlink_metadata(path) else {
        return Ok(false);
    };
    if !old.file_type().is_socket() {
        let why = "a file that is not a socket exists there";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(true),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another server is listening there",
        )),
    }
}

/// Duplicates a socket, so that all cores accept from one queue.
fn shared(socket: Socket, cores: usize) -> io::Result<Vec<Socket>> {
    let mut sockets = (1..cores)
        .map(|_| socket.try_clone())
        .collect::<io::Result<Vec<_>>>()?;
    sockets.push(socket);
    Ok(sockets)
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // Permits `[::]` next to `0.0.0.0` in one configuration.
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let socket = socket(address)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

fn udp(address: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

fn bind_udp(address: SocketAddr) -> io::Result<Socket> {
    let socket = udp(address)?;
    socket.set_reuse_port(true)?;
    // The kernel limits both to `net.core.rmem_max` and `wmem_max`; `galley doctor` names them.
    let _ = socket.set_recv_buffer_size(UDP_BUFFER);
    let _ = socket.set_send_buffer_size(UDP_BUFFER);
    socket.bind(&address.into())?;
    Ok(socket)
}

/// The payload of the datagram that [`udp_answers`] sends. It is not a packet of QUIC, so that an endpoint ignores it.
const PROBE: &[u8] = b"\0galley\0";

/// How often [`udp_answers`] looks for it, and the pauses: a tenth of a second altogether.
const PROBE_TRIES: u32 = 50;
const PROBE_PAUSE: std::time::Duration = std::time::Duration::from_millis(2);

/// The size of the kernel's buffers of a UDP socket, in bytes: datagrams of some milliseconds at a gigabit per second.
pub const UDP_BUFFER: usize = 2 * 1024 * 1024;

/// The inode of no file.
const NO_INODE: (u64, u64) = (u64::MAX, 0);

/// The maximum number of connections that wait in the kernel while all cores are busy; the kernel limits it to
/// `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_connections_send_without_delay() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let bound = BoundSockets::tcp(address, 1).unwrap();
        let (mut all, _) = bound.listen(1).unwrap();
        let Some(Listening::Tcp(listener)) = all.remove(0).pop() else {
            panic!("no TCP listener");
        };
        listener.set_nonblocking(false).unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, _) = listener.accept().unwrap();
        assert!(
            accepted.nodelay().unwrap(),
            "not inherited from the listener"
        );
    }

    #[test]
    fn cores_share_the_port_selected_for_zero() {
        let bound = BoundSockets::tcp("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let (all, file) = bound.listen(3).unwrap();
        let urls: Vec<String> = all
            .iter()
            .map(|core| core[0].url("http").unwrap())
            .collect();
        assert!(file.is_none() && !urls[0].ends_with(":0"));
        assert!(urls.len() == 3 && urls.iter().all(|url| *url == urls[0]));
    }

    #[test]
    fn a_socket_replaces_only_an_abandoned_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("web.sock");
        fs::write(&path, "mine").unwrap();
        let refused = BoundSockets::unix(&path, 0o600, 1).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        fs::remove_file(&path).unwrap();
        drop(UnixListener::bind(&path).unwrap());
        let bound = BoundSockets::unix(&path, 0o600, 2).unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (all, file) = bound.listen(2).unwrap();
        let refused = BoundSockets::unix(&path, 0o600, 1).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        // The socket of another server is not removed.
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop((all, file));
        assert!(path.exists());
        drop(other);
        let again = BoundSockets::unix(&path, 0o600, 1).unwrap();
        drop(again);
        assert!(!path.exists());
    }
}
