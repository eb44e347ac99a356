//! A scripted FastCGI application: every record of the answer is the script's.
//!
//! Written apart from Galley's own codec, on purpose: two readers of one specification check each other. Source: FastCGI
//! Specification 1.0, sections 3 and 5. A record on the wire:
//!
//! ```text
//! 0 version=1 | 1 type | 2-3 request id | 4-5 content length | 6 padding length | 7 reserved | content | padding
//! ```

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    path::Path,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use super::socket::{Listening, Serving, Socket, lock};
use crate::TestkitError;

/// A request as it arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FastCgiRequest {
    /// The variables. Where a name came twice, the later value; see `names` for what was sent.
    pub params: BTreeMap<String, String>,
    /// Names of the variables in the order sent.
    pub names: Vec<String>,
    /// Stdin, as far as the script has read it.
    pub stdin: Vec<u8>,
    /// True if the connection is to be kept.
    pub keep: bool,
    /// Number of the connection it came on, from 0.
    pub connection: usize,
    /// Number of the request among all, from 0.
    pub number: usize,
}

impl FastCgiRequest {
    /// A variable, or nothing.
    pub fn param(&self, name: &str) -> &str {
        self.params
            .get(name)
            .map(String::as_str)
            .unwrap_or_default()
    }
}

/// A running application. Ends with this value; panics then if a script panicked.
#[derive(Debug)]
pub struct FastCgiOrigin {
    serving: Serving,
    asked: Arc<Mutex<Vec<FastCgiRequest>>>,
}

impl FastCgiOrigin {
    /// Listens on a free port of 127.0.0.1 and calls `script` for each request, when its variables are complete.
    ///
    /// A script that sends no end gets one: status 0, request complete.
    pub fn start(
        script: impl Fn(&FastCgiRequest, &mut FastCgiWriter<'_>) + Send + Sync + 'static,
    ) -> Result<Self, TestkitError> {
        Ok(Self::on(Listening::tcp()?, script))
    }

    /// The same on a unix socket at `path`.
    pub fn start_unix(
        path: &Path,
        script: impl Fn(&FastCgiRequest, &mut FastCgiWriter<'_>) + Send + Sync + 'static,
    ) -> Result<Self, TestkitError> {
        Ok(Self::on(Listening::unix(path.to_owned())?, script))
    }

    fn on(
        listening: Listening,
        script: impl Fn(&FastCgiRequest, &mut FastCgiWriter<'_>) + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&asked);
        let serving = Serving::start(listening, move |mut socket, connection| {
            socket.limit_writes(WRITE_PATIENCE);
            while serve_one(&mut socket, connection, &notes, &script) {}
            socket.shut();
        });
        Self { serving, asked }
    }

    /// The address as Galley's configuration wants it: `127.0.0.1:port` or `unix:/path`.
    pub fn address(&self) -> String {
        self.serving.listening.address()
    }

    /// All requests so far, also those whose scripts still run.
    pub fn requests(&self) -> Vec<FastCgiRequest> {
        lock(&self.asked).clone()
    }

    /// How many requests there were.
    pub fn count(&self) -> usize {
        lock(&self.asked).len()
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.serving.connections.load(Ordering::SeqCst)
    }

    /// Ends all connections that are open now, in the middle of what they do.
    pub fn drop_connections(&self) {
        self.serving.drop_connections();
    }
}

/// The way back to the web server, and the request's stdin.
#[derive(Debug)]
pub struct FastCgiWriter<'a> {
    socket: &'a mut Socket,
    id: u16,
    notes: &'a Mutex<Vec<FastCgiRequest>>,
    number: usize,
    stdin_ended: bool,
    aborted: bool,
    ended: bool,
    closed: bool,
}

impl FastCgiWriter<'_> {
    /// Writes a CGI head and a body: `answer("Status: 404 Not Found\r\nContent-Type: text/plain", b"...")`.
    pub fn answer(&mut self, head: &str, body: &[u8]) -> bool {
        let mut out = head.trim_end().as_bytes().to_vec();
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
        self.stdout(&out)
    }

    /// Writes to stdout, in as few records as possible. False when the web server is gone.
    pub fn stdout(&mut self, bytes: &[u8]) -> bool {
        bytes
            .chunks(LARGEST)
            .all(|piece| self.record(STDOUT, piece, 0))
    }

    /// Writes to stderr.
    pub fn stderr(&mut self, bytes: &[u8]) -> bool {
        bytes
            .chunks(LARGEST)
            .all(|piece| self.record(STDERR, piece, 0))
    }

    /// Writes one record of any type, with padding.
    pub fn record(&mut self, kind: u8, content: &[u8], padding: u8) -> bool {
        let bytes = record(kind, self.id, content, padding);
        self.raw(&bytes)
    }

    /// Writes these bytes, whatever they mean.
    pub fn raw(&mut self, bytes: &[u8]) -> bool {
        !self.closed && self.socket.write_all(bytes).is_ok()
    }

    /// Ends the request with the application's and the protocol's status (0: request complete, 2: overloaded).
    pub fn end(&mut self, app_status: u32, protocol_status: u8) -> bool {
        self.ended = true;
        let mut content = app_status.to_be_bytes().to_vec();
        content.extend_from_slice(&[protocol_status, 0, 0, 0]);
        self.record(END_REQUEST, &content, 0)
    }

    /// The next piece of stdin; `None` at its end, after an abort, or when the web server is gone.
    pub fn stdin_piece(&mut self) -> Option<Vec<u8>> {
        while !self.stdin_ended {
            let Some((kind, id, content)) = read_record(self.socket) else {
                self.stdin_ended = true;
                self.closed = true;
                return None;
            };
            match kind {
                STDIN if id == self.id && !content.is_empty() => {
                    if let Some(asked) = lock(self.notes).get_mut(self.number) {
                        asked.stdin.extend_from_slice(&content);
                    }
                    return Some(content);
                }
                STDIN => self.stdin_ended = true,
                ABORT_REQUEST => {
                    self.aborted = true;
                    self.stdin_ended = true;
                }
                _ => {}
            }
        }
        None
    }

    /// The whole rest of stdin.
    pub fn stdin(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = self.stdin_piece() {
            all.extend_from_slice(&piece);
        }
        all
    }

    /// True if the web server has asked to abort; seen only while stdin is read or the close awaited.
    pub fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// Ends the connection at once, without an end of the request.
    pub fn close(&mut self) {
        self.socket.shut();
        self.closed = true;
    }

    /// Ends the connection so that the web server sees a reset (TCP only).
    pub fn reset(&mut self) {
        self.socket.reset();
        self.closed = true;
    }

    /// Waits until the web server aborts the request or closes the connection.
    pub fn wait_for_abort(&mut self) {
        while let Some((kind, ..)) = read_record(self.socket) {
            if kind == ABORT_REQUEST {
                self.aborted = true;
                return;
            }
        }
        self.closed = true;
    }
}

/// One request and its script; false when the connection is at its end.
fn serve_one(
    socket: &mut Socket,
    connection: usize,
    notes: &Mutex<Vec<FastCgiRequest>>,
    script: &impl Fn(&FastCgiRequest, &mut FastCgiWriter<'_>),
) -> bool {
    let Some((id, mut asked)) = read_request(socket) else {
        return false;
    };
    asked.connection = connection;
    {
        let mut notes = lock(notes);
        asked.number = notes.len();
        notes.push(asked.clone());
    }
    let mut application = FastCgiWriter {
        socket,
        id,
        notes,
        number: asked.number,
        stdin_ended: false,
        aborted: false,
        ended: false,
        closed: false,
    };
    script(&asked, &mut application);
    if application.closed {
        return false;
    }
    let ended = application.ended || (application.record(STDOUT, &[], 0) && application.end(0, 0));
    if !ended {
        return false;
    }
    asked.keep && {
        application.stdin();
        !application.closed
    }
}

/// Reads up to the end of the variables.
fn read_request(socket: &mut Socket) -> Option<(u16, FastCgiRequest)> {
    let mut asked = FastCgiRequest::default();
    let mut request = None;
    let mut params = Vec::new();
    loop {
        let (kind, id, content) = read_record(socket)?;
        match kind {
            BEGIN_REQUEST => {
                asked.keep = content.get(2)? & 1 == 1;
                request = Some(id);
            }
            PARAMS if content.is_empty() => break,
            PARAMS => params.extend_from_slice(&content),
            _ => {}
        }
    }
    for (name, value) in pairs(&params)? {
        asked.names.push(name.clone());
        asked.params.insert(name, value);
    }
    Some((request?, asked))
}

/// Name-value pairs (section 3.4): each length is one byte below 128, else four with the high bit set.
fn pairs(mut bytes: &[u8]) -> Option<Vec<(String, String)>> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (name, rest) = length(bytes)?;
        let (value, rest) = length(rest)?;
        let text = |range: std::ops::Range<usize>| {
            Some(String::from_utf8_lossy(rest.get(range)?).into_owned())
        };
        all.push((text(0..name)?, text(name..name.checked_add(value)?)?));
        bytes = rest.get(name + value..)?;
    }
    Some(all)
}

