//! The audit of a stored page: PHP generates it again, and it must equal the stored one.
//!
//! The request is the one of a background refresh: a function of the key, from Galley's own address, in the class of background
//! work. Its id begins with `audit-`. It goes past the cache, so it stores, warms and trains nothing; what it reports is purged, as with
//! any response. A response that would not be stored gives no verdict. It is no visit: the access log and the outcomes do not
//! have it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::entry::{Entry, EntryKind, Scopes};
use galley_cache::fill::{FillError, FillHead, FillSharing};
use galley_cache::purge_table::{FillPurgeState, Validity};
use galley_policy::audit::{AuditResult, NoVerdict, PageCopy, difference, verdict};
use galley_policy::cgi::Script;
use galley_policy::class::Standing;
use galley_policy::forward::Client;
use galley_policy::fragments;
use galley_policy::key::{KeyParts, read_key};
use galley_policy::request_info::{Cacheability, Device, RequestInfo, RequestLineInfo};
use galley_policy::route::canonical_host;
use galley_policy::storable::{self, ResponseHead, Storability};
use galley_policy::tags::{self, Tags};
use http::StatusCode;

use super::forward::shared_request;
use super::own_call::script_of;
use super::site::{Services, Site, Upstream};
use super::site_mark;
use galley_fetch::PassJob;
use galley_upstream::body::RequestBody;
use galley_upstream::{ServerEligibility, UpstreamCall};

/// What the first generation of a page shows.
#[derive(Debug)]
pub enum FirstLook {
    /// The result: the page is the same, or there is no verdict.
    Known(AuditResult),
    /// It differs. A purge may follow shortly, so [`confirm`] must be called some seconds later.
    Differs,
}

/// Whether the pages of a site can be audited: one request determines each of them, and an upstream generates them.
pub fn can_be_audited(site: &Site) -> bool {
    site.core.keys_identify_responses() && !matches!(site.upstream, Upstream::Files)
}

/// Whether an audit would delay nobody: each upstream of the site has a healthy server, no request waits, and less than half of the
/// slots are taken.
pub fn has_idle_upstream(site: &Site) -> bool {
    site.upstream_stats().iter().all(|stats| {
        let mut servers = stats.servers().iter();
        let is_up = servers.any(|one| one.state.eligibility() == ServerEligibility::Up);
        is_up && stats.has_spare_slots()
    })
}

/// Whether visitors would get this entry now without anything being asked, and it can be compared.
pub fn is_in_use(services: &Services, site: &Site, entry: &Entry) -> bool {
    let now = services.clock.tick();
    entry.kind == EntryKind::Page
        // Otherwise purges of other nodes may be missing.
        && services.lease.holds(now)
        && entry.pieces().is_none()
        && matches!(
            entry.status,
            StatusCode::OK | StatusCode::NOT_FOUND | StatusCode::GONE
        )
        && site_mark(entry.key.bytes()) == Some(site.mark)
        && entry.age(now) < entry.lifetime.fresh
        && site.purges.validity_waiting(entry) == Validity::Valid
}

/// Has a page generated once, and compares it.
pub async fn look(services: &Services, site: &Arc<Site>, entry: &Arc<Entry>) -> FirstLook {
    let generated = match generate(services, site, entry).await {
        Ok(generated) => generated,
        Err(why) => return FirstLook::Known(AuditResult::None(why)),
    };
    let stored = Arc::clone(entry);
    let differs = compare(site, stored, move |stored| {
        difference(stored, generated.copy()).is_some()
    });
    match differs.await {
        Some(false) => FirstLook::Known(AuditResult::Same),
        Some(true) => FirstLook::Differs,
        None => FirstLook::Known(AuditResult::None(NoVerdict::Failed)),
    }
}

