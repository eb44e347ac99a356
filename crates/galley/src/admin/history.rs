//! `GET /history`: the last 24 hours in minutes, for graphs, as JSON.
//!
//! `?site=HOST` asks for one site, `?minutes=N` for the last N. Minutes without any request are left out, but for the
//! current one, which is there in any case and not over yet.
//!
//! ```json
//! { "ok": true, "time": 1760740680, "sites": [ { "name": "example.com", "minutes": [ { "time": 1760740680, "requests": 12,
//!   "hits": 9, "stale": 0, "misses": 2, "passes": 1, "refused": 0, "bytes": 81234, "upstream_ms": 310 } ] } ] }
//! ```

use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Json;
use axum::extract::{RawQuery, State as Extract};
use axum::http::StatusCode;
use serde_json::{Value, json};

use super::auth::Asker;
use super::query::QueryParams;
use super::target::{JsonReply, target};
use super::{AdminSpec, AdminState};
use crate::doctor::{KernelCounters, ProcFs, RecentCounters};
use crate::request::{Services, Site};
use crate::telemetry::counters::CounterReader;
use crate::telemetry::history::{History, MINUTES, Minute};

/// Histories that begin now, one for each site.
pub(super) fn begin(spec: &AdminSpec) -> Vec<History> {
    let minute = minute(spec.services.clock.wall());
    let of = |site: &Arc<Site>| {
        let totals = CounterReader::site(&spec.counters, Some(site.number));
        History::new(minute, &totals)
    };
    spec.sites.iter().map(of).collect()
}

/// Turns the minutes over; never ends.
pub(super) async fn keep(state: &AdminState) {
    loop {
        let now = state.services.clock.wall();
        let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let begun = Duration::from_secs(minute(now) * MINUTE.as_secs());
        let rest = (begun + MINUTE).saturating_sub(since);
        tokio::time::sleep(rest.max(SHORTEST)).await;
        turn(state);
        let reading = reading(&state.services);
        last_hour(state).add(reading);
    }
}

/// Closes the minute that is over, if one is.
fn turn(state: &AdminState) {
    let now = minute(state.services.clock.wall());
    for (site, history) in state.sites.iter().zip(lock(state).iter_mut()) {
        let totals = CounterReader::site(&state.counters, Some(site.number));
        history.turn(now, &totals);
    }
}

/// The minutes of one site from the last `minutes` on, the current one included.
pub(super) fn recent(state: &AdminState, site: &Site, minutes: u64) -> Vec<Minute> {
    let now = minute(state.services.clock.wall());
    let totals = CounterReader::site(&state.counters, Some(site.number));
    let index = usize::try_from(site.number).unwrap_or(usize::MAX);
    let histories = lock(state);
    let from = now.saturating_sub(minutes.saturating_sub(1));
    histories
        .get(index)
        .map_or_else(Vec::new, |history| history.since(from, &totals).collect())
}

/// Handles `GET /history`.
pub(super) async fn history(
    Extract(state): Extract<Arc<AdminState>>,
    asker: Asker,
    RawQuery(query): RawQuery,
) -> JsonReply {
    let parsed = QueryParams::read(query.as_deref(), &["site", "minutes"]);
    let (query, minutes) = match parsed.and_then(|q| {
        let minutes = q.number("minutes", MINUTES as u64, MINUTES as u64)?;
        Ok((q, minutes))
    }) {
        Ok(read) => read,
        Err(reply) => return reply,
    };
    let target = match target(&state, &asker, query.get("site")) {
        Ok(target) => target,
        Err(reply) => return reply,
    };
    // A minute that is over is closed here too, so that no answer names one as the current that is not.
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
    (
        StatusCode::OK,
        Json(json!({ "ok": true, "time": now, "sites": sites })),
    )
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
        "bytes": minute.bytes,
        "upstream_ms": minute.upstream_ms,
    })
}

/// The counters of now that the doctor compares over an hour.
pub(super) fn reading(services: &Services) -> KernelCounters {
    let spool = services.spools.counted();
    KernelCounters::of(&ProcFs::at("/")).with_spool(spool.refused, spool.held_up)
}

/// The readings of the last hour.
pub(super) fn last_hour(state: &AdminState) -> MutexGuard<'_, RecentCounters> {
    state
        .last_hour
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
}

fn lock(state: &AdminState) -> MutexGuard<'_, Vec<History>> {
    state.history.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Minutes since the epoch.
fn minute(now: SystemTime) -> u64 {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs() / MINUTE.as_secs()
}

const MINUTE: Duration = Duration::from_secs(60);

/// A sleep may end a little early by the wall clock; then the rest is slept, not spun through.
const SHORTEST: Duration = Duration::from_millis(50);
