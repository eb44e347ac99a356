//! Visitors with a connection each, and the judging of what they get.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::TestkitError;
use crate::growth::asker::Asker;

/// A visitor, who connects anew when the connection has been lost.
pub(super) struct Visitor {
    addr: SocketAddr,
    host: &'static str,
    /// The client's address, where it is not this machine's.
    from: Option<Ipv4Addr>,
    asker: Option<Asker>,
}

/// What answers came to.
#[derive(Debug, Clone, Default)]
pub(super) struct Counted {
    pub(super) requests: u64,
    pub(super) failures: u64,
    pub(super) refused: u64,
    pub(super) worst: Duration,
    pub(super) complaints: Vec<String>,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A page of which there is a copy: anything but all of it is a failure.
    Stored,
    /// Something that PHP must compose: to be told that it cannot is no failure, to be told nothing is.
    Composed,
}

type Answer = Result<(String, Vec<u8>), TestkitError>;

impl Visitor {
    pub(super) fn new(addr: SocketAddr, host: &'static str) -> Self {
        Self {
            addr,
            host,
            from: None,
            asker: None,
        }
    }

    /// The same with an address of his own.
    pub(super) fn from(self, from: Ipv4Addr) -> Self {
        Self {
            from: Some(from),
            ..self
        }
    }

    pub(super) fn many(addr: SocketAddr, host: &'static str, count: usize) -> Vec<Self> {
        (0..count).map(|_| Self::new(addr, host)).collect()
    }

    pub(super) fn connect(&mut self) -> Result<&mut Asker, TestkitError> {
        let asker = match (self.asker.take(), self.from) {
            (Some(asker), _) => asker,
            (None, Some(from)) => Asker::open_from(from, self.addr)?,
            (None, None) => Asker::open(self.addr)?,
        };
        Ok(self.asker.insert(asker))
    }

