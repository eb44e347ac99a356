//! HTTP/1 of clients: streams of requests, chunked bodies, and response heads; request heads over HTTP/2.

use galley_http::body::BodyReader;
use galley_http::framing::{self, BodyKind};
use galley_http::h2;
use galley_http::head::{self, BadRequest, HeadLimits, HeadScanner, ParsedHead, Version};
use galley_http::response_writer::{ConnectionField, Length, write_head};

use crate::reader::{read_pieces, read_whole};

/// The result does not depend on how a stream is split, and no parsed request contains bytes that could hide another request.
pub fn requests(data: &[u8]) {
    let Some((&position, stream)) = data.split_first() else {
        return;
    };
    let whole = read_whole(stream);
    let at = usize::from(position) * stream.len() / 256;
    let (first, second) = stream.split_at(at);
    assert_eq!(read_pieces([first, second]), whole);
    assert_eq!(read_pieces(stream.chunks(7)), whole);
    for request in &whole.requests {
        assert!(request.target.bytes().all(|byte| byte.is_ascii_graphic()));
        for (name, value) in &request.fields {
            assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()));
            assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        }
    }
}

/// A head that arrives at once, which may use the fast parser, has the same result as one in two pieces, which never uses it.
pub fn head(data: &[u8]) {
    let Some(first) = data.get(..1) else {
        return;
    };
    let limits = HeadLimits {
        fields: 40,
        target_bytes: 1024,
        ..HeadLimits::default()
    };
    let mut scanner = HeadScanner::new();
    let mut buffer = head::HeadBuffer::new();
    if head::resume(&mut scanner, first, &limits, &mut buffer).is_err() || !scanner.has_begun() {
        return;
    }
    let mut buffer = head::HeadBuffer::new();
    let in_pieces = owned(head::resume(&mut scanner, data, &limits, &mut buffer));
    let mut buffer = head::HeadBuffer::new();
    assert_eq!(owned(head::parse(data, &limits, &mut buffer)), in_pieces);
}

/// An owned head: method, target, version, fields, length.
type OwnedHead = (String, Vec<u8>, Version, Vec<(String, Vec<u8>)>, usize);

fn owned(read: Result<ParsedHead<'_, '_>, BadRequest>) -> Result<Option<OwnedHead>, BadRequest> {
    Ok(match read? {
        ParsedHead::Partial => None,
        ParsedHead::Whole { head, length } => {
            let fields = head.fields();
            let fields = fields.map(|(name, value)| (name.to_owned(), value.to_vec()));
            let target = head.target.to_vec();
            let method = head.method.to_owned();
            Some((method, target, head.version, fields.collect(), length))
        }
    })
}

/// The result does not depend on how a chunked body is split. It is never longer than its limit, and no byte after its end is consumed.
pub fn chunks(data: &[u8]) {
    let Some((&limit, body)) = data.split_first() else {
        return;
    };
    let whole = decode([body], u64::from(limit));
    assert_eq!(decode(body.chunks(1), u64::from(limit)), whole);
    assert_eq!(decode(body.chunks(3), u64::from(limit)), whole);
    if let Some((data, consumed)) = whole {
        assert!(data.len() <= usize::from(limit));
        assert!(body[..consumed].ends_with(b"\r\n\r\n"));
    }
}

/// The data and the number of bytes consumed; `None` if the body is rejected or incomplete.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, max: u64) -> Option<(Vec<u8>, usize)> {
    let mut reader = BodyReader::new(BodyKind::Chunked, max);
    let (mut data, mut consumed) = (Vec::new(), 0);
    for mut piece in pieces {
        while !piece.is_empty() && !reader.is_done() {
            let decoded = reader.decode(piece).ok()?;
            assert!(decoded.consumed > 0 && decoded.consumed <= piece.len());
            data.extend_from_slice(decoded.data);
            consumed += decoded.consumed;
            piece = &piece[decoded.consumed..];
        }
    }
    reader.is_done().then_some((data, consumed))
}

/// Arbitrary fields of an upstream result in exactly one response head, with at most one framing field.
pub fn response(data: &[u8]) {
    let fields = data.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((
            std::str::from_utf8(&line[..colon]).ok()?,
            &line[colon + 1..],
        ))
    });
    let status = data.first().map_or(200, |first| u16::from(*first) * 5);
    let mut out = Vec::new();
    write_head(
        &mut out,
        status,
        fields,
        Length::Known(7),
        ConnectionField::Close,
    );
    let end = out.windows(4).position(|four| four == b"\r\n\r\n");
    assert_eq!(end, Some(out.len() - 4));
    let head = &out[..out.len() - 4];
    let is_alone = |at: usize| match head[at] {
        b'\r' => head.get(at + 1) != Some(&b'\n'),
        b'\n' => at == 0 || head[at - 1] != b'\r',
        byte => byte == 0,
    };
    assert!(!(0..head.len()).any(is_alone));
    let lower = String::from_utf8_lossy(head).to_ascii_lowercase();
    assert!(lower.matches("\r\ncontent-length:").count() <= 1);
    assert!(!lower.contains("\r\ntransfer-encoding:"));
}

/// An accepted HTTP/2 head is also valid in HTTP/1: one host, no connection fields, no line ends.
///
/// The input: method, scheme, authority and path on a line each, then `name=value` lines. NUL stands for a carriage return.
pub fn http2_head(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let text = text.replace('\0', "\r");
    let mut lines = text.split('\n');
    let mut next = || lines.next().unwrap_or_default();
    let line = h2::PseudoFields {
        method: next(),
        scheme: Some(next()),
        authority: Some(next()),
        target: next(),
        version: Version::H2,
    };
    let fields = lines.filter_map(|line| line.split_once('='));
    let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let mut buffer = h2::Http2HeadBuffer::new();
    let Ok(head) = h2::head(&line, fields, &HeadLimits::default(), &mut buffer) else {
        return;
    };
    // The host is checked with the framing.
    if framing::frame_h2(&head, true).is_err() && framing::frame_h2(&head, false).is_err() {
        return;
    }
    assert!(head.target.iter().all(u8::is_ascii_graphic));
    assert_eq!(head.fields().filter(|(name, _)| *name == "host").count(), 1);
    for (name, value) in head.fields() {
        assert!(!["connection", "transfer-encoding", "upgrade"].contains(&name));
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        assert!(
            !name
                .bytes()
                .any(|byte| byte.is_ascii_uppercase() || byte == b':')
        );
    }
}
