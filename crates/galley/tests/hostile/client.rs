//! Sends a case to a server and says what came of it, in the words of the file.
//!
//! Behind the case stands one more request, the probe: if it is answered, the connection lives on; if the connection ends
//! before, it does not. So nothing has to be timed.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::case::{Case, Fate, escaped, host};

/// What came of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Final statuses in order; `bare` is an answer without a head, as in HTTP/0.9.
    pub statuses: Vec<String>,
    pub fate: Fate,
    /// METHOD TARGET "BODY" of what the upstream saw.
    pub seen: Vec<String>,
}

impl Outcome {
    pub fn text(&self) -> String {
        let mut text = String::new();
        for status in &self.statuses {
            text.push_str(status);
            text.push(' ');
        }
        text.push_str(self.fate.word());
        for seen in &self.seen {
            text.push_str(", ");
            text.push_str(seen);
        }
        text
    }

    /// Whether it is what the case calls right.
    pub fn fits(&self, case: &Case) -> bool {
        let right = &case.right;
        let statuses = self.statuses.len() == right.statuses.len()
            && std::iter::zip(&self.statuses, &right.statuses)
                .all(|(found, allowed)| allowed.contains(found));
        let fate = right.fate == Fate::Any || self.fate == right.fate;
        statuses && fate && self.seen.join(", ") == right.seen
    }
}

/// How long to wait for an end that comes.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends the case and reads until the server closes. A connection that stays open for `timeout` is one that waits for more;
/// where that is expected, the client ends it. `seen` gives what the upstream saw since the last call.
pub fn run(
    addr: SocketAddr,
    case: &Case,
    number: usize,
    timeout: Duration,
    seen: impl Fn() -> Vec<String>,
) -> Outcome {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    let mut bytes = case.bytes_for(number);
    let is_expected_to_wait = case.right.fate == Fate::Waits;
    if !is_expected_to_wait {
        bytes.extend_from_slice(probe(number).as_bytes());
    }
    // It may refuse, and close, before it has taken everything.
    let _ = stream.write_all(&bytes);
    if is_expected_to_wait {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let (received, was_closed) = read_to_end(&mut stream, timeout);
    drop(stream);
    let mut answers = answers(&received);
    let mut seen: Vec<String> = seen()
        .into_iter()
        .map(|line| line.replace(&host(number), "c000.test"))
        .collect();
    let probed = answers
        .last()
        .is_some_and(|answer| answer.body.starts_with(b"GET /probe"));
    if probed {
        answers.pop();
        assert_eq!(
            seen.pop().as_deref(),
            Some("GET /probe \"\""),
            "{}",
            case.name
        );
    }
    let fate = match (probed, was_closed && !is_expected_to_wait) {
        (true, _) => Fate::Keep,
        (false, true) => Fate::Close,
        (false, false) => Fate::Waits,
    };
    let statuses = answers.iter().map(|answer| match answer.status {
        0 => "bare".to_owned(),
        status => status.to_string(),
    });
    Outcome {
        statuses: statuses.collect(),
        fate,
        seen,
    }
}

/// A request that the server answers last.
fn probe(number: usize) -> String {
    format!(
        "GET /probe HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        host(number)
    )
}

/// All that comes, and whether the server ended it within `timeout`.
pub fn read_to_end(stream: &mut TcpStream, timeout: Duration) -> (Vec<u8>, bool) {
    let deadline = Instant::now() + timeout;
    let mut received = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return (received, false);
        }
        stream.set_read_timeout(Some(left)).unwrap();
        match stream.read(&mut piece) {
            Ok(0) => return (received, true),
            Ok(count) => received.extend_from_slice(&piece[..count]),
            Err(error) => match error.kind() {
                std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
                    return (received, false);
                }
                std::io::ErrorKind::Interrupted => {}
                // A reset is an end like another.
                _ => return (received, true),
            },
        }
    }
}

/// Sends bytes and reads until the server closes or has given so many answers: how many it gave.
pub fn converse(addr: SocketAddr, bytes: &[u8], timeout: Duration, enough: usize) -> usize {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_write_timeout(Some(timeout)).unwrap();
    stream.set_read_timeout(Some(timeout)).unwrap();
    let _ = stream.write_all(bytes);
    let mut received = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let given = answers(&received).len();
        if given >= enough {
            return given;
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return given,
            Ok(count) => received.extend_from_slice(&piece[..count]),
        }
    }
}

/// A final answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Vec<u8>,
}

/// The final answers in a stream of them.
pub fn answers(mut bytes: &[u8]) -> Vec<Answer> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let (true, Some(end)) = (bytes.starts_with(b"HTTP/1."), end) else {
            found.push(Answer {
                status: 0,
                body: bytes.to_vec(),
            });
            break;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let status = head.get(9..12).and_then(|code| code.parse().ok()).unwrap();
        let (body, rest) = body(&head, &bytes[end + 4..]);
        bytes = rest;
        if !(100..200).contains(&status) {
            found.push(Answer { status, body });
        }
    }
    found
}

fn body<'b>(head: &str, rest: &'b [u8]) -> (Vec<u8>, &'b [u8]) {
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let is_next = |rest: &[u8]| rest.starts_with(b"HTTP/1.");
    let has_none = head.get(9..10) == Some("1") || ["204", "304"].contains(&&head[9..12]);
    // No body of a test looks like an answer, so this was one to HEAD.
    if has_none || is_next(rest) {
        return (Vec::new(), rest);
    }
    if let Some(length) = field("content-length: ") {
        let length = length.trim().parse::<usize>().unwrap().min(rest.len());
        return (rest[..length].to_vec(), &rest[length..]);
    }
    if field("transfer-encoding: ").is_none() {
        return (rest.to_vec(), &[]);
    }
    chunks(rest)
}

fn chunks(mut rest: &[u8]) -> (Vec<u8>, &[u8]) {
    let mut body = Vec::new();
    loop {
        let Some(end) = rest.windows(2).position(|two| two == b"\r\n") else {
            return (body, &[]);
        };
        let size = std::str::from_utf8(&rest[..end]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        let data = &rest[end + 2..];
        let size = size.min(data.len());
        body.extend_from_slice(&data[..size]);
        rest = data.get(size + 2..).unwrap_or_default();
        if size == 0 {
            return (body, rest);
        }
    }
}

/// METHOD TARGET "BODY" in the letters of the file.
pub fn line(method: &str, target: &str, body: &[u8]) -> String {
    // What the upstream's reader could not show as text.
    let target = target.replace(char::REPLACEMENT_CHARACTER, "?");
    format!("{method} {target} \"{}\"", escaped(body))
}
