//! What is wrong with a site or the server, for the verdict.

use std::time::Duration;

/// How well visitors are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// As configured.
    Ok,
    /// Visitors are served, but something is wrong.
    Degraded,
    /// Visitors of some site get errors.
    Failing,
}

impl Level {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Failing => "failing",
        }
    }
}

/// Something that is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HealthProblem {
    pub(super) level: Level,
    /// The subject, one word for programs.
    pub(super) kind: &'static str,
    /// The site; `None`: the server.
    pub(super) site: Option<String>,
    /// What is wrong, as a sentence without its end.
    pub(super) text: String,
    pub(super) since: Option<Duration>,
    /// What to do, as a sentence without its end.
    pub(super) remedy: String,
}

impl HealthProblem {
    pub(super) fn degraded(kind: &'static str, text: String, remedy: &str) -> Self {
        Self {
            level: Level::Degraded,
            kind,
            site: None,
            text,
            since: None,
            remedy: remedy.to_owned(),
        }
    }

    pub(super) fn failing(kind: &'static str, text: String, remedy: &str) -> Self {
        Self {
            level: Level::Failing,
            ..Self::degraded(kind, text, remedy)
        }
    }
}
