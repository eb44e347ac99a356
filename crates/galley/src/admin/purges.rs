//! `POST /purge`: purges as JSON.
//!
//! ```json
//! { "site": "example.com", "all": true, "urls": ["https://example.com/a/"], "tags": ["p12"],
//!   "prefixes": ["/blog/"], "patterns": ["^/shop/.*"], "soft": false }
//! ```
//!
//! `site` may be any host of the site. Without it a purge applies to the site of its URL, the token's site, or all sites.
//! The response is sent when every purge is in effect and on disk: `{"ok": true, "purges": 3}`, with a `warning` if it could
//! not be written. If one purge is invalid, the response names it and none is executed.
//!
//! Another Galley that forwards a purge sends `"forwarded": true`: then the purge is not forwarded again.
//!
//! With `"dry_run": true` nothing is purged: the response says how many stored pages the same request would purge
//! (`dry_run.rs`).

use std::sync::Arc;

use axum::Json;
use axum::extract::State as Extract;
use axum::http::StatusCode;
use galley_policy::purge::{self, Purge, PurgeError, PurgePattern, Scope, Strength};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AdminState;
use super::auth::{AdminClient, TokenReach, reach};
use super::dry_run;
use super::target::is_number;
use crate::durable::{PurgeReceipt, PurgeSource, Receipt};
use crate::request::Site;

/// The body of a purge request.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct PurgeRequest {
    site: Option<String>,
    all: bool,
    urls: Vec<String>,
    tags: Vec<String>,
    prefixes: Vec<String>,
    patterns: Vec<String>,
    soft: bool,
    dry_run: bool,
    forwarded: bool,
}

impl PurgeRequest {
    fn strength(&self) -> Strength {
        if self.soft {
            Strength::Soft
        } else {
            Strength::Hard
        }
    }
}

pub(super) type PurgeReply = (StatusCode, Json<Value>);

/// Handles `POST /purge`.
pub(super) async fn purge(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    body: Json<PurgeRequest>,
) -> PurgeReply {
    let wanted = body.0;
    let targets = match targets(&state, reach(&state, &client), wanted.site.as_deref()) {
        Ok(targets) => targets,
        Err(reply) => return reply,
    };
    let purges = match purges(&state, &targets, &wanted) {
        Ok(purges) if purges.is_empty() => {
            return refuse(
                StatusCode::BAD_REQUEST,
                "nothing to purge: give `all`, `urls`, `tags`, `prefixes` or `patterns`",
            );
        }
        Ok(purges) => purges,
        Err(diagnostics) => return refuse(StatusCode::BAD_REQUEST, &diagnostics.join("; ")),
    };
    if wanted.dry_run {
        return dry_run::reply(&state, purges).await;
    }
    let source = if wanted.forwarded {
        PurgeSource::Forward
    } else {
        PurgeSource::Admin
    };
    let receipt = acknowledged(publish(&purges, source)).await;
    reply(&purges, &receipt)
}

fn reply(purges: &[(Arc<Site>, Purge)], receipt: &PurgeReceipt) -> PurgeReply {
    let mut body = json!({ "ok": true, "purges": purges.len() });
    if let Some(reach) = receipt.reach_word() {
        body["reach"] = json!(reach);
    }
    if let Some(warning) = receipt.warning {
        receipt.log(purges.last().map_or("", |(site, _)| &site.core.name));
        body["warning"] = json!(warning);
    }
    (StatusCode::OK, Json(body))
}

/// Publishes the purges. The newest receipt of a site covers all purges of the site.
fn publish(purges: &[(Arc<Site>, Purge)], source: PurgeSource) -> Vec<Receipt> {
    let mut newest: Vec<(&Arc<Site>, Receipt)> = Vec::new();
    for (site, purge) in purges {
        let receipt = site.core.purges.publish(purge, source);
        tracing::info!(site = site.core.name, scope = %purge.scope, strength = ?purge.strength, "purged");
        match newest.last_mut() {
            Some((last, known)) if Arc::ptr_eq(last, site) => *known = receipt,
            _ => newest.push((site, receipt)),
        }
    }
    newest.into_iter().map(|(_, receipt)| receipt).collect()
}

