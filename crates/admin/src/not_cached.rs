//! `GET /not-cached`: why requests reach PHP, with counts, sentences and remedies, and the last pages that were not stored.
//!
//! `?site=HOST` selects one site. `GET /cache?kind=hit-for-pass` lists the pages whose next request bypasses the cache because of
//! their last response. The time of the upstream is in microseconds, and the reason that cost most of it is the first.
//!
//! ```json
//! { "ok": true, "sites": [ { "name": "example.com", "requests": 120, "upstream_us": 5000000,
//!   "reasons": [ { "kind": "pass", "word": "cookie", "requests": 12, "upstream_us": 900000, "why": "...", "do": "..." } ],
//!   "pages": [ { "url": "https://example.com/x/", "word": "vary", "ago_s": 3, "why": "...", "do": null } ],
//!   "facets": { "paths": [ { "path": "/shop/", "combinations": 90, "parameters": [ { "name": "color", "values": 30, "same": 0,
//!   "different": 12 } ] } ], "proposal": { "line": "ignore_query = [\"ref\"]", "compared": 14 } } } ] }
//! ```

use std::cmp::Reverse;
use std::sync::Arc;

use axum::extract::{RawQuery, State as Extract};
use galley_policy::outcome::{NotStored, PassWhy};
use serde_json::{Value, json};

use super::AdminState;
use super::auth::AdminClient;
use super::entry::url_of;
use super::query::each_site;
use super::target::JsonResult;
use super::why::advice::Advice;
use super::why::{facets, words};
use galley_request::Site;
use galley_telemetry::counters::CounterReader;

/// Handles `GET /not-cached`.
pub(super) async fn not_cached(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    RawQuery(query): RawQuery,
) -> JsonResult {
    each_site(&state, &client, query.as_deref(), of_site)
}

fn of_site(state: &AdminState, site: &Site) -> Value {
    let totals = CounterReader::site(&state.counters, Some(site.row));
    let cookies = site.core.counters.cookies.list();
    let passes = PassWhy::ALL.iter().zip(totals.passes());
    let passes = passes.map(|(why, (word, requests))| {
        let advice = match why {
            PassWhy::Cookie => words::passed_cookies(&cookies),
            _ => words::pass(*why, None),
        };
        let upstream_us = totals.pass_us(*why);
        reason(
            &ReasonCount {
                kind: "pass",
                word,
                requests,
                upstream_us,
            },
            &advice,
        )
    });
    let stored = NotStored::ALL.iter().zip(totals.not_stored());
    let stored = stored.map(|(why, (word, requests))| {
        let advice = words::not_stored(*why, None);
        let upstream_us = totals.not_stored_us(*why);
        reason(
            &ReasonCount {
                kind: "not-stored",
                word,
                requests,
                upstream_us,
            },
            &advice,
        )
    });
    let mut reasons: Vec<Value> = passes.chain(stored).flatten().collect();
    reasons.sort_by_key(|reason| {
        Reverse((reason["upstream_us"].as_u64(), reason["requests"].as_u64()))
    });
    json!({
        "name": site.core.name,
        "requests": totals.requests(),
        "upstream_us": totals.generated_us(),
        "reasons": reasons,
        "pages": pages(state, site),
        "facets": facets::of_site(site),
    })
}

/// What a reason cost: its requests, and their time of the upstream in microseconds.
struct ReasonCount {
    kind: &'static str,
    word: &'static str,
    requests: u64,
    upstream_us: u64,
}

/// Returns `None` if there was no such request.
fn reason(counted: &ReasonCount, advice: &Advice) -> Option<Value> {
    (counted.requests > 0).then(|| {
        let mut value = advice.value();
        value["kind"] = json!(counted.kind);
        value["word"] = json!(counted.word);
        value["requests"] = json!(counted.requests);
        value["upstream_us"] = json!(counted.upstream_us);
        value
    })
}

fn pages(state: &AdminState, site: &Site) -> Vec<Value> {
    let now = state.services.clock.tick();
    let pages = site.core.counters.recently_not_stored().into_iter();
    pages
        .map(|(key, page)| {
            let mut value = words::uncached(page).value();
            value["url"] = json!(url_of(key.bytes()));
            value["word"] = json!(page.why.word());
            value["ago_s"] = json!(now.since(page.at).as_secs());
            value
        })
        .collect()
}
