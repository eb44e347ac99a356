//! The private fragments of a site's visitors.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use galley_policy::decide::PrivateParts;
use galley_policy::private::{PageDifference, PrivateScope};
use galley_policy::time::Tick;
use galley_sys::Lock;

use super::session::{SessionNumbers, SessionTicket, VisitorId};
use super::verdicts::{PageVerdict, PageVerdicts, ReportedDifference};
use crate::budget::MemoryBudget;
use crate::entry::Entry;
use crate::fragments::PageFragment;

/// See the module.
#[derive(Debug)]
pub struct PrivateStore {
    sessions: SessionNumbers,
    budget: MemoryBudget,
    visitors: Lock<StoredVisitors>,
    verdicts: Lock<PageVerdicts>,
    assembled: AtomicU64,
    compared: AtomicU64,
    differed: AtomicU64,
}

#[derive(Debug, Default)]
struct StoredVisitors(HashMap<u128, StoredVisitor>);

/// The stored fragments of one visitor.
#[derive(Debug)]
struct StoredVisitor {
    /// The ticket under which the fragments were generated.
    ticket: SessionTicket,
    /// The class of members; `None`: PHP does not recognize the cookies.
    class: Option<Arc<str>>,
    /// The time at which the fragments were last added to or used.
    used: Tick,
    fragments: HashMap<u128, Arc<Entry>>,
}

/// A private fragment that was generated for a visitor.
#[derive(Debug)]
pub struct OwnFragment {
    /// The name, as in the public page.
    pub name: String,
    /// The pages for which the fragment is valid.
    pub scope: PrivateScope,
    /// The bytes, tags and lifetime.
    pub entry: Entry,
}

/// A visitor's fragments for a page.
#[derive(Clone, Debug, Default)]
pub struct OwnFragments {
    /// Whether the page can be sent with the fragments.
    pub state: PrivateParts,
    /// For [`PrivateParts::Complete`]: the positions in the page, and the fragments for them.
    pub fragments: Vec<(Range<u32>, Arc<Entry>)>,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrivateCounts {
    /// Pages that were sent with private fragments.
    pub assembled: u64,
    /// Pages that were generated for a member and compared.
    pub compared: u64,
    /// Compared pages that differed.
    pub differed: u64,
    /// Visitors with stored fragments.
    pub visitors: u64,
}

impl PrivateStore {
    /// An empty store, which reserves its contents from `budget`. `secret` must be random.
    pub fn new(budget: MemoryBudget, secret: [u64; 2]) -> Self {
        Self {
            sessions: SessionNumbers::new(secret),
            budget,
            visitors: Lock::default(),
            verdicts: Lock::default(),
            assembled: AtomicU64::new(0),
            compared: AtomicU64::new(0),
            differed: AtomicU64::new(0),
        }
    }

    /// The session of a request. `variant`: `galley_policy::key::variant_id` of the request's key; `cookies`: in the format of
    /// `galley_policy::private::session_cookies`; `agent`: the browser.
    pub fn visitor(&self, variant: u64, cookies: &[u8], agent: &[u8]) -> VisitorId {
        self.sessions.visitor(variant, cookies, agent)
    }

    /// The current ticket of a visitor. Get it before generating a page for the visitor.
    pub fn ticket(&self, visitor: &VisitorId) -> SessionTicket {
        self.sessions.ticket(visitor)
    }

    /// Ends the sessions with any of the visitor's cookies: fragments that were generated for them, or are being generated, are
    /// not used any more.
    pub fn end_session(&self, visitor: &VisitorId) {
        self.sessions.end(visitor);
    }

