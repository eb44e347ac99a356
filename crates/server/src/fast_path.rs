//! The fast path: a hit takes one read and one write.
//!
//! When the buffer begins with complete heads of plain `GET`s or `HEAD`s whose pages are fresh in memory, the responses are
//! written from here, together: no allocation once the connection is warm, no lock that a writer can hold, no system call
//! but the write. A request that was parsed and is not a hit goes to the slow path parsed ([`ParsedRequest`]), with its
//! lookup result; anything else goes there as bytes. `galley_request::hit` decides which request is a hit, with the same `decide`
//! as the slow path.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use galley_http::framing::{self, BodyKind, Host};
use galley_http::head::{self, Head, ParsedHead, Version};
use galley_http::owned_head::OwnedHead;
use galley_http::response_writer::{self, ConnectionField, Length};
use galley_policy::headers::{Compiled, Recipient};
use galley_policy::outcome::Outcome;
use galley_policy::proxied::{ConnectionInfo, RequestOrigin};
use galley_policy::request_info::RequestLineInfo;
use galley_policy::route;
use galley_policy::time::Tick;
use http::header;

use super::Core;
use super::batch::{HitBatch, MAX_RESPONSES, ReadyHit, copy_behind};
use super::buffers::FastPathBuffers;
use super::endpoints::Endpoints;
use super::exchange::{Parsed, ParsedRequest};
use super::io::{ClientConnection, HttpDate};
use super::record::{self, RecordEnd};
use super::request_log_fields::RequestLogFields;
use super::write::AfterResponse;
use galley_request::{FastPathResult, Hit, Site, Sites};

/// The state of a connection between hits.
#[derive(Default)]
pub(super) struct FastPath {
    host: KnownHost,
    /// Hits since the last yield.
    turns: usize,
}

/// The last host of the connection, so that the next request needs no lookup.
#[derive(Default)]
pub(super) struct KnownHost {
    raw: Vec<u8>,
    canonical: String,
    site: Option<Arc<Site>>,
}

impl KnownHost {
    /// The canonical form of a host, and its site.
    fn find(&mut self, raw: &[u8], sites: &Sites) -> Option<(&str, &Arc<Site>)> {
        if self.site.is_none() || self.raw != raw {
            self.site = None;
            self.canonical = route::canonical_host(raw).ok()?;
            raw.clone_into(&mut self.raw);
            self.site = sites.find(&self.canonical);
        }
        Some((&self.canonical, self.site.as_ref()?))
    }
}

/// What the fast path did with the beginning of the buffer.
pub(super) enum FastPathOutcome {
    /// It sent responses.
    Sent(AfterResponse),
    /// It took a request that is not a hit from the buffer. The requests before it were answered.
    Parsed(ParsedRequest),
    Nothing,
}

/// Responds to the requests at the beginning of the buffer, as long as they are plain hits.
pub(super) async fn try_hit(
    core: &Rc<Core>,
    sites: &Sites,
    endpoints: Endpoints,
    connection: &mut ClientConnection,
    state: &mut FastPath,
) -> FastPathOutcome {
    if core.stopping.get() || !core.limits.fast_path || !begins_plainly(&connection.input) {
        return FastPathOutcome::Nothing;
    }
    let began = core.slices.begin();
    let (input, mut sender) = connection.parts();
    let may_copy = sender.is_plain();
    let mut batch = HitBatch::within(std::mem::take(&mut core.buffers.borrow_mut().batch));
    let output: &mut Vec<u8> = sender.output;
    output.clear();
    let context = RequestContext {
        core,
        sites,
        endpoints,
        now: core.services.clock.tick_at(began),
        date: sender.date.get(),
        may_copy,
    };
    let mut missed = None;
    let read = context.gather(input, output, &mut state.host, &mut batch, &mut missed);
    let Some(last) = batch.responses().last() else {
        core.buffers.borrow_mut().batch = batch.into_buffer();
        connection.used(read);
        return missed.map_or(FastPathOutcome::Nothing, FastPathOutcome::Parsed);
    };
    let connection_field = last.connection;
    let mut written = 0;
    let sent = sender.send_batch(&batch, &mut written).await;
    write_records(&context, &batch, began, written);
    state.turns += batch.responses().len();
    core.buffers.borrow_mut().batch = batch.into_buffer();
    connection.output.clear();
    connection.used(read);
    if state.is_due() {
        tokio::task::yield_now().await;
    }
    match (sent, connection_field, missed) {
        (Err(_), _, _) => FastPathOutcome::Sent(AfterResponse::Drop),
        (Ok(()), _, Some(parsed)) => FastPathOutcome::Parsed(parsed),
        (Ok(()), ConnectionField::Close, None) => FastPathOutcome::Sent(AfterResponse::Close),
        (Ok(()), _, None) => FastPathOutcome::Sent(AfterResponse::Request),
    }
}

