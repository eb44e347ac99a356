//! Purge requests of plugins: which clients may send them, and the response. [`galley_policy::purge`] defines their meaning.

use bytes::Bytes;
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::purge::{Dialect, DialectReply, Purge, Scope};
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use subtle::ConstantTimeEq;

use super::exchange::Exchange;
use super::response::{Response, ResponseBody};
use super::site::Site;
use crate::fault::Fault;
use galley_purging::{PurgeReceipt, PurgeSource};
use galley_upstream::body::RequestBody;

/// A purge request in one of the dialects.
pub enum PurgeRequest {
    /// From a client that may purge.
    Allowed(&'static Dialect),
    /// From a client that may not purge, with a method that has no other meaning.
    Forbidden,
}

impl PurgeRequest {
    /// The purge that a request asks for. `None`: an ordinary request. That includes a request of a client that may not purge, unless
    /// its method is `PURGE` or `BAN`.
    pub fn of(exchange: &Exchange<'_>) -> Option<Self> {
        let fields = || exchange.head.fields();
        let dialect = Dialect::of(&exchange.info, fields(), &exchange.site.core.policy)?;
        if dialect.is_get() && !exchange.policy().flags.purge_get {
            return None;
        }
        if may_purge(exchange, dialect) {
            return Some(Self::Allowed(dialect));
        }
        dialect.is_method_of_its_own().then_some(Self::Forbidden)
    }

