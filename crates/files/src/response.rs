//! A response made from a file: validators, conditions, ranges (RFC 9110 sections 8.8, 13 and 14).
//!
//! Pure: no file is read here. The result names the spans of the file, and the caller sends them. The length of the body is
//! in [`FileResponse::length`] and not in the fields, because the writer of the head decides about framing.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use galley_policy::conditional::{self, ConditionalResult, Validators};
use galley_policy::range::{self, ByteSpan, Ranges};
use galley_policy::request_info::{Method, RequestInfo};
use galley_policy::time;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::types;

/// A response to be sent.
#[derive(Debug)]
pub struct FileResponse {
    /// 200, 206, 304, 405, 412 or 416.
    pub status: StatusCode,
    /// All fields except `Content-Length`, `Date` and connection fields.
    pub fields: HeaderMap,
    /// The body in order; empty for 304, 405, 412, 416 and for `HEAD`.
    pub parts: Vec<BodyPiece>,
    /// The length of the body in bytes; for `HEAD`, that of the response to `GET`.
    pub length: u64,
}

/// A piece of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPiece {
    /// Literal bytes: the heads between the parts of a multipart body.
    Bytes(Vec<u8>),
    /// Bytes `start..end` of the file.
    Span {
        /// The first byte.
        start: u64,
        /// One past the last byte.
        end: u64,
    },
}

/// The response to a request for a file. `whole`: the head of a 200 with the whole file, as [`crate::Asset::fields`] returns
/// it; `length`: the size of the file in bytes.
pub fn respond(whole: &HeaderMap, length: u64, info: &RequestInfo) -> FileResponse {
    match info.method() {
        Method::Get | Method::Head => {}
        _ => return method_not_allowed(),
    }
    let validators = validators(whole);
    match conditional::evaluate(info, &validators) {
        ConditionalResult::Proceed => {}
        ConditionalResult::NotModified => return not_modified(whole, info),
        ConditionalResult::Failed => {
            return without_body(StatusCode::PRECONDITION_FAILED, HeaderMap::new());
        }
    }
    let ranges = match info.range() {
        // RFC 9110 section 14.2: ranges are defined for GET only.
        Some(value)
            if info.method() == Method::Get
                && conditional::range_applies(info.if_range(), &validators) =>
        {
            range::parse(value, length)
        }
        Some(_) | None => Ranges::Whole,
    };
    let mut response = match ranges {
        Ranges::Whole => all(whole, length, info),
        Ranges::Unsatisfiable => return unsatisfiable(length),
        Ranges::One(span) => one(whole, length, span),
        Ranges::Many(spans) => many(whole, length, &spans),
    };
    add_lifetime(&mut response.fields, info);
    response
}

/// The validators in a head.
pub fn validators(whole: &HeaderMap) -> Validators<'_> {
    let last_modified = whole.get(header::LAST_MODIFIED);
    Validators {
        etag: whole.get(header::ETAG).map(HeaderValue::as_bytes),
        last_modified: last_modified.and_then(|value| time::parse_date(value.as_bytes())),
    }
}

/// A 304 with the fields that RFC 9110 section 15.4.5 requires: validators, `Vary`, lifetime.
fn not_modified(whole: &HeaderMap, info: &RequestInfo) -> FileResponse {
    let mut fields = HeaderMap::new();
    for name in [header::ETAG, header::LAST_MODIFIED, header::VARY] {
        if let Some(value) = whole.get(&name) {
            fields.insert(name, value.clone());
        }
    }
    add_lifetime(&mut fields, info);
    without_body(StatusCode::NOT_MODIFIED, fields)
}

fn add_lifetime(fields: &mut HeaderMap, info: &RequestInfo) {
    if is_immutable(info) {
        fields.insert(header::CACHE_CONTROL, IMMUTABLE);
    }
}

fn all(whole: &HeaderMap, length: u64, info: &RequestInfo) -> FileResponse {
    let has_body = info.method() == Method::Get && length > 0;
    let span = BodyPiece::Span {
        start: 0,
        end: length,
    };
    FileResponse {
        status: StatusCode::OK,
        fields: whole.clone(),
        parts: has_body.then_some(span).into_iter().collect(),
        length,
    }
}

