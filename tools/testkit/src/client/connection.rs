//! One TCP connection: requests and raw bytes out, answers in, each with a deadline.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, SocketAddrV4, TcpStream},
    time::{Duration, Instant},
};

use rustix::net;

use super::{
    Request, Response,
    request::TIMEOUT,
    response::{Framing, bad, chunk_size, framing, parse_head},
};
use crate::error::{Context, TestkitError};

/// A connection that stays open between requests.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    addr: SocketAddr,
    timeout: Duration,
    deadline: Instant,
    /// Received and not yet part of an answer.
    buffer: Vec<u8>,
    /// All bytes taken from the buffer for the answer that is being read.
    raw: Vec<u8>,
}

impl Connection {
    /// Connects with a timeout of 20 seconds for this and for each answer.
    pub fn open(addr: SocketAddr) -> Result<Self, TestkitError> {
        Self::within(addr, TIMEOUT)
    }

    /// Connects with another timeout.
    pub fn within(addr: SocketAddr, timeout: Duration) -> Result<Self, TestkitError> {
        let stream = TcpStream::connect_timeout(&addr, timeout)
            .context(format_args!("connect to {addr}"))?;
        Self::over(stream, addr, timeout)
    }

    fn over(stream: TcpStream, addr: SocketAddr, timeout: Duration) -> Result<Self, TestkitError> {
        stream.set_nodelay(true).context("set no-delay")?;
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

    /// Connects from this address of the machine, such as 127.0.0.9: to the server it is another client.
    ///
    /// # Errors
    /// [`TestkitError::Io`] when the address is not one of this machine's or nobody listens.
    pub fn from_address(
        from: Ipv4Addr,
        addr: SocketAddr,
        timeout: Duration,
    ) -> Result<Self, TestkitError> {
        let what = format!("connect from {from} to {addr}");
        let stream = bound(from, addr).map_err(io::Error::from).context(what)?;
        Self::over(stream, addr, timeout)
    }

    /// Sends a request and reads its answer.
    pub fn exchange(&mut self, request: &Request) -> Result<Response, TestkitError> {
        self.send(request)?;
        self.receive(&request.method)
    }

    /// Sends a request without waiting for its answer: pipelining.
    pub fn send(&mut self, request: &Request) -> Result<(), TestkitError> {
        let bytes = request.to_bytes(&self.addr.to_string());
        self.write(&bytes)
    }

    /// Sends these bytes, whatever they mean.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), TestkitError> {
        self.stream
            .write_all(bytes)
            .context(format_args!("write to {}", self.addr))
    }

    /// Says that no more bytes will be sent.
    pub fn finish_writing(&mut self) -> Result<(), TestkitError> {
        self.stream
            .shutdown(Shutdown::Write)
            .context("shut down the writing side")
    }

    /// Reads the next answer; `method` is that of its request, since an answer to HEAD has no body.
    ///
    /// # Errors
    /// [`TestkitError::Io`] when time runs out or the connection ends before the answer does; [`TestkitError::Malformed`] when the
    /// answer breaks the protocol.
    pub fn receive(&mut self, method: &str) -> Result<Response, TestkitError> {
        self.deadline = Instant::now() + self.timeout;
        self.raw.clear();
        let mut interim = Vec::new();
        let mut response = loop {
            let head = self.take_through(b"\r\n\r\n")?;
            let response = parse_head(&head)?;
            // 101 is final: what follows is another protocol.
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

    /// True when the other side closes (or resets) without a further byte; false when bytes come or `timeout` passes.
    pub fn is_closed_within(&mut self, timeout: Duration) -> bool {
        self.deadline = Instant::now() + timeout;
        self.buffer.is_empty()
            && match self.fill() {
                Ok(count) => count == 0,
                Err(trouble) => !trouble.is_timeout(),
            }
    }

    /// Our own address, as the other side sees it.
    pub fn local_addr(&self) -> Result<SocketAddr, TestkitError> {
        self.stream.local_addr().context("ask for our address")
    }

    /// The stream itself, for what this type does not offer (small receive buffers, resets).
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
                // Trailers, up to the empty line.
                while self.take_through(b"\r\n")? != b"\r\n" {}
                return Ok(body);
            }
            body.extend_from_slice(&self.take(size)?);
            if self.take(2)? != b"\r\n" {
                return Err(bad("a chunk is longer than its size"));
            }
        }
    }

    /// After `Connection: close` nothing may follow.
    fn expect_end(&mut self) -> Result<(), TestkitError> {
        while self.buffer.is_empty() {
            // A reset after the whole answer is an end like another.
            match self.fill() {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(trouble) if trouble.is_timeout() => return Err(trouble),
                Err(_) => return Ok(()),
            }
        }
        Err(bad("bytes after the last answer"))
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
            if self.buffer.len() > LONGEST_HEAD {
                return Err(bad("a head without end"));
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

    /// Reads once; 0 means that the other side has closed.
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

/// Binds first, which the standard library does not offer.
fn bound(from: Ipv4Addr, addr: SocketAddr) -> Result<TcpStream, rustix::io::Errno> {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
    net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    net::connect(&socket, &addr)?;
    Ok(TcpStream::from(socket))
}

/// No head or chunk line that a server sends may be longer.
const LONGEST_HEAD: usize = 256 * 1024;
