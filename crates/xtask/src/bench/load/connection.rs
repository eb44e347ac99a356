//! One connection of the client: its socket, and the request that is under way on it.

use std::{
    net::{Ipv4Addr, SocketAddrV4, TcpStream},
    os::fd::OwnedFd,
    time::{Duration, Instant},
};

use rustix::{
    event::epoll::{self, EventData, EventFlags},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt},
};

use super::answer::Answer;

#[derive(Debug)]
pub(super) struct Connection {
    pub(super) socket: Option<OwnedFd>,
    pub(super) state: State,
    /// Number of the request under way.
    pub(super) ask: usize,
    /// The request, where it has a counter.
    pub(super) own: Vec<u8>,
    pub(super) written: usize,
    pub(super) since: Instant,
    pub(super) answer: Answer,
    /// Answers on this socket.
    pub(super) answers: u64,
    /// The kernel tells when it can be written to.
    pub(super) waits_to_write: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Closed,
    Connecting,
    /// Open, nothing under way.
    Idle,
    Busy,
    /// The answer was the last; the server has yet to close.
    Ending,
}

/// Where sockets are registered and connected to.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) epoll: OwnedFd,
    pub(super) addr: SocketAddrV4,
    /// Counts up, to spread connections over local addresses.
    sources: u32,
}

impl Connection {
    pub(super) fn new() -> Self {
        Self {
            socket: None,
            state: State::Closed,
            ask: 0,
            own: Vec::new(),
            written: 0,
            since: Instant::now(),
            answer: Answer::new(),
            answers: 0,
            waits_to_write: false,
        }
    }

    pub(super) fn close(&mut self) {
        self.socket = None;
        self.state = State::Closed;
        self.answers = 0;
        self.waits_to_write = false;
    }
}

impl Socket {
    pub(super) fn new(epoll: OwnedFd, addr: SocketAddrV4) -> Self {
        Self {
            epoll,
            addr,
            sources: 0,
        }
    }

    /// A connection that stands.
    pub(super) fn open(&self) -> std::io::Result<OwnedFd> {
        let stream = TcpStream::connect_timeout(&self.addr.into(), PATIENCE)?;
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(stream.into())
    }

    /// A connection that will stand soon; the flag says whether it does already.
    ///
    /// Each comes from another address of the loopback network, so that the kernel's memory of closed connections
    /// does not run out of ports.
    pub(super) fn begin_opening(&mut self) -> Result<(OwnedFd, bool), Errno> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(
            AddressFamily::INET,
            SocketType::STREAM,
            flags,
            Some(ipproto::TCP),
        )?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        self.sources = self.sources.wrapping_add(1);
        let last = u8::try_from(2 + self.sources % SOURCES).unwrap_or(2);
        bind(
            &socket,
            &SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, last), 0),
        )?;
        match connect(&socket, &self.addr) {
            Ok(()) => Ok((socket, true)),
            Err(Errno::INPROGRESS) => Ok((socket, false)),
            Err(error) => Err(error),
        }
    }

    /// From now on the kernel tells when there is something to read, and if asked, when there is room to write.
    pub(super) fn register(&self, socket: &OwnedFd, id: u64, writing: bool) -> Result<(), Errno> {
        epoll::add(&self.epoll, socket, EventData::new_u64(id), flags(writing))
    }

    pub(super) fn watch(&self, socket: &OwnedFd, id: u64, writing: bool) -> Result<(), Errno> {
        epoll::modify(&self.epoll, socket, EventData::new_u64(id), flags(writing))
    }
}

fn flags(writing: bool) -> EventFlags {
    if writing {
        EventFlags::IN | EventFlags::OUT
    } else {
        EventFlags::IN
    }
}

const PATIENCE: Duration = Duration::from_secs(10);
/// Local addresses in use: 60 times the kernel's 28,000 ports.
const SOURCES: u32 = 60;
