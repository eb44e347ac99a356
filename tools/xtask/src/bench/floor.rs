//! `xtask floor`: the lower bound for the cost of a request, with which all servers are compared. A bare epoll loop in one thread finds
//! the end of each request's head and sends prepared bytes: Galley's earlier response to the same request. It ignores method, header
//! fields and host, and writes no log.
//!
//! With several responses it looks up the request's target in a table. `--delay-ms` makes it the slow upstream of some scenarios: it
//! sends each response after a delay. With `--together-ms` it sends all responses at a fixed time after the first request, which is
//! the minimum cost of a thousand clients that wait for one page.

use std::{
    collections::{HashMap, VecDeque},
    fs,
    net::{Ipv4Addr, TcpListener},
    ops::Range,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use clap::Args;
use memchr::memmem::Finder;
use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, CreateFlags, EventData, EventFlags},
    io::Errno,
    net::{SocketFlags, accept_with, sockopt},
    time::Timespec,
};

use crate::error::CommandError;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Port on 127.0.0.1
    #[arg(long)]
    port: u16,
    /// The file with the responses
    #[arg(long)]
    responses: PathBuf,
    /// Delay of each response
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// Delay of the first response; requests that arrive during this time get their responses at the same time
    #[arg(long, default_value_t = 0, conflicts_with = "delay_ms")]
    together_ms: u64,
}

/// Serves until the process is killed.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let responses = PreparedResponses::read(&arguments.responses)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port))?;
    // The standard library listens with a backlog of 128; the stampede needs more.
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    let delay = match (arguments.delay_ms, arguments.together_ms) {
        (0, 0) => Delay::None,
        (ms, 0) => Delay::Each(Duration::from_millis(ms)),
        (_, ms) => Delay::Together(Duration::from_millis(ms)),
    };
    Floor::new(listener.into(), responses, delay)?.serve()
}

/// When responses are sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Delay {
    /// Send responses immediately.
    None,
    /// Send each response this time after its request.
    Each(Duration),
    /// Send all pending responses this time after the first request.
    Together(Duration),
}

/// Complete responses by request target.
#[derive(Debug, Default)]
pub(crate) struct PreparedResponses {
    bytes: Vec<u8>,
    by_target: HashMap<Vec<u8>, Range<usize>>,
    /// A single response is sent to all requests.
    single: Option<Range<usize>>,
    /// The responses have `Connection: close`.
    close: bool,
}

impl PreparedResponses {
    /// Writes the file: for each response the lengths of target and response (8 bytes each, little-endian), then both.
    ///
    /// ```text
    /// | length of target | length of response | target | response | ...
    /// ```
    pub(crate) fn write<'a>(
        path: &Path,
        responses: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<(), CommandError> {
        let mut out = Vec::new();
        for (target, response) in responses {
            out.extend_from_slice(&(target.len() as u64).to_le_bytes());
            out.extend_from_slice(&(response.len() as u64).to_le_bytes());
            out.extend_from_slice(target.as_bytes());
            out.extend_from_slice(response);
        }
        fs::write(path, out)?;
        Ok(())
    }

    fn read(path: &Path) -> Result<Self, CommandError> {
        let bytes = fs::read(path)?;
        Self::parse(bytes).ok_or_else(|| format!("`{}` is truncated", path.display()).into())
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let mut by_target = HashMap::new();
        let mut at = 0;
        let mut last = 0..0;
        while at < bytes.len() {
            let length = |from: usize| -> Option<usize> {
                let field = bytes.get(from..from.checked_add(8)?)?;
                usize::try_from(u64::from_le_bytes(field.try_into().ok()?)).ok()
            };
            let (target, response) = (length(at)?, length(at + 8)?);
            let middle = (at + 16).checked_add(target)?;
            let end = middle.checked_add(response)?;
            let target = bytes.get(at + 16..middle)?;
            bytes.get(middle..end)?;
            last = middle..end;
            by_target.insert(target.to_vec(), last.clone());
            at = end;
        }
        let close = has_connection_close(bytes.get(last.clone())?);
        let single = (by_target.len() == 1).then_some(last);
        Some(Self {
            bytes,
            by_target,
            single,
            close,
        })
    }

    /// The response to a request head.
    fn response_to(&self, head: &[u8]) -> Range<usize> {
        if let Some(single) = &self.single {
            return single.clone();
        }
        let target = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        self.by_target.get(target).cloned().unwrap_or_default()
    }
}

/// Whether the head of a response has `Connection: close`.
fn has_connection_close(response: &[u8]) -> bool {
    let end = memchr::memmem::find(response, b"\r\n\r\n").unwrap_or(response.len());
    let head = response.get(..end).unwrap_or_default().to_ascii_lowercase();
    memchr::memmem::find(&head, b"\r\nconnection: close").is_some()
}

/// One connection.
#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    /// The beginning of an incomplete head.
    head: Vec<u8>,
    /// The parts of responses that are not sent yet.
    unsent: VecDeque<Range<usize>>,
    is_waiting_for_write: bool,
}

