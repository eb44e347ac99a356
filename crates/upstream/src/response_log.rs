//! The log of responses that an upstream should not have sent: rejected ones, and those that Galley repairs.
//!
//! An upstream that sends one such response sends many. So a new reason for a rejection is logged immediately and a repeated
//! one once a minute, and each kind of repair once a minute.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Display};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_policy::fields::FieldFlaw;
use tokio::time::Instant;

use super::call::UpstreamCall;
use super::stats::UpstreamStats;

/// The log of one upstream.
pub(super) struct ResponseLog {
    site: String,
    stats: Arc<UpstreamStats>,
    rejected: RefCell<Option<(Instant, String)>>,
    repaired: [Cell<Option<Instant>>; 3],
}

/// What Galley changed in a response.
#[derive(Clone, Copy, Debug)]
pub(super) enum Repair {
    /// It dropped a field.
    Field(FieldFlaw),
    /// It discarded what followed the announced length.
    Excess {
        /// `Content-Length`, in bytes.
        announced: u64,
    },
}

/// The request to which a response belongs, for its log lines.
pub(super) struct ResponseSource {
    log: Rc<ResponseLog>,
    /// The index in the servers of the upstream.
    server: usize,
    path: Box<[u8]>,
}

impl ResponseLog {
    pub(super) fn new(site: &str, stats: &Arc<UpstreamStats>) -> Rc<Self> {
        Rc::new(Self {
            site: site.to_owned(),
            stats: Arc::clone(stats),
            rejected: RefCell::default(),
            repaired: Default::default(),
        })
    }

    /// The source of a response to `call`. `server`: its index in the servers of the upstream.
    pub(super) fn source(self: &Rc<Self>, server: usize, call: &UpstreamCall) -> ResponseSource {
        ResponseSource {
            log: Rc::clone(self),
            server,
            path: call.request.path.as_slice().into(),
        }
    }

    /// Logs a rejected response.
    pub(super) fn rejected(&self, server: usize, reason: &dyn Display) {
        let reason = reason.to_string();
        let now = Instant::now();
        let mut last = self.rejected.borrow_mut();
        if let Some((at, logged)) = &*last
            && *logged == reason
            && now - *at < LOG_EVERY
        {
            return;
        }
        let site = &self.site;
        let upstream = self.address(server);
        tracing::warn!(
            site,
            upstream,
            "rejected a response of the upstream: {reason}"
        );
        *last = Some((now, reason));
    }

    fn address(&self, server: usize) -> &str {
        let server = self.stats.servers().get(server);
        server.map_or("", |server| server.state.address.as_str())
    }
}

impl ResponseSource {
    /// Logs what Galley changed in the response.
    pub(super) fn repaired(&self, repair: Repair) {
        let log = &self.log;
        let now = Instant::now();
        let Some(last) = log.repaired.get(repair.kind()) else {
            return;
        };
        if last.get().is_some_and(|at| now - at < LOG_EVERY) {
            return;
        }
        last.set(Some(now));
        let (site, upstream) = (&log.site, log.address(self.server));
        let path = self.path.escape_ascii();
        tracing::warn!(site, upstream, %path, "{repair}");
    }
}

impl Repair {
    /// An index that differs for each kind.
    fn kind(self) -> usize {
        match self {
            Self::Field(FieldFlaw::Name) => 0,
            Self::Field(FieldFlaw::Value | FieldFlaw::Dangerous) => 1,
            Self::Excess { .. } => 2,
        }
    }
}

impl Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(FieldFlaw::Name) => f.write_str(
                "dropped a header of the response: its line has no colon, or its name a character that HTTP does not allow",
            ),
            Self::Field(FieldFlaw::Value | FieldFlaw::Dangerous) => f.write_str(
                "dropped a header of the response, and did not store the response: the header's value has a control character",
            ),
            Self::Excess { announced } => write!(
                f,
                "the upstream sent more than the {announced} bytes that `Content-Length` announces; Galley discarded the rest and did not store the response: look for output after the body, such as an empty line after `?>`"
            ),
        }
    }
}

/// The minimum time between two lines about the same.
const LOG_EVERY: Duration = Duration::from_secs(60);
