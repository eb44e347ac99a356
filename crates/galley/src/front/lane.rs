//! The lane: a hit leaves with one read and one write.
//!
//! When the buffer begins with one whole head of a plain `GET` or `HEAD` whose page is fresh in memory, the answer is
//! written from here: no allocation once the connection is warm, no lock that a writer can hold, no system call but the
//! write. Anything else, and anything that could go wrong, takes the long way, which starts from the same bytes.
//! Which request is a hit is decided in `serve::hit`, by the rules of the long way.

use std::io::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Buf, BytesMut};
use galley_rules::facts::{Facts, Line, Scheme};
use galley_rules::route;
use galley_wire::answer::{self, Connection, Length};
use galley_wire::framing::{self, BodyKind, Host};
use galley_wire::head::{self, Parsed, Version};

use super::Core;
use super::h1::Ends;
use super::io::{HttpDate, Wire};
use super::record::{self, End, Said};
use super::write::Next;
use crate::serve::{self, Hit, HitBody, Site, Sites};

/// Room that a core's hits use in turn.
#[derive(Default)]
pub(super) struct Room {
    facts: Facts,
    key: Vec<u8>,
    id: String,
}

/// What a connection keeps for its next hit.
#[derive(Default)]
pub(super) struct Lane {
    host: Known,
    /// Hits in a row without a pause.
    turns: u32,
}

/// The host that the connection asked for last, so that the next request need not look it up.
#[derive(Default)]
struct Known {
    raw: String,
    canonical: String,
    site: Option<Arc<Site>>,
}

impl Known {
    /// The host as it was sent, in its canonical form, and its site.
    fn find(&mut self, raw: &str, sites: &Sites) -> Option<(&str, &Arc<Site>)> {
        if self.site.is_none() || self.raw != raw {
            self.site = None;
            self.canonical = route::canonical_host(raw.as_bytes()).ok()?;
            raw.clone_into(&mut self.raw);
            self.site = sites.find(&self.canonical);
        }
        Some((&self.canonical, self.site.as_ref()?))
    }
}

/// A hit whose head is in the output buffer.
struct Ready<'b> {
    hit: Hit,
    body: HitBody,
    said: Said<'b>,
    /// Bytes of the request.
    length: usize,
    keep_alive: bool,
    began: Instant,
    log: usize,
    site: u32,
}

/// Answers the request at the beginning of the buffer, if it is a plain hit; `None`: nothing has happened.
pub(super) async fn answer(
    core: &Rc<Core>,
    sites: &Sites,
    ends: Ends,
    wire: &mut Wire,
    lane: &mut Lane,
) -> Option<Next> {
    let (input, mut sender) = wire.parts();
    let ready = prepare(core, sites, input, sender.output, sender.date.get(), lane)?;
    let (sent, body_bytes) = match &ready.body {
        HitBody::Bytes(bytes) => {
            let sent = sender.send(std::slice::from_ref(bytes)).await;
            (sent, bytes.len() as u64)
        }
        HitBody::None | HitBody::Unsent(_) => (sender.send(&[]).await, 0),
    };
    let end = End {
        status: ready.hit.status(),
        outcome: ready.hit.outcome(),
        body_bytes,
        upstream_time: None,
        vanished: sent.is_err(),
    };
    write_record(core, ends, &ready, &end);
    let next = match (sent, ready.keep_alive) {
        (Err(_), _) => Next::Drop,
        (Ok(()), true) => Next::Request,
        (Ok(()), false) => Next::Close,
    };
    let length = ready.length;
    drop(ready);
    wire.input.advance(length);
    lane.pause().await;
    Some(next)
}

fn write_record(core: &Core, ends: Ends, ready: &Ready<'_>, end: &End) {
    let id = &mut core.room.borrow_mut().id;
    core.write_request_id(id);
    let about = record::About {
        client: ends.client.ip(),
        request_id: id,
        began: ready.began,
        log: ready.log,
        site: Some(ready.site),
    };
    record::write(core, Some(&ready.said), &about, end);
}

