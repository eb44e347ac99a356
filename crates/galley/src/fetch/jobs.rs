//! Jobs that front threads send to a fetch thread, and their results.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use galley_cache::entry::Entry;
use galley_cache::fill::FillReader;
use galley_cache::fragments::FragmentVersion;
use galley_cache::key::Key;
use galley_cache::private::SessionEnd;
use galley_cluster::FetchToken;
use galley_policy::class::Class;
use galley_policy::esi::target::IncludeRefused;
use galley_policy::key::read_key;
use galley_policy::outcome::{NotStored, StoreOutcome};
use galley_policy::request_info::RequestInfo;
use galley_policy::site::{Policy, StoragePolicy};
use galley_policy::storable::{self, ResponseHead};
use tokio::sync::Semaphore;

use super::patch_progress::PatchProgress;
use super::site::FetchSite;
use crate::sys;
use crate::upstream::UpstreamCall;

/// A cacheable page that is wanted.
pub struct PageJob {
    /// Whose page.
    pub site: Arc<FetchSite>,
    /// Which of the fetch thread's pools.
    pub pool: usize,
    /// Its key.
    pub key: Key,
    /// The request that wants it.
    pub info: RequestInfo,
    /// The request for the upstream.
    pub call: UpstreamCall,
    /// The stored response that may not be sent as it is, to be revalidated (RFC 9111 section 4.3).
    pub held: Option<Arc<Entry>>,
    /// `galley_policy::key::fragment_id` of the fragments that are wanted in place of the page; none: the page.
    pub fragments: Box<[u64]>,
    /// How deep it is nested in the pages that include it; 0: it is requested by itself.
    pub depth: u8,
    /// Whether the response may be stored, if it allows that.
    pub may_store: bool,
    /// Whether only a response whose request is sent after this job has arrived answers it.
    pub is_anew: bool,
    /// Finds what its ESI includes request, on a site that has any.
    pub includes: Option<Arc<dyn IncludeLookup>>,
}

impl PageJob {
    /// Which responses are stored, and how.
    pub(super) fn storage(&self) -> &StoragePolicy {
        &self.site.rules.storage
    }

    /// The same while purges of other nodes may be missing: nothing stored answers it, its response is not stored, and it shares a fetch
    /// only with jobs that have arrived before the request is sent. By RFC 9111, where a fetch may be for another variant, with none.
    #[must_use]
    pub fn cut_off(self) -> Self {
        let is_anew = self.site.keys_say_all();
        let random: [u8; 8] = if is_anew { [0; 8] } else { sys::random_bytes() };
        Self {
            key: Key::new(&[self.key.bytes(), b"\0anew", &random].concat()),
            may_store: false,
            is_anew,
            ..self
        }
    }

    /// The same for another attempt in the background.
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
            is_anew: self.is_anew,
            includes: self.includes.clone(),
        }
    }

    /// The same without anything of the client whose request it was.
    pub(super) fn in_background(&self) -> Self {
        let mut job = self.again();
        job.call.class = Class::Background;
        job.call.client_address = Ipv4Addr::LOCALHOST.into();
        job.call.client_port = 0;
        job.call.trace = None;
        job.call.request_id = format!("{}-fragments", job.call.request_id);
        job
    }

    /// How the body of the response is evaluated: an include is not a whole page.
    pub(super) fn body_judge(&self) -> BodyJudge {
        match self.depth {
            0 => storable::judge_body,
            _ => storable::judge_include,
        }
    }

    /// What the keys of its site have at their end.
    pub(super) fn site_mark(&self) -> &[u8] {
        read_key(self.key.bytes()).map_or(&[], |parts| parts.rest)
    }
}

