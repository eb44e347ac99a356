//! `GET /status`: what the server is and does, as JSON.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::State as Extract;
use axum::http::{HeaderMap, StatusCode};
use galley_rules::route::HostPattern;
use serde_json::{Value, json};

use super::State;
use super::auth::{Reach, reach};
use crate::serve::{Site, Upstream};
use crate::telemetry::counters::CounterReader;

/// Handles `GET /status`.
pub(super) async fn status(
    Extract(state): Extract<Arc<State>>,
    headers: HeaderMap,
) -> (StatusCode, Json<Value>) {
    let visible: Vec<&Arc<Site>> = match reach(&state, &headers) {
        Reach::All => state.sites.iter().collect(),
        Reach::Site(index) => state.sites.get(index).into_iter().collect(),
        Reach::None => {
            return (
                StatusCode::UNAUTHORIZED,
                Json(json!({ "ok": false, "error": "a token is needed" })),
            );
        }
    };
    let usage = state.services.memory.usage();
    let load = state.compositors.iter().map(|compositor| {
        let load = compositor.load();
        (
            load.in_flight.load(Ordering::Relaxed),
            load.waiting.load(Ordering::Relaxed),
        )
    });
    let (in_flight, waiting) = load.fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    let answers: serde_json::Map<String, Value> = CounterReader::sum(&state.counters)
        .into_iter()
        .map(|(word, count)| (word.to_owned(), json!(count)))
        .collect();
    let body = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": state.services.clock.uptime_s(),
        "memory": {
            "entries": usage.entries, "bytes": usage.bytes, "limit": usage.limit, "evictions": usage.evictions,
        },
        "upstream": { "in_flight": in_flight, "waiting": waiting },
        "answers": answers,
        "sites": visible.iter().map(|site| json!({
            "name": site.core.name,
            "hosts": site.hosts.iter().map(written).collect::<Vec<_>>(),
            "upstream": match site.upstream { Upstream::Files => "files", Upstream::Php(_) => "php", Upstream::Http(_) => "http" },
            "purges": site.core.epochs.current(),
        })).collect::<Vec<_>>(),
    });
    (StatusCode::OK, Json(body))
}

/// A host as the configuration writes it.
fn written(host: &HostPattern) -> String {
    match host {
        HostPattern::Exact(name) => name.clone(),
        HostPattern::Wildcard(suffix) => format!("*{suffix}"),
        HostPattern::Any => "*".to_owned(),
    }
}
