//! A miss: fetches a response for all clients that request it, or passes a single request to the upstream.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use galley_cache::entry::Entry;
use galley_cache::fill::{FillError, FillHead, FillReader, FillSharing};
use galley_cache::key::Key;
use galley_policy::cgi::Script;
use galley_policy::class::Standing;
use galley_policy::cookie;
use galley_policy::decide::{self, Backend};
use galley_policy::forward::Credentials;
use galley_policy::freshness;
use galley_policy::outcome::{MissWhy, NotStored, Outcome, PassWhy, RefusedWhy, StoreOutcome};
use galley_policy::private::changes_session;
use galley_policy::request_info::{Cacheability, Method, RequestInfo};
use galley_policy::send_file::SendFile;
use galley_policy::site::{StaleOnStatus, ValidationPolicy};
use galley_policy::storable::{self, ResponseHead};
use http::StatusCode;
use http::header::{self, HeaderName, HeaderValue};

use super::exchange::Exchange;
use super::forward::{
    admitted_pool, backend, fault_of, page_job, pass_job, pass_request, pool, switch,
};
use super::hints;
use super::lookup::{LookupPurpose, LookupResult};
use super::page;
use super::response::Response;
use super::sent_file::NamedFile;
use super::site::{PoolHandle, Services};
use super::visit;
use crate::fault::Fault;
use galley_fetch::revalidate::RefreshReason;
use galley_fetch::rfc9111::{PassedResponseKind, PassedResponseUse, variants};
use galley_fetch::{FetchResult, PageJob};
use galley_upstream::interim::InterimSender;

/// A request that goes to the upstream, with the lookup result.
pub(super) struct Miss<'a, 'h> {
    pub(super) services: &'a Services,
    pub(super) exchange: &'a mut Exchange<'h>,
    /// The script that the upstream runs, if it is FastCGI.
    pub(super) script: Option<Script>,
    pub(super) found: &'a LookupResult,
    /// Why no stored response was sent.
    pub(super) why: MissWhy,
    /// Whether the stored response is sent if the upstream fails.
    pub(super) stale_on_error: bool,
    /// See [`Miss::standing`].
    pub(super) standing: OnceCell<Standing>,
}

impl Miss<'_, '_> {
    /// The standing of the request, which counts once although a failed attempt may be followed by another.
    pub(super) fn standing(&self) -> Standing {
        let standing = || visit::standing(self.services, self.exchange, LookupPurpose::Serve);
        *self.standing.get_or_init(standing)
    }

    /// Fetches the purged fragments of the stored page and patches it; if that fails, fetches the page.
    pub(super) async fn patch(self) -> Result<Response, Fault> {
        if let Some((held, _)) = &self.found.entry {
            let pool = pool(self.exchange)?;
            let standing = self.standing();
            let page = self.page_job(&pool, standing);
            let patched = pool.fetch_thread.patch(page, Arc::clone(held)).await;
            if let Some(entry) = patched
                && let Some(response) = self.stored(entry, Outcome::Patched).await
            {
                return Ok(response);
            }
        }
        self.fetch().await
    }

    /// Fetches while purges of other nodes may be missing. Requests that arrive before the fetch is sent share it.
    pub(super) async fn fetch_while_partitioned(self) -> Result<Response, Fault> {
        if self.exchange.site.core.keys_identify_responses() {
            self.fetch().await
        } else {
            self.pass(Outcome::Pass(PassWhy::Partition)).await
        }
    }