fn write_records(
    context: &RequestContext<'_>,
    batch: &HitBatch<'_>,
    began: Instant,
    written: usize,
) {
    let core = context.core;
    let ended = core.slices.end();
    let time = core.wall(ended);
    let id = &mut core.buffers.borrow_mut().id;
    for (ready, body_bytes, vanished) in batch.ends(written) {
        core.write_request_id(id);
        let about = record::RecordContext {
            client: ready.client,
            tls_version: context.endpoints.tls_version,
            request_id: id,
            time,
            total_time: ended.saturating_duration_since(began),
            log: ready.log,
            site: Some(ready.site),
            trace: None,
        };
        let end = RecordEnd {
            status: ready.hit.status().as_u16(),
            outcome: ready.hit.outcome(),
            body_bytes,
            upstream_time: None,
            vanished,
            logged: core.logged_of_hit(&ready.hit),
        };
        record::write(core, Some(&ready.log_fields), about, &end);
    }
}

impl FastPath {
    /// Whether to yield now: a client that pipelines without end must not starve the other connections of the
    /// thread.
    fn is_due(&mut self) -> bool {
        let is_due = self.turns >= MAX_RESPONSES;
        if is_due {
            self.turns = 0;
        }
        is_due
    }
}

/// The context of the requests in one buffer.
struct RequestContext<'p> {
    core: &'p Core,
    sites: &'p Sites,
    endpoints: Endpoints,
    now: Tick,
    /// For responses without a date.
    date: HttpDate,
    /// Whether bodies are copied behind their heads. Over TLS they are copied once more anyway.
    may_copy: bool,
}

impl RequestContext<'_> {
    /// Finds the hits and writes their heads, up to the first request that is not a hit; that one is put into `missed` if it was
    /// parsed. Returns the bytes of all these requests. Only the batch is held across an await.
    fn gather<'b>(
        &self,
        input: &'b [u8],
        output: &mut Vec<u8>,
        host: &mut KnownHost,
        batch: &mut HitBatch<'b>,
        missed: &mut Option<ParsedRequest>,
    ) -> usize {
        let mut buffers = self.core.buffers.borrow_mut();
        let mut read = 0;
        while batch.has_capacity() {
            let rest = input.get(read..).unwrap_or_default();
            // Usually the buffer ends here.
            if !begins_plainly(rest) {
                break;
            }
            let Some((found, length)) = self.find(rest, &mut buffers, host, output) else {
                break;
            };
            read += length;
            match found {
                BufferedRequest::Hit(ready) => {
                    let connection = ready.connection;
                    batch.push(ready);
                    if connection == ConnectionField::Close {
                        break;
                    }
                }
                BufferedRequest::Missed(parsed) => {
                    *missed = Some(parsed);
                    break;
                }
            }
        }
        read
    }

    /// The result for the request at the beginning, and its length; `None` if it is not plain.
    fn find<'b>(
        &self,
        input: &'b [u8],
        buffers: &mut FastPathBuffers,
        host: &mut KnownHost,
        output: &mut Vec<u8>,
    ) -> Option<(BufferedRequest<'b>, usize)> {
        let core = self.core;
        let mut lines = head::HeadBuffer::new();
        let (request, length) = read_plain(core, input, &mut lines)?;
        let connection = ConnectionInfo {
            peer: self.endpoints.client,
            scheme: self.endpoints.scheme(),
            host: request.host.as_bytes(),
        };
        let origin = self
            .sites
            .proxies()
            .origin(&connection, &request.head.fields());
        let lookup = find(
            core,
            self.sites,
            &request.head,
            &origin,
            self.now,
            buffers,
            host,
        )?;
        let (hit, site) = match lookup {
            HitLookup::Hit(hit, site) => (hit, site),
            HitLookup::Missed(resumed) => {
                let parsed = ParsedRequest {
                    head: OwnedHead::copy_of(&request.head),
                    parsed: Box::new(Parsed {
                        info: std::mem::take(&mut buffers.info),
                        resumed,
                    }),
                    keep_alive: request.connection != ConnectionField::Close,
                };
                return Some((BufferedRequest::Missed(parsed), length));
            }
        };
        let info = &buffers.info;
        let changes = site.heads.of(info.rule(), hit.status().as_u16());
        write_head(
            output,
            &hit,
            changes,
            Recipient::new(info, origin.is_from_proxy),
            &self.date,
            request.connection,
        );
        let is_copied = self.may_copy && copy_behind(output, hit.body());
        let ready = ReadyHit {
            hit,
            log_fields: request.log_fields,
            client: origin.client.ip(),
            end: output.len(),
            is_copied,
            connection: request.connection,
            log: site.log,
            site: site.row,
        };
        Some((BufferedRequest::Hit(ready), length))
    }
}

