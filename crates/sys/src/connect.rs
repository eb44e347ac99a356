//! Whether a server accepts connections, and what to do if it does not.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use super::account;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::geteuid;

/// Why no connection to a server is possible, for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{cause}; {remedy}")]
pub struct ConnectFailure {
    /// The error, with its number.
    pub cause: String,
    /// What to do.
    pub remedy: &'static str,
    /// Whether the server accepted the connection, and its TLS handshake failed.
    pub is_handshake: bool,
}

impl ConnectFailure {
    /// The failure of a connection of this process to an address in the notation of the configuration.
    pub fn new(address: &str, error: &io::Error) -> Self {
        Self::of(address, error, || THIS_USER.clone())
    }

    /// As [`Self::new`], of a process of the user with this id.
    pub fn of_user(address: &str, error: &io::Error, uid: u32) -> Self {
        Self::of(address, error, || account::name_of(uid))
    }

    fn of(address: &str, error: &io::Error, user: impl FnOnce() -> String) -> Self {
        let mut cause = error.to_string();
        if error.kind() == io::ErrorKind::PermissionDenied && address.starts_with(UNIX) {
            cause = format!("{cause} for the user {}", user());
        }
        let remedy = if address.starts_with(UNIX) {
            of_socket(error.kind())
        } else {
            of_port(error.kind())
        };
        let is_handshake = error.kind() == io::ErrorKind::InvalidData;
        Self {
            cause,
            remedy,
            is_handshake,
        }
    }
}

/// Connects to `unix:/path` or `host:port`, and closes the connection. Blocks for two seconds at most for each of three
/// addresses, and for the lookup of a name.
pub fn try_connect(address: &str) -> Result<(), ConnectFailure> {
    let connected = match address.strip_prefix(UNIX) {
        Some(path) => match to_socket(Path::new(path)) {
            // The queue of the socket is full, so somebody listens.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            connected => connected.map(drop),
        },
        None => over_tcp(address),
    };
    connected.map_err(|error| ConnectFailure::new(address, &error))
}

/// Connects to a unix socket without waiting. [`io::ErrorKind::WouldBlock`]: its queue is full.
pub fn to_socket(path: &Path) -> io::Result<UnixStream> {
    let address = match path.as_os_str().as_bytes() {
        [0, name @ ..] => SocketAddrUnix::new_abstract_name(name)?,
        _ => SocketAddrUnix::new(path)?,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &address)?;
    Ok(socket.into())
}

fn over_tcp(address: &str) -> io::Result<()> {
    let (host, port) = address.rsplit_once(':').unwrap_or((address, ""));
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let addresses = (host, port.parse().unwrap_or_default()).to_socket_addrs()?;
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses.take(MAX_ADDRESSES) {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(_) => return Ok(()),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn of_socket(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::NotFound => {
            "no socket exists there: start PHP-FPM, or name the socket of its pool (`listen` in the pool's file)"
        }
        io::ErrorKind::PermissionDenied => {
            "the user may not connect: set `listen.owner`, `listen.group` or `listen.mode` in the pool's file of PHP-FPM"
        }
        io::ErrorKind::ConnectionRefused => {
            "no program listens there: start PHP-FPM, or name the socket of its pool (`listen` in the pool's file)"
        }
        _ => "see whether PHP-FPM runs, and listens on this socket",
    }
}

fn of_port(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::ConnectionRefused => {
            "no program listens there: start the upstream, or correct the address"
        }
        io::ErrorKind::InvalidData => {
            "the TLS handshake failed: correct `upstream_tls`, or the certificate of the upstream"
        }
        io::ErrorKind::TimedOut => {
            "nothing answers there: correct the address, or look for a firewall between Galley and the upstream"
        }
        _ => "correct the address, or see whether its name can be resolved and its network reached",
    }
}

const UNIX: &str = "unix:";

/// The user of this process, who does not change after the first connection. Sandboxed threads could not read the name later.
static THIS_USER: LazyLock<String> = LazyLock::new(|| account::name_of(geteuid().as_raw()));

/// The addresses of a name that are tried.
const MAX_ADDRESSES: usize = 3;

/// How long an attempt may take.
const TIMEOUT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_connection_has_its_error_number_and_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("php.sock");
        let address = format!("unix:{}", path.display());
        let failure = || try_connect(&address).unwrap_err();
        assert!(failure().cause.contains("os error 2"), "{}", failure());
        assert!(failure().remedy.starts_with("no socket exists"));
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(failure().cause.contains("os error 111"), "{}", failure());
        assert!(failure().remedy.starts_with("no program listens"));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "").unwrap();
        assert!(failure().cause.contains("os error 111"), "{}", failure());
        std::fs::remove_file(&path).unwrap();
        let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        assert_eq!(try_connect(&address), Ok(()));
    }

    #[test]
    fn a_denied_connection_names_the_user() {
        let error = io::Error::from_raw_os_error(13);
        let failure = ConnectFailure::of_user("unix:/run/php.sock", &error, 0);
        let cause = "Permission denied (os error 13) for the user root";
        assert_eq!(failure.cause, cause);
        let failure = ConnectFailure::of_user("unix:/run/php.sock", &error, 4_000_000_000);
        assert!(failure.cause.ends_with("the user with the id 4000000000"));
    }

    #[test]
    fn names_and_both_kinds_of_addresses_are_tried() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(try_connect(&format!("127.0.0.1:{port}")), Ok(()));
        assert_eq!(try_connect(&format!("localhost:{port}")), Ok(()));
        drop(listener);
        let refused = try_connect(&format!("127.0.0.1:{port}")).unwrap_err();
        assert!(refused.cause.contains("os error 111"), "{refused}");
        for unknown in ["[::1]", "no-such-name.invalid:80", ""] {
            assert!(try_connect(unknown).is_err(), "{unknown}");
        }
    }
}
