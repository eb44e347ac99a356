//! One TCP connection: sends requests and raw bytes and reads responses, each with a deadline.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    time::{Duration, Instant},
};

use rustix::net;

use super::{
    Request, Response,
    request::TIMEOUT,
    response::{Framing, bad, chunk_size, framing, parse_head},
};
use crate::error::{Context, TestkitError};

/// A persistent connection.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    addr: SocketAddr,
    timeout: Duration,
    deadline: Instant,
    /// Received bytes that are not yet part of a response.
    buffer: Vec<u8>,
    /// The bytes of the current response so far.
    raw: Vec<u8>,
}

impl Connection {
    /// Connects, with the default timeout for this and for each response.
    pub fn open(addr: SocketAddr) -> Result<Self, TestkitError> {
        Self::within(addr, TIMEOUT)
    }

    /// Connects, with this timeout for this and for each response.
    pub fn within(addr: SocketAddr, timeout: Duration) -> Result<Self, TestkitError> {
        let stream = TcpStream::connect_timeout(&addr, timeout)
            .context(format_args!("connect to {addr}"))?;
        Self::over(stream, addr, timeout)
    }

    /// Connects to a unix socket, with the default timeout for each response.
    pub fn to_socket(path: &Path) -> Result<Self, TestkitError> {
        let stream =
            UnixStream::connect(path).context(format_args!("connect to {}", path.display()))?;
        // Both kinds of sockets are read and written by the same calls.
        let stream = TcpStream::from(OwnedFd::from(stream));
        Self::with_deadlines(stream, SocketAddr::from(([0; 4], 0)), TIMEOUT)
    }

    fn over(stream: TcpStream, addr: SocketAddr, timeout: Duration) -> Result<Self, TestkitError> {
        stream.set_nodelay(true).context("set no-delay")?;
        Self::with_deadlines(stream, addr, timeout)
    }

    fn with_deadlines(
        stream: TcpStream,
        addr: SocketAddr,
        timeout: Duration,
    ) -> Result<Self, TestkitError> {
        stream
            .set_write_timeout(Some(timeout))
            .context("set a deadline")?;
        Ok(Self {
            stream,
            addr,
            timeout,
            deadline: Instant::now() + timeout,
            buffer: Vec::new(),
            raw: Vec::new(),
        })
    }

    /// Connects from this local address, such as 127.0.0.9, to appear as another client.
    ///
    /// # Errors
    /// [`TestkitError::Io`] if the machine does not have this address, or the connection is refused.
    pub fn from_address(
        from: Ipv4Addr,
        addr: SocketAddr,
        timeout: Duration,
    ) -> Result<Self, TestkitError> {
        let what = format!("connect from {from} to {addr}");
        let stream = connect_from(from, addr)
            .map_err(io::Error::from)
            .context(what)?;
        Self::over(stream, addr, timeout)
    }

    /// Sends a request and reads its response.
    pub fn exchange(&mut self, request: &Request) -> Result<Response, TestkitError> {
        self.send(request)?;
        self.receive(&request.method)
    }

    /// Sends a request without waiting for its response, for pipelining.
    pub fn send(&mut self, request: &Request) -> Result<(), TestkitError> {
        let bytes = request.to_bytes(&self.addr.to_string());
        self.write(&bytes)
    }