/// A request at the beginning of the buffer.
enum BufferedRequest<'b> {
    Hit(ReadyHit<'b>),
    Missed(ParsedRequest),
}

/// A request that may be a hit.
struct PlainRequest<'b, 'r> {
    head: Head<'b, 'r>,
    log_fields: RequestLogFields<'b>,
    host: &'b str,
    connection: ConnectionField,
}

/// The request at the beginning, if it is complete and well formed, names one host, and has neither body nor upgrade.
fn read_plain<'b, 'r>(
    core: &Core,
    input: &'b [u8],
    lines: &'r mut head::HeadBuffer<'b>,
) -> Option<(PlainRequest<'b, 'r>, usize)> {
    if !begins_plainly(input) {
        return None;
    }
    let limits = head::HeadLimits {
        head_bytes: core.limits.head_bytes,
        ..head::HeadLimits::default()
    };
    let Ok(ParsedHead::Whole { head, length }) = head::parse(input, &limits, lines) else {
        return None;
    };
    let framing = framing::frame(&head).ok()?;
    let (BodyKind::None, false, Host::Field(host)) = (framing.body, framing.upgrade, framing.host)
    else {
        return None;
    };
    let connection = match (framing.keep_alive, framing.version) {
        (false, _) => ConnectionField::Close,
        (true, Version::H10) => ConnectionField::KeepAlive10,
        (true, Version::H11 | Version::H2 | Version::H3) => ConnectionField::KeepAlive,
    };
    let log_fields = RequestLogFields::of(&head, &core.logged);
    Some((
        PlainRequest {
            head,
            log_fields,
            host,
            connection,
        },
        length,
    ))
}

/// The lookup result for a request without a body.
pub(super) enum HitLookup<'l> {
    /// A hit, and its site.
    Hit(Hit, &'l Arc<Site>),
    /// No hit; the request's [`galley_policy::request_info::RequestInfo`] is in the buffers.
    Missed(FastPathResult),
}

/// Looks up a request without a body; `None` if it has no site, or is not plain.
pub(super) fn find<'l>(
    core: &Core,
    sites: &Sites,
    head: &Head<'_, '_>,
    origin: &RequestOrigin<'_>,
    now: Tick,
    buffers: &mut FastPathBuffers,
    known: &'l mut KnownHost,
) -> Option<HitLookup<'l>> {
    let (host, site) = known.find(origin.host, sites)?;
    let line = RequestLineInfo {
        method: head.method,
        target: head.target,
        scheme: origin.scheme,
        host,
        has_body: false,
        upgrade: false,
        country: site.access.rule_country(origin.client.ip()),
    };
    let FastPathBuffers { info, keys, .. } = buffers;
    let lines = head.lines();
    let policy = &site.core.policy;
    info.parse_at(&line, origin.port, lines, policy).ok()?;
    let client = origin.client.ip();
    let lookup = galley_request::hit(&core.services, site, info, client, now, keys);
    Some(match lookup {
        Ok(hit) => HitLookup::Hit(hit, site),
        Err(earlier) => HitLookup::Missed(FastPathResult {
            site: Arc::clone(site),
            client: origin.client,
            key: std::mem::take(&mut keys.page),
            earlier,
        }),
    })
}

/// A cheap check before the head is parsed.
fn begins_plainly(input: &[u8]) -> bool {
    input.starts_with(b"GET /") || input.starts_with(b"HEAD /")
}

