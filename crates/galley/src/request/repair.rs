//! Pages that name a generated stylesheet or script which is gone: refreshed, because their copies would stay broken.
//!
//! Page builders and optimisers write stylesheets and scripts while a page is composed, and remove them when they clean up; a
//! stored page then names files that are not there. A visitor's browser tells: it asks for such a file, with the page as
//! `Referer`. The page is purged softly, and composed anew at once.
//!
//! `Referer` is a client's word, so it is only a hint. The page must be of the same host, stored, and really name that file;
//! and each page is refreshed once in [`PAUSE`] at most, [`MOST_PAGES`] of a site in that time.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use galley_cache::entry::{Entry, EntryKind};
use galley_cache::purge_table::Validity;
use galley_http::head::{self, HeadBuffer, ParsedHead};
use galley_policy::purge::{Purge, Scope, Strength, url_scope};
use galley_policy::request_info::{Cacheability, Method, RequestInfo, RequestLineInfo};
use galley_policy::route::canonical_host;
use galley_policy::site::UpstreamRequests;
use galley_policy::time::Tick;
use galley_policy::uri;

use super::exchange::Exchange;
use super::miss;
use super::site::Services;
use crate::fetch::revalidate::When;

/// What one site remembers of pages that were refreshed.
#[derive(Debug, Default)]
pub struct Healing {
    /// Pages by [`RequestInfo::url_id`], and when each was refreshed; at most [`MOST_PAGES`].
    pages: Mutex<HashMap<u64, Tick>>,
    healed: AtomicU64,
}

impl Healing {
    /// Pages refreshed since the start.
    pub fn healed(&self) -> u64 {
        self.healed.load(Ordering::Relaxed)
    }

    /// True for one caller per page and [`PAUSE`].
    fn claim(&self, page: u64, now: Tick) -> bool {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: &Tick| now.since(*at) < PAUSE;
        if pages.get(&page).is_some_and(is_recent) {
            return false;
        }
        if pages.len() >= MOST_PAGES {
            pages.retain(|_, at| is_recent(at));
        }
        if pages.len() >= MOST_PAGES {
            return false;
        }
        pages.insert(page, now);
        self.healed.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// Looks at a request that was answered with 404, and refreshes the page that it came from if it is the fault of a stored copy.
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
    let mut room = HeadBuffer::new();
    let Ok(ParsedHead::Whole { head, .. }) =
        head::parse(&bytes, &head::HeadLimits::default(), &mut room)
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
    };
    let rules = &exchange.site.core.rules;
    if info.parse(&line, head.fields(), rules).is_err()
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
    let purges = &page.site.core.purges;
    let is_at_fault = entry.kind == EntryKind::Page
        && purges.prove(&entry) == Validity::Valid
        && names(&entry, exchange.info.path());
    let healing = &page.site.healing;
    if !is_at_fault || !healing.claim(page.info.url_id(), services.clock.tick()) {
        return;
    }
    // The answer about the file, too: it may be stored, and would hide the file when it is there again.
    for (of, strength) in [(&page, Strength::Soft), (exchange, Strength::Hard)] {
        if let Some(scope) = scope(of) {
            // Nobody waits for an acknowledgement.
            drop(purges.publish(&Purge { scope, strength }));
        }
    }
    tracing::info!(
        site = page.site.core.name,
        page = %String::from_utf8_lossy(page.info.path()).escape_debug(),
        file = %String::from_utf8_lossy(exchange.info.path()).escape_debug(),
        "refreshed, because it names a file that is gone"
    );
    miss::refresh(services, &page, &entry, When::Stale).await;
}

/// A stylesheet or script in a folder into which WordPress, themes and plugins write.
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

/// The head of a navigation to the page that `referer` names, by the same browser; `None` where it is not of this host.
fn page_head(exchange: &Exchange<'_>, referer: &[u8]) -> Option<Vec<u8>> {
    if referer.len() > MOST_REFERER {
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
    let found = fields.find(|(n, _)| n.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value)
}

/// Whether a stored page has this path in it. A body that is on the disk alone is far larger than any page.
fn names(entry: &Entry, path: &[u8]) -> bool {
    entry.pieces().is_none()
        && entry.body.len() <= MOST_SEARCHED
        && memchr::memmem::find(&entry.body, path).is_some()
}

fn scope(exchange: &Exchange<'_>) -> Option<Scope> {
    let mut path_query = Vec::new();
    exchange.info.path_query(&mut path_query);
    let path_query = String::from_utf8(path_query).ok()?;
    let text = format!("http://{}{path_query}", exchange.info.host());
    url_scope(&text, &exchange.site.core.rules).ok()
}

/// Below these the program of WordPress, a theme or a plugin writes files.
const FOLDERS: [&[u8]; 4] = [
    b"/wp-content/",
    b"/app/uploads/",
    b"/app/cache/",
    b"/et-cache/",
];

/// What of a request's fields its browser's navigation had as well, as far as pages differ by it.
const OF_THE_BROWSER: [&str; 3] = ["user-agent", "sec-ch-ua-mobile", "cookie"];

/// Between two refreshes of one page.
const PAUSE: Duration = Duration::from_secs(600);

/// Pages of a site that are refreshed within [`PAUSE`]; what is gone everywhere is a purge-all that somebody forgot.
const MOST_PAGES: usize = 1024;

/// Longer ones are no address of a page.
const MOST_REFERER: usize = 4096;

/// The search runs on a front core: a tenth of a millisecond.
const MOST_SEARCHED: usize = 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_page_once_in_its_pause_and_not_too_many() {
        let healing = Healing::default();
        let later = |seconds: u64| Tick(0).plus(Duration::from_secs(seconds));
        assert!(healing.claim(1, later(0)));
        assert!(!healing.claim(1, later(599)));
        assert!(healing.claim(2, later(599)));
        assert!(healing.claim(1, later(600)));
        for page in 0..5000 {
            healing.claim(page, later(700));
        }
        let known = healing.pages.lock().unwrap().len();
        assert_eq!(known, MOST_PAGES);
        assert!(!healing.claim(6000, later(700)), "full");
        assert!(healing.claim(6000, later(1301)), "old ones have left");
        assert_eq!(healing.healed(), MOST_PAGES as u64 + 2);
    }
}
