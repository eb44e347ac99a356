//! Hits on streams of HTTP/2 and HTTP/3: lookup, head, and access record.
//!
//! The HTTP/1 fast path decides which request is a hit. The head is written from the stored lines. A request that is not plain has to be
//! examined by the slow path; one that is plain and no hit, or too large to be sent at once, goes there with its lookup result.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use galley_http::framing::{self, BodyKind, Host};
use galley_http::h2::{self, Http2HeadBuffer};
use galley_http::head::{self, Version};
use galley_http::hpack::Block;
use galley_http::owned_head::OwnedHead;
use galley_policy::headers::{Compiled, Recipient};
use galley_policy::outcome::Outcome;
use galley_policy::proxied::ConnectionInfo;
use http::StatusCode;
use http::header;

use super::Core;
use super::endpoints::Endpoints;
use super::exchange::{Parsed, ParsedRequest};
use super::fast_path::{
    self, CACHE_STATUS, CACHE_STATUS_BY_DICTIONARY, CACHE_STATUS_FILE, CACHE_STATUS_OF_INCLUDES,
    HitLookup, KnownHost,
};
use super::http2::request_head::Pseudo;
use super::io::HttpDate;
use super::record::{self, RecordEnd};
use super::request_log_fields::RequestLogFields;
use galley_request::{FastPathResult, Hit, Sites};

/// How a version of HTTP writes a response head.
pub(super) trait HeadCoding {
    /// Begins a head.
    fn begin(out: &mut Vec<u8>, status: StatusCode) -> Self;
    /// Appends a field. The name must be in lower case.
    fn field(&self, out: &mut Vec<u8>, name: &[u8], value: &[u8]);
    /// Appends fields from lines of `name: value` and CRLF.
    fn lines(&self, out: &mut Vec<u8>, lines: &[u8]);
    /// Ends the head.
    fn end(self, out: &mut Vec<u8>);
}

/// Buffers that a connection reuses for its next hit.
#[derive(Default)]
pub(super) struct HitBuffers {
    known: KnownHost,
    crumbs: Vec<u8>,
}

/// A request that is a hit.
pub(super) struct StreamHit {
    hit: Hit,
    /// The position of its head in the output.
    encoded: std::ops::Range<usize>,
    client: IpAddr,
    tls_version: Option<&'static str>,
    log: usize,
    site: u32,
    version: Version,
    /// From [`h2::urgency_of`].
    pub(super) urgency: u8,
}

/// The result of looking up a stream on the fast path.
pub(super) enum StreamLookup {
    Hit(StreamHit),
    /// A request without a body, with its urgency, that is not a hit or whose response is too large to be sent at once.
    Parsed(ParsedRequest, u8),
    /// The request has to be examined by the slow path.
    Nothing,
}

/// The connection and time of received heads.
pub(super) struct HeadContext<'c> {
    pub(super) core: &'c Core,
    pub(super) sites: &'c Sites,
    pub(super) endpoints: Endpoints,
    pub(super) began: Instant,
    /// The maximum number of bytes of a body that is sent at once.
    pub(super) most: usize,
    /// `H2` or `H3`.
    pub(super) version: Version,
}

/// Looks up a request, and appends the head of the response to `encoded` if it is a plain hit.
pub(super) fn find<C: HeadCoding>(
    context: &HeadContext<'_>,
    hit_buffers: &mut HitBuffers,
    block: &Block,
    encoded: &mut Vec<u8>,
) -> StreamLookup {
    if context.core.stopping.get() {
        // Its stored lines advertise HTTP/3.
        return StreamLookup::Nothing;
    }
    try_find::<C>(context, hit_buffers, block, encoded).unwrap_or(StreamLookup::Nothing)
}

