//! The purges that a successful unsafe request causes (RFC 9111 section 4.4), and their rate limits.
//!
//! Anybody can send a `POST` as often as their connection allows. So each page and each client has a token bucket. When the
//! page's bucket is empty, a purge is delayed, and one delayed purge serves all that follow in that time, so that the last
//! change is visible. When the client's bucket is empty, the purge is dropped. Delayed purges are in memory only: a stop
//! publishes them, a crash loses them. Purges in a response of the upstream are not limited here.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use galley_policy::access::RateLimit;
use galley_policy::class::Network;
use galley_policy::purge::{self, Purge, Scope, Strength};
use galley_policy::site::UnsafeMethodPurges;
use galley_policy::storable;
use galley_policy::time::Tick;
use galley_policy::wordpress;
use http::header;

use super::{FetchSite, PassJob, publish_of_method};
use galley_access::Buckets;
use galley_upstream::IncomingResponse;

/// The purges that the unsafe requests of one fetch thread cause.
#[derive(Default)]
pub(super) struct Invalidations {
    /// Created at the first unsafe request, since they need half a megabyte.
    buckets: OnceCell<Buckets>,
    delayed: RefCell<HashMap<Rc<PageScope>, Delayed>>,
}

/// A page of a site: the site's name, and the scope of a URL.
type PageScope = (String, Scope);

struct Delayed {
    site: Arc<FetchSite>,
    strength: Strength,
}

/// The purges of one request.
#[derive(Default)]
pub(super) struct Invalidation {
    /// To be published at once, and again when the exchange has ended.
    pub(super) now: Vec<Purge>,
    /// To be published some time after the exchange has ended.
    pub(super) later: Vec<Purge>,
}

impl Invalidations {
    /// The purges that the request of `job` causes, now that the head of its response has been received.
    pub(super) fn of(&self, job: &PassJob, incoming: &IncomingResponse, now: Tick) -> Invalidation {
        let succeeded = incoming.status.is_success() || incoming.status.is_redirection();
        let policy = &job.site.policy;
        let strength = purge::invalidation(&job.info, &incoming.fields, policy);
        let (true, Some(strength)) = (succeeded, strength) else {
            return Invalidation::default();
        };
        let name = job.site.name.as_str();
        let purges = scopes(job, incoming).into_iter();
        let purges = purges.map(|scope| Purge { scope, strength });
        // A purge that is already delayed costs nothing more.
        let (later, fresh) = purges.partition(|purge| self.is_delayed(name, &purge.scope));
        let mut invalidation = Invalidation { now: fresh, later };
        if invalidation.now.is_empty() {
            return invalidation;
        }
        if !self.client_may_purge(job, now) {
            invalidation.now.clear();
            return invalidation;
        }
        let exceeds_limit =
            |purge: &mut Purge| !self.take_token(&("page", name, &purge.scope), page_limit(), now);
        invalidation
            .later
            .extend(invalidation.now.extract_if(.., exceeds_limit));
        invalidation
    }

    /// Publishes purges after [`DELAY`], each page's once. Called when the exchange that caused them has ended.
    pub(super) fn delay(self: &Rc<Self>, site: &Arc<FetchSite>, purges: Vec<Purge>) {
        for purge in purges {
            let page = Rc::new((site.name.clone(), purge.scope));
            let mut delayed = self.delayed.borrow_mut();
            if let Some(known) = delayed.get_mut(&page) {
                if purge.strength == Strength::Hard {
                    known.strength = Strength::Hard;
                }
                continue;
            }
            if delayed.len() >= MAX_DELAYED {
                tracing::debug!(site = site.name, scope = %page.1, "not purged: too many purges are delayed");
                continue;
            }
            let site = Arc::clone(site);
            let strength = purge.strength;
            delayed.insert(Rc::clone(&page), Delayed { site, strength });
            let this = Rc::clone(self);
            tokio::task::spawn_local(async move {
                tokio::time::sleep(DELAY).await;
                this.publish(&page).await;
            });
        }
    }

