//! `POST /purge`: purges as JSON.
//!
//! ```json
//! { "site": "example.com", "all": true, "urls": ["https://example.com/a/"], "tags": ["p12"],
//!   "prefixes": ["/blog/"], "patterns": ["^/shop/.*"], "soft": false }
//! ```
//!
//! At most [`MAX_PURGES`] at once, of which [`MAX_PATTERNS`] patterns. Requests with the token of one site take turns, so that many
//! of them delay those of other sites by one.
//!
//! `site` may be any host of the site. Without it a purge applies to the site of its URL, the token's site, or all sites.
//! The response is sent when every purge is in effect and on disk: `{"ok": true, "purges": 3, "sites": {"example.com": 3}}`, with
//! a `warning` if it could not be written. If one purge is invalid, the response names it and none is executed.
//!
//! Another Galley that forwards a purge sends `"forwarded": true`: then the purge is not forwarded again.
//!
//! `"label": "Edit of “Hello”"` says what the purges are for, in the history of a single site. The text is cleaned and cut.
//!
//! With `"dry_run": true` nothing is purged: the response says how many stored pages the same request would purge
//! (`dry_run.rs`).

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State as Extract;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use galley_policy::purge::{
    self, MAX_PATTERNS, MAX_PURGES, Purge, PurgeError, PurgeLabel, PurgePattern, Scope, Strength,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::AdminState;
use super::auth::{AdminClient, TokenReach, reach};
use super::dry_run;
use super::target::{JsonReply, is_number, refuse};
use galley_purging::{PurgeReceipt, PurgeSource, Receipt};
use galley_request::Site;

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
    label: String,
}

impl PurgeRequest {
    /// The first limit that the request exceeds.
    fn exceeded_limit(&self) -> Option<PurgeError> {
        let Self {
            urls,
            tags,
            prefixes,
            patterns,
            ..
        } = self;
        if patterns.len() > MAX_PATTERNS {
            return Some(PurgeError::TooManyPatterns);
        }
        let lists = [urls, tags, prefixes, patterns];
        let purges = lists.map(Vec::len).into_iter().sum::<usize>();
        (purges > MAX_PURGES).then_some(PurgeError::TooMany)
    }

    fn strength(&self) -> Strength {
        if self.soft {
            Strength::Soft
        } else {
            Strength::Hard
        }
    }
}

/// Handles `POST /purge`. What has been received is carried out, also if the client goes before it is its turn.
pub(super) async fn purge(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let purging = tokio::spawn(received(state, client, headers, body));
    purging.await.unwrap_or_else(|_| {
        refuse(StatusCode::INTERNAL_SERVER_ERROR, "the purge failed").into_response()
    })
}

async fn received(
    state: Arc<AdminState>,
    client: AdminClient,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let reach = reach(&state, &client);
    let site = match reach {
        TokenReach::None => return refuse(StatusCode::UNAUTHORIZED, NO_TOKEN).into_response(),
        TokenReach::Site(index) => state.sites.get(index).cloned(),
        TokenReach::All => None,
    };
    let turn = match &site {
        Some(site) => Some(site.core.purges.turn().await),
        None => None,
    };
    // A page of another site can make a browser send any other type.
    if !is_json(&headers) {
        let why = "the body has to be `application/json`";
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into_response();
    }
    let wanted = match Json::<PurgeRequest>::from_bytes(&body) {
        Ok(Json(wanted)) => wanted,
        Err(rejection) => return rejection.into_response(),
    };
    drop(body);
    let purges = match wanted_purges(&state, reach, &wanted) {
        Ok(purges) => purges,
        Err(reply) => return reply.into_response(),
    };
    if wanted.dry_run {
        drop(turn);
        return dry_run::reply(&state, purges).await.into_response();
    }
    let source = if wanted.forwarded {
        PurgeSource::Forward
    } else {
        PurgeSource::Admin
    };
    let label = PurgeLabel::new(&wanted.label);
    let receipts = publish(&purges, source, label.as_ref()).await;
    drop(turn);
    let receipt = acknowledged(receipts).await;
    reply(&purges, &receipt).into_response()
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE);
    let media_type = value.and_then(|value| value.as_bytes().split(|byte| *byte == b';').next());
    media_type.is_some_and(|text| text.trim_ascii().eq_ignore_ascii_case(b"application/json"))
}

/// The purges of a request, at least one.
fn wanted_purges(
    state: &AdminState,
    reach: TokenReach,
    wanted: &PurgeRequest,
) -> Result<Vec<(Arc<Site>, Purge)>, JsonReply> {
    let refuse_request = |why: &str| refuse(StatusCode::BAD_REQUEST, why);
    let targets = targets(state, reach, wanted.site.as_deref())?;
    if let Some(limit) = wanted.exceeded_limit() {
        return Err(refuse_request(&format!("{limit}: send several requests")));
    }
    match purges(state, &targets, wanted) {
        Ok(purges) if purges.is_empty() => Err(refuse_request(
            "nothing to purge: give `all`, `urls`, `tags`, `prefixes` or `patterns`",
        )),
        Ok(purges) => Ok(purges),
        Err(diagnostics) => Err(refuse_request(&diagnostics.join("; "))),
    }
}

