//! `xtask floor`: the least that a server can do, as the measure of all others. A bare epoll loop in one thread that finds
//! the end of each request's head and sends bytes that were made before: those with which Galley answered the same
//! request. It looks at nothing else: no method, no field, no host, no log.
//!
//! With several answers it looks the request's target up in a table. With a delay it is the slow upstream of the
//! scenarios that need one: each answer is sent so long after its request. Where it holds them together, all are sent so long after
//! the first request: the cost of a thousand visitors who wait for one page, and nothing else.

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

use crate::demo::CommandError;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Where to listen on 127.0.0.1
    #[arg(long)]
    port: u16,
    /// The file of answers
    #[arg(long)]
    answers: PathBuf,
    /// How long each answer waits
    #[arg(long, default_value_t = 0)]
    delay_ms: u64,
    /// How long the first answer waits, and all that are asked for meanwhile wait with it
    #[arg(long, default_value_t = 0, conflicts_with = "delay_ms")]
    together_ms: u64,
}

/// Serves until it is killed.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let answers = Answers::read(&arguments.answers)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port))?;
    // The backlog of the standard library is 128; the stampede needs more.
    rustix::net::listen(&listener, BACKLOG)?;
    listener.set_nonblocking(true)?;
    let delay = match (arguments.delay_ms, arguments.together_ms) {
        (0, 0) => Delay::None,
        (ms, 0) => Delay::Each(Duration::from_millis(ms)),
        (_, ms) => Delay::Together(Duration::from_millis(ms)),
    };
    Floor::new(listener.into(), answers, delay)?.serve()
}

/// When answers leave.
#[derive(Clone, Copy, Debug)]
pub(super) enum Delay {
    /// At once.
    None,
    /// So long after their request.
    Each(Duration),
    /// So long after the first request of those that wait.
    Together(Duration),
}

/// Whole answers by the target of the request.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    bytes: Vec<u8>,
    by_target: HashMap<Vec<u8>, Range<usize>>,
    /// Where there is one only, it answers everything.
    only: Option<Range<usize>>,
    /// The answers say that the connection ends with them.
    close: bool,
}

impl Answers {
    /// The file: for each answer the lengths of target and answer (8 bytes each, little-endian), then both.
    ///
    /// ```text
    /// | length of target | length of answer | target | answer | ...
    /// ```
    pub(crate) fn write<'a>(
        path: &Path,
        answers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<(), CommandError> {
        let mut out = Vec::new();
        for (target, answer) in answers {
            out.extend_from_slice(&(target.len() as u64).to_le_bytes());
            out.extend_from_slice(&(answer.len() as u64).to_le_bytes());
            out.extend_from_slice(target.as_bytes());
            out.extend_from_slice(answer);
        }
        fs::write(path, out)?;
        Ok(())
    }

    fn read(path: &Path) -> Result<Self, CommandError> {
        let bytes = fs::read(path)?;
        Self::parse(bytes).ok_or_else(|| format!("`{}` is cut short", path.display()).into())
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
            let (target, answer) = (length(at)?, length(at + 8)?);
            let middle = (at + 16).checked_add(target)?;
            let end = middle.checked_add(answer)?;
            let target = bytes.get(at + 16..middle)?;
            bytes.get(middle..end)?;
            last = middle..end;
            by_target.insert(target.to_vec(), last.clone());
            at = end;
        }
        let close = says_close(bytes.get(last.clone())?);
        let only = (by_target.len() == 1).then_some(last);
        Some(Self {
            bytes,
            by_target,
            only,
            close,
        })
    }

    /// The answer to this head.
    fn to(&self, head: &[u8]) -> Range<usize> {
        if let Some(only) = &self.only {
            return only.clone();
        }
        let target = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        self.by_target.get(target).cloned().unwrap_or_default()
    }
}

/// Whether an answer's head says `Connection: close`.
fn says_close(answer: &[u8]) -> bool {
    let end = memchr::memmem::find(answer, b"\r\n\r\n").unwrap_or(answer.len());
    let head = answer.get(..end).unwrap_or_default().to_ascii_lowercase();
    memchr::memmem::find(&head, b"\r\nconnection: close").is_some()
}

/// One connection.
#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    /// The beginning of a head whose end has not come.
    head: Vec<u8>,
    /// What of the answers has yet to leave.
    left: VecDeque<Range<usize>>,
    waits_to_write: bool,
}

#[derive(Debug)]
struct Floor {
    epoll: OwnedFd,
    listener: OwnedFd,
    answers: Answers,
    delay: Delay,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// Answers that wait for their time, in order.
    waiting: VecDeque<(Instant, usize, Range<usize>)>,
    end_of_head: Finder<'static>,
}

