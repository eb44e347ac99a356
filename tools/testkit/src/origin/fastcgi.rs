//! A scripted FastCGI application: the script writes every record of the response.
//!
//! It deliberately does not use Galley's codec, so that two implementations of the specification check each other. Source:
//! FastCGI Specification 1.0, sections 3 and 5. The format of a record:
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

use super::socket::{Listener, ScriptServer, Socket, lock};
use crate::TestkitError;

/// A received request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FastCgiRequest {
    /// The parameters. For a name that was sent twice, the last value; `names` has all names.
    pub params: BTreeMap<String, String>,
    /// Names of the parameters in the order received.
    pub names: Vec<String>,
    /// Stdin, as far as the script has read it.
    pub stdin: Vec<u8>,
    /// The flag `FCGI_KEEP_CONN`.
    pub keep: bool,
    /// Number of its connection, from 0.
    pub connection: usize,
    /// Number of the request, from 0.
    pub number: usize,
}

impl FastCgiRequest {
    /// The value of a parameter; empty if it was not sent.
    pub fn param(&self, name: &str) -> &str {
        self.params
            .get(name)
            .map(String::as_str)
            .unwrap_or_default()
    }
}

/// A running application. Dropping it stops it, and panics if a script panicked.
#[derive(Debug)]
pub struct FastCgiOrigin {
    server: ScriptServer,
    requests: Arc<Mutex<Vec<FastCgiRequest>>>,
}

impl FastCgiOrigin {
    /// Listens on a free port of 127.0.0.1 and calls `script` for each request, once its parameters are complete.
    ///
    /// If the script does not send `FCGI_END_REQUEST`, the origin sends it: status 0, request complete.
    pub fn start(
        script: impl Fn(&FastCgiRequest, &mut FastCgiWriter<'_>) + Send + Sync + 'static,
    ) -> Result<Self, TestkitError> {
        Ok(Self::on(Listener::tcp()?, script))
    }

    /// Starts an application on a unix socket at `path`.
    pub fn start_unix(
        path: &Path,
        script: impl Fn(&FastCgiRequest, &mut FastCgiWriter<'_>) + Send + Sync + 'static,
    ) -> Result<Self, TestkitError> {
        Ok(Self::on(Listener::unix(path.to_owned())?, script))
    }

    fn on(
        listener: Listener,
        script: impl Fn(&FastCgiRequest, &mut FastCgiWriter<'_>) + Send + Sync + 'static,
    ) -> Self {
        let requests = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&requests);
        let server = ScriptServer::start(listener, move |mut socket, connection| {
            socket.set_write_timeout(WRITE_TIMEOUT);
            while serve_one(&mut socket, connection, &log, &script) {}
            socket.close();
        });
        Self { server, requests }
    }

    /// The address in the syntax of Galley's configuration: `127.0.0.1:port` or `unix:/path`.
    pub fn address(&self) -> String {
        self.server.listener.address()
    }

    /// All requests so far, including those whose scripts still run.
    pub fn requests(&self) -> Vec<FastCgiRequest> {
        lock(&self.requests).clone()
    }

    /// Number of requests so far.
    pub fn count(&self) -> usize {
        lock(&self.requests).len()
    }

    /// Number of connections so far.
    pub fn connections(&self) -> usize {
        self.server.connections.load(Ordering::SeqCst)
    }

    /// Closes all open connections, even during a response.
    pub fn drop_connections(&self) {
        self.server.drop_connections();
    }
}

/// Writes the response to the web server and reads the request's stdin.
#[derive(Debug)]
pub struct FastCgiWriter<'a> {
    socket: &'a mut Socket,
    id: u16,
    log: &'a Mutex<Vec<FastCgiRequest>>,
    number: usize,
    stdin_ended: bool,
    aborted: bool,
    ended: bool,
    closed: bool,
}

impl FastCgiWriter<'_> {
    /// Writes a CGI response with head and body: `answer("Status: 404 Not Found\r\nContent-Type: text/plain", b"...")`.
    pub fn respond(&mut self, head: &str, body: &[u8]) -> bool {
        let mut out = head.trim_end().as_bytes().to_vec();
        out.extend_from_slice(b"\r\n\r\n");
        out.extend_from_slice(body);
        self.stdout(&out)
    }

    /// Writes to stdout, in as few records as possible; false if the web server has disconnected.
    pub fn stdout(&mut self, bytes: &[u8]) -> bool {
        bytes
            .chunks(MAX_CONTENT)
            .all(|piece| self.record(STDOUT, piece, 0))
    }

    /// Writes to stderr.
    pub fn stderr(&mut self, bytes: &[u8]) -> bool {
        bytes
            .chunks(MAX_CONTENT)
            .all(|piece| self.record(STDERR, piece, 0))
    }