/// Evaluates a complete body.
type BodyJudge = fn(&ResponseHead<'_>, &Policy, &[u8]) -> Result<(), NotStored>;

/// A request that bypasses the cache.
pub struct PassJob {
    /// Whose.
    pub site: Arc<FetchSite>,
    /// Which of the fetch thread's pools.
    pub pool: usize,
    /// The request.
    pub info: RequestInfo,
    /// The whole request for the upstream.
    pub call: UpstreamCall,
    /// What the store may learn from it.
    pub learn: Option<LearnFromPass>,
    /// Whether Galley reads the response itself: it is plain, with the plugin's fields.
    pub is_read_here: bool,
    /// The session that it may change.
    pub session: Option<SessionEnd>,
    /// Finds what the ESI includes of its response request, on a site that has any.
    pub includes: Option<Arc<dyn IncludeLookup>>,
}

/// A page with ESI includes, as far as they depend on it.
pub struct IncludingPage {
    /// Whose page.
    pub site: Arc<FetchSite>,
    /// The request for it.
    pub info: RequestInfo,
    /// The request that was sent for it: includes are requested in the same name.
    pub call: UpstreamCall,
    /// How deep it is nested itself.
    pub depth: u8,
    /// Finds what its includes request.
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

/// What there is for an include.
pub enum IncludeFound {
    /// A fresh response is stored.
    Stored(Arc<Entry>),
    /// It has to be fetched.
    Fetch {
        /// The fetch; its `depth` is not set.
        job: Box<PageJob>,
        /// The stored response that is used if that fails.
        stale: Option<Arc<Entry>>,
    },
}

/// See [`IncludeLookup::look_up`].
pub type IncludeLookupFuture<'a> =
    Pin<Box<dyn Future<Output = Result<IncludeFound, IncludeRefused>> + 'a>>;

/// Finds what the includes of one site request. Implemented above, where hosts, access control and files are known.
pub trait IncludeLookup: Send + Sync {
    /// What is stored or has to be fetched for an address that a page includes, unless the page may not include it.
    fn look_up<'a>(&'a self, page: &'a IncludingPage, address: &'a str) -> IncludeLookupFuture<'a>;
}

/// What a page job gives.
pub enum Fetched {
    /// A fill to read from; `collapsed` when another request's job had begun it.
    Fill {
        /// The reader.
        reader: FillReader,
        /// A reader of the same page in a coding that this request accepts, if that is being made.
        coded: Option<FillReader>,
        /// Whether the page is stored, as far as is known by now.
        outcome: StoreOutcome,
        /// Whether this job joined a fill in progress.
        collapsed: bool,
    },
    /// It was stored while the job was queued.
    Entry(Arc<Entry>),
    /// Another node had fetched it.
    Shared(Arc<Entry>),
    /// It was stored by another request's job, for which this request has waited.
    Awaited(Arc<Entry>),
    /// It was found not storable while the job was queued: forward the request as it is.
    HitForPass,
}

/// Why a copy is renewed in the background.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// It is stale.
    Stale,
    /// It is fresh, and will not be for long.
    Early,
    /// There is none, and nobody waits for one.
    Spare,
}

/// What may be stored from an exchange.
pub struct LearnFromPass {
    /// The key for it.
    pub key: Key,
    /// Its kind.
    pub lesson: PassLesson,
}

/// The kinds of what may be stored.
pub enum PassLesson {
    /// The requested `Range` of this address.
    Part(Key),
    /// What a `GET` like this would give.
    Taught(Box<RequestInfo>),
    /// The head of this entry.
    Head(Arc<Entry>),
}

/// One run that is due.
pub struct CronJob {
    /// Whose.
    pub site: Arc<FetchSite>,
    /// The pool that is for nothing else.
    pub pool: usize,
    /// The request for `wp-cron.php`.
    pub call: UpstreamCall,
}

/// Fragments that are being rendered, by site and id.
pub(super) type Renderings = HashMap<(usize, u64), RenderingInProgress>;

/// A fragment that is being rendered.
pub(super) struct RenderingInProgress {
    /// Closed when the rendering has ended.
    pub(super) end: Rc<Semaphore>,
    /// The right to render it for all nodes of a cluster.
    pub(super) token: Option<FetchToken>,
}

/// New fragments of pages, by site and variant.
pub(super) type NewFragments = HashMap<(usize, u64), Vec<Arc<FragmentVersion>>>;

/// A site whose pages are patched in the background.
pub(super) struct PatchedSite {
    pub(super) site: Arc<FetchSite>,
    /// For each variant of its pages, a request for one of them.
    pub(super) variants: HashMap<u64, PageJob>,
    pub(super) progress: PatchProgress,
}
