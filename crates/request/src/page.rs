//! Turns pages into responses: from a stored entry, from a fill, from a complete fill.
//!
//! Conditional requests and ranges are evaluated here, against the stored page; a cacheable fetch never forwards those of a
//! client to the upstream. `Date` is the date of the response, and `Age` counts from it (RFC 9111 §4.2.3, §5.1).

use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use galley_cache::disk::BodyPieces;
use galley_cache::entry::Entry;
use galley_cache::fill::{FillHead, FillReader};
use galley_files::BodyPiece;
use galley_policy::conditional::{self, ConditionalResult, OF_NOT_MODIFIED, Validators};
use galley_policy::encoding::Coding;
use galley_policy::outcome::Outcome;
use galley_policy::range::{self, Ranges};
use galley_policy::request_info::{Method, RequestInfo};
use galley_policy::site::{Policy, ValidationPolicy};
use galley_policy::time;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use tokio::task::spawn_blocking;

use super::dictionary;
use super::exchange::Exchange;
use super::parts;
use super::response::{Response, ResponseBody, ResponseFields};
use super::site::Services;

/// The response with a stored page. `None`: the client needs the unpacked body, and there is no memory for it.
pub async fn from_entry(
    services: &Services,
    exchange: &Exchange<'_>,
    entry: Arc<Entry>,
    outcome: Outcome,
) -> Option<Response> {
    exchange.site.core.compressing.offer(&entry);
    dictionary::offer(
        &exchange.site,
        &exchange.info,
        &entry,
        services.clock.tick(),
    );
    let entry = if wants_plain(exchange, &entry) {
        // Boxed: this is rare, and its state would be part of every idle connection.
        Box::pin(unpack(services, exchange, entry)).await?
    } else {
        entry
    };
    Some(from_held(services, exchange, entry, outcome))
}

/// Whether a packed page must be sent unpacked.
fn wants_plain(exchange: &Exchange<'_>, entry: &Entry) -> bool {
    let info = &exchange.info;
    let condition = || {
        condition(
            info,
            exchange.policy(),
            entry.status.as_u16(),
            &entry.fields,
        )
    };
    entry.is_packed()
        && info.method() != Method::Head
        && coded(info, entry).is_none()
        && condition() != ConditionalResult::NotModified
}

/// The page with its unpacked body. A helper thread unpacks large pages.
pub(super) async fn unpack(
    services: &Services,
    exchange: &Exchange<'_>,
    entry: Arc<Entry>,
) -> Option<Arc<Entry>> {
    let (compressing, now) = (&exchange.site.core.compressing, services.clock.tick());
    if !entry.is_packed() || entry.length() <= UNPACKED_HERE {
        return compressing.unpack(&entry, now);
    }
    let compressing = compressing.clone();
    spawn_blocking(move || compressing.unpack(&entry, now))
        .await
        .ok()?
}

/// The response with a page whose body exists in the required form.
pub(super) fn from_held(
    services: &Services,
    exchange: &Exchange<'_>,
    entry: Arc<Entry>,
    outcome: Outcome,
) -> Response {
    let age = entry.age(services.clock.tick());
    let status = entry.status.as_u16();
    let ttl = i64::try_from(entry.lifetime.fresh.as_secs()).unwrap_or(i64::MAX)
        - i64::try_from(age.as_secs()).unwrap_or(i64::MAX);
    let shown_ttl = matches!(outcome, Outcome::Stale(_)).then_some(ttl);
    let outcome = match outcome {
        Outcome::Hit if entry.assembly().is_some() => Outcome::HitOfIncludes,
        outcome => outcome,
    };
    let now = services.clock.tick();
    let by_dictionary = dictionary::form(&exchange.site, &exchange.info, &entry, now);
    let outcome = match outcome {
        Outcome::Hit if by_dictionary.is_some() => Outcome::HitByDictionary,
        outcome => outcome,
    };
    let coded = by_dictionary.or_else(|| coded(&exchange.info, &entry));
    let coded = coded.and_then(|at| entry.coded().get(at));
    let body = match (coded, entry.body(), entry.pieces()) {
        (Some(coded), ..) => ResponseBody::Bytes(coded.body.bytes().clone()),
        (None, Some(body), _) => ResponseBody::Bytes(body.clone()),
        (None, None, Some(pieces)) => stored(
            pieces,
            vec![BodyPiece::Span {
                start: 0,
                end: pieces.length(),
            }],
        ),
        // Packed: a 304, or a response to HEAD.
        (None, None, None) => ResponseBody::Unsent(Some(entry.length())),
    };
    let mut response = Response {
        status,
        fields: match coded {
            Some(coded) => ResponseFields::Own(coded.fields()),
            None => ResponseFields::Stored(entry),
        },
        extra: Vec::with_capacity(4),
        body,
        outcome,
        upstream_time: None,
    };
    response
        .extra
        .push((header::AGE, HeaderValue::from(age.as_secs())));
    let mut response = response.explained(shown_ttl);
    let map = response.fields.map();
    match condition(&exchange.info, exchange.policy(), status, map) {
        ConditionalResult::NotModified => not_modified(&mut response),
        ConditionalResult::Proceed | ConditionalResult::Failed => {
            if status == 200 {
                apply_range(exchange, &mut response);
            }
        }
    }
    finish(exchange, response)
}

