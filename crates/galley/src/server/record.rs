//! The one access record of a request: written at its end, also when the client vanished or its head was refused.

use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use galley_http::h2;
use galley_http::head::{Head, Version};
use galley_policy::classes::is_name;
use galley_policy::outcome::{Outcome, RefusedWhy};

use super::Core;
use crate::telemetry::access::{AccessRecord, Words};
use crate::telemetry::counters::CountedResponse;

/// What a request says about itself, as far as its record tells it.
#[derive(Clone, Copy)]
pub(super) struct RequestWords<'h> {
    pub(super) method: &'h str,
    target: &'h [u8],
    version: Version,
    host: Option<&'h [u8]>,
    referer: Option<&'h [u8]>,
    user_agent: Option<&'h [u8]>,
}

impl<'h> RequestWords<'h> {
    /// The same of a request that came by HTTP/2.
    pub(super) fn of_h2(
        line: &h2::PseudoFields<'h>,
        fields: impl Iterator<Item = (&'h [u8], &'h [u8])>,
    ) -> Self {
        let mut said = Self {
            method: line.method,
            target: line.target.as_bytes(),
            version: Version::H2,
            host: line.authority.map(str::as_bytes),
            referer: None,
            user_agent: None,
        };
        said.note(fields);
        said
    }

    /// Takes from a head what its record needs.
    pub(super) fn of(head: &Head<'h, '_>) -> Self {
        let mut said = Self {
            method: head.method,
            target: head.target,
            version: head.version,
            host: None,
            referer: None,
            user_agent: None,
        };
        said.note(head.lines());
        said
    }

    fn note(&mut self, fields: impl Iterator<Item = (&'h [u8], &'h [u8])>) {
        for (name, value) in fields {
            let slot = match name.len() {
                4 if is_name(name, b"host") => &mut self.host,
                7 if is_name(name, b"referer") => &mut self.referer,
                10 if is_name(name, b"user-agent") => &mut self.user_agent,
                _ => continue,
            };
            slot.get_or_insert(value);
        }
    }
}

/// What is known of a request while it runs.
pub(super) struct OpenRecord<'h> {
    pub(super) said: Option<RequestWords<'h>>,
    pub(super) client: IpAddr,
    pub(super) request_id: String,
    pub(super) began: Instant,
    /// Which of the core's logs.
    pub(super) log: usize,
    /// The site's number, once it is found.
    pub(super) site: Option<u32>,
}

/// What is known at its end.
pub(super) struct RecordEnd {
    pub(super) status: u16,
    pub(super) outcome: Outcome,
    pub(super) body_bytes: u64,
    pub(super) upstream_time: Option<Duration>,
    pub(super) vanished: bool,
}

impl RecordEnd {
    /// A request that ended before it had an answer.
    pub(super) fn vanished() -> Self {
        Self {
            // nginx's number for "the client closed the request"; it is in the log only.
            status: 499,
            outcome: Outcome::Refused(RefusedWhy::ClientGone),
            body_bytes: 0,
            upstream_time: None,
            vanished: true,
        }
    }
}

impl OpenRecord<'_> {
    /// Writes the record and counts it.
    pub(super) fn close(self, core: &Core, end: &RecordEnd) {
        let about = About {
            client: self.client,
            request_id: &self.request_id,
            time: core.services.clock.wall(),
            total_time: self.began.elapsed(),
            log: self.log,
            site: self.site,
        };
        write(core, self.said.as_ref(), &about, end);
    }
}

/// What a record tells beside the request's own words.
pub(super) struct About<'a> {
    pub(super) client: IpAddr,
    pub(super) request_id: &'a str,
    /// When it ended.
    pub(super) time: SystemTime,
    pub(super) total_time: Duration,
    pub(super) log: usize,
    pub(super) site: Option<u32>,
}

/// Writes the record of a request and counts it. `said`: nothing where its head could not be read.
pub(super) fn write(
    core: &Core,
    said: Option<&RequestWords<'_>>,
    about: &About<'_>,
    end: &RecordEnd,
) {
    let record = AccessRecord {
        time: about.time,
        client: about.client,
        words: words(said),
        status: end.status,
        body_bytes: end.body_bytes,
        outcome: end.outcome,
        upstream_time: end.upstream_time,
        total_time: about.total_time,
        request_id: about.request_id,
        vanished: end.vanished,
    };
    if let Some(log) = core.logs.borrow_mut().get_mut(about.log) {
        log.write(&record);
    }
    core.counters.count(&CountedResponse {
        site: about.site,
        outcome: end.outcome,
        body_bytes: end.body_bytes,
        total_time: record.total_time,
        upstream_time: end.upstream_time,
    });
}

fn words<'h>(said: Option<&RequestWords<'h>>) -> Words<'h> {
    Words {
        method: said.map_or("-", |said| said.method),
        target: said.map_or(b"-", |said| said.target),
        version: match said.map(|said| said.version) {
            Some(Version::H10) => "HTTP/1.0",
            Some(Version::H11) | None => "HTTP/1.1",
            Some(Version::H2) => "HTTP/2.0",
        },
        host: said.and_then(|said| said.host).unwrap_or(b"-"),
        referer: said.and_then(|said| said.referer),
        user_agent: said.and_then(|said| said.user_agent),
    }
}
