//! `PURGE` and `BAN` from plugins, and what every purge order does.

use bytes::Bytes;
use galley_rules::outcome::{Outcome, RefusedWhy};
use galley_rules::purge::{self, Scope};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::answer::{Answer, Body};
use super::exchange::Exchange;
use crate::durable::Receipt;
use crate::fault::Fault;

/// Obeys a purge request from an allowed address, and answers when it is on the disk; to others the method does not exist.
pub async fn answer(exchange: &Exchange<'_>) -> Result<Answer, Fault> {
    let client = canonical(exchange.client.ip());
    // Behind a proxy on this machine every visitor comes from loopback: what was passed on is nobody's own order.
    let passed_on = exchange
        .head
        .fields()
        .any(|(name, _)| FORWARDED.iter().any(|f| name.eq_ignore_ascii_case(f)));
    let allow = &exchange.site.purge_allow;
    if passed_on || !allow.iter().any(|net| net.contains(&client)) {
        return Err(Fault::new(
            RefusedWhy::Method,
            "PURGE through a proxy, or from an address that `purge_allow` does not name",
        ));
    }
    let core = &exchange.site.core;
    let orders = purge::orders_from_request(&exchange.facts, exchange.head.fields(), &core.rules)
        .map_err(|e| Fault::new(RefusedWhy::BadRequest, e.to_string()))?;
    let mut newest = Receipt::default();
    for order in &orders {
        newest = core
            .epochs
            .publish(order)
            .map_err(|e| Fault::new(RefusedWhy::BadRequest, e.to_string()))?;
        tracing::info!(site = core.name, scope = %order.scope, "purged by request");
    }
    let told = newest.told().await;
    told.log(&core.name);
    let word = match orders.first().map(|order| &order.scope) {
        Some(Scope::Site | Scope::Host(_)) | None => "all",
        Some(Scope::Url { .. }) => "exact",
        Some(Scope::Prefix(_) | Scope::Pattern(_)) => "wildcard",
        Some(Scope::Tag(_)) => "tags",
    };
    let mut fields = HeaderMap::new();
    fields.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("text/plain; charset=utf-8"),
    );
    if let Ok(value) = HeaderValue::from_str(&format!("{word}; count={}", orders.len())) {
        fields.insert(PURGE_RESULT, value);
    }
    let text = match told.warning {
        None => Bytes::from_static(b"purged\n"),
        Some(warning) => format!("purged; {warning}\n").into(),
    };
    Ok(Answer::new(200, fields, Body::Bytes(text), Outcome::Purge))
}

/// An IPv4 client on an IPv6 socket is an IPv4 client.
fn canonical(ip: std::net::IpAddr) -> std::net::IpAddr {
    ip.to_canonical()
}

/// Fields that proxies add to what they pass on.
const FORWARDED: &[&str] = &["x-forwarded-for", "forwarded", "via", "x-real-ip"];

/// What Proxy Cache Purge reads to tell an editor what happened.
const PURGE_RESULT: HeaderName = HeaderName::from_static("cache-purge-result");