#[derive(Debug)]
struct Floor {
    epoll: OwnedFd,
    listener: OwnedFd,
    responses: PreparedResponses,
    delay: Delay,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Delayed responses in the order of their time, with the index of the connection.
    delayed: VecDeque<(Instant, usize, Range<usize>)>,
    end_of_head: Finder<'static>,
}

impl Floor {
    fn new(
        listener: OwnedFd,
        responses: PreparedResponses,
        delay: Delay,
    ) -> Result<Self, CommandError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(
            &epoll,
            &listener,
            EventData::new_u64(LISTENER),
            EventFlags::IN,
        )?;
        Ok(Self {
            epoll,
            listener,
            responses,
            delay,
            connections: Vec::new(),
            free: Vec::new(),
            delayed: VecDeque::new(),
            end_of_head: Finder::new(b"\r\n\r\n"),
        })
    }

    fn serve(mut self) -> Result<(), CommandError> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; BUFFER];
        loop {
            let timeout = self.time_until_next_response();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in events.drain(..) {
                let id = event.data.u64();
                if id == LISTENER {
                    self.accept()?;
                    continue;
                }
                let at = usize::try_from(id).unwrap_or(usize::MAX);
                let flags = event.flags;
                if flags.contains(EventFlags::OUT) {
                    self.write(at);
                }
                if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
                    self.read(at, &mut buffer);
                }
            }
            self.send_due();
        }
    }

    fn time_until_next_response(&self) -> Option<Timespec> {
        let (due, _, _) = self.delayed.front()?;
        let remaining = due.saturating_duration_since(Instant::now());
        // Rounded up, because epoll counts milliseconds.
        let ms = i64::try_from(remaining.as_micros().div_ceil(1000)).unwrap_or(i64::MAX);
        Some(Timespec {
            tv_sec: ms / 1000,
            tv_nsec: ms % 1000 * 1_000_000,
        })
    }

    fn accept(&mut self) -> Result<(), CommandError> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            let socket = match accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                Err(error) => return Err(error.into()),
            };
            sockopt::set_tcp_nodelay(&socket, true)?;
            let at = self.free.pop().unwrap_or(self.connections.len());
            epoll::add(
                &self.epoll,
                &socket,
                EventData::new_u64(at as u64),
                EventFlags::IN,
            )?;
            let connection = Some(Connection {
                socket,
                head: Vec::new(),
                unsent: VecDeque::new(),
                is_waiting_for_write: false,
            });
            match self.connections.get_mut(at) {
                Some(slot) => *slot = connection,
                None => self.connections.push(connection),
            }
        }
    }

    fn read(&mut self, at: usize, buffer: &mut [u8]) {
        let Some(Some(connection)) = self.connections.get_mut(at) else {
            return;
        };
        let count = match rustix::io::read(&connection.socket, &mut *buffer) {
            Err(Errno::AGAIN | Errno::INTR) => return,
            Ok(0) | Err(_) => return self.close(at),
            Ok(count) => count,
        };
        let bytes = buffer.get(..count).unwrap_or_default();
        let is_split = !connection.head.is_empty();
        if is_split {
            connection.head.extend_from_slice(bytes);
        }
        let all = std::mem::take(&mut connection.head);
        let mut rest = if is_split { all.as_slice() } else { bytes };
        let mut closes = false;
        while let Some(end) = self.end_of_head.find(rest) {
            let (head, after) = rest.split_at(end + 4);
            let response = self.responses.response_to(head);
            closes |= response.is_empty();
            let due = match (self.delay, self.delayed.front()) {
                (Delay::None, _) => None,
                (Delay::Together(_), Some((due, _, _))) => Some(*due),
                (Delay::Each(delay) | Delay::Together(delay), _) => Some(Instant::now() + delay),
            };
            match due {
                Some(due) => self.delayed.push_back((due, at, response)),
                None => connection.unsent.push_back(response),
            }
            rest = after;
        }
        closes |= rest.len() > MAX_HEAD;
        connection.head = rest.to_vec();
        if closes {
            return self.close(at);
        }
        self.write(at);
    }

    fn write(&mut self, at: usize) {
        let Some(Some(connection)) = self.connections.get_mut(at) else {
            return;
        };
        while let Some(range) = connection.unsent.front_mut() {
            let bytes = self.responses.bytes.get(range.clone()).unwrap_or_default();
            match rustix::io::write(&connection.socket, bytes) {
                Ok(count) if count == bytes.len() => {
                    connection.unsent.pop_front();
                    if self.responses.close {
                        return self.close(at);
                    }
                }
                Ok(count) => range.start += count,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => return self.close(at),
            }
        }
        let has_unsent = !connection.unsent.is_empty();
        if has_unsent != connection.is_waiting_for_write {
            connection.is_waiting_for_write = has_unsent;
            let flags = if has_unsent {
                EventFlags::IN | EventFlags::OUT
            } else {
                EventFlags::IN
            };
            let id = EventData::new_u64(at as u64);
            if epoll::modify(&self.epoll, connection.socket.as_fd(), id, flags).is_err() {
                self.close(at);
            }
        }
    }

    fn send_due(&mut self) {
        if self.delayed.is_empty() {
            return;
        }
        let now = Instant::now();
        while self.delayed.front().is_some_and(|(due, _, _)| *due <= now) {
            let Some((_, at, response)) = self.delayed.pop_front() else {
                return;
            };
            if let Some(Some(connection)) = self.connections.get_mut(at) {
                connection.unsent.push_back(response);
                self.write(at);
            }
        }
    }

    fn close(&mut self, at: usize) {
        if let Some(slot) = self.connections.get_mut(at)
            && slot.take().is_some()
        {
            // A delayed response must not be sent to the next connection with this index.
            self.delayed.retain(|(_, other, _)| *other != at);
            self.free.push(at);
        }
    }
}

