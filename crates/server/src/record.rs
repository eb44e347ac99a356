//! The access record of a request, written once at its end, even if the client disconnected or the head was refused.

use std::net::IpAddr;
use std::time::{Duration, Instant, SystemTime};

use galley_policy::outcome::{Outcome, RefusedWhy};

use super::core::Core;
use super::request_log_fields::{RequestLogFields, words};
use galley_telemetry::access::AccessRecord;
use galley_telemetry::fields::ResponseValues;
use galley_telemetry::trace::RequestTrace;

/// The fields of an access record that are known while the request runs.
pub(super) struct OpenRecord<'h> {
    pub(super) log_fields: Option<RequestLogFields<'h>>,
    pub(super) client: IpAddr,
    /// The TLS version of the connection.
    pub(super) tls_version: Option<&'static str>,
    pub(super) request_id: String,
    pub(super) began: Instant,
    /// The access log: an index into those of the core.
    pub(super) log: usize,
    /// The site's row in the counters, once the site is known.
    pub(super) site: Option<u32>,
    /// The request's span, if traces are recorded.
    pub(super) trace: Option<RequestTrace>,
}

/// The fields of an access record that are known at the end.
pub(super) struct RecordEnd {
    pub(super) status: u16,
    pub(super) outcome: Outcome,
    pub(super) body_bytes: u64,
    pub(super) upstream_time: Option<Duration>,
    pub(super) vanished: bool,
    /// Fields of the response that the configuration adds to access lines.
    pub(super) logged: ResponseValues,
}

impl RecordEnd {
    /// A request that ended without a response.
    pub(super) fn vanished() -> Self {
        Self {
            // nginx's status for "the client closed the request"; only the log contains it.
            status: 499,
            outcome: Outcome::Refused(RefusedWhy::ClientGone),
            body_bytes: 0,
            upstream_time: None,
            vanished: true,
            logged: ResponseValues::new(),
        }
    }
}

impl OpenRecord<'_> {
    /// Writes the record and counts the request.
    pub(super) fn close(self, core: &Core, end: &RecordEnd) {
        let about = RecordContext {
            client: self.client,
            tls_version: self.tls_version,
            request_id: &self.request_id,
            time: core.services.clock.wall(),
            total_time: self.began.elapsed(),
            log: self.log,
            site: self.site,
            trace: self.trace,
        };
        write(core, self.log_fields.as_ref(), about, end);
    }
}

/// The fields of a record besides the request's own.
pub(super) struct RecordContext<'a> {
    pub(super) client: IpAddr,
    pub(super) tls_version: Option<&'static str>,
    pub(super) request_id: &'a str,
    /// The time of the end.
    pub(super) time: SystemTime,
    pub(super) total_time: Duration,
    pub(super) log: usize,
    pub(super) site: Option<u32>,
    pub(super) trace: Option<RequestTrace>,
}

/// Writes the record of a request and counts it. `request` is `None` if the head could not be parsed.
pub(super) fn write(
    core: &Core,
    request: Option<&RequestLogFields<'_>>,
    about: RecordContext<'_>,
    end: &RecordEnd,
) {
    let record = AccessRecord {
        time: about.time,
        client: about.client,
        words: words(request),
        status: end.status,
        body_bytes: end.body_bytes,
        outcome: end.outcome,
        upstream_time: end.upstream_time,
        total_time: about.total_time,
        request_id: about.request_id,
        vanished: end.vanished,
        country: core
            .countries
            .as_ref()
            .and_then(|all| all.find(about.client)),
        tls_version: about.tls_version,
        trace_id: about.trace.as_ref().map(|trace| trace.scope.trace_id()),
        request_fields: request.map_or(&[], |request| &request.logged),
        response_fields: &end.logged,
    };
    if let Some(log) = core.logs.borrow_mut().get_mut(about.log) {
        log.write(&record);
    }
    if let Some(trace) = about.trace {
        trace.end(&record);
    }
    core.counters.count(about.site, &record);
}
