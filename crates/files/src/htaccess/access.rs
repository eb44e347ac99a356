//! Access levels, and the directives of one section.

use super::pattern::HtaccessPattern;

/// Whether the public has access. Ordered from least to most access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PublicAccess {
    /// No client has access.
    Denied,
    /// Some clients have access by a condition that is not checked here: login, address, expression.
    Unchecked,
    /// Every client has access.
    Public,
}

/// What access is requested for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessSubject {
    /// The path as requested; it may not exist.
    Requested,
    /// A regular file that would be sent.
    File,
    /// A script that would be run.
    Script,
}

/// The directives of a directory or of one section in it.
#[derive(Clone, Debug, Default)]
pub(super) struct HtaccessSection {
    /// Patterns for the names to which the section applies. All must match; none: every name.
    pub(super) names: Vec<HtaccessPattern>,
    /// Whether the section depends on a condition that Galley cannot evaluate: then its denials apply and its permissions do
    /// not.
    pub(super) is_uncertain: bool,
    /// The result of the `Require` lines, if there are any.
    pub(super) require: Option<PublicAccess>,
    /// `Order`, `Allow` and `Deny`, if there are any.
    pub(super) compat: Option<Compat>,
    /// `Satisfy any` (true) or `all`.
    pub(super) satisfy_any: Option<bool>,
    /// Whether `AuthType` is set, other than `None`.
    pub(super) has_login: bool,
}

/// `Order`, `Allow from`, `Deny from` of one section.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compat {
    pub(super) is_allow_deny: bool,
    pub(super) allow_all: bool,
    pub(super) allow_some: bool,
    pub(super) deny_all: bool,
}

impl HtaccessSection {
    pub(super) fn denying() -> Self {
        Self {
            require: Some(PublicAccess::Denied),
            ..Self::default()
        }
    }
}

impl Compat {
    /// The access of an unknown client. `Deny from <address>` denies some clients, not the public.
    pub(super) fn access(self) -> PublicAccess {
        let is_public = if self.is_allow_deny {
            self.allow_all && !self.deny_all
        } else {
            self.allow_all || !self.deny_all
        };
        match (
            is_public,
            self.allow_some && !(self.is_allow_deny && self.deny_all),
        ) {
            (true, _) => PublicAccess::Public,
            (false, true) => PublicAccess::Unchecked,
            (false, false) => PublicAccess::Denied,
        }
    }
}

impl HtaccessSection {
    pub(super) fn applies_to(&self, name: &[u8]) -> bool {
        self.names.is_empty()
            || (!name.is_empty() && self.names.iter().all(|pattern| pattern.matches(name)))
    }
}
