//! A hit over HTTP/2: answered by the connection's task, without the library.
//!
//! The HTTP/1 fast path decides which request is a hit. The head is written from the stored lines, the body is copied after
//! it, and the stream is closed before the library has seen it (see [`galley_http::frame_interceptor`]). A request that is not
//! plain is passed to the library. If the client's windows are too small for the whole body, or the body would delay others,
//! the library takes over the stream, and the slow path continues with the parsed request and its lookup result.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use galley_http::frame_interceptor::{MAX_FRAME, Opening};
use galley_http::framing::{self, BodyKind, Host};
use galley_http::h2::{self, Http2HeadBuffer};
use galley_http::head;
use galley_http::hpack::{self, Block};
use galley_http::owned_head::OwnedHead;
use galley_policy::headers::Compiled;
use galley_policy::outcome::Outcome;
use galley_policy::proxied::ConnectionInfo;
use galley_policy::request_info::Scheme;
use http::StatusCode;
use http::header;

use super::request_head::{self, Pseudo};
use crate::Core;
use crate::endpoints::Endpoints;
use crate::exchange::{Parsed, ParsedRequest};
use crate::fast_path::{
    self, CACHE_STATUS, CACHE_STATUS_BY_DICTIONARY, CACHE_STATUS_FILE, CACHE_STATUS_OF_INCLUDES,
    HitLookup, KnownHost,
};
use crate::io::HttpDate;
use crate::record::{self, RecordEnd};
use crate::request_log_fields::RequestLogFields;
use galley_request::{FastPathResult, Hit, Sites};

/// Buffers that a connection reuses for its next hit.
#[derive(Default)]
pub(super) struct HitBuffers {
    known: KnownHost,
    crumbs: Vec<u8>,
}

/// A request that is a hit.
pub(super) struct StreamHit {
    hit: Hit,
    /// The position of its header block.
    encoded: std::ops::Range<usize>,
    client: IpAddr,
    tls_version: Option<&'static str>,
    log: usize,
    site: u32,
    /// From [`request_head::urgency_of`].
    pub(super) urgency: u8,
}

/// A hit that is being sent; its record is written afterwards.
pub(super) struct SentHit {
    pub(super) block: Block,
    stream: u32,
    found: StreamHit,
    began: Instant,
}

/// The result of looking up a stream on the fast path.
pub(super) enum StreamLookup {
    Hit(StreamHit),
    /// A request without a body, with its urgency, that is not a hit or whose response is too large to be sent at once.
    Parsed(ParsedRequest, u8),
    /// The request has to be passed to the library.
    Nothing,
}

/// The connection and time of received heads.
pub(super) struct HeadContext<'c> {
    pub(super) core: &'c Core,
    pub(super) sites: &'c Sites,
    pub(super) endpoints: Endpoints,
    pub(super) began: Instant,
    /// The number of bytes of a body that fit into the client's window.
    pub(super) window: usize,
}

/// Looks up a request, and appends the header block of the response to `encoded` if it is a plain hit.
pub(super) fn find(
    context: &HeadContext<'_>,
    hit_buffers: &mut HitBuffers,
    block: &Block,
    encoded: &mut Vec<u8>,
) -> StreamLookup {
    try_find(context, hit_buffers, block, encoded).unwrap_or(StreamLookup::Nothing)
}