fn try_find<C: HeadCoding>(
    context: &HeadContext<'_>,
    hit_buffers: &mut HitBuffers,
    block: &Block,
    encoded: &mut Vec<u8>,
) -> Option<StreamLookup> {
    let &HeadContext {
        core,
        sites,
        endpoints,
        began,
        most,
        version,
    } = context;
    let pseudo = Pseudo::of(block)?;
    let line = pseudo.plain_line(version)?;
    let HitBuffers { known, crumbs } = hit_buffers;
    h2::join_crumbs(h2::crumbs_of(block), crumbs);
    let joined = (!crumbs.is_empty()).then_some((&b"cookie"[..], crumbs.as_slice()));
    let fields = h2::fields_of(block)
        .filter(|(name, _)| joined.is_none() || *name != b"cookie")
        .chain(joined);
    let limits = head::HeadLimits {
        head_bytes: core.limits.head_bytes,
        ..head::HeadLimits::default()
    };
    let mut head_buffer = Http2HeadBuffer::new();
    let head = h2::head(&line, fields, &limits, &mut head_buffer).ok()?;
    let framing = framing::frame_h2(&head, true).ok()?;
    let (BodyKind::None, Host::Field(host)) = (framing.body, framing.host) else {
        return None;
    };
    let now = core.services.clock.tick_at(began);
    let mut buffers = core.buffers.borrow_mut();
    let connection = ConnectionInfo {
        peer: endpoints.client,
        scheme: endpoints.scheme(),
        host: host.as_bytes(),
    };
    let origin = sites.proxies().origin(&connection, &head.fields());
    let urgency = h2::urgency_of(block);
    let lookup = fast_path::find(core, sites, &head, &origin, now, &mut buffers, known)?;
    let resumed = match lookup {
        HitLookup::Hit(hit, site) => {
            let changes = site.heads.of(buffers.info.rule(), hit.status().as_u16());
            let begin = encoded.len();
            let recipient = Recipient::new(&buffers.info, origin.is_from_proxy);
            write_head::<C>(encoded, &hit, changes, recipient, core.date.get());
            let is_small = encoded.len() - begin <= MAX_HEAD;
            if is_small && hit.body().len() <= most {
                return Some(StreamLookup::Hit(StreamHit {
                    hit,
                    encoded: begin..encoded.len(),
                    client: origin.client.ip(),
                    tls_version: endpoints.tls_version,
                    log: site.log,
                    site: site.row,
                    version,
                    urgency,
                }));
            }
            encoded.truncate(begin);
            FastPathResult {
                site: Arc::clone(site),
                client: origin.client,
                key: std::mem::take(&mut buffers.keys.page),
                earlier: hit.into_earlier(),
            }
        }
        HitLookup::Missed(resumed) => resumed,
    };
    let info = std::mem::take(&mut buffers.info);
    let request = ParsedRequest {
        head: OwnedHead::copy_of(&head),
        parsed: Box::new(Parsed { info, resumed }),
        keep_alive: true,
    };
    Some(StreamLookup::Parsed(request, urgency))
}

/// Writes the same fields as over HTTP/1, except those of framing.
fn write_head<C: HeadCoding>(
    out: &mut Vec<u8>,
    hit: &Hit,
    changes: &Compiled,
    recipient: Recipient,
    date: HttpDate,
) {
    let coding = C::begin(out, hit.status());
    for lines in changes.left(hit.lines(), hit.mask()) {
        coding.lines(out, lines);
    }
    if hit.is_immutable() && !changes.drops(&header::CACHE_CONTROL) {
        coding.field(out, b"cache-control", galley_files::IMMUTABLE.as_bytes());
    }
    coding.lines(out, changes.lines(recipient));
    let mut digits = itoa::Buffer::new();
    let status = match hit.age() {
        Some(seconds) => {
            coding.field(out, b"age", digits.format(seconds).as_bytes());
            match hit.outcome() {
                Outcome::HitOfIncludes => CACHE_STATUS_OF_INCLUDES,
                Outcome::HitByDictionary => CACHE_STATUS_BY_DICTIONARY,
                _ => CACHE_STATUS,
            }
        }
        None => CACHE_STATUS_FILE,
    };
    coding.field(out, b"cache-status", status.as_bytes());
    if !hit.is_dated() {
        coding.field(out, b"date", &date);
    }
    if let Some(length) = hit.length() {
        coding.field(out, b"content-length", digits.format(length).as_bytes());
    }
    coding.end(out);
}

impl StreamHit {
    /// The length of the body, in bytes.
    pub(super) fn body_bytes(&self) -> usize {
        self.hit.body().len()
    }

    /// The body, which shares the stored bytes. Keep the hit while it is used: the memory is reserved by it.
    pub(super) fn shared_body(&self) -> Bytes {
        self.hit.shared_body()
    }

    /// The head in `encoded`, and the body.
    pub(super) fn parts<'s>(&'s self, encoded: &'s [u8]) -> (&'s [u8], &'s [u8]) {
        let head = encoded.get(self.encoded.clone());
        (head.unwrap_or_default(), self.hit.body())
    }

    /// Writes the access record. `block`: the head of the request.
    pub(super) fn record(&self, core: &Core, block: &Block, began: Instant, vanished: bool) {
        let ended = Instant::now();
        let hit = &self.hit;
        let (status, outcome): (StatusCode, Outcome) = (hit.status(), hit.outcome());
        let id = &mut core.buffers.borrow_mut().id;
        core.write_request_id(id);
        let about = record::RecordContext {
            client: self.client,
            tls_version: self.tls_version,
            request_id: id,
            time: core.wall(ended),
            total_time: ended.saturating_duration_since(began),
            log: self.log,
            site: Some(self.site),
            trace: None,
        };
        let end = RecordEnd {
            status: status.as_u16(),
            outcome,
            body_bytes: if vanished { 0 } else { hit.body().len() as u64 },
            upstream_time: None,
            vanished,
            logged: core.logged_of_hit(hit),
        };
        let log_fields = Pseudo::of(block)
            .and_then(|pseudo| Some((pseudo.plain_line(self.version)?, h2::fields_of(block))))
            .map(|(line, fields)| RequestLogFields::of_h2(&line, fields, &core.logged));
        record::write(core, log_fields.as_ref(), about, &end);
    }
}

/// The maximum size of a head that is sent at once: that of a frame of HTTP/2.
const MAX_HEAD: usize = galley_http::frame_interceptor::MAX_FRAME;
