//! Properties of generated streams: no panic, no dependence on where reads end, chunked coding round trips.

use galley_http::body::BodyReader;
use galley_http::framing::BodyKind;
use galley_http::head::BadRequest;
use galley_http::response_writer::{CHUNK_END, LAST_CHUNK, write_chunk_head};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

use crate::corpus::cases;
use crate::reader::{read_pieces, read_whole};

proptest! {
    #[test]
    fn arbitrary_bytes_parse_the_same_in_any_pieces(stream in vec(any::<u8>(), 0..300), cuts in cuts()) {
        prop_assert_eq!(read_pieces(pieces(&stream, &cuts)), read_whole(&stream));
    }

    #[test]
    fn mutated_streams_parse_the_same_in_any_pieces(stream in mutated(), cuts in cuts()) {
        prop_assert_eq!(read_pieces(pieces(&stream, &cuts)), read_whole(&stream));
    }

    #[test]
    fn assembled_streams_parse_the_same_in_any_pieces(stream in assembled(), cuts in cuts()) {
        prop_assert_eq!(read_pieces(pieces(&stream, &cuts)), read_whole(&stream));
    }

    #[test]
    fn chunked_bodies_decode_the_same_in_any_pieces(stream in vec(select(CHUNK_BYTES), 0..200), cuts in cuts()) {
        let whole = decode([&stream[..]], BodyKind::Chunked, 100);
        prop_assert_eq!(decode(pieces(&stream, &cuts), BodyKind::Chunked, 100), whole);
    }

    #[test]
    fn chunked_coding_round_trips(chunks in vec(vec(any::<u8>(), 0..70), 0..8), cuts in cuts()) {
        let mut stream = Vec::new();
        for chunk in &chunks {
            write_chunk_head(&mut stream, chunk.len());
            if !chunk.is_empty() {
                stream.extend_from_slice(chunk);
                stream.extend_from_slice(CHUNK_END);
            }
        }
        stream.extend_from_slice(LAST_CHUNK);
        let length = stream.len();
        stream.extend_from_slice(b"GET /next HTTP/1.1\r\n");
        let body = chunks.concat();
        let max = body.len() as u64;
        let (data, consumed, done) = decode(pieces(&stream, &cuts), BodyKind::Chunked, max).unwrap();
        prop_assert_eq!((data, consumed, done), (body, length, true));
        if max > 0 {
            let short = decode([&stream[..]], BodyKind::Chunked, max - 1);
            prop_assert_eq!(short, Err(BadRequest::BodyTooLarge));
        }
    }

    #[test]
    fn chunk_extensions_and_trailers_are_dropped(
        chunks in vec(("[a-z]{1,40}", r#"( ?;[a-z]{1,9}(=([!#-~]{1,9}|"([ !#-\[\]-~]|\\[ -~]){0,9}"))?)?"#), 0..5),
        trailers in vec("[A-Za-z-]{1,20}:[ -~]{0,30}\r\n", 0..5),
        cuts in cuts(),
    ) {
        let mut stream = String::new();
        let mut body = String::new();
        for (data, extension) in &chunks {
            stream += &format!("{:X}{extension}\r\n{data}\r\n", data.len());
            body += data;
        }
        stream += &format!("0\r\n{}\r\n", trailers.concat());
        let found = decode(pieces(stream.as_bytes(), &cuts), BodyKind::Chunked, 1000).unwrap();
        prop_assert_eq!(found, (body.into_bytes(), stream.len(), true));
    }

    #[test]
    fn a_body_ends_after_its_content_length(length in 0..300_usize, sent in vec(any::<u8>(), 0..300), cuts in cuts()) {
        let found = decode(pieces(&sent, &cuts), BodyKind::Length(length as u64), 300).unwrap();
        let consumed = length.min(sent.len());
        prop_assert_eq!(found, (sent[..consumed].to_vec(), consumed, sent.len() >= length));
    }
}

/// Corpus streams with up to four bytes inserted, removed or changed.
pub fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let streams: Vec<_> = cases().into_iter().map(|case| case.stream).collect();
    let edit = (any::<Index>(), 0..3_u8, select(EDIT_BYTES));
    (select(streams), vec(edit, 1..5)).prop_map(|(mut stream, edits)| {
        for (at, what, byte) in edits {
            let at = at.index(stream.len() + 1);
            match what {
                0 => stream.insert(at, byte),
                _ if at == stream.len() => {}
                1 => stream[at] = byte,
                _ => drop(stream.remove(at)),
            }
        }
        stream
    })
}

/// Up to four requests assembled from mostly valid parts.
pub fn assembled() -> impl Strategy<Value = Vec<u8>> {
    let request = (
        select(LINES),
        vec(select(FIELDS), 0..4),
        select(FRAMES),
        any::<bool>(),
    );
    vec(request, 1..5).prop_map(|requests| {
        let mut stream = String::new();
        for (line, fields, (framing, body), framing_first) in requests {
            let fields = fields.concat();
            let (first, second) = if framing_first {
                (framing, &fields[..])
            } else {
                (&fields[..], framing)
            };
            stream += &format!("{line}\r\nHost: a\r\n{first}{second}\r\n{body}");
        }
        stream.into_bytes()
    })
}

fn cuts() -> impl Strategy<Value = Vec<Index>> {
    vec(any::<Index>(), 0..6)
}

fn pieces<'a>(stream: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<_> = cuts
        .iter()
        .map(|cut| cut.index(stream.len() + 1))
        .chain([0, stream.len()])
        .collect();
    at.sort_unstable();
    at.windows(2)
        .map(|ends| &stream[ends[0]..ends[1]])
        .collect()
}