fn write_head(
    output: &mut Vec<u8>,
    hit: &Hit,
    changes: &Compiled,
    recipient: Recipient,
    date: &HttpDate,
    connection: ConnectionField,
) {
    let mut age = itoa::Buffer::new();
    let age_lines = match hit.age() {
        Some(seconds) => {
            let status = match hit.outcome() {
                Outcome::HitOfIncludes => BEHIND_AGE_OF_INCLUDES,
                Outcome::HitByDictionary => BEHIND_AGE_BY_DICTIONARY,
                _ => BEHIND_AGE,
            };
            [AGE, age.format(seconds).as_bytes(), status]
        }
        None => [b"", b"", OF_FILE],
    };
    let dated = [b"date: ".as_slice(), date, b"\r\n"];
    let undated = (!hit.is_dated()).then_some(dated);
    let is_immutable = hit.is_immutable() && !changes.drops(&header::CACHE_CONTROL);
    let lines = changes
        .left(hit.lines(), hit.mask())
        .chain(is_immutable.then_some(IMMUTABLE))
        .chain([changes.lines(recipient)])
        .chain(age_lines)
        .chain(undated.into_iter().flatten());
    response_writer::write_stored(
        output,
        hit.status(),
        lines,
        hit.length().map_or(Length::None, Length::Known),
        connection,
    );
}

/// `Cache-Status` of a fresh hit (RFC 9211).
pub(super) const CACHE_STATUS: &str = "galley; hit";

/// `Cache-Status` of a fresh hit of a page with ESI includes.
pub(super) const CACHE_STATUS_OF_INCLUDES: &str = "galley; hit; detail=esi";

/// `Cache-Status` of a fresh hit that is sent as the difference to a dictionary.
pub(super) const CACHE_STATUS_BY_DICTIONARY: &str = "galley; hit; detail=dictionary";

/// The field for a file whose URL changes with its content.
const IMMUTABLE: &[u8] = b"cache-control: public, max-age=31536000, immutable\r\n";

/// `Cache-Status` of a file.
pub(super) const CACHE_STATUS_FILE: &str = "galley; detail=file";

/// The lines of a page before and after its age.
const AGE: &[u8] = b"age: ";
const BEHIND_AGE: &[u8] = b"\r\ncache-status: galley; hit\r\n";
const BEHIND_AGE_OF_INCLUDES: &[u8] = b"\r\ncache-status: galley; hit; detail=esi\r\n";
const BEHIND_AGE_BY_DICTIONARY: &[u8] = b"\r\ncache-status: galley; hit; detail=dictionary\r\n";

/// The line of a file.
const OF_FILE: &[u8] = b"cache-status: galley; detail=file\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_a_hit_are_those_of_the_slow_path() {
        let mut text = Vec::new();
        Outcome::Hit.write_cache_status(None, &mut text);
        assert_eq!(text, CACHE_STATUS.as_bytes());
        text.clear();
        Outcome::HitOfIncludes.write_cache_status(None, &mut text);
        assert_eq!(text, CACHE_STATUS_OF_INCLUDES.as_bytes());
        text.clear();
        Outcome::HitByDictionary.write_cache_status(None, &mut text);
        assert_eq!(text, CACHE_STATUS_BY_DICTIONARY.as_bytes());
        text.clear();
        Outcome::File.write_cache_status(None, &mut text);
        assert_eq!(text, CACHE_STATUS_FILE.as_bytes());
        let line = |value| format!("cache-status: {value}\r\n").into_bytes();
        assert_eq!(OF_FILE, line(CACHE_STATUS_FILE));
        assert_eq!(BEHIND_AGE, [b"\r\n".to_vec(), line(CACHE_STATUS)].concat());
        let of_includes = line(CACHE_STATUS_OF_INCLUDES);
        assert_eq!(
            BEHIND_AGE_OF_INCLUDES,
            [b"\r\n".to_vec(), of_includes].concat()
        );
        let by_dictionary = line(CACHE_STATUS_BY_DICTIONARY);
        assert_eq!(
            BEHIND_AGE_BY_DICTIONARY,
            [b"\r\n".to_vec(), by_dictionary].concat()
        );
        let value = galley_files::IMMUTABLE;
        let line = [b"cache-control: ", value.as_bytes(), b"\r\n"].concat();
        assert_eq!(line, IMMUTABLE);
    }
}