    /// Fetches a response that may be stored, for all waiting requests.
    pub(super) async fn fetch(self) -> Result<Response, Fault> {
        let standing = self.standing();
        let pool = match admitted_pool(self.exchange, standing, Some(&self.exchange.key)) {
            Ok(pool) => pool,
            Err(fault) => return self.fall_back(fault).await,
        };
        let hinted = hints::send(self.exchange, self.found);
        let began = Instant::now();
        let fetched = self.fetch_page(&pool, standing, hinted).await;
        let (mut reader, coded, outcome, collapsed) = match fetched {
            Ok(
                FetchResult::Entry(entry)
                | FetchResult::Shared(entry)
                | FetchResult::Awaited(entry),
            ) if self.differs_by_accept(&entry.fields) => {
                return self.pass(Outcome::Pass(PassWhy::Accept)).await;
            }
            Ok(FetchResult::Entry(entry)) => return self.sent(entry, Outcome::Hit).await,
            Ok(FetchResult::Shared(entry)) => return self.sent(entry, Outcome::Shared).await,
            Ok(FetchResult::Awaited(entry)) => {
                let miss = self.miss(outcome_of(&entry), true);
                let mut response = self.sent(entry, miss).await?;
                response.upstream_time = Some(began.elapsed());
                return Ok(response);
            }
            Ok(FetchResult::HitForPass) => {
                let why = if self.found.is_partitioned() {
                    PassWhy::Partition
                } else {
                    PassWhy::Remembered
                };
                return self.pass(Outcome::Pass(why)).await;
            }
            Ok(FetchResult::Fill {
                reader,
                coded,
                outcome,
                collapsed,
            }) => (reader, coded, outcome, collapsed),
            Err(failure) => return self.fall_back(fault_of(&pool, standing, failure)).await,
        };
        let head = match reader.head().await {
            Ok(head) => head,
            Err(FillError::Unstorable(why)) => {
                let outcome = self.miss(StoreOutcome::NotStored(why), false);
                return self.pass(outcome).await;
            }
            Err(failure) => return self.fall_back(fault_of(&pool, standing, failure)).await,
        };
        if self.differs_by_accept(&head.fields) {
            return self.pass(Outcome::Pass(PassWhy::Accept)).await;
        }
        let upstream_time = began.elapsed();
        if let FillSharing::File(file) = &head.share {
            let outcome = self.miss(outcome, false);
            return self.sent_file(&head, file, outcome, upstream_time).await;
        }
        if self.stale_on_error && is_failure(head.status, self.exchange.policy().storage.stale_on) {
            return self.fall_back(FillError::Closed.into()).await;
        }
        let outcome = self.miss(with_includes(outcome, &head), collapsed);
        let mut response = if self.stale_on_error {
            // A stored response exists, so the new one is received completely before its first byte is sent: a failure stays invisible.
            match self.whole(&head, reader, coded).await {
                Ok((head, body)) => page::from_whole(self.exchange, &head, body, outcome),
                Err(failure) => return self.fall_back(fault_of(&pool, standing, failure)).await,
            }
        } else {
            match in_coding(coded).await {
                Some((head, coded)) => page::from_fill(self.exchange, &head, coded, outcome),
                None => page::from_fill(self.exchange, &head, reader, outcome),
            }
        };
        response.extra.extend(age(self.exchange, &head.share));
        response.upstream_time = Some(upstream_time);
        Ok(response)
    }

    /// Sends a page that has been stored; passes the request if there is no memory to unpack it.
    async fn sent(self, entry: Arc<Entry>, outcome: Outcome) -> Result<Response, Fault> {
        match self.stored(entry, outcome).await {
            Some(response) => Ok(response),
            None => self.pass_without_memory().await,
        }
    }

    async fn fetch_page(
        &self,
        pool: &PoolHandle,
        standing: Standing,
        hinted: Option<InterimSender>,
    ) -> Result<FetchResult, FillError> {
        let exchange = &*self.exchange;
        let fetch_page = || {
            let mut page = self.page_job(pool, standing);
            if exchange.policy().storage.validation == ValidationPolicy::Origin {
                // Interim responses go to the client that started the fetch, and not to clients that join.
                page.call.interim = hinted.or_else(|| exchange.interim());
                page.held = in_memory(self.found);
            }
            page
        };
        if self.found.is_partitioned() {
            return pool
                .fetch_thread
                .new_page(fetch_page().while_partitioned())
                .await;
        }
        let (site, info, key) = (&exchange.site.core, &exchange.info, &exchange.key);
        pool.fetch_thread.page(site, info, key, fetch_page).await
    }

