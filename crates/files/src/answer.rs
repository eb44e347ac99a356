//! A response made of a file: validators, conditions, ranges (RFC 9110 sections 8.8, 13 and 14).
//!
//! Pure: nothing is read here, the spans of the file are named and the caller sends them. The
//! length of the body is in [`Answer::length`] and not among the fields, since the writer of the
//! head decides about framing.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, SystemTime};

use galley_rules::conditional::{self, Condition, Validators};
use galley_rules::encoding::Coding;
use galley_rules::facts::{Facts, Method};
use galley_rules::range::{self, Ranges, Span};
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use crate::asset::Asset;

/// What to send.
#[derive(Debug)]
pub struct Answer {
    /// 200, 206, 304, 405, 412 or 416.
    pub status: StatusCode,
    /// Everything but `Content-Length`, `Date` and what belongs to the connection.
    pub fields: HeaderMap,
    /// The body in order; empty for 304, 405, 412, 416 and for `HEAD`.
    pub parts: Vec<Part>,
    /// Bytes of the body; for `HEAD` of the body that `GET` would have.
    pub length: u64,
}

/// A piece of a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// These bytes: the heads between the parts of a multipart body.
    Bytes(Vec<u8>),
    /// Bytes `start..end` of [`Asset::file`].
    Span {
        /// The first byte.
        start: u64,
        /// One past the last byte.
        end: u64,
    },
}

/// Answers a request for `asset`.
pub fn answer(asset: &Asset, facts: &Facts) -> Answer {
    match facts.method() {
        Method::Get | Method::Head => {}
        _ => return method_not_allowed(),
    }
    let last_modified = date(asset.modified);
    let validators = Validators {
        etag: Some(asset.etag.as_bytes()),
        last_modified: last_modified.is_some().then_some(asset.modified),
    };
    let fields = common_fields(asset, facts, last_modified);
    match conditional::evaluate(facts, &validators) {
        Condition::Proceed => {}
        Condition::NotModified => return without_body(StatusCode::NOT_MODIFIED, fields),
        Condition::Failed => {
            return without_body(StatusCode::PRECONDITION_FAILED, HeaderMap::new());
        }
    }
    let ranges = match facts.range() {
        // RFC 9110 section 14.2: ranges are defined for GET only.
        Some(value)
            if facts.method() == Method::Get
                && conditional::range_applies(facts.if_range(), &validators) =>
        {
            range::parse(value, asset.length)
        }
        Some(_) | None => Ranges::Whole,
    };
    match ranges {
        Ranges::Whole => whole(asset, facts, fields),
        Ranges::Unsatisfiable => unsatisfiable(asset.length),
        Ranges::One(span) => one(asset, span, fields),
        Ranges::Many(spans) => many(asset, &spans, fields),
    }
}

/// What a 304 carries too: validators, lifetime, `Vary`.
fn common_fields(asset: &Asset, facts: &Facts, last_modified: Option<HeaderValue>) -> HeaderMap {
    let mut fields = HeaderMap::new();
    if let Ok(etag) = HeaderValue::from_str(&asset.etag) {
        fields.insert(header::ETAG, etag);
    }
    if let Some(last_modified) = last_modified {
        fields.insert(header::LAST_MODIFIED, last_modified);
    }
    if asset.vary_encoding {
        fields.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    }
    if is_immutable(facts) {
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(IMMUTABLE));
    }
    fields
}

/// What describes a body of the file's own type.
fn describe(asset: &Asset, fields: &mut HeaderMap) {
    fields.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static(asset.content_type),
    );
    describe_bytes(asset, fields);
}

fn describe_bytes(asset: &Asset, fields: &mut HeaderMap) {
    fields.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    fields.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    let coding = match asset.coding {
        Coding::Identity => return,
        Coding::Gzip => "gzip",
        Coding::Brotli => "br",
        Coding::Zstd => "zstd",
    };
    fields.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
}

