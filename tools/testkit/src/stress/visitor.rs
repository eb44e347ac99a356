//! Visitors with one connection each, and the checks of their responses.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::TestkitError;
use crate::client::{Connection, Response};

/// A client that reconnects after its connection was closed.
pub(super) struct Visitor {
    addr: SocketAddr,
    host: &'static str,
    /// The client address to connect from, if it is not the default one.
    from: Option<Ipv4Addr>,
    connection: Option<Connection>,
}

/// Counts of requests and their outcomes.
#[derive(Debug, Clone, Default)]
pub(super) struct VisitorCounts {
    pub(super) requests: u64,
    pub(super) failures: u64,
    pub(super) rejected: u64,
    pub(super) longest_wait: Duration,
    pub(super) examples: Vec<String>,
}

/// The response that a request must get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// The complete page, because it is stored.
    Stored,
    /// Any response, also an error, because PHP generates the page.
    Generated,
}

/// The outcome of a request.
#[derive(Debug)]
enum Outcome {
    Complete(Response),
    /// The connection broke within the response, which a client notices by the framing.
    Truncated,
    NoResponse(TestkitError),
}

impl Visitor {
    pub(super) fn new(addr: SocketAddr, host: &'static str) -> Self {
        Self {
            addr,
            host,
            from: None,
            connection: None,
        }
    }

    /// Connects from this address.
    pub(super) fn from(self, from: Ipv4Addr) -> Self {
        Self {
            from: Some(from),
            ..self
        }
    }

    pub(super) fn many(addr: SocketAddr, host: &'static str, count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::new(addr, host)).collect()
    }

    /// Sends one request and judges the response; returns how long it took.
    pub(super) fn get(
        &mut self,
        path: &str,
        expected: Expected,
        counts: &mut VisitorCounts,
    ) -> Duration {
        let started = Instant::now();
        let sent = self.send(path);
        let outcome = self.receive(sent);
        let took = started.elapsed();
        counts.judge(path, expected, took, &outcome);
        took
    }

