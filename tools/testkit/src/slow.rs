//! Slow HTTP attacks from many client addresses. slowhttptest has the same attacks, but cannot choose its addresses.
//!
//! [`SlowClients`] keeps its connections open and does the minimum on each at every [`SlowClients::tick`]: it sends a byte of a head or of
//! a body, or reads a few bytes. The test calls it, so that the result does not depend on the speed of the machine. It uses plain sockets
//! instead of [`crate::client`], because it sets the receive buffer before it connects, and its requests are never complete.

use std::{
    io::{self, ErrorKind, Read, Write},
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream},
};

use rustix::{
    io::Errno,
    net::{self, sockopt},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::error::{Context, TestkitError};

/// A kind of slow HTTP attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlowAttack {
    /// A request head that never ends.
    Headers,
    /// A request body sent byte by byte.
    Body,
    /// A response read a few bytes at a time.
    Read,
    /// The same with hundreds of ranges of one file.
    Range,
}

impl SlowAttack {
    /// All attacks, with their options of slowhttptest.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Headers, "-H"),
        (Self::Body, "-B"),
        (Self::Read, "-X"),
        (Self::Range, "-R"),
    ];

    fn request(self, host: &str, target: &str) -> String {
        let head = |method: &str| format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n");
        match self {
            Self::Headers => format!("{}X-Slow: ", head("GET")),
            Self::Body => format!("{}Content-Length: 100000\r\n\r\n", head("POST")),
            Self::Read => format!("{}\r\n", head("GET")),
            Self::Range => {
                let ranges: Vec<String> = (5..305).map(|end| format!("5-{end}")).collect();
                format!(
                    "{}Range: bytes=0-,{}\r\n\r\n",
                    head("GET"),
                    ranges.join(",")
                )
            }
        }
    }
}

/// The connections of slow clients.
#[derive(Debug)]
pub struct SlowClients {
    attack: SlowAttack,
    streams: Vec<TcpStream>,
}

impl SlowClients {
    /// Connects `count` clients from `addresses` addresses of 127.1.0.0/16 and starts the attack. Clients that the server rejects at once
    /// are dropped.
    ///
    /// # Errors
    /// [`TestkitError::Io`] when a client cannot connect.
    pub fn connect(
        attack: SlowAttack,
        (addr, host, target): (SocketAddr, &str, &str),
        (count, addresses): (usize, usize),
    ) -> Result<Self, TestkitError> {
        raise_descriptor_limit();
        let request = attack.request(host, target);
        let mut streams = Vec::with_capacity(count);
        for number in 0..count {
            let index = u16::try_from(number % addresses.max(1)).unwrap_or(0);
            let [high, low] = index.to_be_bytes();
            let from = Ipv4Addr::new(127, 1, high, low.max(1));
            let stream = connect(from, addr, attack).map_err(io::Error::from);
            let mut stream = stream.context(format_args!("connect from {from} to {addr}"))?;
            // A rejected client may get a reset at any moment.
            if stream.write_all(request.as_bytes()).is_ok() && stream.set_nonblocking(true).is_ok()
            {
                streams.push(stream);
            }
        }
        Ok(Self { attack, streams })
    }

    /// Sends or reads a little on each connection; returns the number of connections that are not known to be closed. A connection with
    /// unread data is known to be closed only after that data.
    pub fn tick(&mut self) -> usize {
        let writes = matches!(self.attack, SlowAttack::Headers | SlowAttack::Body);
        self.streams.retain_mut(|stream| {
            let mut few = [0; 5];
            let written = if writes { stream.write(b"x") } else { Ok(1) };
            is_open(&written) && is_open(&stream.read(&mut few))
        });
        self.streams.len()
    }
}

/// A read or write that would block means that the connection is open, a count of 0 that it is closed.
fn is_open(result: &io::Result<usize>) -> bool {
    match result {
        Ok(count) => *count > 0,
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

fn connect(from: Ipv4Addr, addr: SocketAddr, attack: SlowAttack) -> Result<TcpStream, Errno> {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
    if matches!(attack, SlowAttack::Read | SlowAttack::Range) {
        // Before connecting, because the handshake negotiates the window.
        sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
    }
    net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    net::connect(&socket, &addr)?;
    Ok(TcpStream::from(socket))
}

/// Each connection takes a descriptor, and the default limit of distributions is 1,024.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // If the limit cannot be raised, connecting fails with an error.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}

/// In bytes; the kernel raises it to its minimum.
const RECEIVE_BUFFER: usize = 256;