fn one(whole: &HeaderMap, length: u64, span: ByteSpan) -> FileResponse {
    let mut fields = whole.clone();
    insert(
        &mut fields,
        header::CONTENT_RANGE,
        &content_range(span, length),
    );
    FileResponse {
        status: StatusCode::PARTIAL_CONTENT,
        fields,
        parts: vec![BodyPiece::Span {
            start: span.start,
            end: span.end,
        }],
        length: span.length(),
    }
}

/// `multipart/byteranges` (RFC 9110 section 14.6). The ranges refer to the coded bytes, as a single range does.
fn many(whole: &HeaderMap, all: u64, spans: &[ByteSpan]) -> FileResponse {
    let mut fields = whole.clone();
    let of_parts = whole.get(header::CONTENT_TYPE);
    let of_parts = of_parts.and_then(|value| value.to_str().ok());
    let of_parts = of_parts.unwrap_or(types::BYTES);
    let boundary = boundary();
    let content_type = format!("multipart/byteranges; boundary={boundary}");
    insert(&mut fields, header::CONTENT_TYPE, &content_type);
    let mut parts = Vec::with_capacity(spans.len() * 2 + 1);
    let mut length = 0_u64;
    for span in spans {
        let range = content_range(*span, all);
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: {of_parts}\r\nContent-Range: {range}\r\n\r\n"
        );
        length = length
            .saturating_add(bytes(&head))
            .saturating_add(span.length());
        parts.push(BodyPiece::Bytes(head.into_bytes()));
        parts.push(BodyPiece::Span {
            start: span.start,
            end: span.end,
        });
    }
    let end = format!("\r\n--{boundary}--\r\n");
    length = length.saturating_add(bytes(&end));
    parts.push(BodyPiece::Bytes(end.into_bytes()));
    FileResponse {
        status: StatusCode::PARTIAL_CONTENT,
        fields,
        parts,
        length,
    }
}

fn unsatisfiable(length: u64) -> FileResponse {
    let mut fields = HeaderMap::new();
    fields.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    insert(
        &mut fields,
        header::CONTENT_RANGE,
        &format!("bytes */{length}"),
    );
    without_body(StatusCode::RANGE_NOT_SATISFIABLE, fields)
}

fn method_not_allowed() -> FileResponse {
    let mut fields = HeaderMap::new();
    fields.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    without_body(StatusCode::METHOD_NOT_ALLOWED, fields)
}

fn without_body(status: StatusCode, fields: HeaderMap) -> FileResponse {
    FileResponse {
        status,
        fields,
        parts: Vec::new(),
        length: 0,
    }
}

fn content_range(span: ByteSpan, length: u64) -> String {
    format!(
        "bytes {}-{}/{length}",
        span.start,
        span.end.saturating_sub(1)
    )
}

fn insert(fields: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        fields.insert(name, value);
    }
}

fn bytes(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

/// A boundary that cannot be predicted, so that no file can contain it on purpose.
fn boundary() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("galley-{:016x}{:016x}", random(), random())
}

/// Whether the URL changes with the content: WordPress's `?ver=`, or a fingerprint in the name as bundlers write it. Then
/// [`IMMUTABLE`] is the last of the file's fields.
pub fn is_immutable(info: &RequestInfo) -> bool {
    let query = info.raw_query().unwrap_or_default();
    let has_version = query
        .split(|b| *b == b'&')
        .filter_map(|pair| pair.strip_prefix(b"ver="))
        .any(|version| !version.is_empty());
    let name = info.decoded_path().rsplit(|b| *b == b'/').next();
    has_version || name.is_some_and(is_fingerprinted)
}

/// Whether a name is like `app.3f2a9c1b.js` or `main-3F2A9C1B.css`: eight or more hexadecimal digits between dots or dashes
/// before the extension. They must include both a digit and a letter, since `photo-20240101.jpg` contains a date, and
/// uploads are replaced in place.
fn is_fingerprinted(name: &[u8]) -> bool {
    let Some(dot) = name.iter().rposition(|b| *b == b'.') else {
        return false;
    };
    let stem = name.get(..dot).unwrap_or_default();
    stem.split(|b| matches!(b, b'.' | b'-'))
        .skip(1)
        .any(|part| {
            part.len() >= 8
                && part.iter().all(u8::is_ascii_hexdigit)
                && part.iter().any(u8::is_ascii_digit)
                && part.iter().any(u8::is_ascii_alphabetic)
        })
}

/// `Cache-Control` of a file that never changes at its URL.
pub const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

#[cfg(test)]
mod tests;