    fn send(&mut self, path: &str) -> Result<(), TestkitError> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/html,*/*\r\n\r\n",
            self.host
        );
        self.connection()?.write(request.as_bytes())
    }

    /// Receives the response to the request with which [`Self::send`] returned `sent`.
    fn receive(&mut self, sent: Result<(), TestkitError>) -> Outcome {
        let outcome = match sent.and_then(|()| self.connection()) {
            Ok(connection) => match connection.receive("GET") {
                Ok(response) => Outcome::Complete(response),
                Err(TestkitError::Io { .. }) if connection.has_partial_response() => {
                    Outcome::Truncated
                }
                Err(error) => Outcome::NoResponse(error),
            },
            Err(error) => Outcome::NoResponse(error),
        };
        let stays_open = matches!(&outcome, Outcome::Complete(response) if !response.closes());
        if !stays_open {
            self.connection = None;
        }
        outcome
    }

    fn connection(&mut self) -> Result<&mut Connection, TestkitError> {
        let connection = match (self.connection.take(), self.from) {
            (Some(connection), _) => connection,
            (None, Some(from)) => Connection::from_address(from, self.addr, TIMEOUT)?,
            (None, None) => Connection::within(self.addr, TIMEOUT)?,
        };
        Ok(self.connection.insert(connection))
    }
}

/// Sends one request for each visitor, then receives the responses in this order. The waits are counted until a response is received in
/// its turn, so they are upper bounds.
pub(super) fn request_all(
    visitors: &mut [Visitor],
    next: &mut dyn FnMut() -> (String, Expected),
    counts: &mut VisitorCounts,
) {
    let requests: Vec<_> = visitors
        .iter_mut()
        .map(|visitor| {
            let (path, expected) = next();
            let started = Instant::now();
            (visitor.send(&path), path, expected, started)
        })
        .collect();
    for (visitor, (sent, path, expected, started)) in visitors.iter_mut().zip(requests) {
        let outcome = visitor.receive(sent);
        counts.judge(&path, expected, started.elapsed(), &outcome);
    }
}

impl VisitorCounts {
    fn judge(&mut self, path: &str, expected: Expected, took: Duration, outcome: &Outcome) {
        self.requests += 1;
        match (expected, outcome) {
            (Expected::Stored, Outcome::Complete(response))
                if response.status == 200 && is_complete(path, &response.body) => {}
            (Expected::Generated, Outcome::Truncated) => self.rejected += 1,
            (Expected::Generated, Outcome::Complete(response)) => {
                self.rejected += u64::from(matches!(response.status, 502..=504));
            }
            (Expected::Stored, _) | (_, Outcome::NoResponse(_)) => self.fail(path, outcome),
        }
        if expected == Expected::Stored {
            self.longest_wait = self.longest_wait.max(took);
        }
    }

    fn fail(&mut self, path: &str, outcome: &Outcome) {
        self.failures += 1;
        if self.examples.len() < MAX_EXAMPLES {
            let what = match outcome {
                Outcome::Complete(response) => {
                    format!("status {}, {} bytes", response.status, response.body.len())
                }
                Outcome::Truncated => "the response was truncated".to_owned(),
                Outcome::NoResponse(error) => error.to_string(),
            };
            self.examples.push(format!("{path}: {what}"));
        }
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.requests += other.requests;
        self.failures += other.failures;
        self.rejected += other.rejected;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        let room = MAX_EXAMPLES.saturating_sub(self.examples.len());
        self.examples.extend(other.examples.into_iter().take(room));
    }
}

/// True if this is the whole page: those of WordPress end with `</html>`, those of the soak test with their path.
fn is_complete(path: &str, body: &[u8]) -> bool {
    body.trim_ascii_end().ends_with(b"</html>") || body.ends_with(path.as_bytes())
}

/// Lowers the priority of this thread below that of the clients that measure times: the measurement is about the server, not about
/// two clients that compete for a core.
pub(super) fn lower_priority() {
    // On Linux this affects only this thread. Without permission, the times are longer than they should be.
    let _ = rustix::process::nice(10);
}

/// How [`raise_priority`] raised the priority of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RaisedPriority {
    /// By a real-time scheduling policy.
    RealTime,
    /// By a nice value.
    Nice,
    /// Not at all, because this user may not.
    None,
}

/// Raises the priority of this thread, which measures times, above all others if this user may: it then measures how long the server
/// took, not how long it waited itself for a core that PHP was using. A real visitor has a separate machine.
pub(super) fn raise_priority() -> RaisedPriority {
    if schedule(&["--fifo", "--reset-on-fork"], "1") {
        RaisedPriority::RealTime
    } else if rustix::process::nice(-10).is_ok() {
        RaisedPriority::Nice
    } else {
        RaisedPriority::None
    }
}

/// Undoes [`raise_priority`].
pub(super) fn restore_priority(raised: RaisedPriority) {
    match raised {
        RaisedPriority::RealTime => {
            schedule(&["--other"], "0");
        }
        RaisedPriority::Nice => {
            let _ = rustix::process::nice(10);
        }
        RaisedPriority::None => {}
    }
}

/// Sets the policy and priority of this thread with `chrt(1)`; false if this user may not.
fn schedule(policy: &[&str], priority: &str) -> bool {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let status = Command::new("chrt")
        .args(policy)
        .args(["--pid", priority, &thread])
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// Enough to show what failures have in common.
const MAX_EXAMPLES: usize = 5;

/// For one response.
const TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Origin;

    fn complete(status: u16, body: &str) -> Outcome {
        Outcome::Complete(Response {
            version: "HTTP/1.1".to_owned(),
            status,
            fields: Vec::new(),
            body: body.into(),
            interim: Vec::new(),
            raw: Vec::new(),
        })
    }

    fn no_response() -> Outcome {
        Outcome::NoResponse(TestkitError::Malformed("status line".to_owned()))
    }

    #[test]
    fn a_stored_page_must_be_complete_and_other_requests_need_a_response() {
        for (expected, outcome, failures, rejected) in [
            (Expected::Stored, complete(200, "<html></html>\n"), 0, 0),
            (Expected::Stored, complete(200, "0123/e/1"), 0, 0),
            (Expected::Stored, complete(200, "0123/e/2"), 1, 0),
            (Expected::Stored, complete(200, "<html>"), 1, 0),
            (Expected::Stored, complete(503, "</html>"), 1, 0),
            (Expected::Stored, no_response(), 1, 0),
            (Expected::Stored, Outcome::Truncated, 1, 0),
            (Expected::Generated, complete(503, ""), 0, 1),
            (Expected::Generated, Outcome::Truncated, 0, 1),
            (Expected::Generated, complete(404, ""), 0, 0),
            (Expected::Generated, no_response(), 1, 0),
        ] {
            let mut counts = VisitorCounts::default();
            counts.judge("/e/1", expected, Duration::ZERO, &outcome);
            let judged = (counts.failures, counts.rejected);
            assert_eq!(judged, (failures, rejected), "{expected:?} {outcome:?}");
        }
    }
    #[test]
    fn a_truncated_response_differs_from_none() {
        let origin = Origin::start(|request, writer| {
            if request.path() == "/truncated" {
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel");
            }
            writer.close();
        })
        .unwrap();
        let mut visitor = Visitor::new(origin.addr(), "example.test");
        for (path, failures, rejected) in [("/truncated", 0, 1), ("/none", 1, 0)] {
            let mut counts = VisitorCounts::default();
            visitor.get(path, Expected::Generated, &mut counts);
            assert_eq!((counts.failures, counts.rejected), (failures, rejected));
        }
    }
}