fn length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    if *first < 128 {
        return Some((usize::from(*first), rest));
    }
    let (four, rest) = bytes.split_first_chunk::<4>()?;
    let long = u32::from_be_bytes(*four) & 0x7fff_ffff;
    Some((usize::try_from(long).ok()?, rest))
}

fn read_record(socket: &mut Socket) -> Option<(u8, u16, Vec<u8>)> {
    let mut head = [0; 8];
    socket.read_exact(&mut head).ok()?;
    let [version, kind, id1, id0, length1, length0, padding, _] = head;
    if version != 1 {
        return None;
    }
    let mut content = vec![0; usize::from(u16::from_be_bytes([length1, length0]))];
    socket.read_exact(&mut content).ok()?;
    let mut rest = vec![0; usize::from(padding)];
    socket.read_exact(&mut rest).ok()?;
    Some((kind, u16::from_be_bytes([id1, id0]), content))
}

/// A record; content beyond 65,535 bytes is cut.
fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let content = content.get(..LARGEST).unwrap_or(content);
    let length = u16::try_from(content.len())
        .unwrap_or(u16::MAX)
        .to_be_bytes();
    let id = id.to_be_bytes();
    let mut out = vec![1, kind, id[0], id[1], length[0], length[1], padding, 0];
    out.extend_from_slice(content);
    out.resize(out.len() + usize::from(padding), 0);
    out
}

const BEGIN_REQUEST: u8 = 1;
const ABORT_REQUEST: u8 = 2;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
const LARGEST: usize = 65_535;
/// A web server that reads nothing for so long is taken for gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lengths_of_names_and_values() {
        let mut bytes = vec![1, 2, b'a', b'x', b'y', 1, 0x80, 0, 0, 200, b'b'];
        bytes.extend_from_slice(&[b'z'; 200]);
        let wanted = vec![
            ("a".to_owned(), "xy".to_owned()),
            ("b".to_owned(), "z".repeat(200)),
        ];
        assert_eq!(pairs(&bytes), Some(wanted));
        for cut in 1..bytes.len() {
            let whole = cut == 5;
            assert_eq!(pairs(&bytes[..cut]).is_some(), whole, "cut at {cut}");
        }
    }

    proptest! {
        #[test]
        fn no_pairs_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = pairs(&bytes);
        }
    }
}