    /// The visitor's fragments for a page. `counts`: the page will be sent. `is_valid`: whether no purge touches a fragment.
    pub fn look(
        &self,
        visitor: &VisitorId,
        page: &Entry,
        now: Tick,
        counts: bool,
        is_valid: impl Fn(&Entry) -> bool,
    ) -> OwnFragments {
        let state = |state| OwnFragments {
            state,
            fragments: Vec::new(),
        };
        if page.pieces().is_some() || private_fragments(page).next().is_none() {
            return state(PrivateParts::None);
        }
        let ticket = self.ticket(visitor);
        let mut visitors = self.visitors.lock();
        let kept = visitors.0.get_mut(&visitor.id);
        let Some(kept) = kept.filter(|kept| kept.ticket == ticket) else {
            return state(PrivateParts::Missing);
        };
        let Some(class) = &kept.class else {
            let is_known = now.since(kept.used) < UNRECOGNIZED_TTL;
            return state(if is_known {
                PrivateParts::None
            } else {
                PrivateParts::Missing
            });
        };
        let judged = self.page_of_class(page, class);
        match self.verdicts.lock().of(judged, page.born, now, counts) {
            PageVerdict::Unknown => return state(PrivateParts::Missing),
            PageVerdict::Differs => return state(PrivateParts::Differ),
            PageVerdict::Same => {}
        }
        kept.used = now;
        let own = |fragment: &PageFragment| {
            let label = &fragment.version.label;
            // The public page does not tell on which pages a member's version is the same.
            let mut scopes = [PrivateScope::Page, PrivateScope::Session].into_iter();
            let entry = scopes
                .find_map(|scope| kept.fragments.get(&self.name(label, scope, page)))
                .filter(|entry| entry.lifetime.fresh > entry.age(now) && is_valid(entry))?;
            Some((fragment.range.clone(), Arc::clone(entry)))
        };
        let fragments: Option<Vec<_>> = private_fragments(page).map(own).collect();
        fragments.map_or(state(PrivateParts::Missing), |fragments| OwnFragments {
            state: PrivateParts::Complete,
            fragments,
        })
    }

    /// Stores the fragments that were generated for a visitor with a page, unless the session has ended since `ticket`.
    /// `class`: the class of members; `None`: PHP does not recognize the cookies.
    pub fn keep(
        &self,
        visitor: &VisitorId,
        ticket: SessionTicket,
        class: Option<&str>,
        page: &Entry,
        fragments: Vec<OwnFragment>,
        now: Tick,
    ) {
        let mut visitors = self.visitors.lock();
        if self.ticket(visitor) != ticket {
            return;
        }
        let fragments = fragments.into_iter().filter_map(|own| {
            let name = self.name(&own.name, own.scope, page);
            self.reserve_for(&mut visitors, visitor, &own.entry)
                .then(|| (name, Arc::new(own.entry)))
        });
        let fragments: Vec<_> = fragments.collect();
        if visitors.0.len() >= MAX_VISITORS && !visitors.0.contains_key(&visitor.id) {
            visitors.evict(visitor.id);
        }
        let new = || StoredVisitor {
            ticket,
            class: class.map(Arc::from),
            used: now,
            fragments: HashMap::new(),
        };
        let kept = visitors.0.entry(visitor.id).or_insert_with(new);
        if kept.ticket != ticket || kept.class.as_deref() != class {
            *kept = new();
        }
        kept.used = now;
        if kept.fragments.len() + fragments.len() > MAX_FRAGMENTS {
            kept.fragments.clear();
        }
        kept.fragments.extend(fragments);
    }

    /// Records the result of comparing a page with one that was generated for a member of this class.
    pub fn judge(&self, page: &Entry, class: &str, difference: Option<PageDifference>, now: Tick) {
        self.compared.fetch_add(1, Ordering::Relaxed);
        if difference.is_some() {
            self.differed.fetch_add(1, Ordering::Relaxed);
        }
        let reported = difference.map(|difference| ReportedDifference {
            class: class.into(),
            path_query: page.scopes.path_query.clone(),
            difference,
        });
        let judged = self.page_of_class(page, class);
        self.verdicts.lock().note(judged, page.born, now, reported);
    }