/// The coding that this client prefers; `None`: identity. A range never refers to a body that Galley coded, because that body may be
/// dropped at any time.
pub(super) fn coded(info: &RequestInfo, entry: &Entry) -> Option<usize> {
    if entry.coded().is_empty() {
        return None;
    }
    let is_part = info.range().is_some();
    let is_there = |coding: Coding| {
        let mut coded_forms = entry.coded().iter();
        coding == Coding::Identity
            || coded_forms.any(|coded| coded.coding == coding && (coded.is_given || !is_part))
    };
    let best = info.codings().best_of(is_there)?;
    entry.coded().iter().position(|coded| coded.coding == best)
}

/// The form of a file that this client prefers: an image in another format, or a coding; `None`: the file itself.
pub(super) fn form(info: &RequestInfo, file: &Entry) -> Option<usize> {
    let forms = file.coded();
    if forms.first()?.format.is_none() {
        return coded(info, file);
    }
    let place = |format| forms.iter().position(|form| form.format == Some(format));
    let best = info.images().best_of(|format| place(format).is_some())?;
    place(best)
}

/// The part of a stored partial response that `wanted`, a `Range`, requests: its range in the stored bytes, and its
/// `Content-Range`. `None` if the part is not completely stored.
pub(super) fn span_of(entry: &Entry, wanted: &[u8]) -> Option<(std::ops::Range<usize>, String)> {
    let part = range::held(entry.fields.get(header::CONTENT_RANGE)?.as_bytes())?;
    let complete = part.complete?;
    let Ranges::One(span) = range::parse(wanted, complete) else {
        return None;
    };
    let offset = |at: u64| usize::try_from(at.checked_sub(part.span.start)?).ok();
    let range = offset(span.start)?..offset(span.end)?;
    entry.body()?.get(range.clone())?;
    let last = span.end.checked_sub(1)?;
    Some((range, format!("bytes {}-{last}/{complete}", span.start)))
}

/// The response to a `Range` within combined partial responses.
pub fn from_joined(
    services: &Services,
    exchange: &Exchange<'_>,
    entry: Arc<Entry>,
) -> Option<Response> {
    let (range, content_range) = span_of(&entry, exchange.info.range()?)?;
    let piece = EntrySlice {
        entry: Arc::clone(&entry),
        range,
    };
    let mut response = from_held(services, exchange, entry, Outcome::Hit);
    let mut fields = response.fields.map().clone();
    let content_range = HeaderValue::from_str(&content_range).ok()?;
    fields.insert(header::CONTENT_RANGE, content_range);
    response.fields = ResponseFields::Own(fields);
    response.body = ResponseBody::Bytes(Bytes::from_owner(piece));
    Some(response)
}

/// The body of an entry, which accounts for its memory as long as any of it is used. `None`: the body is not in memory.
pub(super) fn shared_body(entry: &Arc<Entry>) -> Option<Bytes> {
    let range = 0..entry.body()?.len();
    let entry = Arc::clone(entry);
    Some(Bytes::from_owner(EntrySlice { entry, range }))
}

