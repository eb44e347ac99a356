//! Answers of the other server to sample requests.

use crate::report::ReportEntry;

/// What a client gets from the rules of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A refusal, or a redirect in its place.
    Closed,
    /// The status, and the value of `Location`.
    Redirected(u16, String),
    /// What the files or the upstream of the site send.
    Open,
}

/// The answer of the other server to a `GET` for a target, because of a statement.
#[derive(Clone, Debug)]
pub(crate) struct Expectation {
    pub entry: ReportEntry,
    /// Path and query, as a client sends them.
    pub target: String,
    pub answer: Answer,
}
