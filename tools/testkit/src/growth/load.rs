//! Sends requests as a browser does, over one or many connections, and checks every response.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::site::HOST;
use crate::TestkitError;
use crate::client::{Connection, Response};

/// Counts of received responses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ResponseCounts {
    pub(super) responses: u64,
    pub(super) hits: u64,
    /// Responses with another status than 200, or with the body of another page.
    pub(super) wrong: u64,
}

impl ResponseCounts {
    pub(super) fn misses(&self) -> u64 {
        self.responses - self.hits
    }

    pub(super) fn merge(&mut self, other: Self) {
        self.responses += other.responses;
        self.hits += other.hits;
        self.wrong += other.wrong;
    }

    /// Counts the response to a request for `path`, with which the right body ends.
    fn add(&mut self, path: &str, response: &Response) {
        let is_right = response.status == 200 && response.body.ends_with(path.as_bytes());
        self.responses += 1;
        self.hits += u64::from(response.cache_status() == "galley; hit");
        self.wrong += u64::from(!is_right);
    }
}

pub(super) fn connect(addr: SocketAddr) -> Result<Connection, TestkitError> {
    Connection::within(addr, TIMEOUT)
}

pub(super) fn connect_many(
    addr: SocketAddr,
    count: usize,
) -> Result<Vec<Connection>, TestkitError> {
    (0..count).map(|_| connect(addr)).collect()
}

/// Sends `count` requests over all connections in turn, [`IN_FLIGHT`] at a time; `path` returns the path of the nth request.
pub(super) fn send_all(
    connections: &mut [Connection],
    count: u64,
    path: &mut dyn FnMut(u64) -> String,
) -> Result<ResponseCounts, TestkitError> {
    let mut counts = ResponseCounts::default();
    let mut sent = 0;
    while sent < count {
        for batch in connections.chunks_mut(IN_FLIGHT) {
            let mut paths = Vec::with_capacity(batch.len());
            for connection in batch.iter_mut() {
                if sent < count {
                    let path = path(sent);
                    connection.write(&browser_request("GET", &path, ""))?;
                    paths.push(path);
                    sent += 1;
                }
            }
            for (connection, path) in batch.iter_mut().zip(&paths) {
                counts.add(path, &connection.receive("GET")?);
            }
        }
    }
    Ok(counts)
}

/// Sends `count` requests one after the other; returns their latencies, sorted, and the counts.
pub(super) fn latencies(
    connection: &mut Connection,
    count: u64,
    path: &mut dyn FnMut(u64) -> String,
) -> Result<(Vec<Duration>, ResponseCounts), TestkitError> {
    let mut counts = ResponseCounts::default();
    let mut latencies = Vec::new();
    for number in 0..count {
        let path = path(number);
        let request = browser_request("GET", &path, "");
        let started = Instant::now();
        connection.write(&request)?;
        let response = connection.receive("GET")?;
        latencies.push(started.elapsed());
        counts.add(&path, &response);
    }
    latencies.sort_unstable();
    Ok((latencies, counts))
}

/// The value that `percent` of the sorted values do not exceed; zero without values.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or_default()
}

/// The bytes of a request with the header fields of a browser on its second visit, from a link in a newsletter.
pub(super) fn browser_request(method: &str, path: &str, more_fields: &str) -> Vec<u8> {
    let query = if method == "GET" {
        "?utm_source=newsletter&utm_medium=email&utm_campaign=spring"
    } else {
        ""
    };
    format!("{method} {path}{query} HTTP/1.1\r\nHost: {HOST}\r\n{more_fields}{BROWSER_FIELDS}\r\n")
        .into_bytes()
}

const BROWSER_FIELDS: &str = "Connection: keep-alive\r\n\
sec-ch-ua: \"Chromium\";v=\"124\", \"Google Chrome\";v=\"124\", \"Not-A.Brand\";v=\"99\"\r\n\
sec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Windows\"\r\nUpgrade-Insecure-Requests: 1\r\n\
User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\n\
Accept-Language: en-GB,en;q=0.9\r\n\
Cookie: _ga=GA1.1.1031584215.1714032000; _ga_7N2XQ0=GS1.1.1714032000.3.1; cookie_consent=accepted\r\n";

/// Requests in flight at a time: as many as a loaded server has, few enough that no response waits for long.
const IN_FLIGHT: usize = 64;

/// For one response on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