fn reply(purges: &[(Arc<Site>, Purge)], receipt: &PurgeReceipt) -> JsonReply {
    let of_sites = purges.chunk_by(|(one, _), (other, _)| Arc::ptr_eq(one, other));
    let of_sites =
        of_sites.filter_map(|all| Some((all.first()?.0.core.name.clone(), json!(all.len()))));
    let of_sites: Map<String, Value> = of_sites.collect();
    let mut body = json!({ "ok": true, "purges": purges.len(), "sites": of_sites });
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
async fn publish(
    purges: &[(Arc<Site>, Purge)],
    source: PurgeSource,
    label: Option<&PurgeLabel>,
) -> Vec<Receipt> {
    let mut receipts = Vec::new();
    // The label of one site's edit is no business of the others.
    let of_sites = || purges.chunk_by(|(one, _), (other, _)| Arc::ptr_eq(one, other));
    let label = label.filter(|_| of_sites().count() == 1);
    for of_site in of_sites() {
        let Some((site, _)) = of_site.first() else {
            continue;
        };
        let site_purges: Vec<Purge> = of_site.iter().map(|(_, purge)| purge.clone()).collect();
        let publisher = &site.core.purges;
        receipts.push(publisher.publish_labeled(&site_purges, source, label));
        for purge in site_purges {
            if site.core.purges.may_log() {
                tracing::info!(site = site.core.name, scope = %purge.scope, strength = purge.strength.word(), "purged");
            }
        }
        // Requests of others come between the sites of an operator's purge.
        tokio::task::yield_now().await;
    }
    receipts
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

/// The sites that a purge may apply to.
pub(super) fn targets(
    state: &AdminState,
    reach: TokenReach,
    site: Option<&str>,
) -> Result<Vec<Arc<Site>>, JsonReply> {
    let sites = match site.map(|text| (text, state.named(text))) {
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
    let open = sites.into_iter().filter(within);
    let open: Vec<_> = open
        .filter_map(|index| state.sites.get(index).cloned())
        .collect();
    if open.is_empty() {
        let status = match reach {
            TokenReach::None => StatusCode::UNAUTHORIZED,
            TokenReach::All | TokenReach::Site(_) => StatusCode::FORBIDDEN,
        };
        return Err(refuse(status, NO_TOKEN));
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
    let common = common_scopes(wanted, &mut diagnostics);
    for site in targets {
        let scopes = scopes(site, wanted, &common, &mut diagnostics);
        let scopes = scopes.into_iter();
        let of_site = scopes.filter(|scope| concerns(scope, site, state));
        purges.extend(of_site.map(|scope| (Arc::clone(site), Purge { scope, strength })));
    }
    if purges.is_empty() && !wanted.urls.is_empty() && diagnostics.is_empty() {
        diagnostics.push("no site has the host of these URLs".to_owned());
    }
    diagnostics.dedup();
    diagnostics.truncate(MAX_DIAGNOSTICS);
    if diagnostics.is_empty() {
        Ok(purges)
    } else {
        Err(diagnostics)
    }
}

/// The scopes of a request that are the same for each site.
fn common_scopes(wanted: &PurgeRequest, diagnostics: &mut Vec<String>) -> Vec<Scope> {
    let mut scopes = Vec::new();
    let mut add = |text: &str, scope: Result<Scope, PurgeError>| match scope {
        Ok(scope) => scopes.push(scope),
        Err(error) => diagnostics.push(diagnostic(text, &error)),
    };
    for prefix in &wanted.prefixes {
        add(prefix, purge::prefix_scope(prefix));
    }
    for tag in &wanted.tags {
        add(tag, purge::tag_scope(tag));
    }
    for pattern in &wanted.patterns {
        add(pattern, PurgePattern::parse(pattern).map(Scope::Pattern));
    }
    scopes
}

/// The scopes of a request that apply to a site. `common`: those that apply to every one.
fn scopes(
    site: &Site,
    wanted: &PurgeRequest,
    common: &[Scope],
    diagnostics: &mut Vec<String>,
) -> Vec<Scope> {
    let mut scopes = Vec::with_capacity(common.len() + wanted.urls.len() + 1);
    if wanted.all {
        scopes.push(Scope::Site);
    }
    for url in &wanted.urls {
        match purge::url_scope(url, &site.core.policy) {
            Ok(scope) => scopes.push(scope),
            Err(error) => diagnostics.push(diagnostic(url, &error)),
        }
    }
    scopes.extend_from_slice(common);
    scopes
}

fn diagnostic(text: &str, error: &PurgeError) -> String {
    let shown: String = text.chars().take(MAX_SHOWN).collect();
    let rest = if shown.len() < text.len() { "..." } else { "" };
    format!("`{shown}{rest}`: {error}")
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

const NO_TOKEN: &str = "this token is not valid for that site";

/// The maximum number of invalid purges in a response, and of characters of each.
const MAX_DIAGNOSTICS: usize = 10;
const MAX_SHOWN: usize = 100;