/// Has a page that differed generated twice in a row. Only if both agree, and no purge touches the page, it is out of date.
pub async fn confirm(services: &Services, site: &Arc<Site>, entry: &Arc<Entry>) -> AuditResult {
    if !is_current(services, site, entry) {
        return AuditResult::None(NoVerdict::Purged);
    }
    let (first, second) = match generate_twice(services, site, entry).await {
        Ok(both) => both,
        Err(why) => return AuditResult::None(why),
    };
    let touched = |one: &Generated| {
        site.purges.newer_than(first.born, one.scopes.touch()) != FillPurgeState::No
    };
    let is_purged = touched(&first) || touched(&second);
    let judged = compare(site, Arc::clone(entry), move |stored| {
        verdict(stored, Ok(first.copy()), Ok(second.copy()))
    });
    let result = judged.await.unwrap_or(AuditResult::None(NoVerdict::Failed));
    if is_purged || !is_current(services, site, entry) {
        return AuditResult::None(NoVerdict::Purged);
    }
    match result {
        AuditResult::Changed(change) if entry.lifetime.fresh <= TIMED => {
            AuditResult::Varies(change)
        }
        result => result,
    }
}

async fn generate_twice(
    services: &Services,
    site: &Arc<Site>,
    entry: &Entry,
) -> Result<(Generated, Generated), NoVerdict> {
    let first = generate(services, site, entry).await?;
    Ok((first, generate(services, site, entry).await?))
}

/// A page that lives no longer shows something that changes with time or past the plugin's sight, such as "5 minutes ago", and may be as
/// old as its lifetime: it is not out of date.
const TIMED: Duration = Duration::from_secs(3600);

/// Whether visitors still get this copy.
fn is_current(services: &Services, site: &Site, entry: &Entry) -> bool {
    let resident = services.memory.peek(entry.key.bytes());
    // Compression replaces the entry, and keeps its number.
    resident.is_some_and(|resident| resident.born == entry.born) && is_in_use(services, site, entry)
}

/// Compares on a helper thread. `None`: there is no memory for the plain body of a packed page.
async fn compare<T: Send + 'static>(
    site: &Arc<Site>,
    stored: Arc<Entry>,
    with: impl FnOnce(PageCopy<'_>) -> T + Send + 'static,
) -> Option<T> {
    let site = Arc::clone(site);
    let compared = tokio::task::spawn_blocking(move || {
        let plain = site.core.compressing.unpacked(&stored)?;
        Some(with(PageCopy {
            status: plain.status,
            body: plain.body()?,
        }))
    });
    compared.await.ok().flatten()
}

/// A generated page that might be stored.
struct Generated {
    status: StatusCode,
    body: Bytes,
    /// The newest purge before the request was sent.
    born: u64,
    scopes: Scopes,
}

impl Generated {
    fn copy(&self) -> PageCopy<'_> {
        PageCopy {
            status: self.status,
            body: &self.body,
        }
    }
}

async fn generate(
    services: &Services,
    site: &Arc<Site>,
    entry: &Entry,
) -> Result<Generated, NoVerdict> {
    let info = request_for(site, entry.key.bytes()).ok_or(NoVerdict::Failed)?;
    let born = site.purges.current();
    let (head, body) = fetch(services, site, &info, entry.length()).await?;
    judge(services, site, &info, &head, &body)?;
    Ok(Generated {
        status: head.status,
        body,
        born,
        scopes: scopes(&info, &head),
    })
}

/// Whether a response might be stored in place of the page.
fn judge(
    services: &Services,
    site: &Site,
    info: &RequestInfo,
    head: &FillHead,
    body: &[u8],
) -> Result<(), NoVerdict> {
    if head.status.is_redirection() {
        return Err(NoVerdict::Redirected);
    }
    if head.status.is_server_error() {
        return Err(NoVerdict::Failed);
    }
    let response = ResponseHead {
        status: head.status,
        fields: &head.fields,
        response_delay: Duration::ZERO,
        now: services.clock.wall(),
    };
    let policy = &site.core.policy;
    let is_storable = matches!(
        storable::judge(info, &response, policy),
        Storability::Store(_)
    );
    if !is_storable || storable::judge_body(&response, policy, body).is_err() {
        return Err(NoVerdict::NotStored);
    }
    Ok(())
}

/// The properties by which purges match a response, those of its fragments included.
fn scopes(info: &RequestInfo, head: &FillHead) -> Scopes {
    let mut tags_of_page = tags::collect(&head.fields);
    match fragments::parse(&head.fields) {
        Ok(parts) => parts.iter().for_each(|part| tags_of_page.add(&part.tags)),
        Err(_) => tags_of_page = Tags::everything(),
    }
    let mut path_query = Vec::new();
    info.path_query(&mut path_query);
    Scopes {
        host: info.host_id(),
        url: info.url_id(),
        path_query: path_query.into(),
        tags: tags_of_page.ids.into(),
    }
}

