//! `POST /why`: explains what would happen to a request now, without executing it.
//!
//! ```json
//! { "url": "https://example.com/hello/", "method": "GET", "headers": [["Cookie", "a=1"]], "client": "192.0.2.7",
//!   "site": "example.com" }
//! ```
//!
//! The request uses the same parser, admission and decision function as one from a client, so the result is the server's own
//! decision. Nothing is fetched, counted as a hit, moved or removed. Values of cookies and credentials are never returned, only
//! names. The keys of the response do not change once released; those that do not apply are null.

mod access;
pub(super) mod advice;
mod applying;
mod below;
mod choose;
mod decision;
mod decision_advice;
mod explanation;
pub(super) mod facets;
mod head;
mod question;
mod reasons;
mod show;
mod upstream;
pub(super) mod words;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Json;
use axum::extract::State as Extract;
use axum::http::StatusCode;
use galley_http::framing;
use galley_http::head::{self as wire, ParsedHead};
use galley_policy::decide::Decision;
use galley_policy::outcome::{ESI, RefusedWhy, SHARED};
use galley_policy::request_info::{RequestInfo, Scheme};
use serde_json::{Value, json};

use super::AdminState;
use super::auth::{AdminClient, TokenReach, reach};
use super::entry;
use super::target::{JsonReply, JsonResult, refuse, unauthorized};
use explanation::Explanation;
use galley_request::fault;
use galley_request::{Admission, Site, admit};
use question::{WhyBatch, WhyRequest};

/// Handles `POST /why`.
pub(super) async fn why(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    body: Json<WhyRequest>,
) -> JsonResult {
    let reach = reach(&state, &client);
    if reach == TokenReach::None {
        return Err(unauthorized());
    }
    // On a helper thread, because it reads the disk.
    let explained = tokio::task::spawn_blocking(move || explain(&state, reach, &body.0)).await;
    let value = explained.map_err(|error| failed(&error))??;
    Ok((StatusCode::OK, Json(value)))
}

/// Handles `POST /why/batch`: returns only the decision and the reason for each URL, for lists of pages.
pub(super) async fn batch(
    Extract(state): Extract<Arc<AdminState>>,
    client: AdminClient,
    body: Json<WhyBatch>,
) -> JsonResult {
    let reach = reach(&state, &client);
    if reach == TokenReach::None {
        return Err(unauthorized());
    }
    if body.urls.len() > MAX_URLS {
        let message = format!("at most {MAX_URLS} `urls` at once");
        return Err(refuse(StatusCode::BAD_REQUEST, &message));
    }
    let requests = body.0.requests();
    let explained = tokio::task::spawn_blocking(move || {
        let answers = requests.iter().map(|one| brief(&state, reach, one));
        answers.collect::<Vec<Value>>()
    });
    let pages = explained.await.map_err(|error| failed(&error))?;
    Ok((StatusCode::OK, Json(json!({ "ok": true, "pages": pages }))))
}

