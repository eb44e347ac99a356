//! A difference between two responses.

use std::borrow::Cow;

/// What differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum DifferenceKind {
    /// One server lets a visitor in, the other does not.
    Entry,
    /// The status, or there is no response.
    Status,
    /// Where a visitor is sent, or by which status.
    Redirect,
    /// The page.
    Body,
    /// The page is another one when it comes from Galley's cache.
    StoredPage,
    /// How long browsers may use it.
    Lifetime,
    /// Whether it comes compressed.
    Coding,
    /// A field of the response, in lower case.
    Field(String),
}

/// A difference that a visitor can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VisibleDifference {
    pub(super) kind: DifferenceKind,
    /// At the old server.
    pub(super) old: String,
    /// At Galley.
    pub(super) galley: String,
}

/// What a comparison of two responses found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ComparedResponses {
    pub(super) differences: Vec<VisibleDifference>,
    /// Differences that no visitor notices, each by its name.
    pub(super) harmless: Vec<&'static str>,
}

impl DifferenceKind {
    /// For scripts.
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

    /// For people.
    pub(super) fn title(&self) -> Cow<'static, str> {
        match self {
            Self::Entry => "who may enter".into(),
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
