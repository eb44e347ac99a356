//! Jobs that front threads send to a fetch thread, and their results.

use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;

use galley_cache::entry::Entry;
use galley_cache::fill::FillReader;
use galley_cache::key::Key;
use galley_cache::private::SessionEnd;
use galley_policy::class::Standing;
use galley_policy::esi::target::IncludeRefused;
use galley_policy::key::read_key;
use galley_policy::outcome::{NotStored, StoreOutcome};
use galley_policy::request_info::RequestInfo;
use galley_policy::site::{Policy, StoragePolicy};
use galley_policy::storable::{self, ResponseHead};

use super::site::FetchSite;
use galley_upstream::UpstreamCall;

/// The fetch of a page that may be stored.
pub struct PageJob {
    /// The site of the page.
    pub site: Arc<FetchSite>,
    /// The pool of the upstream, by its index in the fetch thread.
    pub pool: usize,
    /// The cache key.
    pub key: Key,
    /// The client's request.
    pub info: RequestInfo,
    /// The request for the upstream.
    pub call: UpstreamCall,
    /// The stored response that must be revalidated (RFC 9111 section 4.3).
    pub held: Option<Arc<Entry>>,
    /// `galley_policy::key::fragment_id` of the fragments to render in place of the page; empty: the page.
    pub fragments: Box<[u64]>,
    /// The depth of an include; 0: the page is not included by another one.
    pub depth: u8,
    /// Whether the response may be stored, if it permits that.
    pub may_store: bool,
    /// Whether the response must be to a request that is sent after this job was received.
    pub needs_new_response: bool,
    /// Finds the ESI includes of the page, on a site that permits them.
    pub includes: Option<Arc<dyn IncludeLookup>>,
}

impl PageJob {
    /// Which responses are stored, and how.
    pub(super) fn storage(&self) -> &StoragePolicy {
        &self.site.policy.storage
    }

    /// The same job while purges of other nodes may be missing: no stored response answers it, its response is not stored, and it shares a
    /// fetch only with jobs that arrive before the request is sent. With RFC 9111, where a fetch may be for another variant, it shares none.
    #[must_use]
    pub fn while_partitioned(self) -> Self {
        let needs_new_response = self.site.keys_identify_responses();
        let random: [u8; 8] = if needs_new_response {
            [0; 8]
        } else {
            galley_sys::random_bytes()
        };
        Self {
            key: Key::new(&[self.key.bytes(), b"\0anew", &random].concat()),
            may_store: false,
            needs_new_response,
            ..self
        }
    }

    /// The same job for another attempt in the background.
    pub(super) fn again(&self) -> Self {
        Self {
            site: Arc::clone(&self.site),
            pool: self.pool,
            key: self.key.clone(),
            info: self.info.clone(),
            call: self.call.without_body(),
            held: self.held.clone(),
            fragments: self.fragments.clone(),
            depth: self.depth,
            may_store: self.may_store,
            needs_new_response: self.needs_new_response,
            includes: self.includes.clone(),
        }
    }

    /// The same job without any data of the client.
    pub(super) fn in_background(&self) -> Self {
        let mut job = self.again();
        job.call.standing = Standing::BACKGROUND;
        job.call.client_address = Ipv4Addr::LOCALHOST.into();
        job.call.client_port = 0;
        job.call.trace = None;
        job.call.request_id = format!("{}-fragments", job.call.request_id);
        job
    }

    /// The evaluation of the body: an include is not a whole page.
    pub(super) fn body_judge(&self) -> BodyJudge {
        match self.depth {
            0 => storable::judge_body,
            _ => storable::judge_include,
        }
    }

    /// The site's mark at the end of each of its keys.
    pub(super) fn site_mark(&self) -> &[u8] {
        read_key(self.key.bytes()).map_or(&[], |parts| parts.rest)
    }
}

