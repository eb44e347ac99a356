//! The rules of one `.htaccess`, and how the files of a chain of directories combine into one verdict.
//!
//! As in Apache, `Require` (`mod_authz_core`) and `Order`/`Allow`/`Deny` (`mod_access_compat`) are two guards that a
//! request must both pass. For each guard, a deeper directory overrides a shallower one, and `<Files>` sections come after
//! all directories. One point is stricter than Apache: a `<Files>` section does not open what a deeper directory has
//! closed.

use std::sync::Arc;

use super::access::{Compat, HtaccessSection, PublicAccess, Subject};
use super::pattern::HtaccessPattern;
use super::rewrite::{self, Rewrite};
use crate::path::RelPath;

/// What one `.htaccess` says about access.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// The rules of the directory; always there once something was read.
    pub(super) base: HtaccessSection,
    /// `<Files>`, `<FilesMatch>` and `<If>`, in file order.
    pub(super) sections: Vec<HtaccessSection>,
    /// Rewrite rules that may refuse, with those that decide whether they are reached.
    pub(super) rewrites: Vec<Rewrite>,
    /// Paths of the URL that `Redirect` and `RedirectMatch` answer with 403, 404 or 410.
    pub(super) refused: Vec<HtaccessPattern>,
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
    // Unknown conditions come last, so that nothing opens what they may have closed.
    for is_uncertain in [false, true] {
        for (depth, rules) in chain.iter().enumerate() {
            let sections = rules.sections.iter();
            for section in sections.filter(|s| s.is_uncertain == is_uncertain && s.is_about(name)) {
                standing.apply(section, depth);
            }
        }
    }
    let is_refused = chain.iter().enumerate().any(|(depth, rules)| {
        rules.refuses_url(path) || rewrite::refuses(&rules.rewrites, &path.after(depth), subject)
    });
    if is_refused {
        PublicAccess::Denied
    } else {
        standing.access()
    }
}

impl Rules {
    /// Of a file that is there and cannot be read: nothing is public.
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

/// What holds after some of the chain has been read: a verdict of each guard and the depth that it
/// comes from.
struct HtaccessState {
    require: (PublicAccess, usize),
    compat: (PublicAccess, usize),
    satisfy_any: bool,
}

impl HtaccessState {
    fn apply(&mut self, section: &HtaccessSection, depth: usize) {
        let replace = |held: &mut (PublicAccess, usize), given: Option<PublicAccess>| {
            let Some(given) = given else { return };
            let may_open = !section.is_uncertain && depth >= held.1;
            if given < held.0 || (given == held.0 && depth > held.1) || may_open {
                *held = (given, depth);
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
        // `Satisfy any` with an open `Allow` lifts a login; anything closed to everybody stays closed.
        if self.satisfy_any && compat == PublicAccess::Public && require == PublicAccess::Unchecked
        {
            return PublicAccess::Public;
        }
        require.min(compat)
    }
}
