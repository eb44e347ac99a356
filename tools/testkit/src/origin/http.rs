//! A scripted HTTP/1.1 origin: every byte of the answer is the script's.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use super::socket::{Listening, Serving, Socket, lock};
use crate::TestkitError;

/// What the origin remembers of the requests so far.
#[derive(Debug, Default)]
struct Notes {
    /// How many there were.
    count: usize,
    /// All of them, unless `forgets`.
    seen: Vec<ReceivedRequest>,
    forgets: bool,
}

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedRequest {
    /// Method.
    pub method: String,
    /// Target as in the request line.
    pub target: String,
    /// Fields in order.
    pub fields: Vec<(String, Vec<u8>)>,
    /// Body, as far as the script has read it.
    pub body: Vec<u8>,
    /// The head byte by byte, with its empty line.
    pub head: Vec<u8>,
    /// Number of the connection it came on, from 0.
    pub connection: usize,
    /// Number of the request among all, from 0.
    pub number: usize,
}

impl ReceivedRequest {
    /// The first field of this name, in any case.
    pub fn field(&self, name: &str) -> Option<&str> {
        let found = self
            .fields
            .iter()
            .find(|(other, _)| other.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(&found.1).ok()
    }

    /// Target without its query.
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }
}

/// A running origin. Ends with this value; panics then if a script panicked.
#[derive(Debug)]
pub struct Origin {
    serving: Serving,
    addr: SocketAddr,
    notes: Arc<Mutex<Notes>>,
}

impl Origin {
    /// Listens on a free port of 127.0.0.1 and calls `script` for each request.
    ///
    /// What the script leaves of the request's body is read and thrown away afterwards, unless it closed the connection.
    pub fn start(
        script: impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static,
    ) -> Result<Self, TestkitError> {
        Self::noting(Notes::default(), script)
    }

    /// The same for any number of requests: it keeps none, and [`requests`](Self::requests) stays empty.
    pub fn start_unrecorded(
        script: impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static,
    ) -> Result<Self, TestkitError> {
        let notes = Notes {
            forgets: true,
            ..Notes::default()
        };
        Self::noting(notes, script)
    }

    fn noting(
        notes: Notes,
        script: impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>) + Send + Sync + 'static,
    ) -> Result<Self, TestkitError> {
        let listening = Listening::tcp()?;
        let addr = match &listening {
            Listening::Tcp(_, addr) => *addr,
            Listening::Unix(..) => {
                return Err(TestkitError::Malformed(
                    "a TCP listener without an address".to_owned(),
                ));
            }
        };
        let notes = Arc::new(Mutex::new(notes));
        let taken = Arc::clone(&notes);
        let serving = Serving::start(listening, move |mut socket, connection| {
            socket.limit_writes(WRITE_PATIENCE);
            let mut unread = Vec::new();
            while serve_one(&mut socket, &mut unread, connection, &taken, &script) {}
            socket.shut();
        });
        Ok(Self {
            serving,
            addr,
            notes,
        })
    }

    /// An origin that answers every request with 200, these fields and this body.
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
            writer.answer(200, &fields, body.as_bytes());
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// `http://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// All requests so far, also those whose scripts still run.
    pub fn requests(&self) -> Vec<ReceivedRequest> {
        lock(&self.notes).seen.clone()
    }

    /// How many requests had this path.
    pub fn count(&self, path: &str) -> usize {
        lock(&self.notes)
            .seen
            .iter()
            .filter(|seen| seen.path() == path)
            .count()
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

/// The way back to the client, and the rest of the request's body.
#[derive(Debug)]
pub struct ResponseWriter<'a> {
    socket: &'a mut Socket,
    unread: &'a mut Vec<u8>,
    body: Framing,
    notes: &'a Mutex<Notes>,
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
    /// Writes these bytes. False when the client is gone.
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        !self.closed && self.socket.write_all(bytes).is_ok()
    }

    /// Writes a whole answer with `Content-Length` (not for 204 and 304, and no body for HEAD).
    pub fn answer(&mut self, status: u16, fields: &[(&str, &str)], body: &[u8]) -> bool {
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

    /// Writes the head of a chunked answer; [`chunk`](Self::chunk) and [`last_chunk`](Self::last_chunk) follow.
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

    /// Ends a chunked answer.
    pub fn last_chunk(&mut self) -> bool {
        self.write(b"0\r\n\r\n")
    }

    /// The whole body of the request; also noted in [`Origin::requests`].
    pub fn body(&mut self) -> Vec<u8> {
        let body = match std::mem::replace(&mut self.body, Framing::Length(0)) {
            Framing::Length(length) => take(self.socket, self.unread, length),
            Framing::Chunked => take_chunks(self.socket, self.unread),
        };
        let body = body.unwrap_or_default();
        if let Some(seen) = lock(self.notes)
            .seen
            .get_mut(self.number)
            .filter(|_| !body.is_empty())
        {
            seen.body.clone_from(&body);
        }
        body
    }

    /// Ends the connection after this answer.
    pub fn close(&mut self) {
        self.socket.shut();
        self.closed = true;
    }

    /// Ends the connection so that the client sees a reset.
    pub fn reset(&mut self) {
        self.socket.reset();
        self.closed = true;
    }

    /// Waits until the client closes the connection (bytes that come meanwhile are thrown away).
    pub fn wait_for_close(&mut self) {
        while fill(self.socket, self.unread) {
            self.unread.clear();
        }
        self.closed = true;
    }
}

/// One request and its script; false when the connection is at its end.
fn serve_one(
    socket: &mut Socket,
    unread: &mut Vec<u8>,
    connection: usize,
    notes: &Mutex<Notes>,
    script: &impl Fn(&ReceivedRequest, &mut ResponseWriter<'_>),
) -> bool {
    let Some(mut seen) = read_head(socket, unread) else {
        return false;
    };
    seen.connection = connection;
    {
        let mut notes = lock(notes);
        seen.number = notes.count;
        notes.count += 1;
        if !notes.forgets {
            notes.seen.push(seen.clone());
        }
    }
    let chunked = seen.field("transfer-encoding").is_some();
    let length = seen
        .field("content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let body = if chunked {
        Framing::Chunked
    } else {
        Framing::Length(length)
    };
    let head_only = seen.method == "HEAD";
    let mut writer = ResponseWriter {
        socket,
        unread,
        body,
        notes,
        number: seen.number,
        head_only,
        closed: false,
    };
    script(&seen, &mut writer);
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

/// A client that reads nothing for so long is taken for gone.
const WRITE_PATIENCE: Duration = Duration::from_secs(60);
