//! Asks as a browser does, on many connections in turn, and looks at every answer.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use rustix::net;

use super::stage::HOST;
use crate::TestkitError;
use crate::error::Context;

/// A connection of a browser.
pub(crate) struct Asker {
    stream: TcpStream,
    buffer: Vec<u8>,
}

/// What came back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) answers: u64,
    pub(super) hits: u64,
    /// Not of status 200, or of another page.
    pub(super) wrong: u64,
}

impl Asker {
    pub(crate) fn open(addr: SocketAddr) -> Result<Self, TestkitError> {
        Self::over(TcpStream::connect(addr).context("connect")?)
    }

    /// Of a client with an address of its own.
    pub(crate) fn open_from(from: Ipv4Addr, addr: SocketAddr) -> Result<Self, TestkitError> {
        let opened = || {
            let socket = net::socket(net::AddressFamily::INET, net::SocketType::STREAM, None)?;
            net::bind(&socket, &SocketAddrV4::new(from, 0))?;
            net::connect(&socket, &addr)?;
            Ok::<_, rustix::io::Errno>(TcpStream::from(socket))
        };
        let opened = opened().map_err(std::io::Error::from);
        Self::over(opened.context(format_args!("connect from {from}"))?)
    }

    fn over(stream: TcpStream) -> Result<Self, TestkitError> {
        stream.set_nodelay(true).context("set TCP_NODELAY")?;
        let timeout = Some(Duration::from_secs(60));
        stream.set_read_timeout(timeout).context("set a timeout")?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
        })
    }

    pub(super) fn many(addr: SocketAddr, count: usize) -> Result<Vec<Self>, TestkitError> {
        (0..count).map(|_| Self::open(addr)).collect()
    }

    pub(super) fn ask(&mut self, path: &str) -> Result<(), TestkitError> {
        self.send(&request("GET", path, ""))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), TestkitError> {
        self.stream.write_all(bytes).context("ask")
    }

    /// Reads one answer and counts it; `path` is what it must speak of, by its last line.
    pub(super) fn hear(&mut self, path: &str, counted: &mut Counted) -> Result<(), TestkitError> {
        let (head, body) = self.answer()?;
        let is_right = head.starts_with("HTTP/1.1 200") && body.ends_with(path.as_bytes());
        counted.answers += 1;
        counted.hits += u64::from(head.contains("\r\ncache-status: galley; hit\r\n"));
        counted.wrong += u64::from(!is_right);
        Ok(())
    }

    /// Whether a part of the next answer has come.
    pub(crate) fn has_begun(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Head and body of the next answer.
    pub(crate) fn answer(&mut self) -> Result<(String, Vec<u8>), TestkitError> {
        let mut piece = [0; 16 * 1024];
        loop {
            if let Some((head, end)) = whole(&self.buffer) {
                let text = String::from_utf8_lossy(&self.buffer[..head]).into_owned();
                let body = self.buffer[head..end].to_vec();
                self.buffer.drain(..end);
                return Ok((text, body));
            }
            match self.stream.read(&mut piece).context("hear")? {
                0 => return Err(TestkitError::Malformed("the server has left".to_owned())),
                count => self.buffer.extend_from_slice(&piece[..count]),
            }
        }
    }
}

/// Asks `count` times over all connections in turn, [`UNDER_WAY`] requests at a time; `path` gives what the nth asks for.
pub(super) fn ask_all(
    askers: &mut [Asker],
    count: u64,
    path: &mut dyn FnMut(u64) -> String,
) -> Result<Counted, TestkitError> {
    let mut counted = Counted::default();
    let mut asked = 0;
    while asked < count {
        for some in askers.chunks_mut(UNDER_WAY) {
            let mut paths = Vec::with_capacity(some.len());
            for asker in some.iter_mut() {
                if asked < count {
                    let path = path(asked);
                    asker.ask(&path)?;
                    paths.push(path);
                    asked += 1;
                }
            }
            for (asker, path) in some.iter_mut().zip(&paths) {
                asker.hear(path, &mut counted)?;
            }
        }
    }
    Ok(counted)
}

/// How long each of `count` requests took, one after the other, sorted; and what came.
pub(super) fn latencies(
    asker: &mut Asker,
    count: u64,
    path: &mut dyn FnMut(u64) -> String,
) -> Result<(Vec<Duration>, Counted), TestkitError> {
    let mut counted = Counted::default();
    let mut all = Vec::new();
    for number in 0..count {
        let path = path(number);
        let began = Instant::now();
        asker.ask(&path)?;
        asker.hear(&path, &mut counted)?;
        all.push(began.elapsed());
    }
    all.sort_unstable();
    Ok((all, counted))
}

/// The value below which so many per mille lie.
pub(crate) fn per_mille(sorted: &[Duration], part: usize) -> Duration {
    let place = (sorted.len() * part / 1000).min(sorted.len().saturating_sub(1));
    sorted.get(place).copied().unwrap_or_default()
}

/// A browser's head on its second visit, from a link in a newsletter.
pub(super) fn request(method: &str, path: &str, more: &str) -> Vec<u8> {
    let query = if method == "GET" {
        "?utm_source=newsletter&utm_medium=email&utm_campaign=spring"
    } else {
        ""
    };
    format!("{method} {path}{query} HTTP/1.1\r\nHost: {HOST}\r\n{more}{FIELDS}\r\n").into_bytes()
}

/// Where head and answer end, once both are there. A page that is compressed while it is generated has chunks and no length.
fn whole(bytes: &[u8]) -> Option<(usize, usize)> {
    let head = bytes.windows(4).position(|at| at == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(bytes.get(..head)?).ok()?;
    let length = text
        .split("\r\n")
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .and_then(|length| length.parse::<usize>().ok());
    let end = match length {
        Some(length) => head + length,
        None => end_of_chunks(bytes, head)?,
    };
    (bytes.len() >= end).then_some((head, end))
}

/// Where a chunked body without trailers that begins at `at` ends, once all of it is there.
fn end_of_chunks(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let line = bytes.get(at..)?.windows(2).position(|end| end == b"\r\n")?;
        let size = std::str::from_utf8(bytes.get(at..at + line)?).ok()?;
        let size = usize::from_str_radix(size, 16).ok()?;
        at += line + 2 + size + 2;
        if size == 0 {
            return (bytes.len() >= at).then_some(at);
        }
    }
}

const FIELDS: &str = "Connection: keep-alive\r\n\
sec-ch-ua: \"Chromium\";v=\"124\", \"Google Chrome\";v=\"124\", \"Not-A.Brand\";v=\"99\"\r\n\
sec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Windows\"\r\nUpgrade-Insecure-Requests: 1\r\n\
User-Agent: Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-User: ?1\r\nSec-Fetch-Dest: document\r\n\
Accept-Language: en-GB,en;q=0.9\r\n\
Cookie: _ga=GA1.1.1031584215.1714032000; _ga_7N2XQ0=GS1.1.1714032000.3.1; cookie_consent=accepted\r\n";

/// Requests in flight at one time: as many as a loaded server has, few enough that no answer waits for long.
const UNDER_WAY: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_where_its_framing_says() {
        for (answer, body) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 5),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\na\r\n0123456789\r\n0\r\n\r\n",
                30,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                5,
            ),
        ] {
            let bytes = answer.as_bytes();
            assert_eq!(
                whole(bytes),
                Some((bytes.len() - body, bytes.len())),
                "{answer}"
            );
            for cut in 0..bytes.len() {
                assert_eq!(whole(&bytes[..cut]), None, "{cut} of {answer}");
            }
        }
    }
}
