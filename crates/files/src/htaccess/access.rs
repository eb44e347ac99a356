//! Verdicts on access, and how the files of a chain of directories combine into one.
//!
//! As in Apache, `Require` (`mod_authz_core`) and `Order`/`Allow`/`Deny` (`mod_access_compat`) are
//! two guards that both must be passed; for each, what a deeper directory says replaces what a
//! shallower one said, and `<Files>` sections come after all directories. Stricter than Apache in
//! one point: a `<Files>` section does not open what a deeper directory has closed.

use std::sync::Arc;

use super::Rules;
use super::pattern::HtaccessPattern;
use crate::path::RelPath;

/// Whether the public may have something. The order is that of openness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PublicAccess {
    /// Closed to everybody.
    Denied,
    /// Open to some, in a way that is not checked here: by login, address, expression.
    Unchecked,
    /// Open to everybody.
    Public,
}

/// What is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The path as requested; whether anything is there is not known.
    Requested,
    /// A regular file that would be sent.
    File,
    /// A script that would be run.
    Script,
}

/// Directives of a directory or of one section in it.
#[derive(Clone, Debug, Default)]
pub(super) struct HtaccessSection {
    /// Which names it is about; all must match, none: every name.
    pub(super) names: Vec<HtaccessPattern>,
    /// Whether it hangs on something that we cannot evaluate: then its denials hold and its
    /// permissions do not.
    pub(super) is_uncertain: bool,
    /// What its `Require` lines come to, where it has some.
    pub(super) require: Option<PublicAccess>,
    /// `Order`, `Allow`, `Deny`, where it has some.
    pub(super) compat: Option<Compat>,
    /// `Satisfy any` (true) or `all`.
    pub(super) satisfy_any: Option<bool>,
    /// `AuthType` other than `None`.
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
    /// For a client about whom nothing is known. `Deny from <address>` keeps out some, not the
    /// public.
    fn access(self) -> PublicAccess {
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

/// What holds after some of the chain has been read: a verdict of each guard and the depth that it
/// comes from.
struct HtaccessState {
    require: (PublicAccess, usize),
    compat: (PublicAccess, usize),
    satisfy_any: bool,
}

/// What the chain says about `path`. `chain`: the rules of each directory from the root down;
/// `name`: the first segment that is not one of those directories, empty for a directory.
pub(crate) fn judge(
    chain: &[Arc<Rules>],
    path: &RelPath,
    name: &[u8],
    subject: Subject,
) -> PublicAccess {
    let mut standing = HtaccessState {
        require: (PublicAccess::Public, 0),
        compat: (PublicAccess::Public, 0),
        satisfy_any: false,
    };
    for (depth, rules) in chain.iter().enumerate() {
        standing.apply(&rules.base, depth);
    }
    // What hangs on the unknown comes last, so that nothing opens what it may have closed.
    for is_uncertain in [false, true] {
        for (depth, rules) in chain.iter().enumerate() {
            let sections = rules.sections.iter();
            for section in sections.filter(|s| s.is_uncertain == is_uncertain && s.is_about(name)) {
                standing.apply(section, depth);
            }
        }
    }
    let is_refused = chain.iter().enumerate().any(|(depth, rules)| {
        rules.refuses_url(path)
            || super::rewrite::refuses(&rules.rewrites, &path.after(depth), subject)
    });
    if is_refused {
        PublicAccess::Denied
    } else {
        standing.access()
    }
}

impl HtaccessSection {
    fn is_about(&self, name: &[u8]) -> bool {
        self.names.is_empty()
            || (!name.is_empty() && self.names.iter().all(|pattern| pattern.matches(name)))
    }
}

impl Rules {
    fn refuses_url(&self, path: &RelPath) -> bool {
        if self.refused.is_empty() {
            return false;
        }
        let url = [b"/", &*path.after(0)].concat();
        self.refused.iter().any(|pattern| pattern.matches(&url))
    }
}

impl HtaccessState {
    fn apply(&mut self, section: &HtaccessSection, depth: usize) {
        let replace = |held: &mut (PublicAccess, usize), said: Option<PublicAccess>| {
            let Some(said) = said else { return };
            let may_open = !section.is_uncertain && depth >= held.1;
            if said < held.0 || (said == held.0 && depth > held.1) || may_open {
                *held = (said, depth);
            }
        };
        replace(&mut self.require, section.require);
        replace(&mut self.compat, section.compat.map(Compat::access));
        match section.satisfy_any {
            Some(true) if section.is_uncertain => {}
            Some(any) => self.satisfy_any = any,
            None => {}
        }
    }

    fn access(&self) -> PublicAccess {
        let (require, compat) = (self.require.0, self.compat.0);
        // `Satisfy any` with an open `Allow` lifts a login; what is closed to everybody stays
        // closed.
        if self.satisfy_any && compat == PublicAccess::Public && require == PublicAccess::Unchecked
        {
            return PublicAccess::Public;
        }
        require.min(compat)
    }
}