    /// Publishes the delayed purges at once.
    pub(super) async fn flush(&self) {
        let pages: Vec<Rc<PageScope>> = self.delayed.borrow().keys().cloned().collect();
        for page in pages {
            self.publish(&page).await;
        }
    }

    async fn publish(&self, page: &PageScope) {
        let delayed = self.delayed.borrow_mut().remove(page);
        let Some(Delayed { site, strength }) = delayed else {
            return;
        };
        let scope = page.1.clone();
        publish_of_method(&site, &[Purge { scope, strength }])
            .wait(&site)
            .await;
    }

    fn is_delayed(&self, site: &str, scope: &Scope) -> bool {
        self.delayed
            .borrow()
            .keys()
            .any(|page| page.0 == site && page.1 == *scope)
    }

    /// Whether the client may purge once more. Takes one token of the client.
    fn client_may_purge(&self, job: &PassJob, now: Tick) -> bool {
        let name = job.site.name.as_str();
        let client = Network::of(job.call.client_address);
        let limit = client_limit(job.site.policy.unsafe_methods);
        let is_allowed = self.take_token(&("client", name, client), limit, now);
        if !is_allowed {
            tracing::debug!(site = name, "not purged: its client purges too often");
        }
        is_allowed
    }

    fn take_token(&self, owner: &impl Hash, limit: Option<RateLimit>, now: Tick) -> bool {
        let buckets = self.buckets.get_or_init(Buckets::new);
        limit.is_none_or(|limit| buckets.take(owner, &limit, now).is_ok())
    }
}

/// The pages that a successful unsafe request has certainly changed: the requested page, and those that its response names.
fn scopes(job: &PassJob, incoming: &IncomingResponse) -> Vec<Scope> {
    let policy = &job.site.policy;
    let url_scope = |path, query| Scope::Url {
        host: Some(job.info.host().to_owned()),
        path,
        query,
    };
    // Nothing is ever stored there, and the purges would write to the disk for each of the editor's heartbeats.
    let is_never_stored =
        |path: &[u8]| policy.urls.has_wordpress_paths && wordpress::is_bypass_path(path);
    let mut scopes = Vec::new();
    if !is_never_stored(job.info.decoded_path()) {
        let query = job.info.query().map(<[u8]>::to_vec);
        scopes.push(url_scope(job.info.path().to_vec(), query));
    }
    for name in [header::LOCATION, header::CONTENT_LOCATION] {
        let address = incoming
            .fields
            .get(name)
            .and_then(|value| storable::resolve(&job.info, value.as_bytes(), policy));
        // A site may not purge pages of another host (RFC 9111 section 4.4).
        let Some(address) = address.filter(|address| address.is_on_host_of(&job.info)) else {
            continue;
        };
        let scope = url_scope(address.path, address.query);
        let is_page = matches!(&scope, Scope::Url { path, .. } if !is_never_stored(path));
        if is_page && !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    scopes
}

/// The limit for one page: five purges at once, since people save more than once, then one every five seconds.
fn page_limit() -> Option<RateLimit> {
    RateLimit::new(1, DELAY.as_secs(), 5)
}

/// The limit for one client. Without a preset, programs use whole interfaces through Galley, and only section 4.4 defines what they
/// changed.
fn client_limit(purges: UnsafeMethodPurges) -> Option<RateLimit> {
    match purges {
        UnsafeMethodPurges::Softly => RateLimit::new(30, 60, 20),
        UnsafeMethodPurges::Always => RateLimit::new(10, 1, 1_000),
    }
}

/// The time from the end of an exchange to a delayed purge.
const DELAY: Duration = Duration::from_secs(5);

/// The maximum number of delayed purges of one fetch thread. Each needs a few hundred bytes, and at most as many as a request head.
const MAX_DELAYED: usize = 256;
