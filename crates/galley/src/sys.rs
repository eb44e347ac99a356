//! What is asked of the operating system: descriptors, listening sockets, cores, signals' numbers.
//!
//! Calls here are made at start or on the control thread, but for [`unsent`], which is asked for a client that is slow.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;
use std::path::Path;

use rustix::ioctl::{Getter, Opcode, ioctl};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};

/// Raises the soft limit of open descriptors to the hard one and returns it.
///
/// Every connection takes one descriptor, and one that waits for PHP takes two; distributions start programs with 1,024.
pub fn raise_descriptor_limit() -> u64 {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = raised;
        }
    }
    limit.current.unwrap_or(UNLIMITED_DESCRIPTORS)
}

/// Whether `address` can be had. To be asked for every address before the first listener is opened: those of several cores
/// share a port, and so would those of two servers, without a word.
pub fn is_free(address: SocketAddr) -> io::Result<()> {
    socket(address)?.bind(&address.into())
}

/// Descriptors that are open, and how many may be; 0 open where `/proc` does not tell. Looks at a folder: not for a core.
pub fn descriptors() -> (u64, u64) {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let limit = getrlimit(Resource::Nofile).current;
    (open as u64, limit.unwrap_or(UNLIMITED_DESCRIPTORS))
}

/// One listening socket per core for `address`, all on the same port, also when it asks for port 0.
///
/// The kernel spreads new connections over them (`SO_REUSEPORT`), so that cores share no accept queue.
pub fn listen(address: SocketAddr, cores: usize) -> io::Result<Vec<TcpListener>> {
    let first = listener(address)?;
    let bound = first.local_addr()?;
    let mut all = vec![first];
    for _ in 1..cores {
        all.push(listener(bound)?);
    }
    Ok(all)
}

/// Lets every other thread go before the calling one. Where that is not allowed it stays as it is.
pub fn lower_priority() {
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), LOW_PRIORITY);
}

/// Of 19: it still gets on while others work.
const LOW_PRIORITY: i32 = 10;

/// How many cores this process may use (cgroup quotas counted).
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Whether `error` says that no descriptor is left, for this process or for the machine.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    code == Some(rustix::io::Errno::MFILE.raw_os_error())
        || code == Some(rustix::io::Errno::NFILE.raw_os_error())
        || code == Some(rustix::io::Errno::NOMEM.raw_os_error())
        || code == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

/// Bytes that were written to a socket and have not arrived at its other end; 0 where the kernel does not tell.
pub fn unsent(socket: BorrowedFd<'_>) -> u64 {
    // SAFETY: `TIOCOUTQ`, which tcp(7) calls `SIOCOUTQ`, writes one `int` and reads nothing: what `Getter` has room for.
    #[expect(unsafe_code, reason = "rustix has no call of its own for it")]
    let told = unsafe { ioctl(socket, Getter::<TIOCOUTQ, i32>::new()) };
    told.ok()
        .and_then(|count| u64::try_from(count).ok())
        .unwrap_or(0)
}

/// asm-generic/ioctls.h; the same on all machines that Galley is built for.
const TIOCOUTQ: Opcode = 0x5411;

/// The name of the user who owns `path`; `None` for root, and for a number without a name.
///
/// PHP runs as who owns the site's files, so that WordPress can write its uploads and nothing else.
pub fn owner(path: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let id = std::fs::metadata(path).ok()?.uid();
    let accounts = std::fs::read_to_string("/etc/passwd").ok()?;
    let mut rows = accounts.lines().map(|line| line.split(':'));
    let name = rows.find_map(|mut row| {
        let name = row.next()?;
        let number: u32 = row.nth(1)?.parse().ok()?;
        (number == id).then_some(name)
    })?;
    (id != 0).then(|| name.to_owned())
}

/// Random bytes from the kernel; the start of request ids.
pub fn random_bytes() -> [u8; 8] {
    let mut bytes = [0_u8; 8];
    let filled = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    if filled.is_err() {
        let fallback = std::process::id().to_ne_bytes();
        bytes[..fallback.len()].copy_from_slice(&fallback);
    }
    bytes
}

fn socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // `[::]` next to `0.0.0.0` in one file must not collide.
        socket.set_only_v6(true)?;
    }
    socket.set_reuse_address(true)?;
    Ok(socket)
}

fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = socket(address)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Connections that the kernel keeps for us while all cores are busy; it cuts this to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// What an unlimited number of descriptors is taken for.
const UNLIMITED_DESCRIPTORS: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_share_the_port_that_zero_became() {
        let all = listen("127.0.0.1:0".parse().unwrap(), 3).unwrap();
        let ports: Vec<u16> = all.iter().map(|l| l.local_addr().unwrap().port()).collect();
        assert_eq!(ports.len(), 3);
        assert!(ports[0] != 0 && ports.iter().all(|p| *p == ports[0]));
    }

    #[test]
    fn the_soft_limit_reaches_the_hard_one() {
        let raised = raise_descriptor_limit();
        let limit = getrlimit(Resource::Nofile);
        assert_eq!(limit.current, limit.maximum);
        assert_eq!(limit.current.unwrap_or(UNLIMITED_DESCRIPTORS), raised);
    }

    #[test]
    fn what_has_not_arrived_is_counted() {
        use std::io::{Read, Write};
        use std::os::fd::AsFd;
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert_eq!(unsent(server.as_fd()), 0);
        server.set_nonblocking(true).unwrap();
        let mut written = 0;
        let sent = vec![0; 65_536];
        while let Ok(count) = server.write(&sent) {
            written += count as u64;
        }
        let waiting = unsent(server.as_fd());
        assert!(0 < waiting && waiting < written, "{waiting} of {written}");
        let mut read = 0;
        let mut piece = vec![0; 65_536];
        while read < written {
            read += client.read(&mut piece).unwrap() as u64;
        }
        // Confirmations are on their way for a moment.
        while unsent(server.as_fd()) > 0 {
            std::thread::yield_now();
        }
    }
}
