//! `POST /audit`: audits all stored pages of a site. `GET /audit`: how far that is, and what audits have found.
//!
//! ```json
//! { "site": "example.com" }
//! ```
//!
//! The response names the pass of each site, `{"ok": true, "sites": [{"name": "example.com", "pass": 3}]}`. If a pass is running,
//! it is that one. A site has one pass at a time, which gives way to visitors, and its token starts one in ten minutes.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State as Extract};
use axum::http::StatusCode;
use galley_policy::audit::AuditResult;
use galley_policy::time::Tick;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::AdminState;
use super::auth::{AdminClient, TokenReach, reach};
use super::purges::targets;
use super::query::each_site;
use super::target::{JsonResult, refuse};
use galley_fetch::audits::{AuditPass, AuditWish, Finding, ResultCounts};
use galley_request::Site;
use galley_request::audit::can_be_audited;

/// The body of a request for an audit.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct AuditRequest {
    site: Option<String>,
}

/// Handles `POST /audit`.
pub(super) async fn begin(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    body: Json<AuditRequest>,
) -> JsonResult {
    let reach = reach(&state, &client);
    let sites = targets(&state, reach, body.site.as_deref())?;
    let wish = match reach {
        TokenReach::All => AuditWish::Operator,
        TokenReach::Site(_) | TokenReach::None => AuditWish::Site,
    };
    let now = state.services.clock.tick();
    let mut begun = Vec::new();
    for site in sites.iter().filter(|site| can_be_audited(site)) {
        match site.core.audits.want_pass(wish, now) {
            Ok(pass) => begun.push(json!({ "name": site.core.name, "pass": pass })),
            Err(too_soon) => {
                let seconds = too_soon.wait.as_secs() + 1;
                let why = format!(
                    "the token of a site starts one audit in ten minutes: try again in {seconds}s"
                );
                return Err(refuse(StatusCode::TOO_MANY_REQUESTS, &why));
            }
        }
    }
    if begun.is_empty() {
        let why = "an audit needs a site with the WordPress preset and an upstream";
        return Err(refuse(StatusCode::BAD_REQUEST, why));
    }
    Ok((StatusCode::OK, Json(json!({ "ok": true, "sites": begun }))))
}

/// Handles `GET /audit`.
pub(super) async fn report(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    RawQuery(query): RawQuery,
) -> JsonResult {
    each_site(&state, &client, query.as_deref(), |state, site| {
        let mut value = value(state, site, usize::MAX);
        value["name"] = json!(site.core.name);
        value
    })
}

/// The audits of a site, with the last `most` pages that were out of date or vary. Null if its pages cannot be audited.
pub(super) fn value(state: &AdminState, site: &Site, most: usize) -> Value {
    if !can_be_audited(site) {
        return json!(null);
    }
    let now = state.services.clock.tick();
    let report = site.core.audits.report(now);
    let findings = report.findings.iter().take(most);
    let findings = findings.map(|one| finding(one, now));
    json!({
        "background": site.config.audit,
        "week": counts(&report.week),
        "total": counts(&report.totals),
        "pass": report.pass.map(|one| pass(&one, now)),
        "findings": findings.collect::<Vec<_>>(),
    })
}

fn finding(one: &Finding, now: Tick) -> Value {
    let change = one.result.change();
    json!({
        "url": one.url, "result": one.result.word(), "ago_s": now.since(one.at).as_secs(), "pass": one.pass,
        "byte": change.map(|change| change.at), "before": change.map(|change| &change.before),
        "after": change.map(|change| &change.after),
        "purges_since": one.purges_since, "purges": one.purges,
    })
}

fn pass(one: &AuditPass, now: Tick) -> Value {
    json!({
        "number": one.number, "state": one.state.word(), "since_s": now.since(one.since).as_secs(),
        "pages": one.pages, "done": one.results.iter().sum::<u64>(), "gives_way": one.gives_way,
        "results": counts(&one.results),
    })
}

fn counts(counts: &ResultCounts) -> Map<String, Value> {
    let words = AuditResult::WORDS.iter().zip(counts);
    words
        .map(|(word, count)| ((*word).to_owned(), json!(count)))
        .collect()
}
