//! The rules of one `.htaccess`, and the result of the rules of a chain of directories.
//!
//! As in Apache, `Require` (`mod_authz_core`) and `Order`/`Allow`/`Deny` (`mod_access_compat`) are two guards, and a
//! request must pass both. For each guard, a deeper directory overrides a shallower one, and `<Files>` sections apply after
//! all directories. One rule is stricter than in Apache: a `<Files>` section does not permit access that a deeper directory
//! denies.

use std::sync::Arc;

use super::access::{AccessSubject, Compat, HtaccessSection, PublicAccess};
use super::pattern::HtaccessPattern;
use super::rewrite::{self, Rewrite};
use crate::path::RelPath;

/// The access rules of one `.htaccess`.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// The directives of the directory outside of sections.
    pub(super) base: HtaccessSection,
    /// `<Files>`, `<FilesMatch>` and `<If>`, in file order.
    pub(super) sections: Vec<HtaccessSection>,
    /// Rewrite rules that may deny, and those that decide whether they are reached.
    pub(super) rewrites: Vec<Rewrite>,
    /// URL paths for which `Redirect` and `RedirectMatch` send 403, 404 or 410.
    pub(super) refused: Vec<HtaccessPattern>,
}

/// The access to `path` by a chain of rules. `chain`: the rules of each directory from the root down; `name`: the first
/// segment that is not one of those directories, empty for a directory.
pub(crate) fn evaluate(
    chain: &[Arc<Rules>],
    path: &RelPath,
    name: &[u8],
    subject: AccessSubject,
) -> PublicAccess {
    let mut state = HtaccessState {
        require: (PublicAccess::Public, 0),
        compat: (PublicAccess::Public, 0),
        satisfy_any: false,
    };
    for (depth, rules) in chain.iter().enumerate() {
        state.apply(&rules.base, depth);
    }
    // Sections with unknown conditions apply last, so that no other section permits what they may have denied.
    for is_uncertain in [false, true] {
        for (depth, rules) in chain.iter().enumerate() {
            let sections = rules.sections.iter();
            for section in sections.filter(|s| s.is_uncertain == is_uncertain && s.applies_to(name))
            {
                state.apply(section, depth);
            }
        }
    }
    let is_refused = chain.iter().enumerate().any(|(depth, rules)| {
        rules.refuses_url(path) || rewrite::refuses(&rules.rewrites, &path.after(depth), subject)
    });
    if is_refused {
        PublicAccess::Denied
    } else {
        state.access()
    }
}

impl Rules {
    /// The rules of a file that exists but cannot be read: nothing is public.
    pub(super) fn closed() -> Self {
        Self {
            base: HtaccessSection::denying(),
            ..Self::default()
        }
    }

    fn refuses_url(&self, path: &RelPath) -> bool {
        if self.refused.is_empty() {
            return false;
        }
        let url = [b"/", &*path.after(0)].concat();
        self.refused.iter().any(|pattern| pattern.matches(&url))
    }
}

/// The result of the rules so far: the access by each guard, and the depth of the directory that defined it.
struct HtaccessState {
    require: (PublicAccess, usize),
    compat: (PublicAccess, usize),
    satisfy_any: bool,
}

impl HtaccessState {
    fn apply(&mut self, section: &HtaccessSection, depth: usize) {
        let replace = |current: &mut (PublicAccess, usize), given: Option<PublicAccess>| {
            let Some(given) = given else { return };
            let may_open = !section.is_uncertain && depth >= current.1;
            if given < current.0 || (given == current.0 && depth > current.1) || may_open {
                *current = (given, depth);
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
        // `Satisfy any` with an open `Allow` lifts a login. A denial for all clients still applies.
        if self.satisfy_any && compat == PublicAccess::Public && require == PublicAccess::Unchecked
        {
            return PublicAccess::Public;
        }
        require.min(compat)
    }
}
