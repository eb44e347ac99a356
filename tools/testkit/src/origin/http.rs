//! A scripted HTTP/1.1 origin: the script writes every byte of the response.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use super::gate::Gate;
use super::socket::{Listener, ScriptServer, Socket, lock};
use crate::TestkitError;

/// The received requests.
#[derive(Debug, Default)]
struct RequestLog {
    count: usize,
    /// Empty if `counts_only`.
    requests: Vec<ReceivedRequest>,
    counts_only: bool,
}

/// A received request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// Method.
    pub method: String,
    /// Target of the request line.
    pub target: String,
    /// Header fields in order.
    pub fields: Vec<(String, Vec<u8>)>,
    /// Body, as far as the script has read it.
    pub body: Vec<u8>,
    /// The raw head with its empty line.
    pub head: Vec<u8>,
    /// Number of its connection, from 0.
    pub connection: usize,
    /// Number of the request, from 0.
    pub number: usize,
}

impl ReceivedRequest {
    /// The value of the first field with this name, ignoring case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self
            .fields
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(&found.1).ok()
    }

    /// The target without the query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// A running origin. Dropping it stops it, and panics if a script panicked.
#[derive(Debug)]
pub struct Origin {
    server: ScriptServer,
    addr: SocketAddr,
    log: Arc<Mutex<RequestLog>>,
}

impl Origin {
    /// Listens on a free port of 127.0.0.1 and calls `script` for each request.
    ///
    /// After the script, the rest of the request body is read and discarded, unless the script has closed the connection.
    pub fn start(
        script: impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static,
    ) -> Result<Self, TestkitError> {
        Self::start_with_log(RequestLog::default(), script)
    }

    /// Starts an origin whose script can wait at a gate that the test opens.
    pub fn gated(
        script: impl Fn(&Gate, &ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static,
    ) -> Result<(Self, Gate), TestkitError> {
        let gate = Gate::new();
        let passed = gate.clone();
        let origin = Self::start(move |request, writer| script(&passed, request, writer))?;
        Ok((origin, gate))
    }

    /// Starts an origin that does not record requests, for tests with very many: [`requests`](Self::requests) stays empty.
    pub fn start_unrecorded(
        script: impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static,
    ) -> Result<Self, TestkitError> {
        let log = RequestLog {
            counts_only: true,
            ..RequestLog::default()
        };
        Self::start_with_log(log, script)
    }

    fn start_with_log(
        log: RequestLog,
        script: impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static,
    ) -> Result<Self, TestkitError> {
        let listener = Listener::tcp()?;
        let addr = match &listener {
            Listener::Tcp(_, addr) => *addr,
            Listener::Unix(..) => {
                return Err(TestkitError::Malformed(
                    "a TCP listener without an address".to_owned(),
                ));
            }
        };
        let log = Arc::new(Mutex::new(log));
        let server_log = Arc::clone(&log);
        let server = ScriptServer::start(listener, move |mut socket, connection| {
            socket.set_write_timeout(WRITE_TIMEOUT);
            let mut unread = Vec::new();
            while serve_one(&mut socket, &mut unread, connection, &server_log, &script) {}
            socket.close();
        });
        Ok(Self { server, addr, log })
    }

    /// Starts an origin that responds to every request with 200, these fields and this body.
    pub fn constant(fields: &[(&str, &str)], body: &str) -> Result<Self, TestkitError> {
        let fields: Vec<(String, String)> = fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let body = body.to_owned();
        Self::start(move |_, writer| {
            let fields: Vec<(&str, &str)> = fields
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            writer.respond(200, &fields, body.as_bytes());
        })
    }

    /// The address of the listener.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// All requests so far, including those whose scripts still run.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        lock(&self.log).requests.clone()
    }

