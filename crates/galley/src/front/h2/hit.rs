//! A hit on a stream: answered in the connection's own turn, without a task.
//!
//! Which request is a hit is decided where HTTP/1's lane decides it. The stored fields are copied as a map, for the library
//! takes nothing else; the body is not copied before it is put into the frames that leave.

use std::net::IpAddr;
use std::time::Instant;

use galley_rules::conditional::OF_NOT_MODIFIED;
use galley_rules::facts::Scheme;
use galley_rules::headers::Compiled;
use galley_rules::outcome::Outcome;
use galley_rules::proxied::Own;
use galley_wire::framing::{BodyKind, Host};
use galley_wire::h2::Room;
use h2::SendStream;
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode};

use super::answer::{add_date, response, strip};
use super::exchange::Asked;
use super::payload::Payload;
use super::request;
use crate::front::Core;
use crate::front::h1::Ends;
use crate::front::io::HttpDate;
use crate::front::lane::{self, CACHE_STATUS, CACHE_STATUS_FILE, Known};
use crate::front::record::{self, End, Said};
use crate::serve::{Hit, Sites};

/// What a connection keeps for its next hit.
#[derive(Default)]
pub(super) struct Memo {
    known: Known,
    crumbs: Vec<u8>,
}

/// A hit whose answer is on its way; its record is written when it has left.
pub(super) struct Sent {
    parts: Parts,
    client: IpAddr,
    began: Instant,
    log: usize,
    site: u32,
    status: StatusCode,
    outcome: Outcome,
    body_bytes: u64,
}

/// What became of a request.
pub(super) enum Tried {
    /// It is no plain hit; nothing has happened.
    Not(Asked),
    /// All of the answer was handed over.
    Done(Sent),
    /// The client has room for a part of the body only.
    Begun(Sent, SendStream<Payload>, Hit),
}

/// Answers a request if it is a plain hit.
pub(super) fn answer(
    core: &Core,
    place: (&Sites, Ends),
    memo: &mut Memo,
    mut asked: Asked,
) -> Tried {
    let is_plain = core.limits.lane
        && matches!(asked.parts.method, Method::GET | Method::HEAD)
        && asked.body.is_end_stream();
    let found = if is_plain {
        find(core, place, memo, &asked)
    } else {
        None
    };
    let Some(Found {
        hit,
        fields,
        client,
        log,
        site,
    }) = found
    else {
        return Tried::Not(asked);
    };
    let body_bytes = hit.body().len();
    let mut sent = Sent {
        parts: asked.parts,
        client,
        began: asked.began,
        log,
        site,
        status: hit.status(),
        outcome: hit.outcome(),
        body_bytes: body_bytes as u64,
    };
    let head = response(hit.status(), fields);
    let begun = asked.respond.send_response(head, body_bytes == 0);
    let Ok(mut out) = begun else {
        // It was reset before it was looked at.
        sent.body_bytes = 0;
        return Tried::Done(sent);
    };
    if body_bytes == 0 {
        return Tried::Done(sent);
    }
    out.reserve_capacity(body_bytes);
    if out.capacity() < body_bytes {
        return Tried::Begun(sent, out, hit);
    }
    // It fails where the stream was reset meanwhile; then nobody waits for it.
    if out.send_data(hit.into(), true).is_err() {
        sent.body_bytes = 0;
    }
    Tried::Done(sent)
}

/// A hit, with what its answer and its record need.
struct Found {
    hit: Hit,
    fields: HeaderMap,
    client: IpAddr,
    log: usize,
    site: u32,
}

fn find(
    core: &Core,
    (sites, ends): (&Sites, Ends),
    memo: &mut Memo,
    asked: &Asked,
) -> Option<Found> {
    let Memo { known, crumbs } = memo;
    request::join_crumbs(&asked.parts.headers, crumbs);
    let mut room = Room::new();
    let head_bytes = core.limits.head_bytes;
    let read = request::head(&asked.parts, crumbs, head_bytes, &mut room, true);
    let (head, framing) = read.ok()?;
    let (BodyKind::None, Host::Field(host)) = (framing.body, framing.host) else {
        return None;
    };
    let now = core.services.clock.tick_at(asked.began);
    let mut room = core.room.borrow_mut();
    let own = Own {
        peer: ends.client,
        scheme: ends.scheme(),
        host: host.as_bytes(),
    };
    let by = sites.proxies().asked(&own, &head.fields());
    let (hit, site) = lane::find(core, sites, (&head, &by), now, (&mut room, known))?;
    let facts = &room.facts;
    let changes = (site.heads.of(facts.rule()), facts.scheme());
    let fields = fields(&hit, changes, core.date.get());
    Some(Found {
        hit,
        fields,
        client: by.client.ip(),
        log: site.log,
        site: site.number,
    })
}

fn fields(hit: &Hit, (changes, scheme): (&Compiled, Scheme), date: HttpDate) -> HeaderMap {
    let stored = hit.fields();
    let mut fields = if hit.status() == StatusCode::NOT_MODIFIED {
        let mut fields = HeaderMap::with_capacity(OF_NOT_MODIFIED.len() + OWN);
        for name in &OF_NOT_MODIFIED {
            for value in stored.get_all(name) {
                fields.append(name, value.clone());
            }
        }
        fields
    } else {
        let mut fields = stored.clone();
        if hit.is_framed() {
            strip(&mut fields);
        }
        fields
    };
    if changes.may_touch(hit.mask()) && changes.touches(&fields) {
        fields = changes.stripped(&fields);
    }
    if hit.is_immutable() && !changes.drops(&header::CACHE_CONTROL) {
        fields.append(header::CACHE_CONTROL, galley_files::IMMUTABLE);
    }
    for (name, value) in changes.fields(scheme) {
        fields.append(name, value.clone());
    }
    let status = match hit.age() {
        Some(seconds) => {
            fields.append(header::AGE, HeaderValue::from(seconds));
            CACHE_STATUS
        }
        None => CACHE_STATUS_FILE,
    };
    fields.append(crate::serve::CACHE_STATUS, HeaderValue::from_static(status));
    if !hit.is_dated() {
        add_date(&mut fields, date);
    }
    if let Some(length) = hit.length() {
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    fields
}

impl Sent {
    /// How urgent it is.
    pub(super) fn urgency(&self) -> u8 {
        request::urgency(&self.parts.headers)
    }

    /// The same with only so many bytes of its body handed over.
    pub(super) fn with_bytes(self, body_bytes: u64) -> Self {
        Self { body_bytes, ..self }
    }

    /// Writes its record.
    pub(super) fn close(self, core: &Core, vanished: bool) {
        let ended = Instant::now();
        let id = &mut core.room.borrow_mut().id;
        core.write_request_id(id);
        let about = record::About {
            client: self.client,
            request_id: id,
            time: core.wall(ended),
            total_time: ended.saturating_duration_since(self.began),
            log: self.log,
            site: Some(self.site),
        };
        let end = End {
            status: self.status.as_u16(),
            outcome: self.outcome,
            body_bytes: self.body_bytes,
            upstream_time: None,
            vanished,
        };
        let said = Said::of_h2(&request::line(&self.parts), &self.parts.headers);
        record::write(core, Some(&said), &about, &end);
    }
}

/// Fields that a hit adds.
const OWN: usize = 4;