    fn ask(&mut self, path: &str) -> Result<(), TestkitError> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAccept: text/html,*/*\r\n\r\n",
            self.host
        );
        self.connect()?.send(request.as_bytes())
    }

    fn hear(&mut self) -> Answer {
        let asker = self.connect()?;
        let answer = match asker.answer() {
            Err(_) if asker.has_begun() => Ok((BROKEN_OFF.to_owned(), Vec::new())),
            answer => answer,
        };
        let closes = |head: &str| head.to_ascii_lowercase().contains("connection: close");
        if answer.as_ref().map_or(true, |(head, _)| closes(head)) {
            self.asker = None;
        }
        answer
    }

    /// Asks once and judges.
    pub(super) fn get(&mut self, path: &str, wanted: Wanted, counted: &mut Counted) -> Duration {
        let began = Instant::now();
        let answer = self.ask(path).and_then(|()| self.hear());
        let took = began.elapsed();
        counted.judge(path, wanted, took, &answer);
        took
    }
}

/// Gives this thread's processor to the clients that measure times: what is measured is the server, not two clients that fight
/// for a core.
pub(super) fn step_back() {
    // Of this thread alone, on Linux. Where it may not be, the clock shows more than it should.
    let _ = rustix::process::nice(10);
}

/// How a thread was let go before others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ahead {
    /// Of all that are not in real time too.
    RealTime,
    /// By a nice value.
    Nice,
    /// Not at all: it may not.
    Not,
}

/// Lets this thread, which looks at the clock, go before all others, where that is allowed: what it sees is then how long the
/// server took, and not how long it waited itself for a core that PHP was working on. A visitor has a machine of his own.
pub(super) fn step_forward() -> Ahead {
    if schedule(&["--fifo", "--reset-on-fork"], "1") {
        Ahead::RealTime
    } else if rustix::process::nice(-10).is_ok() {
        Ahead::Nice
    } else {
        Ahead::Not
    }
}

/// Undoes that.
pub(super) fn step_down(ahead: Ahead) {
    match ahead {
        Ahead::RealTime => {
            schedule(&["--other"], "0");
        }
        Ahead::Nice => {
            let _ = rustix::process::nice(10);
        }
        Ahead::Not => {}
    }
}

/// Gives this thread a policy and priority of `chrt(1)`; false where that may not be.
fn schedule(policy: &[&str], priority: &str) -> bool {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let done = Command::new("chrt")
        .args(policy)
        .args(["--pid", priority, &thread])
        .stderr(Stdio::null())
        .status();
    done.is_ok_and(|status| status.success())
}

/// All ask, then all are heard in turn: one request each. A wait is counted until its turn, so it is at most so long.
pub(super) fn round(
    visitors: &mut [Visitor],
    path: &mut dyn FnMut() -> (String, Wanted),
    counted: &mut Counted,
) {
    let asked: Vec<_> = visitors
        .iter_mut()
        .map(|visitor| {
            let (path, wanted) = path();
            let began = Instant::now();
            (visitor.ask(&path), path, wanted, began)
        })
        .collect();
    for (visitor, (asked, path, wanted, began)) in visitors.iter_mut().zip(asked) {
        let answer = asked.and_then(|()| visitor.hear());
        counted.judge(&path, wanted, began.elapsed(), &answer);
    }
}

impl Counted {
    fn judge(&mut self, path: &str, wanted: Wanted, took: Duration, answer: &Answer) {
        self.requests += 1;
        let status = answer.as_ref().ok().and_then(|(head, _)| status(head));
        match (wanted, status) {
            (Wanted::Stored, Some(200)) if is_whole(path, answer) => {}
            (Wanted::Composed, Some(0 | 502..=504)) => self.refused += 1,
            (Wanted::Composed, Some(_)) => {}
            (Wanted::Stored, _) | (Wanted::Composed, None) => self.fail(path, answer),
        }
        if wanted == Wanted::Stored {
            self.worst = self.worst.max(took);
        }
    }

    fn fail(&mut self, path: &str, answer: &Answer) {
        self.failures += 1;
        if self.complaints.len() < MOST_COMPLAINTS {
            let said = match answer {
                Ok((head, body)) => {
                    let line = head.lines().next().unwrap_or_default();
                    format!("{line}, {} bytes", body.len())
                }
                Err(trouble) => trouble.to_string(),
            };
            self.complaints.push(format!("{path}: {said}"));
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.failures += other.failures;
        self.refused += other.refused;
        self.worst = self.worst.max(other.worst);
        let room = MOST_COMPLAINTS.saturating_sub(self.complaints.len());
        self.complaints
            .extend(other.complaints.into_iter().take(room));
    }
}

fn status(head: &str) -> Option<u16> {
    head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

/// Pages of WordPress end as documents do; those of the soak end with their path.
fn is_whole(path: &str, answer: &Answer) -> bool {
    let Ok((head, body)) = answer else {
        return false;
    };
    let joined;
    let body = if head
        .to_ascii_lowercase()
        .contains("\r\ntransfer-encoding: chunked")
    {
        joined = joined_chunks(body);
        joined.as_slice()
    } else {
        body.as_slice()
    };
    body.trim_ascii_end().ends_with(b"</html>") || body.ends_with(path.as_bytes())
}

/// The content of a chunked body, as far as it can be read.
fn joined_chunks(mut rest: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(rest.len());
    while let Some(line) = rest.windows(2).position(|end| end == b"\r\n") {
        let size = std::str::from_utf8(&rest[..line]).ok();
        let size = size.and_then(|hex| usize::from_str_radix(hex, 16).ok());
        let (Some(size @ 1..), rest_of) = (size, &rest[line + 2..]) else {
            break;
        };
        let Some(chunk) = rest_of.get(..size) else {
            break;
        };
        out.extend_from_slice(chunk);
        rest = rest_of.get(size + 2..).unwrap_or_default();
    }
    out
}

/// Stands for an answer that ended too early: its client could see that, by its framing.
const BROKEN_OFF: &str = "HTTP/1.1 000 broken off\r\nConnection: close\r\n\r\n";

/// Enough to see what they have in common.
const MOST_COMPLAINTS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    const CHUNKED: &str = "200 OK\r\nTransfer-Encoding: chunked";

    #[test]
    fn a_copy_must_be_complete_and_other_requests_get_a_response() {
        let page = |head: &str, body: &str| Ok((format!("HTTP/1.1 {head}\r\n\r\n"), body.into()));
        let lost = || Err(TestkitError::Malformed("the server has left".to_owned()));
        for (wanted, answer, failures, refused) in [
            (Wanted::Stored, page("200 OK", "<html></html>\n"), 0, 0),
            (Wanted::Stored, page("200 OK", "0123/e/1"), 0, 0),
            (Wanted::Stored, page("200 OK", "<html>"), 1, 0),
            (
                Wanted::Stored,
                page(CHUNKED, "4\r\n01/e\r\n2\r\n/1\r\n0\r\n\r\n"),
                0,
                0,
            ),
            (
                Wanted::Stored,
                page(CHUNKED, "4\r\n01/e\r\n2\r\n/2\r\n0\r\n\r\n"),
                1,
                0,
            ),
            (Wanted::Stored, page("503 Busy", "</html>"), 1, 0),
            (Wanted::Stored, lost(), 1, 0),
            (Wanted::Composed, page("503 Busy", ""), 0, 1),
            (
                Wanted::Composed,
                Ok((BROKEN_OFF.to_owned(), Vec::new())),
                0,
                1,
            ),
            (
                Wanted::Stored,
                Ok((BROKEN_OFF.to_owned(), Vec::new())),
                1,
                0,
            ),
            (Wanted::Composed, page("404 No", ""), 0, 0),
            (Wanted::Composed, lost(), 1, 0),
        ] {
            let mut counted = Counted::default();
            counted.judge("/e/1", wanted, Duration::ZERO, &answer);
            let seen = (counted.failures, counted.refused);
            assert_eq!(seen, (failures, refused), "{wanted:?} {answer:?}");
        }
    }
}