    /// Sends raw bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), TestkitError> {
        self.stream
            .write_all(bytes)
            .context(format_args!("write to {}", self.addr))
    }

    /// Shuts down the sending side of the connection.
    pub fn finish_writing(&mut self) -> Result<(), TestkitError> {
        self.stream
            .shutdown(Shutdown::Write)
            .context("shut down the sending side")
    }

    /// Reads the next response; `method` is that of its request, because a response to HEAD has no body.
    ///
    /// # Errors
    /// [`TestkitError::Io`] after the timeout, or if the connection ends before the response; [`TestkitError::Malformed`] if the
    /// response violates the protocol.
    pub fn receive(&mut self, method: &str) -> Result<Response, TestkitError> {
        self.deadline = Instant::now() + self.timeout;
        self.raw.clear();
        let mut interim = Vec::new();
        let mut response = loop {
            let head = self.take_through(b"\r\n\r\n")?;
            let response = parse_head(&head)?;
            // 101 is a final response: another protocol follows.
            if !(100..=199).contains(&response.status) || response.status == 101 {
                break response;
            }
            interim.push(response.status);
        };
        response.body = self.body(framing(&response, method)?)?;
        response.interim = interim;
        response.raw = std::mem::take(&mut self.raw);
        if response.closes() {
            self.expect_end()?;
        }
        Ok(response)
    }

    /// True after a failed [`receive`](Self::receive) if a part of the response has arrived.
    pub fn has_partial_response(&self) -> bool {
        !self.raw.is_empty() || !self.buffer.is_empty()
    }

    /// Everything that still comes until the other side closes.
    pub fn read_to_end(&mut self) -> Result<Vec<u8>, TestkitError> {
        self.deadline = Instant::now() + self.timeout;
        while self.fill()? > 0 {}
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Waits until the server closes or resets the connection; false if it sends bytes first or `timeout` expires.
    pub fn is_closed_within(&mut self, timeout: Duration) -> bool {
        self.deadline = Instant::now() + timeout;
        self.buffer.is_empty()
            && match self.fill() {
                Ok(count) => count == 0,
                Err(error) => !error.is_timeout(),
            }
    }

    /// The local address of the connection.
    pub fn local_addr(&self) -> Result<SocketAddr, TestkitError> {
        self.stream.local_addr().context("get the local address")
    }

    /// The stream, for operations that this type does not have (small receive buffers, resets).
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn body(&mut self, framing: Framing) -> Result<Vec<u8>, TestkitError> {
        match framing {
            Framing::None => Ok(Vec::new()),
            Framing::Length(length) => self.take(length),
            Framing::Chunked => self.chunks(),
            Framing::UntilClose => {
                while self.fill()? > 0 {}
                let length = self.buffer.len();
                self.take(length)
            }
        }
    }

    fn chunks(&mut self) -> Result<Vec<u8>, TestkitError> {
        let mut body = Vec::new();
        loop {
            let line = self.take_through(b"\r\n")?;
            let size = chunk_size(line.strip_suffix(b"\r\n").unwrap_or(&line))?;
            if size == 0 {
                // Trailers up to the empty line.
                while self.take_through(b"\r\n")? != b"\r\n" {}
                return Ok(body);
            }
            body.extend_from_slice(&self.take(size)?);
            if self.take(2)? != b"\r\n" {
                return Err(bad("a chunk is longer than its size"));
            }
        }
    }

    /// After `Connection: close`, no bytes may follow.
    fn expect_end(&mut self) -> Result<(), TestkitError> {
        while self.buffer.is_empty() {
            // A reset after the whole response is a valid end.
            match self.fill() {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.is_timeout() => return Err(error),
                Err(_) => return Ok(()),
            }
        }
        Err(bad("bytes after the last response"))
    }

    fn take(&mut self, count: usize) -> Result<Vec<u8>, TestkitError> {
        while self.buffer.len() < count {
            self.fill_or_fail()?;
        }
        let rest = self.buffer.split_off(count);
        let taken = std::mem::replace(&mut self.buffer, rest);
        self.raw.extend_from_slice(&taken);
        Ok(taken)
    }

    fn take_through(&mut self, end: &[u8]) -> Result<Vec<u8>, TestkitError> {
        let mut from = 0;
        loop {
            let window = self.buffer.get(from..).unwrap_or_default();
            if let Some(found) = window.windows(end.len()).position(|window| window == end) {
                return self.take(from + found + end.len());
            }
            from = self.buffer.len().saturating_sub(end.len() - 1);
            if self.buffer.len() > MAX_HEAD {
                return Err(bad("a head that is too long"));
            }
            self.fill_or_fail()?;
        }
    }

    fn fill_or_fail(&mut self) -> Result<(), TestkitError> {
        if self.fill()? > 0 {
            return Ok(());
        }
        let so_far = self.raw.len() + self.buffer.len();
        Err(io::Error::from(io::ErrorKind::UnexpectedEof))
            .context(format_args!("{} closed after {so_far} bytes", self.addr))
    }

    /// Reads once; 0 means that the server has closed the connection.
    fn fill(&mut self) -> Result<usize, TestkitError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::from(io::ErrorKind::TimedOut))
                .context(format_args!("read from {}", self.addr));
        }
        self.stream
            .set_read_timeout(Some(left))
            .context("set a deadline")?;
        let mut piece = [0; 16 * 1024];
        let count = loop {
            match self.stream.read(&mut piece) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other.context(format_args!("read from {}", self.addr))?,
            }
        };
        self.buffer
            .extend_from_slice(piece.get(..count).unwrap_or_default());
        Ok(count)
    }
}

/// Connects after a bind, which the standard library does not support.
fn connect_from(from: Ipv4Addr, addr: SocketAddr) -> Result<TcpStream, rustix::io::Errno> {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
    net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    net::connect(&socket, &addr)?;
    Ok(TcpStream::from(socket))
}

/// Maximum length of a head or of a chunk line.
const MAX_HEAD: usize = 256 * 1024;