impl Lane {
    /// A client that sends one request behind the other does not starve its core's other connections.
    async fn pause(&mut self) {
        self.turns += 1;
        if self.turns >= MOST_TURNS {
            self.turns = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Finds the hit and writes its head. Everything here is done when it returns: nothing is held over an await but what is
/// in [`Ready`].
fn prepare<'b>(
    core: &Core,
    sites: &Sites,
    input: &'b BytesMut,
    output: &mut Vec<u8>,
    date: HttpDate,
    lane: &mut Lane,
) -> Option<Ready<'b>> {
    if core.stopping.get() || !core.limits.lane || !begins_plainly(input) {
        return None;
    }
    let limits = head::Limits {
        head_bytes: core.limits.head_bytes,
        ..head::Limits::default()
    };
    let Ok(Parsed::Whole { head, length }) = head::parse(input, &limits) else {
        return None;
    };
    let began = Instant::now();
    let framing = framing::frame(&head).ok()?;
    let (Version::H11, BodyKind::None, false, Host::Field(raw)) =
        (framing.version, framing.body, framing.upgrade, framing.host)
    else {
        return None;
    };
    let (host, site) = lane.host.find(raw, sites)?;
    let line = Line {
        method: head.method,
        target: head.target,
        scheme: Scheme::Http,
        host,
        has_body: false,
        upgrade: false,
    };
    let rules = &site.core.rules;
    let mut room = core.room.borrow_mut();
    let Room { facts, key, .. } = &mut *room;
    facts.gather(&line, head.fields(), rules).ok()?;
    let hit = serve::hit(&core.services, site, facts, key)?;
    let body = hit.body();
    write_head(output, &hit, &body, date, framing.keep_alive);
    Some(Ready {
        body,
        said: Said::of(&head),
        length,
        keep_alive: framing.keep_alive,
        began,
        log: site.log,
        site: site.number,
        hit,
    })
}

/// Spares everything else the reading of its head.
fn begins_plainly(input: &[u8]) -> bool {
    input.starts_with(b"GET /") || input.starts_with(b"HEAD /")
}

fn write_head(output: &mut Vec<u8>, hit: &Hit, body: &HitBody, date: HttpDate, keep_alive: bool) {
    let mut age = [0; MOST_DIGITS];
    let age = digits(hit.age, &mut age);
    let own: [(&str, &[u8]); 2] = [("age", age), ("cache-status", CACHE_STATUS)];
    let undated = (!hit.is_dated()).then_some(("date", date.as_slice()));
    let fields = hit
        .fields()
        .map(|(name, value)| (name.as_str(), value.as_bytes()))
        .chain(own)
        .chain(undated);
    let length = match body {
        HitBody::None => Length::None,
        HitBody::Unsent(length) => Length::Known(*length),
        HitBody::Bytes(bytes) => Length::Known(bytes.len() as u64),
    };
    let connection = if keep_alive {
        Connection::KeepAlive
    } else {
        Connection::Close
    };
    output.clear();
    answer::write_head(output, hit.status(), fields, length, connection);
}

fn digits(number: u64, room: &mut [u8; MOST_DIGITS]) -> &[u8] {
    let mut left = &mut room[..];
    // The room fits every number.
    let _ = write!(left, "{number}");
    let unused = left.len();
    &room[..MOST_DIGITS - unused]
}

/// Digits of the largest number.
const MOST_DIGITS: usize = 20;

/// What a fresh hit says of itself (RFC 9211).
const CACHE_STATUS: &[u8] = b"galley; hit";

/// Hits that one connection gets before others have their turn.
const MOST_TURNS: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use galley_rules::outcome::Outcome;

    #[test]
    fn numbers_are_written_in_full() {
        for number in [0, 9, 10, 86_400, u64::MAX] {
            let mut room = [0; MOST_DIGITS];
            assert_eq!(digits(number, &mut room), number.to_string().as_bytes());
        }
    }

    #[test]
    fn a_hit_says_what_the_long_way_says() {
        let mut text = Vec::new();
        Outcome::Hit.write_cache_status(None, &mut text);
        assert_eq!(text, CACHE_STATUS);
    }
}