fn try_find(
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
        window,
    } = context;
    let pseudo = Pseudo::of(block)?;
    let line = pseudo.plain_line()?;
    let HitBuffers { known, crumbs } = hit_buffers;
    request_head::join_crumbs_of(block, crumbs);
    let joined = (!crumbs.is_empty()).then_some((&b"cookie"[..], crumbs.as_slice()));
    let fields = request_head::fields_of(block)
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
    let urgency = request_head::urgency_of(block);
    let lookup = fast_path::find(core, sites, &head, &origin, now, &mut buffers, known)?;
    let resumed = match lookup {
        HitLookup::Hit(hit, site) => {
            let changes = site.heads.of(buffers.info.rule(), hit.status().as_u16());
            let begin = encoded.len();
            let scheme = buffers.info.scheme();
            write_block(encoded, &hit, changes, scheme, core.date.get());
            let is_small = encoded.len() - begin <= MAX_FRAME;
            if is_small && hit.body().len() <= window.min(MAX_BODY) {
                return Some(StreamLookup::Hit(StreamHit {
                    hit,
                    encoded: begin..encoded.len(),
                    client: origin.client.ip(),
                    tls_version: endpoints.tls_version,
                    log: site.log,
                    site: site.row,
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
    let request = ParsedRequest {
        head: OwnedHead::copy_of(&head),
        parsed: Box::new(Parsed {
            info: std::mem::take(&mut buffers.info),
            resumed,
        }),
        keep_alive: true,
    };
    Some(StreamLookup::Parsed(request, urgency))
}

/// Writes the same fields as over HTTP/1, except those of framing.
fn write_block(out: &mut Vec<u8>, hit: &Hit, changes: &Compiled, scheme: Scheme, date: HttpDate) {
    hpack::write_status(out, hit.status());
    for lines in changes.left(hit.lines(), hit.mask()) {
        hpack::write_lines(out, lines);
    }
    if hit.is_immutable() && !changes.drops(&header::CACHE_CONTROL) {
        hpack::write_field(out, b"cache-control", galley_files::IMMUTABLE.as_bytes());
    }
    hpack::write_lines(out, changes.lines(scheme));
    let mut digits = itoa::Buffer::new();
    let status = match hit.age() {
        Some(seconds) => {
            hpack::write_field(out, b"age", digits.format(seconds).as_bytes());
            match hit.outcome() {
                Outcome::HitOfIncludes => CACHE_STATUS_OF_INCLUDES,
                Outcome::HitByDictionary => CACHE_STATUS_BY_DICTIONARY,
                _ => CACHE_STATUS,
            }
        }
        None => CACHE_STATUS_FILE,
    };
    hpack::write_field(out, b"cache-status", status.as_bytes());
    if !hit.is_dated() {
        hpack::write_field(out, b"date", &date);
    }
    if let Some(length) = hit.length() {
        hpack::write_field(out, b"content-length", digits.format(length).as_bytes());
    }
}

impl StreamHit {
    /// The length of the body, in bytes.
    pub(super) fn body_bytes(&self) -> usize {
        self.hit.body().len()
    }

    /// The hit as the response on the stream that `opening` has opened.
    pub(super) fn on(self, opening: &Opening, block: Block, began: Instant) -> SentHit {
        SentHit {
            block,
            stream: opening.stream,
            found: self,
            began,
        }
    }
}

impl SentHit {
    /// The stream, its header block in `encoded`, and its body.
    pub(super) fn parts<'s>(&'s self, encoded: &'s [u8]) -> (u32, &'s [u8], &'s [u8]) {
        let block = encoded.get(self.found.encoded.clone());
        (
            self.stream,
            block.unwrap_or_default(),
            self.found.hit.body(),
        )
    }

    /// The urgency of the request.
    pub(super) fn urgency(&self) -> u8 {
        self.found.urgency
    }

    /// Writes the access record, and returns the buffers to the pool.
    pub(super) fn close(self, core: &Core, vanished: bool) {
        let ended = Instant::now();
        let StreamHit {
            hit,
            client,
            tls_version,
            log,
            site,
            ..
        } = self.found;
        let (status, outcome): (StatusCode, Outcome) = (hit.status(), hit.outcome());
        {
            let id = &mut core.buffers.borrow_mut().id;
            core.write_request_id(id);
            let about = record::RecordContext {
                client,
                tls_version,
                request_id: id,
                time: core.wall(ended),
                total_time: ended.saturating_duration_since(self.began),
                log,
                site: Some(site),
                trace: None,
            };
            let end = RecordEnd {
                status: status.as_u16(),
                outcome,
                body_bytes: if vanished { 0 } else { hit.body().len() as u64 },
                upstream_time: None,
                vanished,
                logged: core.logged_of_hit(&hit),
            };
            let log_fields = Pseudo::of(&self.block)
                .and_then(|pseudo| {
                    Some((pseudo.plain_line()?, request_head::fields_of(&self.block)))
                })
                .map(|(line, fields)| RequestLogFields::of_h2(&line, fields, &core.logged));
            record::write(core, log_fields.as_ref(), about, &end);
        }
        core.spare.return_block(self.block);
    }
}

/// The maximum size of a body that is sent at once, because all later output waits for it. Larger bodies alternate with others.
const MAX_BODY: usize = 64 * 1024;
