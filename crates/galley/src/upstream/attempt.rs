//! What came of one attempt to send a request.

use galley_cache::fill::FillError;

use super::call::UpstreamCall;

/// How an upstream stood when it answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UpstreamHealth {
    /// As ever.
    Usual,
    /// No server of it had been asked for a while.
    Recovered,
}

impl UpstreamHealth {
    pub(super) fn of(has_recovered: bool) -> Self {
        if has_recovered {
            Self::Recovered
        } else {
            Self::Usual
        }
    }
}

/// An attempt that gave no answer.
pub(super) struct FailedAttempt {
    pub(super) failure: FillError,
    pub(super) retry: Retry,
}

/// Whether an attempt may be made again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// Nothing was received, and the request was not sent or is safe.
    Harmless,
    /// It may have been carried out.
    Never,
}

impl FailedAttempt {
    pub(super) fn unsent(failure: FillError) -> Self {
        Self {
            failure,
            retry: Retry::Harmless,
        }
    }

    /// The server is left alone.
    pub(super) fn paused() -> Self {
        Self {
            failure: FillError::Paused,
            retry: Retry::Never,
        }
    }

    /// Whether this says that nobody is there.
    pub(super) fn is_absence(&self) -> bool {
        matches!(self.failure, FillError::Connect | FillError::Timeout)
    }

    pub(super) fn sent(failure: FillError, ask: &UpstreamCall) -> Self {
        let retry = match (&failure, ask.is_safe()) {
            (FillError::Closed, true) => Retry::Harmless,
            _ => Retry::Never,
        };
        Self { failure, retry }
    }
}
