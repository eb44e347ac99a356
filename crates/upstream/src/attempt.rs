//! The outcome of one attempt to send a request.

use galley_cache::fill::FillError;

use super::call::UpstreamCall;

/// The state of an upstream when it responded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum UpstreamHealth {
    /// The upstream responds as usual.
    Usual,
    /// All circuit breakers of the upstream were open before this response.
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
    /// The upstream has not executed the request, or executing it twice is harmless: it was not sent, or its method is safe and
    /// nothing was received.
    Harmless,
    /// The server failed, and the method is safe: another server may respond.
    Elsewhere,
    /// The upstream may have executed the request.
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

    /// All servers that may be used have reached their limits of concurrent requests.
    pub(super) fn overloaded() -> Self {
        Self {
            failure: FillError::Overload,
            retry: Retry::Never,
        }
    }

    /// The client aborted its streamed body.
    pub(super) fn upload_aborted() -> Self {
        Self {
            failure: FillError::Aborted,
            retry: Retry::Never,
        }
    }

    /// The response ended early, or could not be parsed.
    pub(super) fn received(failure: FillError, call: &UpstreamCall) -> Self {
        let retry = if call.is_safe() {
            Retry::Elsewhere
        } else {
            Retry::Never
        };
        Self { failure, retry }
    }

    /// Whether a server was reached and failed. Failed connection attempts are counted elsewhere.
    pub(super) fn is_after_connecting(&self) -> bool {
        !matches!(
            self.failure,
            FillError::Connect | FillError::Paused | FillError::Overload | FillError::Aborted
        )
    }

    /// Whether the circuit breaker counts the attempt as a failure of the server.
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
