//! Sends a case to a server and returns the result in the terms of the case file.
//!
//! The client sends one more request, the probe, after the case. A response to it means that the connection is open; an end of
//! the connection means that it is closed. Neither depends on a timeout.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::case::{Case, ConnectionState, escaped, host};

/// The result of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaseResult {
    /// Final statuses in order; `bare` is a response without a head, as in HTTP/0.9.
    pub statuses: Vec<String>,
    pub connection: ConnectionState,
    /// METHOD TARGET "BODY" of each request that the upstream received.
    pub received: Vec<String>,
}

impl CaseResult {
    pub fn text(&self) -> String {
        let mut text = String::new();
        for status in &self.statuses {
            text.push_str(status);
            text.push(' ');
        }
        text.push_str(self.connection.word());
        for request in &self.received {
            text.push_str(", ");
            text.push_str(request);
        }
        text
    }

    /// Whether the case expects this result.
    pub fn matches(&self, case: &Case) -> bool {
        let expected = &case.expected;
        let statuses = self.statuses.len() == expected.statuses.len()
            && std::iter::zip(&self.statuses, &expected.statuses)
                .all(|(status, allowed)| allowed.contains(status));
        let connection =
            expected.connection == ConnectionState::Any || self.connection == expected.connection;
        statuses && connection && self.received.join(", ") == expected.received
    }
}

/// How long to wait for an expected end of a connection.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends the case and reads until the server closes. A connection that stays open for `timeout` counts as waiting; if that is
/// expected, the client ends it. `take_received` returns what the upstream received since its last call.
pub fn run(
    addr: SocketAddr,
    case: &Case,
    number: usize,
    timeout: Duration,
    take_received: impl Fn() -> Vec<String>,
) -> CaseResult {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_write_timeout(Some(TIMEOUT)).unwrap();
    let mut bytes = case.bytes_for(number);
    let is_expected_to_wait = case.expected.connection == ConnectionState::Waiting;
    if !is_expected_to_wait {
        bytes.extend_from_slice(probe_request(number).as_bytes());
    }
    // The server may reject the case and close before it has read everything.
    let _ = stream.write_all(&bytes);
    if is_expected_to_wait {
        let _ = stream.shutdown(Shutdown::Write);
    }
    let (bytes, was_closed) = read_to_end(&mut stream, timeout);
    drop(stream);
    let mut responses = parse_responses(&bytes);
    let mut received: Vec<String> = take_received()
        .into_iter()
        .map(|line| line.replace(&host(number), "c000.test"))
        .collect();
    let has_probe_response = responses
        .last()
        .is_some_and(|response| response.body.starts_with(b"GET /probe"));
    if has_probe_response {
        responses.pop();
        assert_eq!(
            received.pop().as_deref(),
            Some("GET /probe \"\""),
            "{}",
            case.name
        );
    }
    let connection = match (has_probe_response, was_closed && !is_expected_to_wait) {
        (true, _) => ConnectionState::Open,
        (false, true) => ConnectionState::Closed,
        (false, false) => ConnectionState::Waiting,
    };
    let statuses = responses.iter().map(|response| match response.status {
        0 => "bare".to_owned(),
        status => status.to_string(),
    });
    CaseResult {
        statuses: statuses.collect(),
        connection,
        received,
    }
}

/// The last request on the connection.
fn probe_request(number: usize) -> String {
    format!(
        "GET /probe HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
        host(number)
    )
}

/// Reads until the end or `timeout`, and returns the bytes and whether the server closed.
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
                // A reset counts as a close.
                _ => return (received, true),
            },
        }
    }
}

/// Sends bytes, reads until the server closes or has sent `limit` responses, and returns the number of responses.
pub fn count_responses(addr: SocketAddr, bytes: &[u8], timeout: Duration, limit: usize) -> usize {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_write_timeout(Some(timeout)).unwrap();
    stream.set_read_timeout(Some(timeout)).unwrap();
    let _ = stream.write_all(bytes);
    let mut received = Vec::new();
    let mut piece = [0; 16 * 1024];
    loop {
        let count = parse_responses(&received).len();
        if count >= limit {
            return count;
        }
        match stream.read(&mut piece) {
            Ok(0) | Err(_) => return count,
            Ok(length) => received.extend_from_slice(&piece[..length]),
        }
    }
}

/// A final (not interim) response.
#[derive(Debug)]
pub struct FinalResponse {
    pub status: u16,
    pub body: Vec<u8>,
}

/// The final responses in a stream.
pub fn parse_responses(mut bytes: &[u8]) -> Vec<FinalResponse> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let (true, Some(end)) = (bytes.starts_with(b"HTTP/1."), end) else {
            found.push(FinalResponse {
                status: 0,
                body: bytes.to_vec(),
            });
            break;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let status = head.get(9..12).and_then(|code| code.parse().ok()).unwrap();
        let (body, rest) = parse_body(&head, &bytes[end + 4..]);
        bytes = rest;
        if !(100..200).contains(&status) {
            found.push(FinalResponse { status, body });
        }
    }
    found
}

fn parse_body<'b>(head: &str, rest: &'b [u8]) -> (Vec<u8>, &'b [u8]) {
    let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let is_next = |rest: &[u8]| rest.starts_with(b"HTTP/1.");
    let has_none = head.get(9..10) == Some("1") || ["204", "304"].contains(&&head[9..12]);
    // No body of a test looks like a response, so this was the response to a HEAD request.
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
    parse_chunks(rest)
}

fn parse_chunks(mut rest: &[u8]) -> (Vec<u8>, &[u8]) {
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

/// METHOD TARGET "BODY" with the escapes of the file.
pub fn format_request(method: &str, target: &str, body: &[u8]) -> String {
    // The upstream replaces bytes that are not UTF-8.
    let target = target.replace(char::REPLACEMENT_CHARACTER, "?");
    format!("{method} {target} \"{}\"", escaped(body))
}