const LISTENER: u64 = u64::MAX;
const BACKLOG: i32 = 4096;
const EVENTS: usize = 512;
const BUFFER: usize = 64 * 1024;
/// A longer incomplete head closes the connection.
const MAX_HEAD: usize = 64 * 1024;

/// Starts a floor in a thread and returns its address.
#[cfg(test)]
pub(super) fn start_in_thread(responses: &[(&str, &[u8])], delay: Delay) -> std::net::SocketAddr {
    let scratch = galley_testkit::Scratch::new().unwrap();
    let file = scratch.join("responses");
    PreparedResponses::write(&file, responses.iter().copied()).unwrap();
    let responses = PreparedResponses::read(&file).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    let floor = Floor::new(listener.into(), responses, delay).unwrap();
    std::thread::spawn(move || {
        let _ = floor.serve();
    });
    addr
}

#[cfg(test)]
mod tests {
    use galley_testkit::client::Connection;

    use super::*;

    const ONE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none";
    const TWO: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\ntwo";

    #[test]
    fn the_response_is_selected_by_target_if_there_are_several() {
        let addr = start_in_thread(&[("/1", ONE)], Delay::None);
        let mut connection = Connection::open(addr).unwrap();
        // Two heads in one write, the second one incomplete.
        connection
            .write(b"GET /any HTTP/1.1\r\n\r\nGET /thing HTTP/1.1\r\n\r")
            .unwrap();
        assert_eq!(connection.receive("GET").unwrap().raw, ONE);
        connection.write(b"\n").unwrap();
        assert_eq!(connection.receive("GET").unwrap().raw, ONE);

        let addr = start_in_thread(
            &[("/1", ONE), ("/2", TWO)],
            Delay::Each(Duration::from_millis(1)),
        );
        let mut connection = Connection::open(addr).unwrap();
        for (target, expected) in [("/2", TWO), ("/1", ONE)] {
            let head = format!("GET {target} HTTP/1.1\r\n\r\n");
            connection.write(head.as_bytes()).unwrap();
            assert_eq!(connection.receive("GET").unwrap().raw, expected);
        }
        connection.write(b"GET /3 HTTP/1.1\r\n\r\n").unwrap();
        assert!(connection.is_closed_within(Duration::from_secs(10)));
    }

    #[test]
    fn pending_responses_are_sent_together_after_the_first_delay() {
        let delay = Delay::Together(Duration::from_millis(300));
        let addr = start_in_thread(&[("/1", ONE)], delay);
        let mut connections = [(); 3].map(|()| Connection::open(addr).unwrap());
        let began = Instant::now();
        for connection in &mut connections {
            connection.write(b"GET /1 HTTP/1.1\r\n\r\n").unwrap();
        }
        for connection in &mut connections {
            assert_eq!(connection.receive("GET").unwrap().raw, ONE);
        }
        assert!(began.elapsed() >= Duration::from_millis(300));
    }

    #[test]
    fn the_connection_is_closed_after_a_response_with_connection_close() {
        let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
        let mut connection =
            Connection::open(start_in_thread(&[("/", last)], Delay::None)).unwrap();
        connection.write(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(connection.receive("GET").unwrap().body, b"x");
    }

    #[test]
    fn a_response_larger_than_the_socket_buffers_is_sent_completely() {
        let mut large = b"HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n".to_vec();
        large.resize(large.len() + 20_000_000, b'x');
        let addr = start_in_thread(&[("/", &large)], Delay::None);
        let mut connection = Connection::open(addr).unwrap();
        connection.write(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert!(connection.receive("GET").unwrap().raw == large);
    }

    #[test]
    fn a_truncated_file_is_rejected() {
        let scratch = galley_testkit::Scratch::new().unwrap();
        let file = scratch.join("responses");
        PreparedResponses::write(&file, [("/1", ONE), ("/2", TWO)]).unwrap();
        let bytes = fs::read(&file).unwrap();
        assert!(PreparedResponses::parse(bytes.clone()).is_some());
        for length in [1, 15, 20, bytes.len() - 1] {
            assert!(
                PreparedResponses::parse(bytes[..length].to_vec()).is_none(),
                "{length}"
            );
        }
    }
}
