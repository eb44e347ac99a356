//! `103 Early Hints` (RFC 8297) for a page that the upstream has yet to generate: a browser fetches the style sheets,
//! scripts and fonts that the page's last stored version announced, while PHP works.
//!
//! They are sent only over HTTP/2, because browsers ignore interim responses over HTTP/1.1 and other clients misread them,
//! and only for navigations. The last version may be stale or purged: hints name files of the site and no content of the
//! page (`galley_policy::early_hints`).

use galley_cache::entry::EntryKind;
use galley_http::head::Version;
use galley_policy::early_hints;
use galley_policy::request_info::Method;
use http::{HeaderMap, StatusCode, header};

use super::exchange::Exchange;
use super::lookup::LookupResult;
use galley_upstream::interim::InterimSender;

/// Sends the hints, if there are any. The result is the destination of further interim responses of this exchange.
pub(super) fn send(exchange: &Exchange<'_>, found: &LookupResult) -> Option<InterimSender> {
    if !exchange.policy().flags.early_hints || !is_navigation(exchange) {
        return None;
    }
    let (last, _) = found.entry.as_ref()?;
    if last.kind != EntryKind::Page || last.status != StatusCode::OK {
        return None;
    }
    let host = exchange.info.authority().as_bytes();
    let link = early_hints::hints(&last.fields, host)?;
    let mut fields = HeaderMap::new();
    fields.insert(header::LINK, link);
    let sender = exchange.interim()?;
    sender.send(StatusCode::EARLY_HINTS, &fields);
    Some(sender)
}

/// Whether a browser loads a page over HTTP/2 or HTTP/3 because its user wants to see it now.
fn is_navigation(exchange: &Exchange<'_>) -> bool {
    let head = exchange.head;
    head.version >= Version::H2
        && exchange.info.method() == Method::Get
        && !exchange.info.is_prefetch()
        && head.fields().any(|(name, value)| {
            name.eq_ignore_ascii_case("sec-fetch-mode") && value.trim_ascii() == b"navigate"
        })
}
