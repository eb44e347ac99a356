//! The request that would be sent upstream, in readable form: the request line, the fields, the script.
//!
//! Only the fields in a fixed list are shown with values; others, such as cookies and credentials, are shown by name only.

use galley_policy::class::Trust;
use galley_policy::cookie;
use galley_policy::decide::Decision;
use galley_policy::forward::{Credentials, UpstreamRequest};
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

use super::Explanation;
use super::below::PathExplanation;
use crate::status;
use galley_request::lookup::LookupPurpose;
use galley_request::{
    NameLookup, Upstream, fetch_request, member_request, needs_visit_link, pass_request, proven,
};

/// The request that would be sent now; null if none would.
pub(super) fn value(decision: &Decision, explanation: &Explanation<'_, '_>) -> Value {
    let exchange = &explanation.exchange;
    let services = &explanation.state.services;
    let (form, request) = match decision {
        Decision::StaleWhileRevalidate | Decision::HitAndRefresh => (
            "trimmed",
            fetch_request(services, exchange, Credentials::None),
        ),
        Decision::Patch | Decision::Fetch { .. } => (
            "trimmed",
            fetch_request(services, exchange, Credentials::OfClient),
        ),
        Decision::Compare => (
            "member",
            member_request(exchange, needs_visit_link(&exchange.site)),
        ),
        Decision::Pass(_) => ("full", pass_request(services, exchange)),
        _ => return Value::Null,
    };
    let kind = match exchange.upstream() {
        Upstream::Files => return Value::Null,
        Upstream::Php(_) => "php",
        Upstream::Http(_) => "http",
    };
    let script = match &explanation.below {
        PathExplanation::Script(script) if kind == "php" => {
            Some(String::from_utf8_lossy(&script.filename).into_owned())
        }
        _ => None,
    };
    let standing = galley_request::standing(services, exchange, LookupPurpose::Explain);
    let stats = exchange.upstream().upstream_stats();
    json!({
        "kind": kind,
        "class": standing.class.word(),
        "proven": standing.trust == Trust::Proven,
        "doubtful": standing.trust == Trust::Doubtful,
        "crawler": proven(services, exchange, NameLookup::KnownOnly),
        "load": stats.map(|stats| status::upstream(stats)),
        "form": form,
        "line": line(&request),
        "fields": fields(&request),
        "script": script,
    })
}

fn line(request: &UpstreamRequest) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let query = request.query.as_deref();
    let query = query.map_or_else(String::new, |query| format!("?{}", text(query)));
    format!("{} {}{query} HTTP/1.1", request.method, text(&request.path))
}

/// The fields as `[name, value]`, the host first.
fn fields(request: &UpstreamRequest) -> Vec<(String, String)> {
    let host = ("host".to_owned(), request.host.clone());
    let fields = request.fields.iter();
    std::iter::once(host)
        .chain(fields.map(|(name, value)| (name.to_string(), shown(name, value))))
        .collect()
}

fn shown(name: &HeaderName, value: &HeaderValue) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match name.as_str() {
        "cookie" => {
            let names = cookie::pairs(value.as_bytes());
            let names: Vec<String> = names
                .map(|p| format!("{}={HIDDEN}", text(p.name)))
                .collect();
            names.join("; ")
        }
        "x-forwarded-for" | "x-real-ip" | "cf-connecting-ip" => "(the client's address)".to_owned(),
        "x-request-id" => "(the request's id)".to_owned(),
        name if SHOWN.binary_search(&name).is_ok() => text(value.as_bytes()),
        _ => HIDDEN.to_owned(),
    }
}

const HIDDEN: &str = "…";

/// Fields whose values contain no personal information beyond that in the query. Sorted.
const SHOWN: &[&str] = &[
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "content-length",
    "content-type",
    "galley-members",
    "galley-request",
    "galley-visit",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "origin",
    "pragma",
    "range",
    "surrogate-capability",
    "user-agent",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-lscache",
    "x-requested-with",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        assert!(SHOWN.is_sorted());
        for (name, value, wanted) in [
            ("cookie", "a=secret; b", "a=…; b=…"),
            ("authorization", "Basic secret", "…"),
            ("x-api-key", "secret", "…"),
            ("x-wp-nonce", "secret", "…"),
            ("accept", "text/html", "text/html"),
        ] {
            let name = HeaderName::from_static(name);
            assert_eq!(shown(&name, &HeaderValue::from_static(value)), wanted);
        }
    }
}