fn whole(asset: &Asset, facts: &Facts, mut fields: HeaderMap) -> Answer {
    describe(asset, &mut fields);
    let has_body = facts.method() == Method::Get && asset.length > 0;
    let span = Part::Span {
        start: 0,
        end: asset.length,
    };
    Answer {
        status: StatusCode::OK,
        fields,
        parts: has_body.then_some(span).into_iter().collect(),
        length: asset.length,
    }
}

fn one(asset: &Asset, span: Span, mut fields: HeaderMap) -> Answer {
    describe(asset, &mut fields);
    insert(
        &mut fields,
        header::CONTENT_RANGE,
        &content_range(span, asset.length),
    );
    Answer {
        status: StatusCode::PARTIAL_CONTENT,
        fields,
        parts: vec![Part::Span {
            start: span.start,
            end: span.end,
        }],
        length: span.length(),
    }
}

/// `multipart/byteranges` (RFC 9110 section 14.6). The parts are ranges of the coded bytes, as the
/// single one is.
fn many(asset: &Asset, spans: &[Span], mut fields: HeaderMap) -> Answer {
    describe_bytes(asset, &mut fields);
    let boundary = boundary();
    let content_type = format!("multipart/byteranges; boundary={boundary}");
    insert(&mut fields, header::CONTENT_TYPE, &content_type);
    let mut parts = Vec::with_capacity(spans.len() * 2 + 1);
    let mut length = 0_u64;
    for span in spans {
        let range = content_range(*span, asset.length);
        let head = format!(
            "\r\n--{boundary}\r\nContent-Type: {}\r\nContent-Range: {range}\r\n\r\n",
            asset.content_type
        );
        length = length
            .saturating_add(bytes(&head))
            .saturating_add(span.length());
        parts.push(Part::Bytes(head.into_bytes()));
        parts.push(Part::Span {
            start: span.start,
            end: span.end,
        });
    }
    let end = format!("\r\n--{boundary}--\r\n");
    length = length.saturating_add(bytes(&end));
    parts.push(Part::Bytes(end.into_bytes()));
    Answer {
        status: StatusCode::PARTIAL_CONTENT,
        fields,
        parts,
        length,
    }
}

fn unsatisfiable(length: u64) -> Answer {
    let mut fields = HeaderMap::new();
    fields.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    insert(
        &mut fields,
        header::CONTENT_RANGE,
        &format!("bytes */{length}"),
    );
    without_body(StatusCode::RANGE_NOT_SATISFIABLE, fields)
}

fn method_not_allowed() -> Answer {
    let mut fields = HeaderMap::new();
    fields.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    without_body(StatusCode::METHOD_NOT_ALLOWED, fields)
}

fn without_body(status: StatusCode, fields: HeaderMap) -> Answer {
    Answer {
        status,
        fields,
        parts: Vec::new(),
        length: 0,
    }
}

fn content_range(span: Span, length: u64) -> String {
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

/// `Last-Modified`; `None` for a time that HTTP's dates cannot say. Files may have any time at all.
fn date(modified: SystemTime) -> Option<HeaderValue> {
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    if since >= YEAR_10000 {
        return None;
    }
    HeaderValue::from_str(&httpdate::fmt_http_date(modified)).ok()
}

/// Text that nobody can have put into a file beforehand.
fn boundary() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("galley-{:016x}{:016x}", random(), random())
}

/// Whether the URL changes with the content: WordPress's `?ver=`, or a fingerprint in the name as
/// bundlers write it.
fn is_immutable(facts: &Facts) -> bool {
    let query = facts.raw_query().unwrap_or_default();
    let has_version = query
        .split(|b| *b == b'&')
        .filter_map(|pair| pair.strip_prefix(b"ver="))
        .any(|version| !version.is_empty());
    let name = facts.decoded_path().rsplit(|b| *b == b'/').next();
    has_version || name.is_some_and(is_fingerprinted)
}

/// `app.3f2a9c1b.js`, `main-3F2A9C1B.css`: eight or more hexadecimal digits between dots or dashes
/// before the extension. They must hold both a digit and a letter, since `photo-20240101.jpg` is a
/// date, and uploads are replaced in place.
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

const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// The first second that an HTTP date has no digits for.
const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);

#[cfg(test)]
mod tests;
