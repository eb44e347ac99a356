//! Errors while a response is generated, and what the client sees of them.
//!
//! A [`Fault`] ends an exchange; "not cached", "stale" and "not modified" are outcomes, never faults. Each fault names one
//! [`RefusedWhy`], and only this module maps these reasons to statuses and to the text for the client. Paths, addresses and
//! causes are only in `note`, which is logged.

use std::borrow::Cow;

use bytes::Bytes;
use galley_cache::fill::FillError;
use galley_policy::outcome::{RefusedWhy, StaleWhy};

/// An error that ends an exchange without the requested response.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The reason, as log and `Cache-Status` name it.
    pub why: RefusedWhy,
    /// The details for the operator; never sent to the client.
    pub note: Cow<'static, str>,
    /// The value of `Retry-After`, in seconds.
    pub retry_after_s: Option<u32>,
    /// The pieces of the site's own error page, if the site is known.
    pub page: Option<Vec<Bytes>>,
    /// The status, if a rule names it in place of that of `why`.
    pub own_status: Option<u16>,
}

impl Fault {
    /// Creates a fault with a note for the log.
    pub fn new(why: RefusedWhy, note: impl Into<Cow<'static, str>>) -> Self {
        let mut fault = Self {
            why,
            note: note.into(),
            retry_after_s: None,
            page: None,
            own_status: None,
        };
        // Temporary failures (RFC 9110 §10.2.3).
        if fault.is_outage() || why == RefusedWhy::Unseen {
            fault.retry_after_s = Some(RETRY_AFTER_S);
        }
        fault
    }

    /// Whether the failure is temporary, so that the site's own error page is sent.
    pub fn is_outage(&self) -> bool {
        self.is_upstream() || self.why == RefusedWhy::NoRoom
    }

    /// The HTTP status of the response.
    pub fn status(&self) -> u16 {
        self.own_status.unwrap_or_else(|| status(self.why))
    }

    /// Whether the upstream caused the fault, so that a stale page may be sent instead.
    pub fn is_upstream(&self) -> bool {
        match self.why {
            RefusedWhy::Overload
            | RefusedWhy::UpstreamDown
            | RefusedWhy::UpstreamPaused
            | RefusedWhy::UpstreamTimeout
            | RefusedWhy::BadUpstream
            | RefusedWhy::MustRevalidate => true,
            RefusedWhy::UnknownHost
            | RefusedWhy::Misdirected
            | RefusedWhy::BadRequest
            | RefusedWhy::HeadTooLarge
            | RefusedWhy::BodyTooLarge
            | RefusedWhy::NoRoom
            | RefusedWhy::Timeout
            | RefusedWhy::ClientGone
            | RefusedWhy::Denied
            | RefusedWhy::Network
            | RefusedWhy::Admin
            | RefusedWhy::NeedsTls
            | RefusedWhy::Password
            | RefusedWhy::Limited
            | RefusedWhy::Unseen
            | RefusedWhy::XmlRpc
            | RefusedWhy::Authors
            | RefusedWhy::Crawler
            | RefusedWhy::CrawlDelay
            | RefusedWhy::Method
            | RefusedWhy::UnknownMethod
            | RefusedWhy::NotFound
            | RefusedWhy::OnlyIfCached
            | RefusedWhy::Loop
            | RefusedWhy::Internal => false,
        }
    }

    /// The reason that is reported if a stale page is sent instead.
    pub fn stale_why(&self) -> StaleWhy {
        if matches!(self.why, RefusedWhy::Overload | RefusedWhy::Unseen) {
            StaleWhy::Overload
        } else {
            StaleWhy::UpstreamError
        }
    }
}

impl From<FillError> for Fault {
    fn from(failure: FillError) -> Self {
        use RefusedWhy::BadUpstream;
        let (why, note) = match failure {
            FillError::Connect => (RefusedWhy::UpstreamDown, "cannot connect to the upstream"),
            FillError::Paused => (
                RefusedWhy::UpstreamPaused,
                "the upstream failed several times in a row and its circuit breaker is open",
            ),
            FillError::Timeout => (RefusedWhy::UpstreamTimeout, "the upstream timed out"),
            FillError::Closed => (BadUpstream, "the upstream ended its response too early"),
            FillError::Malformed => (BadUpstream, "the upstream's response is invalid"),
            FillError::Include => (BadUpstream, "an ESI include of the page failed"),
            FillError::Overload => (RefusedWhy::Overload, "the queue of the upstream is full"),
            FillError::Memory => (
                RefusedWhy::Overload,
                "there is no memory for the whole page; see `cache.memory`",
            ),
            FillError::Aborted => (
                RefusedWhy::Internal,
                "the request to the upstream was aborted",
            ),
            FillError::Unstorable(_) => (
                RefusedWhy::Internal,
                "the page could not be generated for this request",
            ),
        };
        Self::new(why, note)
    }
}

/// Returns the status of a refused request.
pub fn status(why: RefusedWhy) -> u16 {
    match why {
        RefusedWhy::UnknownHost | RefusedWhy::Misdirected => 421,
        RefusedWhy::BadRequest => 400,
        RefusedWhy::HeadTooLarge => 431,
        RefusedWhy::BodyTooLarge => 413,
        RefusedWhy::Timeout | RefusedWhy::ClientGone => 408,
        RefusedWhy::Denied
        | RefusedWhy::Network
        | RefusedWhy::Admin
        | RefusedWhy::NeedsTls
        | RefusedWhy::XmlRpc
        | RefusedWhy::Authors
        | RefusedWhy::Crawler => 403,
        RefusedWhy::Password => 401,
        RefusedWhy::Limited | RefusedWhy::Unseen | RefusedWhy::CrawlDelay => 429,
        RefusedWhy::Method => 405,
        RefusedWhy::UnknownMethod => 501,
        RefusedWhy::NotFound => 404,
        RefusedWhy::OnlyIfCached | RefusedWhy::UpstreamTimeout | RefusedWhy::MustRevalidate => 504,
        RefusedWhy::Loop => 508,
        RefusedWhy::Overload | RefusedWhy::UpstreamPaused | RefusedWhy::NoRoom => 503,
        RefusedWhy::UpstreamDown | RefusedWhy::BadUpstream => 502,
        RefusedWhy::Internal => 500,
    }
}

/// The sentence on the error page.
pub fn public_text(status: u16) -> &'static str {
    match status {
        400 => "The request is not valid.",
        401 => "This page requires a user name and a password.",
        403 => "You do not have access to this page.",
        404 => "This page does not exist.",
        405 => "This request method is not allowed here.",
        410 => "This page no longer exists.",
        408 => "The request took too long to arrive.",
        413 => "The request is larger than this site allows.",
        414 => "The address is too long.",
        417 => "The server does not meet the `Expect` field of the request.",
        421 => "This server does not serve that host.",
        429 => "Too many requests came from your address. Please try again in a moment.",
        431 => "The request's header fields are too large.",
        501 => "The server does not support this request.",
        502 => "The site did not respond. Please try again in a moment.",
        503 => "The site is very busy. Please try again in a moment.",
        504 => "The site took too long to respond. Please try again in a moment.",
        508 => "The request is in a loop.",
        505 => "This version of HTTP is not supported.",
        _ => "The request failed.",
    }
}

/// The sentence for a client that has not visited the site.
pub const UNSEEN_TEXT: &str =
    "The site is very busy. Please open its front page first, or try again in a moment.";

/// The default `Retry-After`: long enough for a queue of ten seconds to empty, or for PHP to restart.
const RETRY_AFTER_S: u32 = 10;
