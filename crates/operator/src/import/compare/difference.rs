//! A difference between two responses.

use std::borrow::Cow;

/// The kind of a difference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum DifferenceKind {
    /// Only one server permits access.
    Entry,
    /// The status differs, or only one server responds.
    Status,
    /// The target or the status of a redirect differs.
    Redirect,
    /// The content differs.
    Body,
    /// The content differs only when Galley sends it from its cache.
    StoredPage,
    /// The lifetime in browsers differs.
    Lifetime,
    /// Only the old server compresses the response.
    Coding,
    /// The value of a response field differs. The name is in lower case.
    Field(String),
}

/// A difference that a visitor can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VisibleDifference {
    pub(super) kind: DifferenceKind,
    /// The value at the old server.
    pub(super) old: String,
    /// The value at Galley.
    pub(super) galley: String,
}

/// The result of comparing two responses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ComparedResponses {
    pub(super) differences: Vec<VisibleDifference>,
    /// Names of differences that visitors do not notice.
    pub(super) harmless: Vec<&'static str>,
}

impl DifferenceKind {
    /// The name for scripts.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Status => "status",
            Self::Redirect => "redirect",
            Self::Body => "body",
            Self::StoredPage => "stored-page",
            Self::Lifetime => "lifetime",
            Self::Coding => "compression",
            Self::Field(_) => "field",
        }
    }

    /// The name for people.
    pub(super) fn title(&self) -> Cow<'static, str> {
        match self {
            Self::Entry => "access".into(),
            Self::Status => "status".into(),
            Self::Redirect => "redirect".into(),
            Self::Body => "content".into(),
            Self::StoredPage => "content from the cache".into(),
            Self::Lifetime => "lifetime in browsers".into(),
            Self::Coding => "compression".into(),
            Self::Field(name) => format!("header field {name}").into(),
        }
    }

    pub(super) fn field(&self) -> Option<&str> {
        match self {
            Self::Field(name) => Some(name),
            _ => None,
        }
    }
}

impl ComparedResponses {
    pub(super) fn differs(
        &mut self,
        kind: DifferenceKind,
        old: impl Into<String>,
        galley: impl Into<String>,
    ) {
        self.differences.push(VisibleDifference {
            kind,
            old: old.into(),
            galley: galley.into(),
        });
    }

    pub(super) fn is_harmless(&mut self, what: &'static str) {
        self.harmless.push(what);
    }
}