/// Sends the request. `expected`: about the length of the body.
async fn fetch(
    services: &Services,
    site: &Arc<Site>,
    info: &RequestInfo,
    expected: u64,
) -> Result<(Arc<FillHead>, Bytes), NoVerdict> {
    let (Upstream::Php(pool) | Upstream::Http(pool)) = site.upstream_of(info) else {
        return Err(NoVerdict::Failed);
    };
    let script = match site.upstream_of(info) {
        Upstream::Php(_) => Some(script_of(site, info).await.ok_or(NoVerdict::Failed)?),
        Upstream::Http(_) | Upstream::Files => None,
    };
    let budget = services.memory.budget();
    let mut room = budget.try_reserve(0).ok_or(NoVerdict::Failed)?;
    room.try_grow_for_client(expected)
        .map_err(|_| NoVerdict::Failed)?;
    let job = pass_job(site, pool.index, info, script);
    let failed = |_: FillError| NoVerdict::Failed;
    let mut reader = pool.fetch_thread.pass(job).map_err(failed)?;
    let head = reader.head().await.map_err(failed)?;
    if let FillSharing::File(_) = head.share {
        return Err(NoVerdict::NotStored);
    }
    let body = reader.whole(room, services.memory.max_object()).await;
    Ok((head, body.map_err(failed)?))
}

fn pass_job(site: &Site, pool: usize, info: &RequestInfo, script: Option<Script>) -> PassJob {
    PassJob {
        site: Arc::clone(&site.core),
        pool,
        info: info.clone(),
        call: upstream_call(site, info, script),
        learn: None,
        is_read_here: true,
        session: None,
        includes: site.includes.get().cloned(),
    }
}

fn upstream_call(site: &Site, info: &RequestInfo, script: Option<Script>) -> UpstreamCall {
    let random = u64::from_ne_bytes(galley_sys::random_bytes()) >> 24;
    let request_id = format!("audit-{random:010x}");
    let client = Client {
        address: HERE,
        port: 0,
        request_id: &request_id,
    };
    UpstreamCall {
        request: shared_request(site, info, &client),
        script,
        standing: Standing::BACKGROUND,
        client_address: HERE,
        client_port: 0,
        request_id,
        server_port: info.scheme().default_port(),
        server_address: None,
        body: RequestBody::Empty,
        timeouts: site
            .rule_of(info)
            .map(|rule| rule.timeouts)
            .unwrap_or_default(),
        interim: None,
        switch: None,
        trace: None,
    }
}

/// The request whose response is stored under a key; `None` if no request has this key any more.
fn request_for(site: &Site, key: &[u8]) -> Option<RequestInfo> {
    let parts = read_key(key)?;
    let mut target = parts.path.to_vec();
    if let Some(query) = parts.query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let host = canonical_host(parts.authority).ok()?;
    let line = RequestLineInfo {
        method: "GET",
        target: &target,
        scheme: parts.scheme,
        host: &host,
        has_body: false,
        upgrade: false,
        country: None,
    };
    let fields = fields_for(&parts).into_iter();
    let fields = fields.filter(|(_, value)| !value.is_empty());
    let mut info = RequestInfo::default();
    info.parse(&line, fields, &site.core.policy).ok()?;
    let mut written = Vec::with_capacity(key.len());
    site.write_key(&info, &mut written);
    (written == key && info.cacheability() == Cacheability::Cacheable).then_some(info)
}

/// Fields from which these parts of a key follow.
fn fields_for<'k>(parts: &KeyParts<'k>) -> [(&'static str, &'k [u8]); 4] {
    let mobile: &[u8] = match parts.device {
        Device::Any | Device::Desktop => b"?0",
        Device::Mobile => b"?1",
    };
    [
        ("host", parts.authority),
        ("accept", parts.accept.sent().as_bytes()),
        ("sec-ch-ua-mobile", mobile),
        ("cookie", parts.vary_cookies),
    ]
}

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
