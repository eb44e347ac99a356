//! The state of one front core. It stays on its thread, and every connection of the core uses it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderName, header};
use tokio::sync::Notify;

use super::buffers::FastPathBuffers;
use super::io::HttpDate;
use super::pool::{BufferPool, OutputBuffers};
use super::run_slices::RunSlices;
use super::spec::{ClientLimits, Phase};
use super::timer::Timers;
use galley_access::Countries;
use galley_request::{Hit, Response, Services};
use galley_telemetry::access::LogWriter;
use galley_telemetry::counters::CoreCounters;
use galley_telemetry::errors::LogInterval;
use galley_telemetry::fields::{LoggedHeaders, ResponseValues};

/// The state of a core.
pub(super) struct Core {
    pub(super) limits: ClientLimits,
    pub(super) services: Arc<Services>,
    pub(super) timers: Rc<Timers>,
    /// The value of `Date`, updated by each sweep, so that no request reads a clock for it.
    pub(super) date: Rc<Cell<HttpDate>>,
    /// The wall clock and the time when it was read, updated by each sweep.
    pub(super) wall: Cell<(Instant, SystemTime)>,
    pub(super) slices: RunSlices,
    /// Never borrowed across an await.
    pub(super) buffers: RefCell<FastPathBuffers>,
    /// Buffers of idle connections.
    pub(super) pool: Rc<BufferPool>,
    pub(super) spare: Rc<OutputBuffers>,
    pub(super) logs: RefCell<Vec<LogWriter>>,
    /// Header fields that the configuration adds to access lines.
    pub(super) logged: LoggedHeaders,
    /// The countries of clients, if access lines contain them.
    pub(super) countries: Option<Arc<Countries>>,
    pub(super) counters: CoreCounters,
    pub(super) ids: RefCell<Ids>,
    pub(super) connections: Cell<usize>,
    pub(super) connection_ended: Notify,
    /// Whether each response closes its connection: the phase is not [`Phase::Running`].
    pub(super) stopping: Cell<bool>,
    pub(super) phase: Cell<Phase>,
    /// Whether upgraded connections must end.
    pub(super) ends_tunnels: Cell<bool>,
    /// Limits the messages about connections without a valid PROXY header.
    pub(super) refused_connections: LogInterval,
}

impl Core {
    pub(super) fn request_id(&self) -> String {
        let mut id = String::new();
        self.write_request_id(&mut id);
        id
    }

    /// Writes the id of the next request into an existing buffer.
    pub(super) fn write_request_id(&self, out: &mut String) {
        let mut ids = self.ids.borrow_mut();
        ids.next.clone_into(out);
        ids.advance();
    }

    /// The wall clock at `at`, a moment ago, without reading a clock.
    pub(super) fn wall(&self, at: Instant) -> SystemTime {
        let (read, wall) = self.wall.get();
        wall + at.saturating_duration_since(read)
    }

    /// The response fields that the configuration adds to access lines.
    pub(super) fn logged_of(&self, response: &Response) -> ResponseValues {
        self.logged
            .of_response(response.fields.map(), &response.extra)
    }

    /// Advertises HTTP/3 no more when the server stops. For sites that it is advertised for: others may have a field of their own.
    pub(super) fn withdraw(&self, response: &mut Response) {
        if self.phase.get() == Phase::Stopping {
            let is_other = |(name, _): &(HeaderName, _)| *name != header::ALT_SVC;
            response.extra.retain(is_other);
        }
    }

    /// The same as [`Core::logged_of`], of a hit.
    pub(super) fn logged_of_hit(&self, hit: &Hit) -> ResponseValues {
        self.logged.of_response(hit.fields(), &[])
    }

    pub(super) fn flush_logs(&self) {
        self.logs.borrow_mut().iter_mut().for_each(LogWriter::flush);
    }

    /// How long to wait for the first byte of a request: `usual`, unless the core drains.
    pub(super) fn timeout(&self, usual: Duration) -> Duration {
        match self.phase.get() {
            Phase::Running => usual,
            Phase::Retiring => usual.min(RETIRING_IDLE),
            // Connections that the kernel had accepted are served once more.
            Phase::Stopping => Duration::ZERO,
        }
    }

    pub(super) async fn all_ended(&self) {
        while self.connections.get() > 0 {
            let ended = self.connection_ended.notified();
            if self.connections.get() == 0 {
                return;
            }
            ended.await;
        }
    }
}

/// How long an idle connection outlives its configuration. A client that reuses its connection does so sooner, gets `Connection: close`
/// with the response, and so loses no request.
pub(super) const RETIRING_IDLE: Duration = Duration::from_secs(5);

/// The ids of a core's requests: a prefix, then a hexadecimal number that is incremented as text.
pub(super) struct Ids {
    /// Length of the prefix.
    start: usize,
    next: String,
}

impl Ids {
    pub(super) fn after(start: String) -> Self {
        let mut next = start;
        let start = next.len();
        next.push('0');
        Self { start, next }
    }

    fn advance(&mut self) {
        let mut zeros = 0;
        let raised = loop {
            if self.next.len() == self.start {
                break '1';
            }
            match self.next.pop() {
                Some('f') => zeros += 1,
                Some('9') => break 'a',
                Some(digit) => break char::from_u32(u32::from(digit) + 1).unwrap_or('0'),
                None => break '1',
            }
        };
        self.next.push(raised);
        (0..zeros).for_each(|_| self.next.push('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_counted_in_hexadecimal() {
        let mut ids = Ids::after("f9-".to_owned());
        for number in 0..70_000 {
            assert_eq!(ids.next, format!("f9-{number:x}"));
            ids.advance();
        }
    }
}