    /// Number of requests with this path.
    pub fn count(&self, path: &str) -> usize {
        lock(&self.log)
            .requests
            .iter()
            .filter(|request| request.path() == path)
            .count()
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

/// Writes the response and reads the rest of the request body.
#[derive(Debug)]
pub struct ResponseWriter<'a> {
    socket: &'a mut Socket,
    unread: &'a mut Vec<u8>,
    body: Framing,
    log: &'a Mutex<RequestLog>,
    number: usize,
    head_only: bool,
    closed: bool,
}

#[derive(Debug, Clone, Copy)]
enum Framing {
    Length(usize),
    Chunked,
}

impl ResponseWriter<'_> {
    /// Writes raw bytes; false if the client has disconnected.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        !self.closed && self.socket.write_all(bytes).is_ok()
    }

    /// Writes a whole response with `Content-Length` (not for 204 and 304, and no body for HEAD).
    pub fn respond(&mut self, status: u16, fields: &[(&str, &str)], body: &[u8]) -> bool {
        let mut out = head(status, fields);
        if matches!(status, 204 | 304) {
            out.extend_from_slice(b"\r\n");
        } else {
            out.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            if !self.head_only {
                out.extend_from_slice(body);
            }
        }
        self.write(&out)
    }

    /// Writes the head of a chunked response; [`chunk`](Self::chunk) and [`last_chunk`](Self::last_chunk) follow.
    pub fn chunked(&mut self, status: u16, fields: &[(&str, &str)]) -> bool {
        let mut out = head(status, fields);
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        self.write(&out)
    }

    /// Writes one chunk.
    pub fn chunk(&mut self, bytes: &[u8]) -> bool {
        let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
        out.extend_from_slice(bytes);
        out.extend_from_slice(b"\r\n");
        self.write(&out)
    }

    /// Ends a chunked response.
    pub fn last_chunk(&mut self) -> bool {
        self.write(b"0\r\n\r\n")
    }

    /// Reads the whole request body and records it in [`Origin::requests`].
    pub fn body(&mut self) -> Vec<u8> {
        let body = match std::mem::replace(&mut self.body, Framing::Length(0)) {
            Framing::Length(length) => take(self.socket, self.unread, length),
            Framing::Chunked => take_chunks(self.socket, self.unread),
        };
        let body = body.unwrap_or_default();
        if let Some(request) = lock(self.log)
            .requests
            .get_mut(self.number)
            .filter(|_| !body.is_empty())
        {
            request.body.clone_from(&body);
        }
        body
    }

    /// Closes the connection.
    pub fn close(&mut self) {
        self.socket.close();
        self.closed = true;
    }

    /// Resets the connection.
    pub fn reset(&mut self) {
        self.socket.reset();
        self.closed = true;
    }

    /// Waits until the client closes the connection; discards received bytes.
    pub fn wait_for_close(&mut self) {
        while fill(self.socket, self.unread) {
            self.unread.clear();
        }
        self.closed = true;
    }
}

/// Reads one request and runs its script; false at the end of the connection.
fn serve_one(
    socket: &mut Socket,
    unread: &mut Vec<u8>,
    connection: usize,
    log: &Mutex<RequestLog>,
    script: &impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>),
) -> bool {
    let Some(mut request) = read_head(socket, unread) else {
        return false;
    };
    request.connection = connection;
    {
        let mut log = lock(log);
        request.number = log.count;
        log.count += 1;
        if !log.counts_only {
            log.requests.push(request.clone());
        }
    }
    let chunked = request.field("transfer-encoding").is_some();
    let length = request
        .field("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let body = if chunked {
        Framing::Chunked
    } else {
        Framing::Length(length)
    };
    let head_only = request.method == "HEAD";
    let mut writer = ResponseWriter {
        socket,
        unread,
        body,
        log,
        number: request.number,
        head_only,
        closed: false,
    };
    script(&request, &mut writer);
    if writer.closed {
        return false;
    }
    writer.body();
    true
}

fn head(status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut out = format!("HTTP/1.1 {status} Scripted\r\n").into_bytes();
    for (name, value) in fields {
        out.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    out
}

fn read_head(socket: &mut Socket, unread: &mut Vec<u8>) -> Option<ReceivedRequest> {
    let head = take_through(socket, unread, b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&head).into_owned();
    let mut lines = text.trim_end_matches("\r\n").split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let fields = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().as_bytes().to_vec()))
        .collect();
    Some(ReceivedRequest {
        method,
        target,
        fields,
        body: Vec::new(),
        head,
        connection: 0,
        number: 0,
    })
}

fn take_chunks(socket: &mut Socket, unread: &mut Vec<u8>) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = take_through(socket, unread, b"\r\n")?;
        let line = String::from_utf8_lossy(&line).into_owned();
        let size = usize::from_str_radix(line.trim().split(';').next()?, 16).ok()?;
        if size == 0 {
            while take_through(socket, unread, b"\r\n")? != b"\r\n" {}
            return Some(body);
        }
        body.extend_from_slice(&take(socket, unread, size)?);
        take(socket, unread, 2)?;
    }
}

fn take(socket: &mut Socket, unread: &mut Vec<u8>, count: usize) -> Option<Vec<u8>> {
    while unread.len() < count {
        if !fill(socket, unread) {
            return None;
        }
    }
    let rest = unread.split_off(count);
    Some(std::mem::replace(unread, rest))
}

fn take_through(socket: &mut Socket, unread: &mut Vec<u8>, end: &[u8]) -> Option<Vec<u8>> {
    loop {
        if let Some(found) = unread.windows(end.len()).position(|window| window == end) {
            return take(socket, unread, found + end.len());
        }
        if !fill(socket, unread) {
            return None;
        }
    }
}

/// Reads once; false at the end of the connection.
fn fill(socket: &mut Socket, unread: &mut Vec<u8>) -> bool {
    let mut piece = [0; 16 * 1024];
    match socket.read(&mut piece) {
        Ok(0) | Err(_) => false,
        Ok(count) => {
            unread.extend_from_slice(piece.get(..count).unwrap_or_default());
            true
        }
    }
}

/// After this time, a client that reads nothing counts as disconnected.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
