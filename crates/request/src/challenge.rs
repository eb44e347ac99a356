//! Style sheets that prove a visit, and `crawl_challenge`: in place of a refusal for a client that has not visited the site, a small
//! page that proves the visit by itself.
//!
//! Pages of sites whose files Galley does not see link to [`LINK`], if the plugin is active ([`Visits::needs_link`]): the same bytes
//! for everybody, which browsers keep for no longer than a visit counts.
//!
//! The page loads a style sheet whose name is a ticket for the client's address, and requests its own address again after three
//! seconds. A browser needs neither a script nor a cookie for that, and the visitor does nothing. A crawler that loads no style
//! sheets sees a 429 with `Retry-After`, or a 503 if it requested a page without a query.
//!
//! Only requests for pages of clients without proof get it, so never a feed, the REST API, a file or a form.
//!
//! [`Visits::needs_link`]: galley_access::Visits::needs_link

use bytes::Bytes;
use galley_policy::class::{Class, Proof, is_page};
use galley_policy::outcome::{Outcome, RefusedWhy};
use galley_policy::request_info::Method;
use http::header::{self, HeaderMap, HeaderValue};

use super::exchange::Exchange;
use super::response::{Response, ResponseBody};
use super::site::Services;
use super::visit;
use crate::fault::Fault;

/// The page in place of a refusal; `None`: the refusal stands.
pub(super) fn page(
    services: &Services,
    exchange: &Exchange<'_>,
    fault: &Fault,
) -> Option<Response> {
    let visits = exchange.site.visits.as_ref()?;
    let (info, now) = (&exchange.info, services.clock.tick());
    let proof = visits.proof(exchange.client.ip(), now);
    let is_visitor = || {
        let class = Class::of(info, proof);
        class == Class::Visitor && proof == Proof::Unproven && is_page(info)
    };
    let is_for = info.method() == Method::Get
        && match fault.why {
            RefusedWhy::Unseen => true,
            RefusedWhy::Overload => is_visitor(),
            _ => false,
        };
    // A client behind a proxy that does not name it can prove nothing, so the page would open itself for ever.
    if !is_for || !exchange.policy().flags.crawl_challenge || !visit::is_known_address(exchange) {
        return None;
    }
    let ticket = visits.ticket(exchange.client.ip(), now);
    let page = html(language(exchange), &ticket);
    let mut response = Response::fault(fault, &exchange.request_id);
    response.body = ResponseBody::Bytes(page.into());
    Some(response)
}

fn html(line: &str, ticket: &str) -> String {
    let mut parts = line.splitn(3, '|');
    let [language, title, text] = std::array::from_fn(|_| parts.next().unwrap_or_default());
    format!(
        "<!doctype html>\n<html lang=\"{language}\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><meta name=\"robots\" content=\"noindex\">\
         <meta http-equiv=\"refresh\" content=\"{REFRESH_S}\"><link rel=\"stylesheet\" href=\"{FOLDER}{ticket}.css\"></head>\
         <body><main><h1>{title}</h1><p role=\"status\">{text}</p></main></body></html>\n"
    )
}

/// The style sheet, if the request is for one; it proves the visit of the client that its name is for.
pub(super) fn style_sheet(
    services: &Services,
    exchange: &Exchange<'_>,
) -> Option<Result<Response, Fault>> {
    let visits = exchange.site.visits.as_ref()?;
    let name = exchange
        .info
        .decoded_path()
        .strip_prefix(FOLDER.as_bytes())?;
    let is_link = name == LINK;
    if exchange.info.method() != Method::Get
        || !(is_link || exchange.policy().flags.crawl_challenge)
    {
        return None;
    }
    let (client, now) = (exchange.client.ip(), services.clock.tick());
    let ticket = name.strip_suffix(b".css").unwrap_or_default();
    if is_link {
        visits.note_link(now);
    } else if !visits.is_ticket(ticket, client, now) {
        let note = "no valid ticket of this client";
        return Some(Err(Fault::new(RefusedWhy::NotFound, note)));
    }
    if !is_link || visits.needs_link() {
        // Otherwise one request for the style sheet would require proof of visitors who are never asked to load it.
        visit::note(services, exchange, true);
    }
    let (lifetime, css) = if is_link {
        (LINK_LIFETIME, LINK_STYLE)
    } else {
        ("no-store", STYLE)
    };
    let mut fields = HeaderMap::new();
    let kind = HeaderValue::from_static("text/css; charset=utf-8");
    fields.insert(header::CONTENT_TYPE, kind);
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static(lifetime));
    let body = ResponseBody::Bytes(Bytes::from_static(css));
    Some(Ok(Response::new(200, fields, body, Outcome::File)))
}

/// The line of the first language of `Accept-Language` in which the page exists, else English. Browsers list the languages in order.
fn language(exchange: &Exchange<'_>) -> &'static str {
    let mut fields = exchange.head.fields();
    let accepted = fields.find(|(name, _)| name.eq_ignore_ascii_case("accept-language"));
    let accepted = accepted.map_or(&b""[..], |(_, value)| value);
    let mut tags = accepted.split(|&byte| byte == b',').take(MAX_LANGUAGES);
    let line_of = |tag: &[u8]| {
        let tag = tag.trim_ascii();
        let end = tag.iter().position(|byte| !byte.is_ascii_alphabetic());
        let primary = tag.get(..end.unwrap_or(tag.len()))?;
        let is_it = |line: &&str| {
            let code = line.split('|').next().unwrap_or_default();
            code.as_bytes().eq_ignore_ascii_case(primary)
        };
        LANGUAGES.lines().find(is_it)
    };
    let english = || LANGUAGES.lines().next().unwrap_or_default();
    tags.find_map(line_of).unwrap_or_else(english)
}

/// Below it are only these style sheets, on sites with `crawl_shield`.
const FOLDER: &str = "/galley-visit/";

/// The style sheet that pages link to. The plugin has the same name.
const LINK: &[u8] = b"style.css";

/// No longer than a visit counts at least, and for this browser only.
const LINK_LIFETIME: &str = "private, max-age=600";

const LINK_STYLE: &[u8] = b"/* Galley: this visitor is no crawler. */\n";

/// Enough to load the style sheet over a slow connection, and short enough to wait for.
const REFRESH_S: u32 = 3;

const STYLE: &[u8] = b"body{font:1.125rem/1.6 system-ui,sans-serif;max-width:34em;margin:15vh auto;padding:0 1em;color:#222;background:#fff}\n";

/// The most languages of a request that are compared.
const MAX_LANGUAGES: usize = 16;

/// A line for each language: its code, the title and the text. English is first.
const LANGUAGES: &str = include_str!("challenge.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_short_in_every_language() {
        for line in LANGUAGES.lines() {
            let page = html(line, "0123456789abcdef-0123456789abcdef");
            assert!(page.len() < 2_048, "{line}: {} bytes", page.len());
            assert_eq!(line.split('|').filter(|part| !part.is_empty()).count(), 3);
        }
    }
}
