//! `GET /cache`: lists the stored entries, in pages.
//!
//! `?site=HOST` selects the site (by default all sites of the token), `prefix=/path` selects whole path segments, `tag=T` a tag,
//! `kind=page|hit-for-pass|varies` one kind of entry, and `limit=N` sets the size of a page (100, at most 1000). The response has
//! `entries` and `next`; the same request with `after=NEXT` continues, until `next` is null.
//!
//! A listing is a walk through the cache that pauses between pages, so each call costs the same, however much is stored: it visits
//! at most [`MAX_VISITED`] entries, and may therefore return few entries, or none, with a `next`. An entry that is stored or
//! removed during the walk may be missed. A walk that is not continued ends after a timeout.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{RawQuery, State as Extract};
use axum::http::StatusCode;
use galley_cache::entry::{Entry, EntryKind};
use galley_cache::memory::Memory;
use galley_policy::key::{read_key, tag_id};
use galley_policy::purge::{Scope, prefix_scope};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use super::AdminState;
use super::auth::AdminClient;
use super::entry::{self, brief};
use super::listings::{ListFilter, ListPage, ListQuery, Listing, Listings};
use super::query::QueryParams;
use super::target::{AdminView, JsonReply, JsonResult, refuse, target};
use galley_request::{Site, site_mark};
use galley_sys::clock::Clock;

/// Handles `GET /cache`.
pub(super) async fn cache(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    RawQuery(query): RawQuery,
) -> JsonResult {
    let query = query.as_deref();
    let query = QueryParams::read(query, &["site", "prefix", "tag", "kind", "limit", "after"])?;
    let target = target(&state, &client, query.get("site"))?;
    let wanted = ListFilter {
        site: match target.view {
            AdminView::Server => None,
            AdminView::Sites => target.sites.first().map(|site| site.mark),
        },
        prefix: query.get("prefix").map(prefix).transpose()?,
        tag: query.get("tag").map(tag_id),
        kind: query.get("kind").map(kind).transpose()?,
    };
    let limit = usize::try_from(query.number("limit", DEFAULT_PAGE, MAX_PAGE)?).unwrap_or(1);
    let (id, number, queries) = match query.get("after") {
        None => {
            let (id, queries) = state.process_state.listings.begin(&state, wanted);
            (id, 0, queries)
        }
        Some(cursor) => state.process_state.listings.find(cursor, &wanted)?,
    };
    let (reply, page) = oneshot::channel();
    let list_query = ListQuery {
        number,
        limit,
        reply,
    };
    queries.send(list_query).await.map_err(|_| ended())?;
    let page = page.await.map_err(|_| ended())?;
    let next = (!page.is_last).then(|| format!("{id}-{}", number + 1));
    let body = json!({ "ok": true, "entries": page.entries, "next": next });
    Ok((StatusCode::OK, Json(body)))
}

fn kind(word: &str) -> Result<EntryKind, JsonReply> {
    let kinds = [EntryKind::Page, EntryKind::HitForPass, EntryKind::Varies];
    let kind = kinds.into_iter().find(|kind| entry::kind(*kind) == word);
    kind.ok_or_else(|| {
        let message = format!("`kind` is `page`, `hit-for-pass` or `varies`, not `{word}`");
        refuse(StatusCode::BAD_REQUEST, &message)
    })
}

fn prefix(text: &str) -> Result<Vec<u8>, JsonReply> {
    let bad = |why: &str| refuse(StatusCode::BAD_REQUEST, &format!("`{text}`: {why}"));
    match prefix_scope(text) {
        Ok(Scope::Prefix(mut path)) => {
            while path.last() == Some(&b'/') {
                path.pop();
            }
            Ok(path)
        }
        Ok(_) => Err(bad("no path")),
        Err(error) => Err(bad(&error.to_string())),
    }
}

fn ended() -> JsonReply {
    refuse(
        StatusCode::GONE,
        "this listing has ended or continued: start again without `after`",
    )
}