impl Floor {
    fn new(listener: OwnedFd, answers: Answers, delay: Delay) -> Result<Self, CommandError> {
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
            answers,
            delay,
            connections: Vec::new(),
            free: Vec::new(),
            waiting: VecDeque::new(),
            end_of_head: Finder::new(b"\r\n\r\n"),
        })
    }

    fn serve(mut self) -> Result<(), CommandError> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut buffer = vec![0; BUFFER];
        loop {
            let timeout = self.until_next();
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

    fn until_next(&self) -> Option<Timespec> {
        let (due, _, _) = self.waiting.front()?;
        let left = due.saturating_duration_since(Instant::now());
        // Rounded up to what the kernel counts in.
        let ms = i64::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i64::MAX);
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
                left: VecDeque::new(),
                waits_to_write: false,
            });
            match self.connections.get_mut(at) {
                Some(place) => *place = connection,
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
            let answer = self.answers.to(head);
            closes |= answer.is_empty();
            let due = match (self.delay, self.waiting.front()) {
                (Delay::None, _) => None,
                (Delay::Together(_), Some((due, _, _))) => Some(*due),
                (Delay::Each(delay) | Delay::Together(delay), _) => Some(Instant::now() + delay),
            };
            match due {
                Some(due) => self.waiting.push_back((due, at, answer)),
                None => connection.left.push_back(answer),
            }
            rest = after;
        }
        closes |= rest.len() > MOST_HEAD;
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
        while let Some(range) = connection.left.front_mut() {
            let bytes = self.answers.bytes.get(range.clone()).unwrap_or_default();
            match rustix::io::write(&connection.socket, bytes) {
                Ok(count) if count == bytes.len() => {
                    connection.left.pop_front();
                    if self.answers.close {
                        return self.close(at);
                    }
                }
                Ok(count) => range.start += count,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(_) => return self.close(at),
            }
        }
        let is_left = !connection.left.is_empty();
        if is_left != connection.waits_to_write {
            connection.waits_to_write = is_left;
            let flags = if is_left {
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
        if self.waiting.is_empty() {
            return;
        }
        let now = Instant::now();
        while self.waiting.front().is_some_and(|(due, _, _)| *due <= now) {
            let Some((_, at, answer)) = self.waiting.pop_front() else {
                return;
            };
            if let Some(Some(connection)) = self.connections.get_mut(at) {
                connection.left.push_back(answer);
                self.write(at);
            }
        }
    }

    fn close(&mut self, at: usize) {
        if let Some(place) = self.connections.get_mut(at)
            && place.take().is_some()
        {
            // An answer that still waits must not go to the next connection with this number.
            self.waiting.retain(|(_, other, _)| *other != at);
            self.free.push(at);
        }
    }
}

const LISTENER: u64 = u64::MAX;
const BACKLOG: i32 = 4096;
const EVENTS: usize = 512;
const BUFFER: usize = 64 * 1024;
/// A longer head without an end closes the connection.
const MOST_HEAD: usize = 64 * 1024;

/// Where it runs in this process, for tests.
#[cfg(test)]
pub(super) fn started(answers: &[(&str, &[u8])], delay: Delay) -> std::net::SocketAddr {
    let scratch = galley_testkit::Scratch::new().unwrap();
    let file = scratch.join("answers");
    Answers::write(&file, answers.iter().copied()).unwrap();
    let answers = Answers::read(&file).unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let addr = listener.local_addr().unwrap();
    let floor = Floor::new(listener.into(), answers, delay).unwrap();
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
    fn it_sends_what_it_was_given_and_by_target_where_there_are_several() {
        let addr = started(&[("/1", ONE)], Delay::None);
        let mut connection = Connection::open(addr).unwrap();
        // Two heads in one write, the second one cut.
        connection
            .write(b"GET /any HTTP/1.1\r\n\r\nGET /thing HTTP/1.1\r\n\r")
            .unwrap();
        assert_eq!(connection.receive("GET").unwrap().raw, ONE);
        connection.write(b"\n").unwrap();
        assert_eq!(connection.receive("GET").unwrap().raw, ONE);

        let addr = started(
            &[("/1", ONE), ("/2", TWO)],
            Delay::Each(Duration::from_millis(1)),
        );
        let mut connection = Connection::open(addr).unwrap();
        for (target, wanted) in [("/2", TWO), ("/1", ONE)] {
            let head = format!("GET {target} HTTP/1.1\r\n\r\n");
            connection.write(head.as_bytes()).unwrap();
            assert_eq!(connection.receive("GET").unwrap().raw, wanted);
        }
        connection.write(b"GET /3 HTTP/1.1\r\n\r\n").unwrap();
        assert!(connection.is_closed_within(Duration::from_secs(10)));
    }

    #[test]
    fn who_asks_while_the_first_waits_is_answered_with_it() {
        let delay = Delay::Together(Duration::from_millis(300));
        let addr = started(&[("/1", ONE)], delay);
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
    fn an_answer_that_says_close_is_the_last() {
        let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
        let mut connection = Connection::open(started(&[("/", last)], Delay::None)).unwrap();
        connection.write(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert_eq!(connection.receive("GET").unwrap().body, b"x");
    }

    #[test]
    fn an_answer_larger_than_the_sockets_buffers_arrives_whole() {
        let mut large = b"HTTP/1.1 200 OK\r\nContent-Length: 20000000\r\n\r\n".to_vec();
        large.resize(large.len() + 20_000_000, b'x');
        let addr = started(&[("/", &large)], Delay::None);
        let mut connection = Connection::open(addr).unwrap();
        connection.write(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        assert!(connection.receive("GET").unwrap().raw == large);
    }

    #[test]
    fn a_file_that_is_cut_short_is_refused() {
        let scratch = galley_testkit::Scratch::new().unwrap();
        let file = scratch.join("answers");
        Answers::write(&file, [("/1", ONE), ("/2", TWO)]).unwrap();
        let bytes = fs::read(&file).unwrap();
        assert!(Answers::parse(bytes.clone()).is_some());
        for length in [1, 15, 20, bytes.len() - 1] {
            assert!(
                Answers::parse(bytes[..length].to_vec()).is_none(),
                "{length}"
            );
        }
    }
}