    /// Writes one record of any type, with padding.
    pub fn record(&mut self, kind: u8, content: &[u8], padding: u8) -> bool {
        let bytes = record(kind, self.id, content, padding);
        self.raw(&bytes)
    }

    /// Writes raw bytes.
    pub fn raw(&mut self, bytes: &[u8]) -> bool {
        !self.closed && self.socket.write_all(bytes).is_ok()
    }

    /// Ends the request with an application status and a protocol status (0: request complete, 2: overloaded).
    pub fn end(&mut self, app_status: u32, protocol_status: u8) -> bool {
        self.ended = true;
        let mut content = app_status.to_be_bytes().to_vec();
        content.extend_from_slice(&[protocol_status, 0, 0, 0]);
        self.record(END_REQUEST, &content, 0)
    }

    /// Reads the next record of stdin; `None` at its end, after an abort, or if the web server has disconnected.
    pub fn stdin_piece(&mut self) -> Option<Vec<u8>> {
        while !self.stdin_ended {
            let Some((kind, id, content)) = read_record(self.socket) else {
                self.stdin_ended = true;
                self.closed = true;
                return None;
            };
            match kind {
                STDIN if id == self.id && !content.is_empty() => {
                    if let Some(request) = lock(self.log).get_mut(self.number) {
                        request.stdin.extend_from_slice(&content);
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

    /// Reads the rest of stdin.
    pub fn stdin(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(piece) = self.stdin_piece() {
            all.extend_from_slice(&piece);
        }
        all
    }

    /// True if the web server has aborted the request. Updated only while the script reads stdin or waits for the abort.
    pub fn is_aborted(&self) -> bool {
        self.aborted
    }

    /// Closes the connection without ending the request.
    pub fn close(&mut self) {
        self.socket.close();
        self.closed = true;
    }

    /// Resets the connection (TCP only).
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

/// Reads one request and runs its script; false at the end of the connection.
fn serve_one(
    socket: &mut Socket,
    connection: usize,
    log: &Mutex<Vec<FastCgiRequest>>,
    script: &impl Fn(&FastCgiRequest, &mut FastCgiWriter<'_>),
) -> bool {
    let Some((id, mut request)) = read_request(socket) else {
        return false;
    };
    request.connection = connection;
    {
        let mut log = lock(log);
        request.number = log.len();
        log.push(request.clone());
    }
    let mut writer = FastCgiWriter {
        socket,
        id,
        log,
        number: request.number,
        stdin_ended: false,
        aborted: false,
        ended: false,
        closed: false,
    };
    script(&request, &mut writer);
    if writer.closed {
        return false;
    }
    let ended = writer.ended || (writer.record(STDOUT, &[], 0) && writer.end(0, 0));
    if !ended {
        return false;
    }
    request.keep && {
        writer.stdin();
        !writer.closed
    }
}

/// Reads a request up to the end of the parameters; returns it with its id.
fn read_request(socket: &mut Socket) -> Option<(u16, FastCgiRequest)> {
    let mut request = FastCgiRequest::default();
    let mut request_id = None;
    let mut params = Vec::new();
    loop {
        let (kind, id, content) = read_record(socket)?;
        match kind {
            BEGIN_REQUEST => {
                request.keep = content.get(2)? & 1 == 1;
                request_id = Some(id);
            }
            PARAMS if content.is_empty() => break,
            PARAMS => params.extend_from_slice(&content),
            _ => {}
        }
    }
    for (name, value) in pairs(&params)? {
        request.names.push(name.clone());
        request.params.insert(name, value);
    }
    Some((request_id?, request))
}

/// Decodes name-value pairs (section 3.4): a length below 128 is one byte, any other four bytes with the high bit set.
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

/// Encodes a record; truncates content after 65,535 bytes.
fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let content = content.get(..MAX_CONTENT).unwrap_or(content);
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
const MAX_CONTENT: usize = 65_535;
/// After this time, a web server that reads nothing counts as disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn name_value_pairs_with_short_and_long_lengths_are_decoded() {
        let mut bytes = vec![1, 2, b'a', b'x', b'y', 1, 0x80, 0, 0, 200, b'b'];
        bytes.extend_from_slice(&[b'z'; 200]);
        let expected = vec![
            ("a".to_owned(), "xy".to_owned()),
            ("b".to_owned(), "z".repeat(200)),
        ];
        assert_eq!(pairs(&bytes), Some(expected));
        for length in 1..bytes.len() {
            let is_complete_pair = length == 5;
            assert_eq!(
                pairs(&bytes[..length]).is_some(),
                is_complete_pair,
                "truncated to {length} bytes"
            );
        }
    }

    proptest! {
        #[test]
        fn decoding_any_bytes_does_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = pairs(&bytes);
        }
    }
}