    fn page_job(&self, pool: &PoolHandle, standing: Standing) -> PageJob {
        page_job(
            self.services,
            self.exchange,
            pool,
            self.script.clone(),
            standing,
            Credentials::OfClient,
        )
    }

    /// The complete new response, in a coding that this client accepts if one is being made.
    async fn whole(
        &self,
        head: &Arc<FillHead>,
        reader: FillReader,
        coded: Option<FillReader>,
    ) -> Result<(Arc<FillHead>, Bytes), FillError> {
        let body = collect(self.services, reader).await?;
        if is_broken(self.exchange, head, &body) {
            return Err(FillError::Closed);
        }
        if let Some((head, coded)) = in_coding(coded).await
            && let Ok(body) = collect(self.services, coded).await
        {
            return Ok((head, body));
        }
        Ok((Arc::clone(head), body))
    }

    /// Passes the request to the upstream; the outcome says why. With RFC 9111 the response may invalidate or update stored ones.
    pub(super) async fn pass(self, outcome: Outcome) -> Result<Response, Fault> {
        let standing = self.standing();
        let pool = match admitted_pool(self.exchange, standing, None) {
            Ok(pool) => pool,
            Err(fault) => return self.fall_back(fault).await,
        };
        if outcome == Outcome::Pass(PassWhy::Cookie) {
            note_cookies(self.exchange);
        }
        let began = Instant::now();
        let learn = passed_response_use(self.exchange, self.found);
        let session = self.exchange.session_end();
        let is_safe = self.exchange.info.method().is_safe();
        if let Some(session) = session.as_ref().filter(|_| !is_safe) {
            session.end();
        }
        let request = pass_request(self.services, self.exchange);
        let body = std::mem::take(&mut self.exchange.body);
        let switch = switch(self.services, self.exchange)?;
        let mut job = pass_job(self.exchange, &pool, request, self.script.clone(), standing);
        job.call.interim = self.exchange.interim();
        job.call.switch = switch;
        job.call.body = body;
        job.learn = learn;
        job.session = session.clone().filter(|_| !is_safe);
        let mut reader = match pool.fetch_thread.pass(job) {
            Ok(reader) => reader,
            Err(failure) => return self.fall_back(fault_of(&pool, standing, failure)).await,
        };
        let head = match reader.head().await {
            Ok(head) => head,
            Err(failure) => return self.fall_back(fault_of(&pool, standing, failure)).await,
        };
        if let Some(session) = session
            && (!is_safe || changes_session(&head.fields))
        {
            session.end();
        }
        if let FillSharing::File(file) = &head.share {
            return self.sent_file(&head, file, outcome, began.elapsed()).await;
        }
        // This includes a request that waited for another one's response, if that was an error for that request alone.
        if self.stale_on_error && is_failure(head.status, self.exchange.policy().storage.stale_on) {
            return self.fall_back(FillError::Closed.into()).await;
        }
        visit::note_session(self.services, self.exchange, head.status.as_u16());
        let mut response = page::from_fill_whole(self.exchange, &head, reader, outcome);
        response.upstream_time = Some(began.elapsed());
        Ok(response)
    }

    /// The response with the file that the upstream's response names.
    async fn sent_file(
        &self,
        head: &FillHead,
        file: &SendFile,
        outcome: Outcome,
        upstream_time: Duration,
    ) -> Result<Response, Fault> {
        let sent_file = NamedFile {
            fields: &head.fields,
            file,
        };
        // Boxed: this is rare, and its state would be part of every request.
        let sent = Box::pin(sent_file.respond(self.services, self.exchange, outcome));
        let mut response = sent.await?;
        response.upstream_time = Some(upstream_time);
        Ok(response)
    }

    /// Whether the response to a shared request is not the one that this client prefers.
    fn differs_by_accept(&self, fields: &header::HeaderMap) -> bool {
        decide::differs_by_accept(&self.exchange.info, self.exchange.policy(), fields)
    }