    /// Whether a request is a purge of a client that may purge.
    pub fn is_allowed(exchange: &Exchange<'_>) -> bool {
        matches!(Self::of(exchange), Some(Self::Allowed(_)))
    }
}

/// Executes a purge, and responds when it is on the disk.
pub async fn respond(exchange: &Exchange<'_>) -> Result<Response, Fault> {
    let Some(PurgeRequest::Allowed(dialect)) = PurgeRequest::of(exchange) else {
        return Err(Fault::new(RefusedWhy::Method, NOT_ALLOWED));
    };
    let refuse = |why: String| Fault::new(RefusedWhy::BadRequest, why);
    let body = body(&exchange.body).ok_or_else(|| refuse("the body is too long".to_owned()))?;
    let fields = exchange.head.fields();
    let purges = dialect
        .purges(&exchange.info, fields, body, &exchange.site.core.policy)
        .map_err(|e| refuse(e.to_string()))?;
    let mut fields = exchange.head.fields();
    let is_second_hand = fields.any(|(name, _)| name.eq_ignore_ascii_case(FORWARDED));
    let source = if is_second_hand {
        PurgeSource::Forward
    } else {
        PurgeSource::Request
    };
    let receipt = execute(&exchange.site, dialect, &purges, source).await;
    Ok(reply(dialect.reply, &purges, &receipt))
}

async fn execute(
    site: &Site,
    dialect: &Dialect,
    purges: &[Purge],
    source: PurgeSource,
) -> PurgeReceipt {
    let receipt = site.core.purges.publish_all(purges, source);
    for purge in purges {
        if site.core.purges.may_log() {
            tracing::info!(site = site.core.name, scope = %purge.scope, dialect = dialect.name, "purged by request");
        }
    }
    let receipt = receipt.acknowledged().await;
    receipt.log(&site.core.name);
    receipt
}

fn reply(form: DialectReply, purges: &[Purge], receipt: &PurgeReceipt) -> Response {
    let word = match purges.first().map(|purge| &purge.scope) {
        _ if form == DialectReply::Tags => "tags",
        Some(Scope::Site | Scope::Host(_)) | None => "all",
        Some(Scope::Url { .. }) => "exact",
        Some(Scope::Prefix(_) | Scope::Pattern(_)) => "wildcard",
        Some(Scope::Tag(_)) => "tags",
    };
    let mut fields = HeaderMap::new();
    if let Ok(value) = HeaderValue::from_str(&format!("{word}; count={}", purges.len())) {
        fields.insert(PURGE_RESULT, value);
    }
    let (status, media_type, text) = match (form, receipt.warning) {
        (DialectReply::Empty, _) => {
            return Response::new(204, fields, ResponseBody::None, Outcome::Purge);
        }
        (DialectReply::Json, _) => (200, "application/json", "{\"status\":\"ok\"}\n".to_owned()),
        (DialectReply::Path | DialectReply::Tags, None) => (200, PLAIN, "purged\n".to_owned()),
        (DialectReply::Path | DialectReply::Tags, Some(warning)) => {
            (200, PLAIN, format!("purged; {warning}\n"))
        }
    };
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    Response::new(
        status,
        fields,
        ResponseBody::Bytes(Bytes::from(text)),
        Outcome::Purge,
    )
}

/// Maximum size of a purge's body: the part of a body that is received in memory.
fn body(body: &RequestBody) -> Option<&[u8]> {
    match body {
        RequestBody::Empty => Some(b""),
        RequestBody::Memory(bytes) => Some(bytes),
        RequestBody::File(_) | RequestBody::Streamed(_) => None,
    }
}

/// A client may purge if it sends the secret, or if its address is in `purge_allow` and no proxy forwarded the request.
fn may_purge(exchange: &Exchange<'_>, dialect: &Dialect) -> bool {
    let fields = || exchange.head.fields();
    let has_secret = exchange.site.purge_secret.as_deref().is_some_and(|secret| {
        fields()
            .filter_map(|(name, value)| offered(name, value))
            .any(|offered| bool::from(offered.ct_eq(secret.as_bytes())))
    });
    if has_secret {
        return true;
    }
    let is_any = |known: &[&str]| {
        fields().any(|(name, _)| known.iter().any(|one| name.eq_ignore_ascii_case(one)))
    };
    // Behind a proxy on this machine every visitor comes from loopback, and WordPress requests any address that a pingback
    // names, so a forwarded request is not a purge of the machine itself. A page can make a browser send any method except
    // these two.
    let is_second_hand =
        is_any(PASSED_ON) || (!dialect.is_method_of_its_own() && is_any(OF_BROWSERS));
    let client = exchange.client.ip().to_canonical();
    let allow = &exchange.site.config.purge_allow;
    !is_second_hand && allow.iter().any(|net| net.contains(&client))
}

/// The secret that a field carries: Galley's own field, a bearer token, Fastly's field, or that of the `VCaching` plugin.
fn offered<'v>(name: &str, value: &'v [u8]) -> Option<&'v [u8]> {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    let value = value.trim_ascii();
    if is("authorization") {
        let (scheme, token) = value.split_at_checked(BEARER.len())?;
        return scheme
            .eq_ignore_ascii_case(BEARER)
            .then_some(token.trim_ascii());
    }
    (is("x-purge-secret") || is("fastly-key") || is("x-vc-purge-key")).then_some(value)
}

/// The log's note for a refused purge.
pub const NOT_ALLOWED: &str = "a purge without the secret, and through a proxy or from an address that `purge_allow` does not contain";

const BEARER: &[u8] = b"Bearer ";

/// Fields that proxies add to forwarded requests, and WordPress to its requests for pingbacks.
const PASSED_ON: &[&str] = &[
    "x-forwarded-for",
    "forwarded",
    "via",
    "x-real-ip",
    "x-pingback-forwarded-for",
];

/// Fields that browsers send and WordPress does not.
const OF_BROWSERS: &[&str] = &["cookie", "origin", "sec-fetch-mode", "sec-fetch-site"];

/// A field of purges that another Galley forwards.
const FORWARDED: &str = "galley-forwarded";

/// The text that Proxy Cache Purge shows to an editor.
const PURGE_RESULT: HeaderName = HeaderName::from_static("cache-purge-result");

const PLAIN: &str = "text/plain; charset=utf-8";