/// Decodes a body. Returns the data, the bytes consumed, and whether the end was reached.
fn decode<'a>(
    pieces: impl IntoIterator<Item = &'a [u8]>,
    kind: BodyKind,
    max: u64,
) -> Result<(Vec<u8>, usize, bool), BadRequest> {
    let mut reader = BodyReader::new(kind, max);
    let mut data = Vec::new();
    let mut consumed = 0;
    for mut piece in pieces {
        while !piece.is_empty() && !reader.is_done() {
            let decoded = reader.decode(piece)?;
            assert!(decoded.consumed > 0, "no progress with {piece:?}");
            data.extend_from_slice(decoded.data);
            consumed += decoded.consumed;
            piece = &piece[decoded.consumed..];
        }
    }
    Ok((data, consumed, reader.is_done()))
}

const EDIT_BYTES: &[u8] = b"\r\n\r\n\r\n \t\0\x0b\x7f\x80\xff:;,=\"0159afGx/?#%*[]-+_.@";
const CHUNK_BYTES: &[u8] = b"\r\n\r\n\r\n01;a: \t\xff\"G";

const LINES: &[&str] = &[
    "GET / HTTP/1.1",
    "GET /a?b=c HTTP/1.1",
    "HEAD /h HTTP/1.1",
    "POST /p HTTP/1.1",
    "POST /p HTTP/1.0",
    "PURGE http://b:80/p HTTP/1.1",
    "OPTIONS * HTTP/1.1",
    "CONNECT c:443 HTTP/1.1",
    "GET / HTTP/1.2",
    "GET  / HTTP/1.1",
    "\r\nGET / HTTP/1.1",
];

const FIELDS: &[&str] = &[
    "Connection: keep-alive\r\n",
    "Connection: close\r\n",
    "Connection: Upgrade\r\nUpgrade: h2c\r\n",
    "Expect: 100-continue\r\n",
    "X-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n",
    "Content_Length: 7\r\n",
    "X-Content-Length: 7\r\n",
    "TE: chunked\r\n",
    "Proxy-Connection: close\r\n",
    "X: \t\r\n",
    "X : y\r\n",
    "X: y\r\n z\r\n",
    "X: y\n",
];

/// Framing fields with a body that matches them or almost does.
const FRAMES: &[(&str, &str)] = &[
    ("", ""),
    ("", ""),
    ("", "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("Content-Length: 5\r\n", "01234"),
    ("Content-Length: 5\r\n", "0123"),
    ("content-length:0\r\n", ""),
    ("Content-Length: 5\r\nContent-Length: 5\r\n", "01234"),
    ("Content-Length: 5, 5\r\n", "01234"),
    ("Transfer-Encoding: chunked\r\n", "5\r\n01234\r\n0\r\n\r\n"),
    (
        "Transfer-Encoding: chunked\r\n",
        "5;x=y\r\n01234\r\n0\r\nA: b\r\n\r\n",
    ),
    ("Transfer-Encoding: chunked\r\n", "5\r\n01234\r\n0\r\n"),
    ("Transfer-Encoding: chunked\r\n", "5\r\n012345\r\n0\r\n\r\n"),
    ("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"),
    ("Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n"),
    ("Transfer-Encoding: identity\r\n", ""),
    (
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "0\r\n\r\n",
    ),
    (
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
    ),
];
