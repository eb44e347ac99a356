//! A blocking connection to the engine that bounds the memory of a reply.
//!
//! The connections of the crate `redis` read a reply of any length into memory, and another client of the engine chooses that
//! length: an entry of a stream may have 512 MB. This one ends at a reply above [`MAX_REPLY`]. The asynchronous connections of
//! [`crate::engine_link`] need no such bound, because each of their commands limits its reply at the engine.

use std::io::{self, ErrorKind, Read, Write};
use std::net::ToSocketAddrs as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use redis::{
    ConnectionAddr, ConnectionInfo, ConnectionLike, ErrorKind as RedisErrorKind, Parser,
    RedisError, RedisResult, Value, cmd,
};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use socket2::{Domain, SockAddr, Socket, Type};

/// See the module.
pub(crate) struct EngineConnection {
    stream: EngineStream,
    parser: Parser,
    is_open: bool,
    is_too_long: bool,
}

enum EngineStream {
    Plain(Socket),
    Tls(Box<StreamOwned<ClientConnection, Socket>>),
}

impl EngineConnection {
    /// Connects within `timeout` and authenticates. `reply_timeout`: the maximum wait for each reply.
    pub(crate) fn open(
        info: &ConnectionInfo,
        timeout: Duration,
        reply_timeout: Duration,
    ) -> RedisResult<Self> {
        let mut connection = Self {
            stream: connect(info.addr(), timeout)?,
            parser: Parser::new(),
            is_open: true,
            is_too_long: false,
        };
        let login = info.redis_settings();
        if let Some(password) = login.password() {
            let mut command = cmd("AUTH");
            command.arg(login.username()).arg(password);
            command.query::<()>(&mut connection)?;
        }
        if login.db() != 0 {
            cmd("SELECT").arg(login.db()).query::<()>(&mut connection)?;
        }
        set_timeouts(connection.socket(), reply_timeout)?;
        Ok(connection)
    }

    /// Whether the connection has ended because of a reply above the limit.
    pub(crate) const fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    fn socket(&self) -> &Socket {
        match &self.stream {
            EngineStream::Plain(socket) => socket,
            EngineStream::Tls(stream) => stream.get_ref(),
        }
    }

    fn send(&mut self, commands: &[u8]) -> RedisResult<()> {
        if !self.is_open {
            return Err(io::Error::from(ErrorKind::NotConnected).into());
        }
        let sent = self.stream.write_all(commands);
        sent.and_then(|()| self.stream.flush()).map_err(|error| {
            self.is_open = false;
            error.into()
        })
    }

    fn receive(&mut self) -> RedisResult<Value> {
        let mut reply = BoundedReply {
            stream: &mut self.stream,
            left: MAX_REPLY,
            is_too_long: false,
        };
        let value = self.parser.parse_value(&mut reply);
        self.is_too_long |= reply.is_too_long;
        if self.is_too_long {
            self.is_open = false;
            return Err(too_long());
        }
        value.inspect_err(|_| self.is_open = false)
    }
}

fn too_long() -> RedisError {
    let why = "a reply is larger than 8 MiB: a program that is no node writes to this engine";
    RedisError::from((RedisErrorKind::Client, why))
}

impl ConnectionLike for EngineConnection {
    fn req_packed_command(&mut self, command: &[u8]) -> RedisResult<Value> {
        self.send(command)?;
        self.receive()
    }

    fn req_packed_commands(
        &mut self,
        commands: &[u8],
        offset: usize,
        count: usize,
    ) -> RedisResult<Vec<Value>> {
        self.send(commands)?;
        let replies: RedisResult<Vec<Value>> =
            (0..offset + count).map(|_| self.receive()).collect();
        Ok(replies?.split_off(offset))
    }

    fn get_db(&self) -> i64 {
        0
    }

    fn check_connection(&mut self) -> bool {
        cmd("PING").query::<()>(self).is_ok()
    }

    fn is_open(&self) -> bool {
        self.is_open
    }
}

fn connect(address: &ConnectionAddr, timeout: Duration) -> RedisResult<EngineStream> {
    Ok(match address {
        ConnectionAddr::Tcp(host, port) => EngineStream::Plain(connect_tcp(host, *port, timeout)?),
        ConnectionAddr::TcpTls {
            host,
            port,
            insecure: false,
            ..
        } => {
            let socket = connect_tcp(host, *port, timeout)?;
            let tls = ClientConnection::new(Arc::new(tls_config()), server_name(host)?);
            let tls = tls.map_err(io::Error::other)?;
            EngineStream::Tls(Box::new(StreamOwned::new(tls, socket)))
        }
        ConnectionAddr::Unix(path) => EngineStream::Plain(connect_unix(path, timeout)?),
        _ => {
            let why = "the address must not switch off the verification of certificates";
            return Err((RedisErrorKind::InvalidClientConfig, why).into());
        }
    })
}

fn connect_tcp(host: &str, port: u16, timeout: Duration) -> io::Result<Socket> {
    let mut failure = io::Error::new(ErrorKind::NotFound, "the host name has no address");
    for address in (host, port).to_socket_addrs()? {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        match socket.connect_timeout(&address.into(), timeout) {
            Ok(()) => {
                socket.set_tcp_nodelay(true)?;
                set_timeouts(&socket, timeout)?;
                return Ok(socket);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

fn connect_unix(path: &Path, timeout: Duration) -> io::Result<Socket> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    set_timeouts(&socket, timeout)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket)
}

fn set_timeouts(socket: &Socket, timeout: Duration) -> io::Result<()> {
    socket.set_read_timeout(Some(timeout))?;
    socket.set_write_timeout(Some(timeout))
}

fn server_name(host: &str) -> io::Result<ServerName<'static>> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    ServerName::try_from(host.to_owned()).map_err(io::Error::other)
}

fn tls_config() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

impl Read for EngineStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for EngineStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

/// Fails at the end of the bytes that one reply may have.
struct BoundedReply<'s> {
    stream: &'s mut EngineStream,
    left: usize,
    is_too_long: bool,
}

impl Read for BoundedReply<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            self.is_too_long = true;
            return Err(io::Error::from(ErrorKind::InvalidData));
        }
        let most = buffer.len().min(self.left);
        let count = self
            .stream
            .read(buffer.get_mut(..most).unwrap_or_default())?;
        self.left -= count;
        Ok(count)
    }
}

/// The maximum size of a reply. The longest purge has less than 128 KiB, and a reader that gets too many of them asks for
/// fewer at a time.
const MAX_REPLY: usize = 8 << 20;
