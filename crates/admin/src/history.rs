//! `GET /history`: the last 24 hours by minute, for graphs, as JSON.
//!
//! `?site=HOST` selects one site, `?minutes=N` the last N minutes. Minutes without any request are omitted, except for the
//! current one, which is always included and not complete yet.
//!
//! ```json
//! { "ok": true, "time": 1760740680, "sites": [ { "name": "example.com", "minutes": [ { "time": 1760740680, "requests": 12,
//!   "hits": 9, "stale": 0, "misses": 2, "passes": 1, "refused": 0, "errors": 0, "bytes": 81234, "upstream_ms": 310,
//!   "cache_us": [100, 500], "upstream_us": [100000, 250000], "people": 3, "bots": 0, "unseen": 0, "unseen_refused": 0 } ] } ] }
//! ```

use std::collections::HashMap;
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{RawQuery, State as Extract};
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::auth::AdminClient;
use super::query::QueryParams;
use super::target::{JsonResult, target};
use super::{AdminShared, AdminState};
use crate::doctor::{KernelCounters, ProcFs, RecentCounters};
use galley_policy::class::Class;
use galley_request::{Services, Site};
use galley_telemetry::counters::CounterReader;
use galley_telemetry::history::{ByClient, History, Latency, MINUTES, Minute};

/// Begins the histories of new sites.
pub(super) fn begin(state: &AdminState) {
    let minute = minute(state.services.clock.wall());
    let mut histories = lock(state);
    for site in state.sites.iter() {
        let totals = CounterReader::site(&state.counters, Some(site.row));
        let history = histories.entry(site.row);
        history.or_insert_with(|| History::new(minute, &totals, by_client(site)));
    }
}

/// Completes each minute at its end; never returns.
pub(super) async fn keep(shared: &AdminShared) {
    let clock = shared.now().services.clock;
    loop {
        let now = clock.wall();
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun = Duration::from_secs(minute(now) * MINUTE.as_secs());
        let rest = (begun + MINUTE).saturating_sub(since);
        tokio::time::sleep(rest.max(MIN_INTERVAL)).await;
        let state = shared.now();
        turn(&state);
        let reading = reading(&state.services);
        last_hour(&state).add(reading);
    }
}

/// Completes the previous minutes.
fn turn(state: &AdminState) {
    let now = minute(state.services.clock.wall());
    // Also of removed sites, whose last responses may still be counted.
    for (row, history) in lock(state).iter_mut() {
        let totals = CounterReader::site(&state.counters, Some(*row));
        let site = state.sites.iter().find(|site| site.row == *row);
        let clients = site.map_or_else(ByClient::default, |site| by_client(site));
        history.turn(now, &totals, clients);
    }
}

/// The last `minutes` minutes of one site, including the current one.
pub(super) fn recent(state: &AdminState, site: &Site, minutes: u64) -> Vec<Minute> {
    let now = minute(state.services.clock.wall());
    let totals = CounterReader::site(&state.counters, Some(site.row));
    let histories = lock(state);
    let from = now.saturating_sub(minutes.saturating_sub(1));
    histories.get(&site.row).map_or_else(Vec::new, |history| {
        history.since(from, &totals, by_client(site)).collect()
    })
}

/// The requests that a site's upstreams have got since they started.
fn by_client(site: &Site) -> ByClient {
    let mut of_site = ByClient::default();
    for stats in site.upstream_stats() {
        for counts in stats.classes() {
            match counts.class {
                Class::Editor | Class::Customer | Class::Visitor => {
                    of_site.people += counts.admitted;
                }
                Class::Crawler => of_site.bots += counts.admitted,
                Class::Login | Class::Unseen => {
                    of_site.unseen += counts.admitted;
                    of_site.refused += counts.rejected;
                }
                Class::Background => {}
            }
        }
    }
    of_site
}

/// Handles `GET /history`.
pub(super) async fn history(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    RawQuery(query): RawQuery,
) -> JsonResult {
    let query = QueryParams::read(query.as_deref(), &["site", "minutes"])?;
    let minutes = query.number("minutes", MINUTES as u64, MINUTES as u64)?;
    let target = target(&state, &client, query.get("site"))?;
    // Minutes that have ended are completed here too, so that the last one in the response is the current one.
    turn(&state);
    let sites: Vec<Value> = target
        .sites
        .iter()
        .map(|site| {
            let minutes = recent(&state, site, minutes);
            let minutes: Vec<Value> = minutes.iter().map(row).collect();
            json!({ "name": site.core.name, "minutes": minutes })
        })
        .collect();
    let now = minute(state.services.clock.wall()) * MINUTE.as_secs();
    let body = json!({ "ok": true, "time": now, "sites": sites });
    Ok((StatusCode::OK, Json(body)))
}

fn row(minute: &Minute) -> Value {
    json!({
        "time": minute.minute * MINUTE.as_secs(),
        "requests": minute.requests,
        "hits": minute.hits,
        "stale": minute.stale,
        "misses": minute.misses,
        "passes": minute.passes,
        "refused": minute.refused,
        "errors": minute.errors,
        "bytes": minute.bytes,
        "upstream_ms": minute.upstream_ms,
        "cache_us": latency(minute.cache_latency),
        "upstream_us": latency(minute.upstream_latency),
        "people": minute.clients.people,
        "bots": minute.clients.bots,
        "unseen": minute.clients.unseen,
        "unseen_refused": minute.clients.refused,
    })
}

/// The bounds of half and of 95 % of the times; null without any.
fn latency(of: Latency) -> Value {
    json!((of.p95_us > 0).then_some([of.p50_us, of.p95_us]))
}

/// The counters that the doctor compares over an hour.
pub(super) fn reading(services: &Services) -> KernelCounters {
    let spool = services.spools.counted();
    KernelCounters::of(&ProcFs::at("/")).with_spool(spool.refused, spool.held_up)
}

/// The readings of the last hour.
pub(super) fn last_hour(state: &AdminState) -> MutexGuard<'_, RecentCounters> {
    state.process_state.last_hour.lock()
}

fn lock(state: &AdminState) -> MutexGuard<'_, HashMap<u32, History>> {
    state.process_state.history.lock()
}

/// Minutes since the epoch.
fn minute(now: SystemTime) -> u64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() / MINUTE.as_secs()
}

const MINUTE: Duration = Duration::from_secs(60);

/// A sleep may end a little early by the wall clock; the rest is slept as well, without a busy loop.
const MIN_INTERVAL: Duration = Duration::from_millis(50);