/// Bytes of an entry; the entry keeps accounting for their memory until they have been sent.
struct EntrySlice {
    entry: Arc<Entry>,
    range: std::ops::Range<usize>,
}

impl AsRef<[u8]> for EntrySlice {
    fn as_ref(&self) -> &[u8] {
        let body = self.entry.body();
        let part = body.and_then(|body| body.get(self.range.clone()));
        part.unwrap_or_default()
    }
}

/// The response with a page that is being received and shared with other clients.
pub fn from_fill(
    exchange: &Exchange<'_>,
    head: &FillHead,
    reader: FillReader,
    outcome: Outcome,
) -> Response {
    let body = ResponseBody::Fill(reader, head.length);
    let mut response = Response::new(head.status.as_u16(), head.fields.clone(), body, outcome);
    if matches!(
        condition(
            &exchange.info,
            exchange.policy(),
            head.status.as_u16(),
            &head.fields
        ),
        ConditionalResult::NotModified
    ) {
        not_modified(&mut response);
    }
    finish(exchange, response)
}

/// The response to a passed request, unchanged.
pub fn from_fill_whole(
    exchange: &Exchange<'_>,
    head: &FillHead,
    reader: FillReader,
    outcome: Outcome,
) -> Response {
    let status = head.status.as_u16();
    let body = match status {
        204 | 304 => ResponseBody::None,
        _ => ResponseBody::Fill(reader, head.length),
    };
    let response = Response::new(status, head.fields.clone(), body, outcome);
    if exchange.info.method() == Method::Head {
        Response {
            body: response.body.unsent(),
            ..response
        }
    } else {
        response
    }
}

/// The response with a page that was received completely before anything was sent.
pub fn from_whole(
    exchange: &Exchange<'_>,
    head: &FillHead,
    body: Bytes,
    outcome: Outcome,
) -> Response {
    let response = Response::new(
        head.status.as_u16(),
        head.fields.clone(),
        ResponseBody::Bytes(body),
        outcome,
    );
    finish(exchange, response)
}

pub(super) fn condition(
    info: &RequestInfo,
    policy: &Policy,
    status: u16,
    fields: &HeaderMap,
) -> ConditionalResult {
    if status != 200 || !info.is_conditional() {
        return ConditionalResult::Proceed;
    }
    let mut validators = validators(fields);
    if policy.storage.validation == ValidationPolicy::Origin && validators.last_modified.is_none() {
        // RFC 9111 §4.3.2: without `Last-Modified`, `Date`.
        validators.last_modified = date(fields, &header::DATE);
    }
    conditional::evaluate_stored(info, &validators)
}

fn validators(fields: &HeaderMap) -> Validators<'_> {
    Validators {
        etag: fields.get(header::ETAG).map(HeaderValue::as_bytes),
        last_modified: date(fields, &header::LAST_MODIFIED),
    }
}

fn date(fields: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    time::parse_date(fields.get(name)?.as_bytes())
}

/// The fields that a 304 contains (RFC 9110 §15.4.5).
fn of_not_modified<'f>(
    fields: &'f HeaderMap,
) -> impl Iterator<Item = (&'f HeaderName, &'f HeaderValue)> {
    let values = |name: &'f HeaderName| fields.get_all(name).iter().map(move |v| (name, v));
    OF_NOT_MODIFIED.iter().flat_map(values)
}

/// Turns a response into a 304.
fn not_modified(response: &mut Response) {
    let mut fields = HeaderMap::new();
    for (name, value) in of_not_modified(response.fields.map()) {
        fields.append(name.clone(), value.clone());
    }
    response.fields = ResponseFields::Own(fields);
    response.status = 304;
    response.body = ResponseBody::None;
}