/// Waits for all purges. Returns the smallest reach and the first warning.
async fn acknowledged(receipts: Vec<Receipt>) -> PurgeReceipt {
    let mut least = PurgeReceipt::default();
    for receipt in receipts {
        let receipt = receipt.acknowledged().await;
        if least.is_final() {
            least.reach = receipt.reach;
        }
        if least.warning.is_none() {
            (least.warning, least.reason) = (receipt.warning, receipt.reason);
        }
    }
    least
}

pub(super) fn refuse(status: StatusCode, error: &str) -> PurgeReply {
    (status, Json(json!({ "ok": false, "error": error })))
}

/// The sites that a purge may apply to.
pub(super) fn targets(
    state: &AdminState,
    reach: TokenReach,
    site: Option<&str>,
) -> Result<Vec<Arc<Site>>, PurgeReply> {
    let all = match site.map(|text| (text, state.named(text))) {
        None => (0..state.sites.len()).collect(),
        Some((text, named)) if named.is_empty() => {
            let why = format!("no site `{text}`: `galley status` lists the sites");
            return Err(refuse(StatusCode::NOT_FOUND, &why));
        }
        Some((_, named)) => named,
    };
    let within = |index: &usize| match reach {
        TokenReach::All => true,
        TokenReach::Site(own) => own == *index,
        TokenReach::None => false,
    };
    let open = all.into_iter().filter(within);
    let open: Vec<_> = open
        .filter_map(|index| state.sites.get(index).cloned())
        .collect();
    if open.is_empty() {
        let status = match reach {
            TokenReach::None => StatusCode::UNAUTHORIZED,
            TokenReach::All | TokenReach::Site(_) => StatusCode::FORBIDDEN,
        };
        return Err(refuse(status, "this token is not valid for that site"));
    }
    Ok(open)
}

/// The purges of a request, for each site that they concern.
fn purges(
    state: &AdminState,
    targets: &[Arc<Site>],
    wanted: &PurgeRequest,
) -> Result<Vec<(Arc<Site>, Purge)>, Vec<String>> {
    let strength = wanted.strength();
    let (mut purges, mut diagnostics) = (Vec::new(), Vec::new());
    for site in targets {
        let scopes = scopes(site, wanted, &mut diagnostics);
        let scopes = scopes.into_iter();
        let own = scopes.filter(|scope| concerns(scope, site, state));
        purges.extend(own.map(|scope| (Arc::clone(site), Purge { scope, strength })));
    }
    if purges.is_empty() && !wanted.urls.is_empty() && diagnostics.is_empty() {
        diagnostics.push("no site has the host of these URLs".to_owned());
    }
    diagnostics.dedup();
    if diagnostics.is_empty() {
        Ok(purges)
    } else {
        Err(diagnostics)
    }
}

/// The scopes of a request that apply to a site.
fn scopes(site: &Site, wanted: &PurgeRequest, diagnostics: &mut Vec<String>) -> Vec<Scope> {
    let mut scopes = Vec::new();
    if wanted.all {
        scopes.push(Scope::Site);
    }
    let mut add = |text: &str, scope: Result<Scope, PurgeError>| match scope {
        Ok(scope) => scopes.push(scope),
        Err(error) => diagnostics.push(format!("`{text}`: {error}")),
    };
    for url in &wanted.urls {
        add(url, purge::url_scope(url, &site.core.rules));
    }
    for prefix in &wanted.prefixes {
        add(prefix, purge::prefix_scope(prefix));
    }
    for tag in &wanted.tags {
        add(tag, Ok(Scope::Tag(tag.clone())));
    }
    for pattern in &wanted.patterns {
        add(pattern, PurgePattern::parse(pattern).map(Scope::Pattern));
    }
    scopes
}

/// Whether the site has the host of the URL, if the URL has one. If several sites have this host on different listeners, the purge
/// applies to all of them: the port of the URL may be that of a proxy.
fn concerns(scope: &Scope, site: &Site, state: &AdminState) -> bool {
    match scope {
        Scope::Url {
            host: Some(host), ..
        } => {
            let of_host = state.sites_of(host);
            of_host.iter().any(|number| is_number(site, *number))
        }
        _ => true,
    }
}
