//! The outcome of one attempt to send a request.

use galley_cache::fill::FillError;

use super::call::UpstreamCall;

/// The state of an upstream when it responded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UpstreamHealth {
    /// It responds as usual.
    Usual,
    /// All of its circuit breakers were open.
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

/// An attempt without a response.
pub(super) struct FailedAttempt {
    pub(super) failure: FillError,
    pub(super) retry: Retry,
}

/// Whether the request may be sent again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Retry {
    /// Nothing was received, and the request was not sent or its method is safe.
    Harmless,
    /// The server failed at it, and the method is safe: another server may answer.
    Elsewhere,
    /// The upstream may have executed it.
    Never,
}

impl FailedAttempt {
    pub(super) fn unsent(failure: FillError) -> Self {
        Self {
            failure,
            retry: Retry::Harmless,
        }
    }

    /// The circuit breaker is open.
    pub(super) fn paused() -> Self {
        Self {
            failure: FillError::Paused,
            retry: Retry::Never,
        }
    }

    /// All servers that may be asked have as many requests as they may have.
    pub(super) fn overloaded() -> Self {
        Self {
            failure: FillError::Overload,
            retry: Retry::Never,
        }
    }

    /// The client broke its streamed body off.
    pub(super) fn broken_off() -> Self {
        Self {
            failure: FillError::Aborted,
            retry: Retry::Never,
        }
    }

    /// The response broke off, or could not be read.
    pub(super) fn received(failure: FillError, call: &UpstreamCall) -> Self {
        let retry = if call.is_safe() {
            Retry::Elsewhere
        } else {
            Retry::Never
        };
        Self { failure, retry }
    }

    /// Whether a server was reached and failed; failed connections are counted where they are opened.
    pub(super) fn is_after_connecting(&self) -> bool {
        !matches!(
            self.failure,
            FillError::Connect | FillError::Paused | FillError::Overload | FillError::Aborted
        )
    }

    /// Whether it counts as a failure of the server, for the circuit breaker.
    pub(super) fn is_server_failure(&self) -> bool {
        matches!(self.failure, FillError::Connect | FillError::Timeout)
    }

    pub(super) fn sent(failure: FillError, call: &UpstreamCall) -> Self {
        let retry = match (&failure, call.is_safe()) {
            (FillError::Closed, true) => Retry::Harmless,
            (_, true) => Retry::Elsewhere,
            (_, false) => Retry::Never,
        };
        Self { failure, retry }
    }
}