impl Listings {
    /// Starts a walk. If there are too many, the oldest one ends.
    fn begin(&self, state: &AdminState, wanted: ListFilter) -> (String, mpsc::Sender<ListQuery>) {
        let (queries, received) = mpsc::channel(1);
        // Unguessable, because only the cursor identifies the walk.
        let id = format!("{:016x}", u64::from_ne_bytes(galley_sys::random_bytes()));
        // Ends when its sender is dropped, when it is not continued in time, and with the runtime.
        tokio::spawn(walk(
            Arc::clone(&state.services.memory),
            Arc::clone(&state.sites),
            state.services.clock,
            wanted.clone(),
            received,
        ));
        let mut open = self.0.lock();
        open.retain(|listing| !listing.queries.is_closed());
        if open.len() >= MAX_LISTINGS {
            open.pop_front();
        }
        open.push_back(Listing {
            id: id.clone(),
            wanted,
            queries: queries.clone(),
        });
        (id, queries)
    }

    /// Finds the walk of a cursor, if it has the same selection.
    fn find(
        &self,
        cursor: &str,
        wanted: &ListFilter,
    ) -> Result<(String, u64, mpsc::Sender<ListQuery>), JsonReply> {
        let parts = cursor
            .split_once('-')
            .and_then(|(id, number)| Some((id, number.parse().ok()?)));
        let (id, number) = parts.ok_or_else(ended)?;
        let open = self.0.lock();
        let listing = open
            .iter()
            .find(|listing| listing.id == id && listing.wanted == *wanted);
        let listing = listing.ok_or_else(ended)?;
        Ok((id.to_owned(), number, listing.queries.clone()))
    }
}

/// Walks through the cache, one page for each query.
async fn walk(
    memory: Arc<Memory>,
    sites: Arc<Vec<Arc<Site>>>,
    clock: Clock,
    wanted: ListFilter,
    mut queries: mpsc::Receiver<ListQuery>,
) {
    let mut entries = memory.entries();
    let mut next = 0;
    while let Ok(Some(list_query)) = tokio::time::timeout(WALK_TIMEOUT, queries.recv()).await {
        if list_query.number != next {
            // Dropping the sender reports that this page is no longer available.
            continue;
        }
        next += 1;
        let mut page = ListPage::default();
        let mut visited = 0;
        while page.entries.len() < list_query.limit && visited < MAX_VISITED && !page.is_last {
            visited += 1;
            match entries.next() {
                Some(entry) => page.entries.extend(wanted.row(&sites, clock, &entry)),
                None => page.is_last = true,
            }
        }
        let is_last = page.is_last;
        if list_query.reply.send(page).is_err() || is_last {
            return;
        }
    }
}

impl ListFilter {
    /// The row of an entry, if the entry is selected.
    fn row(&self, sites: &[Arc<Site>], clock: Clock, entry: &Entry) -> Option<Value> {
        let mark = site_mark(entry.key.bytes())?;
        let is_wanted = self.site.is_none_or(|site| site == mark)
            && self.kind.is_none_or(|kind| entry.kind == kind)
            && self.tag.is_none_or(|tag| entry.scopes.tags.contains(&tag))
            && self.prefix.as_ref().is_none_or(|p| is_below(entry, p));
        let site = sites.iter().find(|site| site.mark == mark)?;
        is_wanted.then(|| brief(clock, site, entry))
    }
}

/// Whether an entry's path is `prefix` or below it, by whole segments.
fn is_below(entry: &Entry, prefix: &[u8]) -> bool {
    let path = read_key(entry.key.bytes()).map_or(&b""[..], |parts| parts.path);
    path.strip_prefix(prefix)
        .is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
}

/// The maximum number of entries that one call visits: a few milliseconds of the admin thread.
const MAX_VISITED: usize = 20_000;

/// The default and the maximum number of entries in a response.
const DEFAULT_PAGE: u64 = 100;
const MAX_PAGE: u64 = 1_000;

/// The maximum number of walks in progress.
const MAX_LISTINGS: usize = 8;

/// How long a walk waits for the next query.
const WALK_TIMEOUT: Duration = Duration::from_secs(60);
