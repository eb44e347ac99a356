//! What a FastCGI responder says: records, the head that is in them, and the pairs of a request read back.

use bytes::Bytes;
use galley_fastcgi::FastCgiEvent;
use galley_fastcgi::response::Splitter;
use galley_fastcgi::exchange::{FastCgiExchange, FastCgiRequest};
use galley_fastcgi::{params, record};
use galley_policy::cgi;

/// Records are read alike however they are cut; standard output gives the same head and body.
pub fn records(data: &[u8]) {
    let _ = record::parse(data);
    let whole = heard([data]);
    assert_eq!(heard(data.chunks(5)), whole);
    assert_eq!(heard(data.chunks(1)), whole);
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
struct Heard {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    end: Option<bool>,
}

fn heard<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Heard {
    let mut exchange = FastCgiExchange::new();
    let request = FastCgiRequest {
        variables: &[],
        body_length: 0,
    };
    let mut heard = Heard::default();
    if exchange.begin(&request).is_err() {
        return heard;
    }
    for piece in pieces {
        exchange.input().extend_from_slice(piece);
        while heard.end.is_none() {
            match exchange.event() {
                Ok(Some(FastCgiEvent::Stdout(bytes))) => heard.stdout.extend_from_slice(&bytes),
                Ok(Some(FastCgiEvent::Stderr(bytes))) => heard.stderr.extend_from_slice(&bytes),
                Ok(Some(FastCgiEvent::End(_))) => heard.end = Some(true),
                Ok(None) => break,
                Err(_) => heard.end = Some(false),
            }
        }
    }
    heard
}

/// What is read of a stream of pairs is written as a stream that is read alike.
pub fn params(data: &[u8]) {
    let Some(pairs) = params::read(data) else {
        return;
    };
    let mut out = Vec::new();
    params::write(&mut out, &pairs).expect("it fitted before");
    let mut joined = Vec::new();
    let mut rest = &out[..];
    while let Ok(record::ParsedRecord::Whole {
        content, length, ..
    }) = record::parse(rest)
    {
        joined.extend_from_slice(content);
        rest = &rest[length..];
    }
    assert_eq!(params::read(&joined), Some(pairs));
}

/// The head of a CGI answer: what is accepted has a status that can be sent and no field of framing.
pub fn cgi_answer(data: &[u8]) {
    let Ok((status, fields)) = cgi::answer(data) else {
        return;
    };
    assert!((100..1000).contains(&status.as_u16()));
    assert!(fields.len() <= cgi::MAX_FIELDS);
    for name in ["connection", "transfer-encoding", "keep-alive", "upgrade"] {
        assert!(!fields.contains_key(name), "{name}");
    }
}
