//! What a front thread asks of a fetch thread, and what it gets.

use std::sync::Arc;

use galley_cache::entry::Entry;
use galley_cache::fill::FillReader;
use galley_cache::key::Key;
use galley_policy::request_info::RequestInfo;
use galley_policy::site::StoragePolicy;

use super::site::FetchSite;
use crate::upstream::UpstreamCall;

/// A cacheable page that is wanted.
pub struct PageOrder {
    /// Whose page.
    pub site: Arc<FetchSite>,
    /// Which of the fetch thread's pools.
    pub pool: usize,
    /// Its key.
    pub key: Key,
    /// The request that wants it.
    pub facts: RequestInfo,
    /// The request for the upstream.
    pub ask: UpstreamCall,
    /// The stored response that may not be sent as it is, to be revalidated (RFC 9111 section 4.3).
    pub held: Option<Arc<Entry>>,
    /// The fragment that is wanted of it, in place of the page.
    pub fragment: Option<WantedFragment>,
}

impl PageOrder {
    /// Which responses are stored, and how.
    pub(super) fn storage(&self) -> &StoragePolicy {
        &self.site.rules.storage
    }

    /// The same for another attempt in the background.
    pub(super) fn again(&self) -> Self {
        Self {
            site: Arc::clone(&self.site),
            pool: self.pool,
            key: self.key.clone(),
            facts: self.facts.clone(),
            ask: self.ask.without_body(),
            held: self.held.clone(),
            fragment: self.fragment.clone(),
        }
    }
}

/// A request that travels whole.
pub struct PassOrder {
    /// Whose.
    pub site: Arc<FetchSite>,
    /// Which of the fetch thread's pools.
    pub pool: usize,
    /// The request.
    pub facts: RequestInfo,
    /// The whole request for the upstream.
    pub ask: UpstreamCall,
    /// What the store may learn from it.
    pub learn: Option<Learn>,
}

/// What a page order gives.
pub enum Composed {
    /// A fill to read from; `collapsed` when somebody else's order had begun it.
    Fill {
        /// The reader.
        reader: FillReader,
        /// A reader of the same page in a coding that this request takes, where that is being made.
        coded: Option<FillReader>,
        /// Whether this order joined a fill under way.
        collapsed: bool,
    },
    /// It was stored while the order travelled.
    Entry(Arc<Entry>),
    /// It was stored by somebody else's order, for which this request has waited.
    Awaited(Arc<Entry>),
    /// It was found not storable while the order travelled: ask whole.
    HitForPass,
}

/// The fragment that an order is for.
#[derive(Clone, Debug)]
pub struct WantedFragment {
    /// `galley_policy::key::fragment_id` of its definition.
    pub id: u64,
}

/// Why a copy is renewed in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It is stale.
    Stale,
    /// It is fresh, and will not be for long.
    Early,
}

/// What may be learnt from an exchange.
pub struct Learn {
    /// Where what is learnt belongs.
    pub key: Key,
    /// What it is.
    pub lesson: Lesson,
}

/// Kinds of what may be learnt.
pub enum Lesson {
    /// The part that a `Range` asks for, of this address.
    Part(Key),
    /// What a `GET` with these facts would give.
    Taught(Box<RequestInfo>),
    /// The head of this entry.
    Head(Arc<Entry>),
}

/// One run that is due.
pub struct CronOrder {
    /// Whose.
    pub site: Arc<FetchSite>,
    /// The pool that is for nothing else.
    pub pool: usize,
    /// The request for `wp-cron.php`.
    pub ask: UpstreamCall,
}
