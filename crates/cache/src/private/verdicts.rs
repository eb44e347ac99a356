//! The stored pages that may be sent to members: those that did not differ from a page generated for such a member, except for
//! private fragments.
//!
//! A page is compared once for each class of members and each version generated for anonymous visitors, then again after
//! [`MAX_USES`] uses or [`LIFETIME`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use galley_policy::private::PageDifference;
use galley_policy::time::Tick;

/// The verdict on a page for a class of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageVerdict {
    /// Not compared yet, or due for another comparison.
    Unknown,
    /// Members get the same page.
    Same,
    /// Members get a different page.
    Differs,
}

/// A page that PHP generates for a class of members, because it differs.
#[derive(Clone, Debug)]
pub struct ReportedDifference {
    /// The class of members.
    pub class: Arc<str>,
    /// The canonical path and normalized query.
    pub path_query: Box<[u8]>,
    /// The position of the difference.
    pub difference: PageDifference,
}

#[derive(Debug)]
struct ComparedPage {
    /// `born` of the compared page.
    born: u64,
    at: Tick,
    uses: u32,
    differs: Option<ReportedDifference>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct PageVerdicts(HashMap<u128, ComparedPage>);

impl PageVerdicts {
    /// The verdict on a page with this `born`. `counts`: the page will be sent.
    pub(super) fn of(&mut self, page: u128, born: u64, now: Tick, counts: bool) -> PageVerdict {
        let Some(known) = self.0.get_mut(&page) else {
            return PageVerdict::Unknown;
        };
        if known.born != born || now.since(known.at) >= LIFETIME {
            return PageVerdict::Unknown;
        }
        if known.differs.is_some() {
            return PageVerdict::Differs;
        }
        if known.uses >= MAX_USES {
            // For one request. Until its comparison the others use the verdict, and do not all go to PHP at once.
            known.uses = if counts { 0 } else { known.uses };
            return PageVerdict::Unknown;
        }
        known.uses += u32::from(counts);
        PageVerdict::Same
    }

    pub(super) fn note(
        &mut self,
        page: u128,
        born: u64,
        now: Tick,
        differs: Option<ReportedDifference>,
    ) {
        if self.0.len() >= MAX_VERDICTS && !self.0.contains_key(&page) {
            self.0.retain(|_, known| now.since(known.at) < LIFETIME);
            if self.0.len() >= MAX_VERDICTS {
                self.0.clear();
            }
        }
        let compared = ComparedPage {
            born,
            at: now,
            uses: 0,
            differs,
        };
        self.0.insert(page, compared);
    }

    /// The pages that PHP generates for members because they differ from the public ones.
    pub(super) fn differences(&self, now: Tick) -> Vec<ReportedDifference> {
        let lasting = self
            .0
            .values()
            .filter(|known| now.since(known.at) < LIFETIME);
        let mut differences: Vec<_> = lasting.filter_map(|known| known.differs.clone()).collect();
        differences.sort_by(|a, b| (&a.class, &a.path_query).cmp(&(&b.class, &b.path_query)));
        differences
    }
}

/// The maximum number of verdicts, one per page and class. They use about 1.5 MB.
const MAX_VERDICTS: usize = 16 * 1024;

/// The number of uses after which a page is compared again, with one request.
const MAX_USES: u32 = 256;

/// The time after which a page is compared again.
const LIFETIME: Duration = Duration::from_secs(3600);
