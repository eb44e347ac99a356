//! Clients that are slow on purpose, many of them and from many addresses: what slowhttptest does, which cannot choose the
//! address that it comes from.
//!
//! A [`Crowd`] holds its connections and does the least on each at every [`Crowd::tick`]: a byte of a head, a byte
//! of a body, a few bytes read. It is driven by its owner, so that nothing depends on how fast the machine is.

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

/// How they are slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attack {
    /// A head that does not end.
    Headers,
    /// A body that is announced and comes byte by byte.
    Body,
    /// An answer that is hardly read.
    Read,
    /// Hundreds of ranges of one file, hardly read.
    Range,
}

impl Attack {
    /// All of them, with the options by which slowhttptest knows them.
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

/// Connections of slow clients.
#[derive(Debug)]
pub struct Crowd {
    attack: Attack,
    members: Vec<TcpStream>,
}

impl Crowd {
    /// Connects `count` clients from so many addresses below 127.1.0.0/16, and begins. Who is not let in is not in the crowd.
    ///
    /// # Errors
    /// [`TestkitError::Io`] when a socket cannot be made.
    pub fn gather(
        attack: Attack,
        (addr, host, target): (SocketAddr, &str, &str),
        (count, addresses): (usize, usize),
    ) -> Result<Self, TestkitError> {
        raise_descriptor_limit();
        let request = attack.request(host, target);
        let mut members = Vec::with_capacity(count);
        for number in 0..count {
            let place = u16::try_from(number % addresses.max(1)).unwrap_or(0);
            let [high, low] = place.to_be_bytes();
            let from = Ipv4Addr::new(127, 1, high, low.max(1));
            let stream = connect(from, addr, attack).map_err(io::Error::from);
            let mut stream = stream.context(format_args!("connect from {from} to {addr}"))?;
            // A rejected client may get a reset at any moment.
            if stream.write_all(request.as_bytes()).is_ok() && stream.set_nonblocking(true).is_ok()
            {
                members.push(stream);
            }
        }
        Ok(Self { attack, members })
    }

    /// Lets each do the least. How many know of no end; those that still have something to read learn of theirs later.
    pub fn tick(&mut self) -> usize {
        let writes = matches!(self.attack, Attack::Headers | Attack::Body);
        self.members.retain_mut(|stream| {
            let mut few = [0; 5];
            let written = if writes { stream.write(b"x") } else { Ok(1) };
            is_open(&written) && is_open(&stream.read(&mut few))
        });
        self.members.len()
    }
}

/// Nothing to read or no room to write is no end; no byte is.
fn is_open(done: &io::Result<usize>) -> bool {
    match done {
        Ok(count) => *count > 0,
        Err(error) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
    }
}

fn connect(from: Ipv4Addr, addr: SocketAddr, attack: Attack) -> Result<TcpStream, Errno> {
    let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
    if matches!(attack, Attack::Read | Attack::Range) {
        // Before connecting, since the window is agreed on then.
        sockopt::set_socket_recv_buffer_size(&socket, SMALL)?;
    }
    net::bind(&socket, &SocketAddrV4::new(from, 0))?;
    net::connect(&socket, &addr)?;
    Ok(TcpStream::from(socket))
}

/// Each connection takes a descriptor; distributions start programs with 1,024.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it may not be raised, connecting says so.
    let _ = setrlimit(
        Resource::Nofile,
        Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    );
}

/// Bytes; the kernel makes its own least of it.
const SMALL: usize = 256;
