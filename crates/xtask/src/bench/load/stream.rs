//! Requests of one kind: their connections, their pace, and what came of them.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use rustix::{event::epoll::EventFlags, io::Errno, net::sockopt};

use super::{
    Asks, Seen,
    answer::Step,
    connection::{Connection, Socket, State},
};

/// How a stream is to ask.
#[derive(Debug, Clone)]
pub(in super::super) struct Spec {
    pub(in super::super) asks: Asks,
    pub(in super::super) connections: usize,
    /// Requests in a second; `None`: each connection asks again as soon as it has its answer.
    pub(in super::super) rate: Option<f64>,
    pub(in super::super) lasting: Lasting,
}

/// How long connections stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Lasting {
    Kept,
    /// A new one for each request.
    OneRequest,
}

#[derive(Debug)]
pub(super) struct Stream {
    /// In the upper half of the number that the kernel knows its connections by.
    id: u64,
    asks: Asks,
    interval: Option<Duration>,
    lasting: Lasting,
    connections: Vec<Connection>,
    /// Connections with nothing to do.
    free: Vec<usize>,
    /// When the next request is due, where there is a pace.
    due: Instant,
    /// Requests that were due and found no free connection: when they were due.
    late: VecDeque<Instant>,
    /// Requests still to be begun in this run; without limit when the run has a length in time.
    budget: u64,
    /// The next answer is kept.
    keeps_next: bool,
    last_answer: Instant,
    pub(super) seen: Seen,
}

impl Stream {
    /// All connections stand when this returns, unless each is for one request only.
    pub(super) fn open(number: usize, spec: Spec, socket: &Socket) -> std::io::Result<Self> {
        let now = Instant::now();
        let mut stream = Self {
            id: (number as u64) << 32,
            asks: spec.asks,
            interval: spec
                .rate
                .map(|rate| Duration::from_secs_f64(1.0 / rate.max(0.001))),
            lasting: spec.lasting,
            connections: Vec::new(),
            free: Vec::new(),
            due: now,
            late: VecDeque::new(),
            budget: 0,
            keeps_next: false,
            last_answer: now,
            seen: Seen::new(),
        };
        for at in 0..spec.connections {
            let mut connection = Connection::new();
            if spec.lasting == Lasting::Kept {
                let open = socket.open()?;
                socket.register(&open, stream.id | at as u64, false)?;
                connection.socket = Some(open);
                connection.state = State::Idle;
            }
            stream.connections.push(connection);
            stream.free.push(at);
        }
        Ok(stream)
    }

    /// Begins a run.
    pub(super) fn start(&mut self, now: Instant, budget: u64, socket: &mut Socket) {
        self.seen = Seen::new();
        self.budget = budget;
        self.due = now;
        self.last_answer = now;
        self.late.clear();
        if self.interval.is_none() {
            for at in std::mem::take(&mut self.free) {
                self.go_on(at, now, socket);
            }
        }
    }

    /// Sends what is due by now.
    pub(super) fn pace(&mut self, now: Instant, socket: &mut Socket) {
        let Some(interval) = self.interval else {
            return;
        };
        while self.due <= now && self.budget > 0 {
            self.budget -= 1;
            let due = self.due;
            self.due += interval;
            match self.free.pop() {
                Some(at) => self.begin(at, due, socket),
                None if self.late.len() < MOST_LATE => self.late.push_back(due),
                None => {
                    self.seen.broken += 1;
                    self.seen
                        .trouble(|| "more requests waited than are noted".to_owned());
                }
            }
        }
    }

    /// True if requests will be due by the clock.
    pub(super) fn is_paced(&self) -> bool {
        self.interval.is_some() && self.budget > 0
    }

    /// No further request is begun.
    pub(super) fn stop(&mut self) {
        self.budget = 0;
        self.late.clear();
    }

    /// True if nothing is under way and nothing is to be begun.
    pub(super) fn is_done(&self) -> bool {
        self.free.len() == self.connections.len() && self.late.is_empty() && !self.is_paced()
    }

    /// Ends the run; what is still under way is given up.
    pub(super) fn finish(&mut self, began: Instant) -> Seen {
        for at in 0..self.connections.len() {
            let Some(connection) = self.connections.get_mut(at) else {
                continue;
            };
            if matches!(connection.state, State::Busy | State::Connecting) {
                connection.close();
                self.seen.broken += 1;
                self.seen.trouble(|| "no answer in time".to_owned());
                self.free.push(at);
            }
        }
        let mut seen = std::mem::replace(&mut self.seen, Seen::new());
        seen.took = self.last_answer.saturating_duration_since(began);
        seen
    }

    /// Something has happened on a connection.
    pub(super) fn event(
        &mut self,
        at: usize,
        flags: EventFlags,
        socket: &mut Socket,
        buffer: &mut [u8],
    ) {
        let Some(connection) = self.connections.get(at) else {
            return;
        };
        if connection.state == State::Connecting {
            let outcome = connection.socket.as_ref().map(sockopt::socket_error);
            match outcome {
                Some(Ok(Ok(()))) => self.write(at, socket),
                _ => self.broke(at, "no connection", socket),
            }
        } else if flags.contains(EventFlags::OUT) {
            self.write(at, socket);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            self.read(at, socket, buffer);
        }
    }

    /// Begins the next request on a connection, if there is one.
    fn go_on(&mut self, at: usize, now: Instant, socket: &mut Socket) {
        if let Some(due) = self.late.pop_front() {
            self.begin(at, due, socket);
        } else if self.interval.is_none() && self.budget > 0 {
            self.budget -= 1;
            self.begin(at, now, socket);
        } else {
            self.free.push(at);
        }
    }

