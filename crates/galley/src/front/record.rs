//! The one access record of a request: written at its end, also when the client vanished or its head was refused.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use galley_rules::outcome::{Outcome, RefusedWhy};
use galley_wire::head::{Head, Version};

use super::Core;
use crate::telemetry::access::Record;
use crate::telemetry::counters::Answered;

/// What is known of a request while it runs.
pub(super) struct Open<'h> {
    pub(super) head: Option<&'h Head<'h>>,
    pub(super) client: IpAddr,
    pub(super) request_id: String,
    pub(super) began: Instant,
    /// Which of the core's logs.
    pub(super) log: usize,
    /// The site's number, once it is found.
    pub(super) site: Option<u32>,
}

/// What is known at its end.
pub(super) struct End {
    pub(super) status: u16,
    pub(super) outcome: Outcome,
    pub(super) body_bytes: u64,
    pub(super) upstream_time: Option<Duration>,
    pub(super) vanished: bool,
}

impl End {
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

impl Open<'_> {
    /// Writes the record and counts it.
    pub(super) fn close(self, core: &Core, end: &End) {
        let field = |wanted: &str| {
            let head = self.head?;
            head.fields()
                .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
                .map(|(_, value)| value)
        };
        let record = Record {
            time: core.services.clock.wall(),
            client: self.client,
            method: self.head.map_or("-", |head| head.method),
            target: self.head.map_or(b"-", |head| head.target),
            version: match self.head.map(|head| head.version) {
                Some(Version::H10) => "HTTP/1.0",
                Some(Version::H11) | None => "HTTP/1.1",
            },
            host: field("host")
                .and_then(|host| std::str::from_utf8(host).ok())
                .unwrap_or("-"),
            status: end.status,
            body_bytes: end.body_bytes,
            referer: field("referer"),
            user_agent: field("user-agent"),
            outcome: end.outcome,
            upstream_time: end.upstream_time,
            total_time: self.began.elapsed(),
            request_id: &self.request_id,
            vanished: end.vanished,
        };
        if let Some(log) = core.logs.borrow_mut().get_mut(self.log) {
            log.write(&record);
        }
        core.counters.count(&Answered {
            site: self.site,
            outcome: end.outcome,
            body_bytes: end.body_bytes,
            total_time: record.total_time,
            upstream_time: end.upstream_time,
        });
    }
}