/// Evaluates a complete body.
type BodyJudge = fn(&ResponseHead<'_>, &Policy, &[u8]) -> Result<(), NotStored>;

/// A request that bypasses the cache.
pub struct PassJob {
    /// The site of the request.
    pub site: Arc<FetchSite>,
    /// The pool of the upstream, by its index in the fetch thread.
    pub pool: usize,
    /// The client's request.
    pub info: RequestInfo,
    /// The complete request for the upstream.
    pub call: UpstreamCall,
    /// What may be stored from the response.
    pub learn: Option<PassedResponseUse>,
    /// Whether Galley reads the response itself, so that it must be plain and have the plugin's fields.
    pub is_read_here: bool,
    /// The session that the request may change.
    pub session: Option<SessionEnd>,
    /// Finds the ESI includes of the response, on a site that permits them.
    pub includes: Option<Arc<dyn IncludeLookup>>,
}

/// A page with ESI includes: the properties that its includes need.
pub struct IncludingPage {
    /// The site of the page.
    pub site: Arc<FetchSite>,
    /// The client's request for the page.
    pub info: RequestInfo,
    /// The request that was sent for the page. Its includes are requested for the same client.
    pub call: UpstreamCall,
    /// The depth of the page, if it is an include itself.
    pub depth: u8,
    /// Finds the page's includes.
    pub(super) lookup: Option<Arc<dyn IncludeLookup>>,
}

impl IncludingPage {
    /// The page of a fetch.
    pub(super) fn of_fetch(job: &PageJob) -> Self {
        Self {
            site: Arc::clone(&job.site),
            info: job.info.clone(),
            call: job.call.without_body(),
            depth: job.depth,
            lookup: job.includes.clone(),
        }
    }

    /// The page of a request that bypasses the cache.
    pub(super) fn of_pass(job: &PassJob) -> Self {
        Self {
            site: Arc::clone(&job.site),
            info: job.info.clone(),
            call: job.call.without_body(),
            depth: 0,
            lookup: job.includes.clone(),
        }
    }
}

/// The result of looking up an include.
pub enum IncludeFound {
    /// A fresh response is stored.
    Stored(Arc<Entry>),
    /// It must be fetched.
    Fetch {
        /// The fetch; its `depth` is not set.
        job: Box<PageJob>,
        /// The stored response to use if the fetch fails.
        stale: Option<Arc<Entry>>,
    },
}

/// See [`IncludeLookup::look_up`].
pub type IncludeLookupFuture<'a> =
    Pin<Box<dyn Future<Output = Result<IncludeFound, IncludeRefused>> + 'a>>;

/// Finds the includes of one site. The `request` module implements it, because it knows hosts, access control and files.
pub trait IncludeLookup: Send + Sync {
    /// Looks up an address that a page includes, unless the page may not include it.
    fn look_up<'a>(&'a self, page: &'a IncludingPage, address: &'a str) -> IncludeLookupFuture<'a>;
}

/// The result of a page job.
pub enum FetchResult {
    /// A fill to read from; `collapsed` if another request's job had started it.
    Fill {
        /// The reader.
        reader: FillReader,
        /// A reader of the same page in a coding that this request accepts, if one is being made.
        coded: Option<FillReader>,
        /// Whether the page is stored, as far as known.
        outcome: StoreOutcome,
        /// Whether this job joined a fill in progress.
        collapsed: bool,
    },
    /// The page was stored while the job was queued.
    Entry(Arc<Entry>),
    /// Another node had fetched it.
    Shared(Arc<Entry>),
    /// It was stored by the job of another request, for which this one has waited.
    Awaited(Arc<Entry>),
    /// The page was found not storable while the job was queued: the request must be passed.
    HitForPass,
}

/// Why a page is refreshed in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefreshReason {
    /// It is stale.
    Stale,
    /// It expires soon.
    Early,
    /// It is not stored, and no client waits for it.
    Spare,
}

/// What may be stored from a passed request.
pub struct PassedResponseUse {
    /// The key to store it under.
    pub key: Key,
    /// The kind of the stored response.
    pub kind: PassedResponseKind,
}

/// The kinds of what may be stored from a passed request.
pub enum PassedResponseKind {
    /// The requested `Range` of this address.
    Part(Key),
    /// The response that a `GET` of the same address would get.
    DerivedGet(Box<RequestInfo>),
    /// The head of this entry.
    Head(Arc<Entry>),
}

/// One run of the scheduler.
pub struct CronJob {
    /// The site.
    pub site: Arc<FetchSite>,
    /// The pool that is used for nothing else.
    pub pool: usize,
    /// The request for `wp-cron.php`.
    pub call: UpstreamCall,
}