    fn miss(&self, outcome: StoreOutcome, collapsed: bool) -> Outcome {
        if self.found.is_partitioned() {
            return Outcome::Pass(PassWhy::Partition);
        }
        Outcome::Miss {
            why: self.why,
            outcome,
            collapsed,
        }
    }

    async fn stored(&self, entry: Arc<Entry>, outcome: Outcome) -> Option<Response> {
        page::from_entry(self.services, self.exchange, entry, outcome).await
    }

    /// Passes a request whose client accepts no coding, if there is no memory to unpack a stored page.
    async fn pass_without_memory(self) -> Result<Response, Fault> {
        let outcome = self.miss(StoreOutcome::NotStored(NotStored::Memory), false);
        self.pass(outcome).await
    }

    /// The stored response, if it may be sent; 504 if it must not be sent without revalidation (RFC 9111 section 5.2.2.2); else the failure.
    async fn fall_back(&self, fault: Fault) -> Result<Response, Fault> {
        let Some(entry) = self.found.response() else {
            return Err(fault);
        };
        if self.stale_on_error {
            let stale = Outcome::Stale(fault.stale_why());
            return self.stored(Arc::clone(entry), stale).await.ok_or(fault);
        }
        let storage = &self.exchange.policy().storage;
        if storage.stale_on == StaleOnStatus::Rfc5861
            && freshness::forbids_stale(&entry.fields, storage.fields)
        {
            return Err(Fault::new(
                RefusedWhy::MustRevalidate,
                "the upstream does not respond, and the stored response must not be sent without revalidation",
            ));
        }
        Err(fault)
    }
}

/// Refreshes a stored response in the background.
pub(super) async fn refresh(
    services: &Services,
    exchange: &Exchange<'_>,
    entry: &Arc<Entry>,
    when: RefreshReason,
) {
    let script = match super::file::find(exchange).await {
        Ok(super::file::FileMatch::Script(script)) => Some(script),
        Ok(super::file::FileMatch::Missing) => None,
        // A file has replaced the page; the stored response expires by itself.
        Ok(super::file::FileMatch::Response(_)) | Err(_) => return,
    };
    let Ok(pool) = pool(exchange) else {
        return;
    };
    if backend(exchange) == Backend::FastCgi && script.is_none() {
        return;
    }
    let (standing, credentials) = (Standing::BACKGROUND, Credentials::None);
    let mut page = page_job(services, exchange, &pool, script, standing, credentials);
    // Galley's own address and id: no data of this client is forwarded, because unkeyed input must not reach the upstream.
    page.call.client_address = exchange.own_address();
    page.call.request_id = format!("{}-refresh", exchange.request_id);
    if exchange.policy().storage.validation == ValidationPolicy::Origin {
        page.held = entry.pieces().is_none().then(|| Arc::clone(entry));
    }
    pool.fetch_thread.refresh(page, when);
}

/// The stored response, to be revalidated. One that is only on the disk is fetched again, because a 304 would have to change its
/// head there.
fn in_memory(found: &LookupResult) -> Option<Arc<Entry>> {
    let entry = found.response().filter(|entry| entry.pieces().is_none());
    entry.map(Arc::clone)
}

/// The effects of a passed request on the cache.
fn passed_response_use(exchange: &Exchange<'_>, found: &LookupResult) -> Option<PassedResponseUse> {
    if exchange.policy().storage.validation != ValidationPolicy::Origin {
        return None;
    }
    let (info, key) = (&exchange.info, || Key::new(&exchange.key));
    match (info.method(), info.cacheability()) {
        (Method::Head, Cacheability::Cacheable) => in_memory(found).map(|held| PassedResponseUse {
            key: key(),
            kind: PassedResponseKind::Head(held),
        }),
        (Method::Get, Cacheability::Cacheable) if found.response().is_none() => {
            info.range().map(|range| PassedResponseUse {
                key: Key::new(&variants::part_key(&exchange.key, range)),
                kind: PassedResponseKind::Part(key()),
            })
        }
        (Method::Post, Cacheability::Pass(PassWhy::Method)) => {
            later_get(exchange).map(|get| PassedResponseUse {
                key: key(),
                kind: PassedResponseKind::DerivedGet(Box::new(get)),
            })
        }
        _ => None,
    }
}

