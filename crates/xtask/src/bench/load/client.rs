//! The loop of the client: waits for the kernel, sends what is due, ends when the time is up and all answers are in.

use std::{
    net::SocketAddr,
    os::fd::OwnedFd,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    buffer::spare_capacity,
    event::epoll::{self, CreateFlags},
    io::Errno,
    time::Timespec,
};

use super::{Seen, Spec, connection::Socket, stream::Stream};
use crate::{bench::interrupt::Interrupt, demo::Complaint};

/// Connections to one server, ready to ask. May run several times; the connections stay.
#[derive(Debug)]
pub(in super::super) struct Client<'a> {
    socket: Socket,
    streams: Vec<Stream>,
    /// Connections that never ask.
    idle: Vec<OwnedFd>,
    buffer: Vec<u8>,
    interrupt: &'a Interrupt,
}

/// When a run ends.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Until {
    /// After this time, when the answers under way have come.
    After(Duration),
    /// When each stream has had so many answers.
    Answers(u64),
}

impl<'a> Client<'a> {
    /// Opens all connections, and `idle` ones that only stay.
    ///
    /// # Errors
    /// When the server does not take one within ten seconds.
    pub(in super::super) fn connect(
        addr: SocketAddr,
        specs: Vec<Spec>,
        idle: usize,
        interrupt: &'a Interrupt,
    ) -> Result<Self, Complaint> {
        let SocketAddr::V4(addr) = addr else {
            return Err("the bench speaks IPv4".into());
        };
        let socket = Socket::new(epoll::create(CreateFlags::CLOEXEC)?, addr);
        let told = |error: std::io::Error| format!("cannot connect to {addr}: {error}");
        let mut idlers = Vec::new();
        for _ in 0..idle {
            interrupt.check()?;
            idlers.push(socket.open().map_err(told)?);
        }
        let mut streams = Vec::new();
        for (number, spec) in specs.into_iter().enumerate() {
            streams.push(Stream::open(number, spec, &socket).map_err(told)?);
        }
        Ok(Self {
            socket,
            streams,
            idle: idlers,
            buffer: vec![0; BUFFER],
            interrupt,
        })
    }

    /// Asks; returns what each stream has seen.
    ///
    /// # Errors
    /// When a signal asks the bench to end.
    pub(in super::super) fn run(&mut self, until: Until) -> Result<Vec<Seen>, Complaint> {
        let began = Instant::now();
        let (mut end, budget) = match until {
            Until::After(time) => (Some(began + time), u64::MAX),
            Until::Answers(count) => (None, count),
        };
        let mut deadline = began + end.map_or(PATIENCE, |end| end - began + PATIENCE);
        for stream in &mut self.streams {
            stream.start(began, budget, &mut self.socket);
        }
        let mut events = Vec::with_capacity(EVENTS);
        loop {
            self.interrupt.check()?;
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                self.streams.iter_mut().for_each(Stream::stop);
                end = None;
                deadline = now + PATIENCE;
            }
            for stream in &mut self.streams {
                stream.pace(now, &mut self.socket);
            }
            let is_done = end.is_none() && self.streams.iter().all(Stream::is_done);
            if is_done || now > deadline {
                break;
            }
            self.wait(&mut events)?;
        }
        Ok(self
            .streams
            .iter_mut()
            .map(|stream| stream.finish(began))
            .collect())
    }

    /// Idle connections that the server has closed.
    pub(in super::super) fn idle_lost(&self) -> usize {
        let mut byte = [0];
        self.idle
            .iter()
            .filter(|socket| !matches!(rustix::io::read(socket, &mut byte), Err(Errno::AGAIN)))
            .count()
    }

    fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), Complaint> {
        // With a pace the loop turns without sleep: the kernel would wake it late, and the core is its own.
        let is_paced = self.streams.iter().any(Stream::is_paced);
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: if is_paced { 0 } else { TURN_NS },
        };
        match epoll::wait(&self.socket.epoll, spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if events.is_empty() && is_paced {
            thread::yield_now();
        }
        for event in events.drain(..) {
            let id = event.data.u64();
            let (number, at) = (id >> 32, id & 0xFFFF_FFFF);
            let number = usize::try_from(number).unwrap_or(usize::MAX);
            if let Some(stream) = self.streams.get_mut(number) {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                stream.event(at, event.flags, &mut self.socket, &mut self.buffer);
            }
        }
        Ok(())
    }
}

/// Of one read. Large enough that a large file costs few of them.
const BUFFER: usize = 512 * 1024;
const EVENTS: usize = 512;
/// How long answers may be awaited after the end.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest sleep: a signal is noticed so soon.
const TURN_NS: i64 = 50_000_000;

#[cfg(test)]
mod tests {
    use galley_testkit::origin::Origin;

    use super::*;
    use crate::bench::load::{Ask, Asks, Lasting, Order, Wanted};

    /// An origin with answers of many kinds, by path.
    fn origin() -> Origin {
        Origin::start(|seen, wire| {
            let closes = match seen.path() {
                "/fine" => !wire.answer(200, &[], b"hello"),
                "/last" => wire.answer(200, &[("Connection", "close")], b"hello"),
                // Without a word: the next request on the connection meets a closed one.
                "/shut" => wire.answer(200, &[], b"hello"),
                "/chunked" => {
                    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n";
                    !(wire.write(head) && wire.write(b"2\r\nlo\r\n0\r\n\r\n"))
                }
                "/short" => wire.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"),
                "/noise" => wire.write(b"no answer at all\r\n\r\n"),
                "/silent" => true,
                _ => !wire.answer(404, &[], b"hello"),
            };
            if closes {
                wire.close();
            }
        })
        .unwrap()
    }

    fn asked(path: &str, lasting: Lasting, count: u64) -> Seen {
        let origin = origin();
        let wanted = Wanted {
            status: 200,
            length: Some(5),
        };
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        let spec = Spec {
            asks: Asks::new(vec![Ask::new(head.into_bytes(), wanted)], Order::InTurn),
            connections: 2,
            rate: None,
            lasting,
        };
        let interrupt = Interrupt::default();
        let mut client = Client::connect(origin.addr(), vec![spec], 0, &interrupt).unwrap();
        client.run(Until::Answers(count)).unwrap().remove(0)
    }

    #[test]
    fn right_answers_of_every_kind_count_and_closed_connections_are_replaced() {
        for (path, lasting) in [
            ("/fine", Lasting::Kept),
            ("/chunked", Lasting::Kept),
            ("/last", Lasting::Kept),
            ("/last", Lasting::OneRequest),
            ("/shut", Lasting::Kept),
        ] {
            let seen = asked(path, lasting, 20);
            assert_eq!(
                (seen.answers, seen.broken, seen.wrong_status),
                (20, 0, 0),
                "{path}: {:?}",
                seen.first_trouble
            );
            assert!(seen.odd_lengths.is_empty(), "{path}");
            assert_eq!(seen.samples[0].body, b"hello", "{path}");
        }
    }

    #[test]
    fn wrong_answers_are_counted_and_named() {
        for (path, wrong_status, broken, word) in [
            ("/missing", 20, 0, "404"),
            ("/short", 0, 20, "broke"),
            ("/noise", 0, 20, "head"),
            ("/silent", 0, 20, "broke"),
        ] {
            let seen = asked(path, Lasting::Kept, 20);
            assert_eq!(
                (seen.wrong_status, seen.broken),
                (wrong_status, broken),
                "{path}"
            );
            let trouble = seen.first_trouble.unwrap();
            assert!(trouble.contains(word), "{path}: {trouble}");
        }
    }
}
