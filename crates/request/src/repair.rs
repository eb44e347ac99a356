//! Refreshes pages that name a missing generated style sheet or script, because their stored copies would stay broken.
//!
//! Page builders and optimizers write style sheets and scripts while a page is generated, and remove them during a cleanup. A
//! stored page then names files that do not exist. A visitor's browser reveals this: it requests such a file with the
//! page as `Referer`. Galley then purges the page softly and refreshes it immediately.
//!
//! `Referer` comes from the client, so it is only a hint. The page must be of the same host, stored, and contain the path of the
//! file. Each page is refreshed rarely, and only a few pages of a site at a time ([`super::RefreshedPages`]).

use galley_cache::entry::{Entry, EntryKind};
use galley_cache::purge_table::Validity;
use galley_http::head::{self, HeadBuffer, ParsedHead};
use galley_policy::purge::{Purge, Scope, Strength, url_scope};
use galley_policy::request_info::{Cacheability, Method, RequestInfo, RequestLineInfo};
use galley_policy::route::canonical_host;
use galley_policy::site::UpstreamRequests;
use galley_policy::uri;

use super::exchange::Exchange;
use super::site::Services;
use super::{miss, page};
use galley_fetch::revalidate::RefreshReason;
use galley_purging::PurgeSource;

/// Handles a request that was answered with 404: refreshes the page that `Referer` names if its stored copy names the missing file.
pub(super) async fn missed(services: &Services, exchange: &Exchange<'_>) {
    if !is_generated(&exchange.info)
        || exchange.policy().upstream_requests == UpstreamRequests::AsSent
    {
        return;
    }
    let Some(referer) = field(exchange, "referer") else {
        return;
    };
    let Some(bytes) = page_head(exchange, referer) else {
        return;
    };
    let mut buffer = HeadBuffer::new();
    let Ok(ParsedHead::Whole { head, .. }) =
        head::parse(&bytes, &head::HeadLimits::default(), &mut buffer)
    else {
        return;
    };
    let mut info = RequestInfo::default();
    let line = RequestLineInfo {
        method: head.method,
        target: head.target,
        scheme: exchange.info.scheme(),
        host: exchange.info.host(),
        has_body: false,
        upgrade: false,
        country: exchange.info.country(),
    };
    let policy = &exchange.site.core.policy;
    if info.parse(&line, head.fields(), policy).is_err()
        || info.cacheability() != Cacheability::Cacheable
    {
        return;
    }
    let page = exchange.of_another(&head, info);
    refresh(services, exchange, page).await;
}

async fn refresh(services: &Services, exchange: &Exchange<'_>, mut page: Exchange<'_>) {
    page.write_key();
    let Some(entry) = page.site.stored(&services.memory, &page.key).await else {
        return;
    };
    if entry.length() > MAX_SEARCHED {
        return;
    }
    let Some(entry) = page::unpack(services, &page, entry).await else {
        return;
    };
    let purges = &page.site.core.purges;
    let is_at_fault = entry.kind == EntryKind::Page
        && purges.validity(&entry) == Validity::Valid
        && names(&entry, exchange.info.path());
    let refreshed_pages = &page.site.refreshed_pages;
    if !is_at_fault || !refreshed_pages.claim(page.info.url_id(), services.clock.tick()) {
        return;
    }
    // The response for the file, too: it may be stored, and would hide the file once it exists again.
    for (of, strength) in [(&page, Strength::Soft), (exchange, Strength::Hard)] {
        if let Some(scope) = scope(of) {
            // No client waits for an acknowledgment.
            drop(purges.publish(&Purge { scope, strength }, PurgeSource::Repair));
        }
    }
    tracing::info!(
        site = page.site.core.name,
        page = %String::from_utf8_lossy(page.info.path()).escape_debug(),
        file = %String::from_utf8_lossy(exchange.info.path()).escape_debug(),
        "refreshed, because it names a file that does not exist any longer"
    );
    miss::refresh(services, &page, &entry, RefreshReason::Stale).await;
}

/// Whether a path is a style sheet or script in a directory to which WordPress, themes and plugins write.
fn is_generated(info: &RequestInfo) -> bool {
    let path = info.path();
    let ends = |end: &str| {
        let tail = path
            .len()
            .checked_sub(end.len())
            .and_then(|at| path.get(at..));
        tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end.as_bytes()))
    };
    matches!(info.method(), Method::Get | Method::Head)
        && (ends(".css") || ends(".js"))
        && FOLDERS
            .iter()
            .any(|folder| memchr::memmem::find(path, folder).is_some())
}

/// The head of a navigation of the same browser to the page that `referer` names; `None` if the page is not of this host.
fn page_head(exchange: &Exchange<'_>, referer: &[u8]) -> Option<Vec<u8>> {
    if referer.len() > MAX_REFERER {
        return None;
    }
    let target = uri::split(referer).ok()?;
    let authority = target.authority?;
    if canonical_host(authority).ok()? != exchange.info.host() {
        return None;
    }
    let mut out = Vec::with_capacity(referer.len() + 512);
    out.extend_from_slice(b"GET ");
    out.extend_from_slice(if target.path.is_empty() {
        b"/"
    } else {
        target.path
    });
    if let Some(query) = target.query {
        out.push(b'?');
        out.extend_from_slice(query);
    }
    out.extend_from_slice(b" HTTP/1.1\r\nHost: ");
    out.extend_from_slice(authority);
    out.extend_from_slice(b"\r\nAccept: text/html\r\n");
    for name in OF_THE_BROWSER {
        for (_, value) in exchange
            .head
            .fields()
            .filter(|(n, _)| n.eq_ignore_ascii_case(name))
        {
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
    out.extend_from_slice(b"\r\n");
    Some(out)
}

fn field<'e>(exchange: &'e Exchange<'_>, name: &str) -> Option<&'e [u8]> {
    let mut fields = exchange.head.fields();
    let field = fields.find(|(n, _)| n.eq_ignore_ascii_case(name));
    field.map(|(_, value)| value)
}

/// Whether a stored page contains this path. A body that is only on the disk is far larger than any page.
fn names(entry: &Entry, path: &[u8]) -> bool {
    let body = entry.body();
    body.is_some_and(|body| memchr::memmem::find(body, path).is_some())
}

fn scope(exchange: &Exchange<'_>) -> Option<Scope> {
    let mut path_query = Vec::new();
    exchange.info.path_query(&mut path_query);
    let path_query = String::from_utf8(path_query).ok()?;
    let text = format!("http://{}{path_query}", exchange.info.host());
    url_scope(&text, &exchange.site.core.policy).ok()
}

/// Directories to which WordPress, themes and plugins write files.
const FOLDERS: [&[u8]; 4] = [
    b"/wp-content/",
    b"/app/uploads/",
    b"/app/cache/",
    b"/et-cache/",
];

/// The fields of the request that its browser's navigation had as well and that may select another page.
const OF_THE_BROWSER: [&str; 3] = ["user-agent", "sec-ch-ua-mobile", "cookie"];

/// Maximum length of a page's address; longer ones are ignored.
const MAX_REFERER: usize = 4096;

/// Maximum size of a page to search, which runs on a front thread: a tenth of a millisecond.
const MAX_SEARCHED: u64 = 1024 * 1024;
