//! Output of FastCGI responders (records and the head in them), and parameters of a request.

#[path = "../../crates/fastcgi/tests/responder_side/params.rs"]
mod reader;
#[path = "../../crates/fastcgi/tests/responder_side/records.rs"]
mod records;

use bytes::Bytes;
use galley_fastcgi::FastCgiEvent;
use galley_fastcgi::exchange::{FastCgiExchange, FastCgiRequest};
use galley_fastcgi::params;
use galley_fastcgi::response::Splitter;
use galley_policy::cgi;

use self::records::{ParsedRecord, parse};

/// The result does not depend on how records are split; stdout has the same head and body.
pub fn records(data: &[u8]) {
    let whole = read_records([data]);
    assert_eq!(read_records(data.chunks(5)), whole);
    assert_eq!(read_records(data.chunks(1)), whole);
    let split = |pieces: usize| {
        let mut splitter = Splitter::new();
        let (mut head, mut body) = (None, Vec::new());
        for piece in whole.stdout.chunks(pieces) {
            let Ok(split) = splitter.push(Bytes::copy_from_slice(piece)) else {
                return None;
            };
            assert!(split.head.is_none() || head.is_none());
            head = head.or(split.head);
            body.extend_from_slice(&split.body);
        }
        Some((head, body))
    };
    assert_eq!(split(1), split(usize::MAX >> 1));
}

#[derive(Debug, Default, PartialEq, Eq)]
struct ResponderOutput {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<bool>,
}

fn read_records<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> ResponderOutput {
    let mut exchange = FastCgiExchange::new();
    let request = FastCgiRequest {
        variables: &[],
        body_length: 0,
    };
    let mut output = ResponderOutput::default();
    if exchange.begin(&request).is_err() {
        return output;
    }
    for piece in pieces {
        exchange.input().extend_from_slice(piece);
        while output.end.is_none() {
            match exchange.event() {
                Ok(Some(FastCgiEvent::Stdout(bytes))) => output.stdout.extend_from_slice(&bytes),
                Ok(Some(FastCgiEvent::Stderr(bytes))) => output.stderr.extend_from_slice(&bytes),
                Ok(Some(FastCgiEvent::End(_))) => output.end = Some(true),
                Ok(None) => break,
                Err(_) => output.end = Some(false),
            }
        }
    }
    output
}

/// Parameters that were read can be written and read back unchanged.
pub fn params(data: &[u8]) {
    let Some(pairs) = reader::read(data) else {
        return;
    };
    let mut out = Vec::new();
    params::write(&mut out, &pairs).expect("the parameters were read, so they fit");
    let mut joined = Vec::new();
    let mut rest = &out[..];
    while let Ok(ParsedRecord::Whole {
        content, length, ..
    }) = parse(rest)
    {
        joined.extend_from_slice(content);
        rest = &rest[length..];
    }
    assert_eq!(reader::read(&joined), Some(pairs));
}

/// An accepted CGI head has a valid status and no framing fields.
pub fn cgi_response(data: &[u8]) {
    let Ok(cgi::CgiHead { status, fields, .. }) = cgi::response(data) else {
        return;
    };
    assert!((100..1000).contains(&status.as_u16()));
    assert!(fields.len() <= cgi::MAX_FIELDS);
    for name in ["connection", "transfer-encoding", "keep-alive", "upgrade"] {
        assert!(!fields.contains_key(name), "{name}");
    }
}