/// The `GET` that the stored entry of this address could answer.
fn later_get(exchange: &Exchange<'_>) -> Option<RequestInfo> {
    let get = exchange.info_of_get()?;
    (get.cacheability() == Cacheability::Cacheable && !get.has_authorization()).then_some(get)
}

/// RFC 9111 section 5.1: a response from a cache in front of the origin carries `Age`.
fn age(exchange: &Exchange<'_>, share: &FillSharing) -> Option<(HeaderName, HeaderValue)> {
    let age = match share {
        FillSharing::Shared { lifetime, .. } => lifetime.initial_age.as_secs(),
        FillSharing::Private | FillSharing::File(_) => 0,
    };
    let is_sent = exchange.policy().storage.validation == ValidationPolicy::Origin && age > 0;
    is_sent.then(|| (header::AGE, HeaderValue::from(age)))
}

/// The outcome of a stored page.
fn outcome_of(entry: &Entry) -> StoreOutcome {
    match entry.assembly() {
        Some(_) => StoreOutcome::StoredIncludes,
        None => StoreOutcome::Stored,
    }
}

/// Marks the outcome of a stored response that has ESI includes.
fn with_includes(outcome: StoreOutcome, head: &FillHead) -> StoreOutcome {
    match &head.share {
        FillSharing::Shared { inclusions, .. }
            if outcome == StoreOutcome::Stored && !inclusions.parts.is_empty() =>
        {
            StoreOutcome::StoredIncludes
        }
        FillSharing::Shared { .. } | FillSharing::Private | FillSharing::File(_) => outcome,
    }
}

/// Counts the cookies for which a request bypasses the cache.
fn note_cookies(exchange: &Exchange<'_>) {
    let (core, fields) = (&exchange.site.core, exchange.head.fields());
    let lines = fields.filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    lines
        .flat_map(|(_, line)| cookie::pairs(line))
        .filter(|pair| cookie::classify(pair.name, &core.policy) == cookie::Class::Bypass)
        .take(MAX_NOTED)
        .for_each(|pair| core.counters.cookies.note(pair.name));
}

/// Whether a stale response may be sent in place of one with this status: those of RFC 5861 section 4, and with the WordPress
/// preset every other server error, such as 508 of some hosting providers.
fn is_failure(status: StatusCode, stale_on: StaleOnStatus) -> bool {
    match stale_on {
        StaleOnStatus::ServerErrors => status.is_server_error(),
        StaleOnStatus::Rfc5861 => matches!(status.as_u16(), 500 | 502 | 503 | 504),
    }
}

/// The response as it is being compressed for this client, if it is.
async fn in_coding(coded: Option<FillReader>) -> Option<(Arc<FillHead>, FillReader)> {
    let mut coded = coded?;
    let head = coded.head().await.ok()?;
    Some((head, coded))
}

/// Whether PHP died in the middle of a page that began well.
fn is_broken(exchange: &Exchange<'_>, head: &FillHead, body: &[u8]) -> bool {
    let judged_head = ResponseHead {
        status: head.status,
        fields: &head.fields,
        response_delay: Duration::ZERO,
        now: SystemTime::UNIX_EPOCH,
    };
    storable::judge_body(&judged_head, &exchange.site.core.policy, body).is_err()
}

/// The complete body of a response that may be stored. Fails if the body is larger than the largest object in memory, or if there is
/// no memory for it.
async fn collect(services: &Services, reader: FillReader) -> Result<Bytes, FillError> {
    let memory = &services.memory;
    let room = memory.budget().try_reserve(0).ok_or(FillError::Memory)?;
    reader.whole(room, memory.max_object()).await
}

/// The maximum number of cookies that one request counts.
const MAX_NOTED: usize = 3;