    fn begin(&mut self, at: usize, since: Instant, socket: &mut Socket) {
        let Some(connection) = self.connections.get_mut(at) else {
            return;
        };
        connection.ask = self.asks.next();
        self.asks.counted(connection.ask, &mut connection.own);
        connection.since = since;
        connection
            .answer
            .reset(self.keeps_next || self.asks.is_sampled());
        self.keeps_next = false;
        self.send(at, socket);
    }

    /// Sends the connection's request from its beginning, on a new socket if there is none.
    fn send(&mut self, at: usize, socket: &mut Socket) {
        let id = self.id | at as u64;
        let Some(connection) = self.connections.get_mut(at) else {
            return;
        };
        connection.written = 0;
        if connection.socket.is_some() {
            connection.state = State::Busy;
            return self.write(at, socket);
        }
        let opened = socket.begin_opening().and_then(|(open, stands)| {
            socket.register(&open, id, !stands)?;
            Ok((open, stands))
        });
        match opened {
            Ok((open, stands)) => {
                connection.socket = Some(open);
                connection.waits_to_write = !stands;
                connection.state = State::Connecting;
                if stands {
                    self.write(at, socket);
                }
            }
            Err(error) => {
                // Not tried again before the next request, or it would be tried without end.
                self.seen.broken += 1;
                self.seen.trouble(|| format!("no connection: {error}"));
                self.free.push(at);
            }
        }
    }

    fn write(&mut self, at: usize, socket: &mut Socket) {
        let id = self.id | at as u64;
        let Some(connection) = self.connections.get_mut(at) else {
            return;
        };
        let Some(open) = &connection.socket else {
            return;
        };
        connection.state = State::Busy;
        let ask = self.asks.at(connection.ask);
        let bytes = match ask {
            Some(ask) if ask.counter.is_none() => ask.bytes.as_slice(),
            _ => connection.own.as_slice(),
        };
        let rest = bytes.get(connection.written..).unwrap_or_default();
        match rustix::io::write(open, rest) {
            Ok(count) => connection.written += count,
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The end of the connection shows when it is read from.
            Err(_) => return,
        }
        let is_left = connection.written < bytes.len();
        if is_left != connection.waits_to_write && socket.watch(open, id, is_left).is_ok() {
            connection.waits_to_write = is_left;
        }
    }

    fn read(&mut self, at: usize, socket: &mut Socket, buffer: &mut [u8]) {
        loop {
            let Some(connection) = self.connections.get_mut(at) else {
                return;
            };
            let Some(open) = &connection.socket else {
                return;
            };
            let count = match rustix::io::read(open, &mut *buffer) {
                Ok(0) => return self.ended(at, socket),
                Ok(count) => count,
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => return self.ended(at, socket),
            };
            let bytes = buffer.get(..count).unwrap_or_default();
            if connection.state != State::Busy {
                return self.broke(at, "bytes that nobody asked for", socket);
            }
            match connection.answer.feed(bytes) {
                Ok(Step::More) if count == buffer.len() => {}
                Ok(Step::More) => return,
                Ok(Step::Done { used }) if used == count => return self.done(at, socket),
                Ok(Step::Done { .. }) => {
                    return self.broke(at, "more bytes than the answer has", socket);
                }
                Err(malformed) => return self.broke(at, malformed.0, socket),
            }
        }
    }

    /// An answer is whole.
    fn done(&mut self, at: usize, socket: &mut Socket) {
        let now = Instant::now();
        self.last_answer = now;
        let Some(connection) = self.connections.get_mut(at) else {
            return;
        };
        connection.answers += 1;
        if let Some(ask) = self.asks.at(connection.ask) {
            let latency = now.saturating_duration_since(connection.since);
            self.keeps_next |=
                self.seen
                    .note(connection.ask, ask.wanted, &mut connection.answer, latency);
        }
        if connection.answer.closes {
            connection.state = State::Ending;
        } else {
            connection.state = State::Idle;
            self.go_on(at, now, socket);
        }
    }

    /// The server has closed.
    fn ended(&mut self, at: usize, socket: &mut Socket) {
        let Some(connection) = self.connections.get_mut(at) else {
            return;
        };
        let had_answers = connection.answers > 0;
        match connection.state {
            State::Busy if connection.answer.ends_with_connection() => {
                self.done(at, socket);
                self.reopen(at, socket);
            }
            // It closed an idle connection while the request was on its way: it is sent again.
            State::Busy if had_answers && connection.answer.is_untouched() => {
                connection.close();
                self.seen.reconnects += 1;
                self.send(at, socket);
            }
            State::Busy | State::Connecting => {
                self.broke(at, "the connection broke", socket);
            }
            State::Ending => self.reopen(at, socket),
            State::Idle | State::Closed => connection.close(),
        }
    }

    /// After an answer that was the connection's last.
    fn reopen(&mut self, at: usize, socket: &mut Socket) {
        if let Some(connection) = self.connections.get_mut(at) {
            connection.close();
        }
        if self.lasting == Lasting::Kept {
            self.seen.reconnects += 1;
        }
        self.go_on(at, Instant::now(), socket);
    }

    fn broke(&mut self, at: usize, what: &str, socket: &mut Socket) {
        self.seen.broken += 1;
        self.seen.trouble(|| what.to_owned());
        let Some(connection) = self.connections.get_mut(at) else {
            return;
        };
        let was_free = matches!(connection.state, State::Idle | State::Closed);
        connection.close();
        if was_free {
            return;
        }
        if self.seen.broken < MOST_BROKEN {
            self.go_on(at, Instant::now(), socket);
        } else {
            self.free.push(at);
        }
    }
}

/// Requests that wait for a connection, where there is a pace: some seconds of any pace that the bench has.
const MOST_LATE: usize = 200_000;
/// Connections that may break in one run before theirs are given up.
const MOST_BROKEN: u64 = 10_000;
