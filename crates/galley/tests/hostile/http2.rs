//! Sends each case of `http2.txt` to the running server as frames. HPACK without indexing or Huffman coding can encode any bytes.
//!
//! The client decodes only as much HPACK as the status of a response needs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use galley_testkit::Nginx;

use crate::case::{
    Case, ConnectionState, host, parse_cases, recorded_nginx_version, unescaped, with_nginx_results,
};
use crate::client::{CaseResult, TIMEOUT};
use crate::documentation_table::check_golden;
use crate::servers::{GalleyWithEcho, NginxWithEcho};

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/http2.txt");

/// The case file, read again because another test may have recorded it.
pub fn read_file() -> String {
    std::fs::read_to_string(PATH).unwrap()
}

#[test]
fn every_http2_case_has_the_expected_result() {
    let cases = parse_cases(&read_file());
    assert!(cases.len() >= 70, "{} cases", cases.len());
    let server = GalleyWithEcho::start_h2c(cases.len());
    let mut problems = Vec::new();
    for (number, case) in cases.iter().enumerate() {
        let result = run(server.addr(), case, number, || server.echo.take());
        if !result.matches(case) {
            let (name, rfc) = (&case.name, &case.rfc);
            problems.push(format!(
                "{name}: {} ({rfc}); expected {:?}",
                result.text(),
                case.expected
            ));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    let log = server.galley.log();
    assert!(
        !log.contains("panic") && !log.contains(" error ") && !log.contains(" warn "),
        "{log}"
    );
}

#[test]
fn nginx_has_the_recorded_http2_results() {
    let file = read_file();
    let version = Nginx::version().unwrap();
    let is_recording = std::env::var_os("UPDATE_GOLDEN").is_some();
    if !is_recording && version != recorded_nginx_version(&file) {
        eprintln!("not compared: installed is {version}");
        return;
    }
    let cases = parse_cases(&file);
    let nginx = NginxWithEcho::start_h2c(cases.len());
    let numbered = cases.iter().enumerate();
    let results: Vec<String> = numbered
        .map(|(number, case)| {
            run(nginx.server.further_addr(), case, number, || {
                nginx.echo.take()
            })
            .text()
        })
        .collect();
    check_golden(PATH, &file, &with_nginx_results(&file, &version, &results));
}

/// A client may split its cookies into several fields (RFC 9113 section 8.2.3). An HTTP/1 upstream receives one field.
#[test]
fn split_cookies_are_one_field_for_the_upstream() {
    let server = GalleyWithEcho::start_h2c(1);
    let host = host(0);
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", "/cookies"),
        (":authority", &host),
        ("cookie", "a=1"),
        ("x", "y"),
        ("cookie", "b=2; c=3"),
    ];
    let fields = fields.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    let mut client = Client::connect(server.addr());
    client.headers(1, &fields, true);
    assert_eq!(client.read_stream_end(1), Some("200".to_owned()));
    assert_eq!(server.echo.cookies(), ["a=1; b=2; c=3"]);
}

fn run(
    addr: SocketAddr,
    case: &Case,
    number: usize,
    take_received: impl Fn() -> Vec<String>,
) -> CaseResult {
    let host = host(number);
    let mut client = Client::connect(addr);
    for frame in parse_frames(case, &host) {
        match frame {
            Frame::Headers { fields, is_end } => client.headers(1, &fields, is_end),
            Frame::Data { bytes, is_end } => client.data(1, &bytes, is_end),
        }
    }
    let statuses = client.read_stream_end(1).into_iter().collect();
    let probe = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/probe"),
        (":authority", &host),
    ];
    let probe = probe.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
    client.headers(3, &probe, true);
    let is_open = client.read_stream_end(3).as_deref() == Some("200");
    let mut received: Vec<String> = take_received()
        .iter()
        .map(|line| line.replace(&host, "c000.test"))
        .collect();
    if is_open {
        assert_eq!(
            received.pop().as_deref(),
            Some("GET /probe \"\""),
            "{}",
            case.name
        );
    }
    CaseResult {
        statuses,
        connection: if is_open {
            ConnectionState::Open
        } else {
            ConnectionState::Closed
        },
        received,
    }
}

type Field = (Vec<u8>, Vec<u8>);

enum Frame {
    Headers { fields: Vec<Field>, is_end: bool },
    Data { bytes: Vec<u8>, is_end: bool },
}

fn parse_frames(case: &Case, host: &str) -> Vec<Frame> {
    let mut frames = Vec::new();
    for line in &case.lines {
        let line = line.replace("c000.test", host);
        if let Some(rest) = line.strip_prefix("HEADERS") {
            frames.push(Frame::Headers {
                fields: Vec::new(),
                is_end: rest == " end",
            });
        } else if let Some(rest) = line.strip_prefix("DATA ") {
            let (is_end, text) = match rest.strip_prefix("end ") {
                Some(text) => (true, text),
                None => (false, rest),
            };
            frames.push(Frame::Data {
                bytes: unescaped(text),
                is_end,
            });
        } else if let Some(Frame::Headers { fields, .. }) = frames.last_mut() {
            let (name, value) = line.trim_start().split_once('=').unwrap();
            fields.push((unescaped(name), unescaped(value)));
        }
    }
    frames
}

struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

impl Client {
    fn connect(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream.set_write_timeout(Some(TIMEOUT)).unwrap();
        let mut client = Self {
            stream,
            received: Vec::new(),
        };
        let _ = client.stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        client.send(SETTINGS, 0, 0, &[]);
        client
    }

    fn headers(&mut self, stream: u32, fields: &[Field], is_end: bool) {
        let mut block = Vec::new();
        for (name, value) in fields {
            // Literal without indexing, new name (RFC 7541 section 6.2.2).
            block.push(0);
            push_string(&mut block, name);
            push_string(&mut block, value);
        }
        let end = if is_end { END_STREAM } else { 0 };
        self.send(HEADERS, END_HEADERS | end, stream, &block);
    }

    fn data(&mut self, stream: u32, bytes: &[u8], is_end: bool) {
        self.send(DATA, u8::from(is_end), stream, bytes);
    }

    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend_from_slice(&[kind, flags]);
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        // The server may have closed already.
        let _ = self.stream.write_all(&frame);
    }

    /// Reads the end of a stream: its status, `reset`, or `goaway` if the server sends GOAWAY or closes.
    fn read_stream_end(&mut self, wanted_stream: u32) -> Option<String> {
        let mut status = None;
        loop {
            let Some((kind, flags, stream, payload)) = self.read_frame() else {
                return Some("goaway".to_owned());
            };
            match kind {
                SETTINGS if flags & 1 == 0 => self.send(SETTINGS, 1, 0, &[]),
                GOAWAY => return Some("goaway".to_owned()),
                RST_STREAM if stream == wanted_stream => {
                    return status.or(Some("reset".to_owned()));
                }
                HEADERS if stream == wanted_stream => status = status_of(&payload).or(status),
                _ => {}
            }
            let may_end = matches!(kind, DATA | HEADERS) && stream == wanted_stream;
            if may_end && flags & END_STREAM != 0 {
                return status;
            }
        }
    }

    fn read_frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let head = self.read_exact(9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some((head[3], head[4], stream, self.read_exact(length)?))
    }

    fn read_exact(&mut self, count: usize) -> Option<Vec<u8>> {
        let mut piece = [0; 4096];
        while self.received.len() < count {
            match self.stream.read(&mut piece) {
                Ok(0) | Err(_) => return None,
                Ok(read) => self.received.extend_from_slice(&piece[..read]),
            }
        }
        let rest = self.received.split_off(count);
        Some(std::mem::replace(&mut self.received, rest))
    }
}

/// Appends a string literal (RFC 7541 section 5.2) without Huffman coding.
fn push_string(block: &mut Vec<u8>, bytes: &[u8]) {
    match u8::try_from(bytes.len()) {
        Ok(length) if length < 127 => block.push(length),
        _ => {
            let rest = bytes.len() - 127;
            assert!(rest < 1 << 14, "longer than the client can encode");
            let seven = |bits: usize| u8::try_from(bits % 128).unwrap();
            block.extend_from_slice(&[127, seven(rest) | 128, seven(rest / 128)]);
        }
    }
    block.extend_from_slice(bytes);
}

/// The final status, which is the first field of the block (RFC 7541 appendices A and B).
fn status_of(block: &[u8]) -> Option<String> {
    // Dynamic table size updates may come first.
    let block = block
        .iter()
        .position(|byte| byte >> 5 != 1)
        .map(|at| &block[at..])?;
    let status = match block {
        [indexed @ 0x88..=0x8e, ..] => {
            let known = ["200", "204", "206", "304", "400", "404", "500"];
            known[usize::from(indexed - 0x88)].to_owned()
        }
        [_, length, rest @ ..] => {
            let value = rest.get(..usize::from(length & 127))?;
            match length & 128 {
                0 => String::from_utf8(value.to_vec()).ok()?,
                _ => decode_digits(value),
            }
        }
        _ => return None,
    };
    (!status.starts_with('1')).then_some(status)
}

/// Decodes Huffman-coded digits: 0, 1 and 2 have five bits, the others six.
fn decode_digits(value: &[u8]) -> String {
    let bits: Vec<String> = value.iter().map(|byte| format!("{byte:08b}")).collect();
    let bits = bits.concat();
    let mut rest = &bits[..];
    let mut digits = String::new();
    while digits.len() < 3 {
        let digit = ('0'..='9').zip([
            "00000", "00001", "00010", "011001", "011010", "011011", "011100", "011101", "011110",
            "011111",
        ]);
        let Some((digit, code)) = digit.clone().find(|(_, code)| rest.starts_with(code)) else {
            panic!("not digits: {bits}")
        };
        digits.push(digit);
        rest = &rest[code.len()..];
    }
    digits
}