/// The ranges of a stored page (RFC 9110 §14.2).
fn apply_range(exchange: &Exchange<'_>, response: &mut Response) {
    let whole = match &response.body {
        ResponseBody::Bytes(bytes) => WholeBody::Memory(bytes.clone()),
        ResponseBody::Stored { pieces, .. } => WholeBody::Disk(Arc::clone(pieces)),
        _ => return,
    };
    let (Some(wanted), Method::Get) = (exchange.info.range(), exchange.info.method()) else {
        return;
    };
    if !conditional::range_applies(exchange.info.if_range(), &validators(response.fields.map())) {
        return;
    }
    let length = whole.length();
    match range::parse(wanted, length) {
        Ranges::Whole => {}
        Ranges::Many(spans) => {
            let media_type = response.fields.map().get(header::CONTENT_TYPE);
            if let Some(several) = parts::multipart(length, media_type, &spans)
                && let Some(body) = whole.body(several.parts)
            {
                let mut fields = response.fields.map().clone();
                fields.insert(header::CONTENT_TYPE, several.media_type);
                response.fields = ResponseFields::Own(fields);
                response.status = 206;
                response.body = body;
            }
        }
        Ranges::Unsatisfiable => {
            response.status = 416;
            response.body = ResponseBody::Bytes(Bytes::new());
            push(
                response,
                header::CONTENT_RANGE,
                &format!("bytes */{length}"),
            );
        }
        Ranges::One(span) => {
            let (start, end) = (span.start, span.end);
            if let Some(body) = whole.body(vec![BodyPiece::Span { start, end }]) {
                response.status = 206;
                response.body = body;
                push(
                    response,
                    header::CONTENT_RANGE,
                    &format!("bytes {start}-{}/{length}", end - 1),
                );
            }
        }
    }
}

/// A stored body, in memory or on disk.
enum WholeBody {
    Memory(Bytes),
    Disk(Arc<BodyPieces>),
}

impl WholeBody {
    fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Disk(pieces) => pieces.length(),
        }
    }

    /// Parts of the body; `None` if a part is outside of it.
    fn body(&self, parts: Vec<BodyPiece>) -> Option<ResponseBody> {
        let length = self.length();
        let is_inside = |part: &BodyPiece| match part {
            BodyPiece::Bytes(_) => true,
            BodyPiece::Span { start, end } => start < end && *end <= length,
        };
        if !parts.iter().all(is_inside) {
            return None;
        }
        match self {
            Self::Memory(bytes) => parts::cut(bytes, parts).map(ResponseBody::Pieces),
            Self::Disk(pieces) => Some(stored(pieces, parts)),
        }
    }
}

fn stored(pieces: &Arc<BodyPieces>, parts: Vec<BodyPiece>) -> ResponseBody {
    let length = parts.iter().map(|part| match part {
        BodyPiece::Bytes(bytes) => bytes.len() as u64,
        BodyPiece::Span { start, end } => end.saturating_sub(*start),
    });
    ResponseBody::Stored {
        pieces: Arc::clone(pieces),
        length: length.sum(),
        parts,
    }
}

fn push(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.extra.push((name, value));
    }
}

/// Removes the body for HEAD, and restores in a redirect what was removed from the address for the upstream.
fn finish(exchange: &Exchange<'_>, mut response: Response) -> Response {
    if exchange.info.method() == Method::Head {
        response.body = response.body.unsent();
    }
    if response.status == 204 {
        // PHP may print a body with any status. This one has no body (RFC 9110 §15.3.5), and its bytes would be parsed as the next response.
        response.body = ResponseBody::None;
    }
    if (300..400).contains(&response.status)
        && response.status != 304
        && let Some(dropped) = exchange.info.dropped_query()
        && let Some(location) = redirected(response.fields.map(), dropped)
    {
        let mut fields = response.fields.map().clone();
        fields.insert(header::LOCATION, location);
        response.fields = ResponseFields::Own(fields);
    }
    response
}

fn redirected(fields: &HeaderMap, dropped: &[u8]) -> Option<HeaderValue> {
    let location = fields.get(header::LOCATION)?.as_bytes();
    let (target, fragment) = match location.iter().position(|b| *b == b'#') {
        Some(at) => location.split_at(at),
        None => (location, &b""[..]),
    };
    let glue: &[u8] = if target.contains(&b'?') { b"&" } else { b"?" };
    HeaderValue::from_bytes(&[target, glue, dropped, fragment].concat()).ok()
}

/// Maximum size of a body that a front thread unpacks: most pages. A helper thread would cost two wake-ups.
const UNPACKED_HERE: u64 = 64 * 1024;