fn failed(error: &tokio::task::JoinError) -> JsonReply {
    refuse(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
}

/// The decision on one of many requests, and the reason.
fn brief(state: &AdminState, reach: TokenReach, wanted: &WhyRequest) -> Value {
    match explain(state, reach, wanted) {
        Ok(value) => json!({
            "url": wanted.url, "what": value["now"]["what"], "why": value["advice"]["why"],
            "id": value["advice"]["id"], "params": value["advice"]["params"],
            "age_s": value["entry"]["age_s"],
        }),
        Err((_, Json(error))) => json!({ "url": wanted.url, "error": error["error"] }),
    }
}

fn explain(state: &AdminState, reach: TokenReach, wanted: &WhyRequest) -> Result<Value, JsonReply> {
    let bytes = head::write(wanted).map_err(|why| refuse(StatusCode::BAD_REQUEST, &why))?;
    let limits = wire::HeadLimits {
        head_bytes: usize::MAX,
        ..wire::HeadLimits::default()
    };
    let malformed = |refusal: wire::BadRequest| {
        let status = refusal.status();
        refused(wanted, RefusedWhy::BadRequest, status, &refusal.to_string())
    };
    let mut buffer = wire::HeadBuffer::new();
    let head = match wire::parse(&bytes, &limits, &mut buffer) {
        Ok(ParsedHead::Whole { head, .. }) => head,
        Ok(ParsedHead::Partial) => {
            return Err(refuse(
                StatusCode::BAD_REQUEST,
                "not a single complete request",
            ));
        }
        Err(refusal) => return Ok(malformed(refusal)),
    };
    let framing = match framing::frame(&head) {
        Ok(framing) => framing,
        Err(refusal) => return Ok(malformed(refusal)),
    };
    let host = framing.host.text().unwrap_or_default();
    let choice = choose::choose(state, reach, wanted, host)?;
    let admission = Admission {
        sites: choice.sites,
        client: wanted
            .client
            .map_or(DEFAULT_ADDRESS, |client| SocketAddr::new(client, 0)),
        local: DEFAULT_ADDRESS,
        scheme: scheme(choice.site.as_deref(), wanted),
        request_id: String::new(),
        info: RequestInfo::default(),
        mailbox: None,
    };
    Ok(match admit(admission, &head, &framing) {
        Ok(exchange) => value(
            &Explanation::of(state, exchange, wanted),
            wanted,
            choice.listener,
        ),
        Err((fault, _)) => {
            let note = if fault.note.is_empty() {
                choice.note.as_str()
            } else {
                &fault.note
            };
            refused(wanted, fault.why, fault.status(), note)
        }
    })
}

/// The scheme of a browser's request: that of the URL, if the site speaks TLS.
fn scheme(site: Option<&Site>, wanted: &WhyRequest) -> Scheme {
    let speaks_tls = site.is_some_and(Site::speaks_tls);
    if speaks_tls && !wanted.url.trim_start().starts_with("http://") {
        Scheme::Https
    } else {
        Scheme::Http
    }
}

/// The explanation of a request that is rejected because of its head.
fn refused(wanted: &WhyRequest, why: RefusedWhy, status: u16, note: &str) -> Value {
    let advice = words::refused(why);
    let advice = advice.noting(note);
    let mut value = json!({
        "ok": true,
        "url": wanted.url,
        "now": {
            "what": "refused", "why": why.word(), "status": status,
            "sentence": fault::public_text(status), "upstream": null,
        },
        "advice": advice.value(),
    });
    for name in SECTIONS {
        value[*name] = Value::Null;
    }
    value
}

/// Whether the stored page was assembled from a page and its ESI includes.
fn has_includes(explanation: &Explanation<'_, '_>) -> bool {
    let page = explanation.found.response();
    page.is_some_and(|page| page.assembly().is_some())
}

/// The complete explanation.
fn value(explanation: &Explanation<'_, '_>, wanted: &WhyRequest, listener: Option<&str>) -> Value {
    let decision = decision::decision(explanation);
    let (exchange, state) = (&explanation.exchange, explanation.state);
    let clock = state.services.clock;
    let is_shared = matches!(decision, Decision::Fetch { .. }) && explanation.is_shared();
    let (what, why) = match decision::words(&decision) {
        _ if is_shared => ("hit", Some(SHARED)),
        ("hit", None) if has_includes(explanation) => ("hit", Some(ESI)),
        words => words,
    };
    let entry = explanation
        .found
        .entry
        .as_ref()
        .map(|(entry, _)| entry::whole(clock, &exchange.site, entry));
    let last_not_stored = explanation.last_not_stored.map(|page| {
        let ago_s = clock.tick().since(page.at).as_secs();
        json!({ "why": page.why.word(), "ago_s": ago_s })
    });
    let reason = if is_shared {
        Some(reasons::NOW_SHARED.plain())
    } else {
        decision::sentence(&decision, explanation)
    };
    let status = access::own_status(&decision, exchange).or_else(|| decision::status(&decision));
    let sentence = match &reason {
        Some(reason) => reason.why(),
        None => fault::public_text(status.unwrap_or_default()).to_owned(),
    };
    let mut value = json!({
        "ok": true,
        "url": wanted.url,
        "now": {
            "what": what,
            "why": why,
            "status": status,
            "sentence": sentence,
            "upstream": if is_shared {
                Value::Null
            } else {
                upstream::value(&decision, explanation)
            },
        },
        "advice": decision_advice::advice(&decision, explanation).map(|advice| advice.value()),
        "request": show::request(exchange),
        "site": show::site(exchange, listener),
        "cookies": show::cookies(exchange),
        "rule": show::rule(exchange),
        "access": access::value(exchange),
        "gate": show::gate(exchange),
        "key": show::key(exchange),
        "facets": facets::of_path(exchange),
        "file": explanation.below.value(),
        "entry": entry,
        "not_stored": explanation.reason.as_ref().map(show::reason),
        "last_not_stored": last_not_stored,
        "purges": {
            "published": exchange.site.core.purges.published(),
            "touching": explanation.touching.map(entry::matching_purge),
        },
    });
    if let Some(reason) = reason {
        reason.identify(&mut value["now"]);
    }
    value
}

/// The members that are null for a request that is rejected because of its head.
const SECTIONS: &[&str] = &[
    "request",
    "site",
    "cookies",
    "rule",
    "access",
    "gate",
    "key",
    "facets",
    "file",
    "entry",
    "not_stored",
    "last_not_stored",
    "purges",
];

/// The maximum number of URLs in a batch: pages of WordPress list a few hundred at most.
const MAX_URLS: usize = 200;

/// The default address of client and listener.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