    /// Counts a page that is sent with private fragments.
    pub fn note_assembled(&self) {
        self.assembled.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes visitors whose last visit was longer ago than the lifetime of any fragment.
    pub fn sweep(&self, now: Tick) {
        let mut visitors = self.visitors.lock();
        visitors
            .0
            .retain(|_, kept| now.since(kept.used) < VISITOR_TTL);
    }

    /// The pages that PHP generates for members because they differ from the public ones.
    pub fn differences(&self, now: Tick) -> Vec<ReportedDifference> {
        self.verdicts.lock().differences(now)
    }

    /// Counts since the start.
    pub fn counts(&self) -> PrivateCounts {
        PrivateCounts {
            assembled: self.assembled.load(Ordering::Relaxed),
            compared: self.compared.load(Ordering::Relaxed),
            differed: self.differed.load(Ordering::Relaxed),
            visitors: self.visitors.lock().0.len() as u64,
        }
    }

    /// Reserves memory for a fragment. Evicts other visitors if needed.
    fn reserve_for(
        &self,
        visitors: &mut StoredVisitors,
        visitor: &VisitorId,
        entry: &Entry,
    ) -> bool {
        for _ in 0..MAX_EVICTED {
            if entry.reserve(&self.budget).is_ok() {
                return true;
            }
            if !visitors.evict(visitor.id) {
                return false;
            }
        }
        false
    }

    fn name(&self, name: &str, scope: PrivateScope, page: &Entry) -> u128 {
        match scope {
            PrivateScope::Session => self.sessions.hash(&[b"session", name.as_bytes()]),
            PrivateScope::Page => {
                let key = page.key.bytes();
                self.sessions.hash(&[b"page", name.as_bytes(), key])
            }
        }
    }

    fn page_of_class(&self, page: &Entry, class: &str) -> u128 {
        self.sessions
            .hash(&[b"class", page.key.bytes(), class.as_bytes()])
    }
}

/// Ends a session. Called before a request that may change something is sent, and after it has completed.
#[derive(Clone, Debug)]
pub struct SessionEnd {
    store: Arc<PrivateStore>,
    visitor: VisitorId,
}

impl SessionEnd {
    /// The end of this visitor's session.
    pub fn of(store: &Arc<PrivateStore>, visitor: VisitorId) -> Self {
        Self {
            store: Arc::clone(store),
            visitor,
        }
    }

    /// See [`PrivateStore::end_session`].
    pub fn end(&self) {
        self.store.end_session(&self.visitor);
    }
}

impl StoredVisitors {
    /// Removes the visitor with the oldest visit among a few visitors, but not `kept`. Returns false if there is none.
    fn evict(&mut self, kept: u128) -> bool {
        let others = self.0.iter().filter(|(id, _)| **id != kept);
        let oldest = others
            .take(SAMPLE)
            .min_by_key(|(_, kept)| kept.used)
            .map(|(id, _)| *id);
        oldest.is_some_and(|id| self.0.remove(&id).is_some())
    }
}

/// The private fragments of a page, in the order of the body.
fn private_fragments(page: &Entry) -> impl Iterator<Item = &PageFragment> {
    let fragments = page.fragments().iter();
    fragments.filter(|fragment| fragment.version.private_scope().is_some())
}

/// The maximum number of visitors of one site.
const MAX_VISITORS: usize = 32 * 1024;

/// The maximum number of fragments of one visitor.
const MAX_FRAGMENTS: usize = 512;

/// The number of visitors from which the one with the oldest visit is evicted.
const SAMPLE: usize = 8;

/// The maximum number of visitors that are evicted for one fragment.
const MAX_EVICTED: usize = 8;

/// How long the store remembers that PHP does not recognize some cookies.
const UNRECOGNIZED_TTL: Duration = Duration::from_secs(60);

/// Longer than the lifetime of any fragment.
const VISITOR_TTL: Duration = Duration::from_secs(900);
