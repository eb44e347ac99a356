//! Proof that a client visits the site: it has loaded a style sheet, script, image or font of the site, or works in its
//! administration.
//!
//! The fast path sends a file to a client that is recorded; the first file of each client in a period takes the slow path, which
//! records the client here. So page hits pay nothing, and file hits one look at the filter. Cookies prove nothing, because anybody
//! can send them. A page of the administration does: WordPress sends it only to a user whose session it has verified, and
//! redirects everybody else to its login.
//!
//! Weak signs order the clients that have proved nothing ([`contradicts_itself`]); facets that a proven client combines beyond
//! small rates put its request among theirs.
//!
//! What proves nothing: errors, files of other kinds, `HEAD`, clients behind a proxy that is not trusted to name them, the proxies
//! themselves. Then all clients of the proxy would share one address, and a visit of one would prove all.

use galley_access::Visits;
use galley_http::head::Version;
use galley_policy::class::{Class, Proof, Standing, is_page};
use galley_policy::outcome::Outcome;
use galley_policy::proxied::UNKNOWN_ADDRESS;
use galley_policy::request_info::{Method, RequestInfo, Scheme};

use super::crawler::{self, NameLookup};
use super::exchange::Exchange;
use super::lookup::LookupPurpose;
use super::response::Response;
use super::site::Services;

/// The standing of a request in the queue of its upstream. Only a request to serve is counted.
pub fn standing(services: &Services, exchange: &Exchange<'_>, purpose: LookupPurpose) -> Standing {
    let crawler = crawler::proven(services, exchange, NameLookup::KnownOnly);
    if crawler.is_some() {
        return Standing::of(&exchange.info, Proof::VerifiedBot, || false);
    }
    let proof = exchange.site.visits.as_ref();
    let now = services.clock.tick();
    let proof = proof.map_or(Proof::NotRequired, |visits| {
        visits.proof(exchange.client.ip(), now)
    });
    let mut standing = Standing::of(&exchange.info, proof, || contradicts_itself(exchange));
    if standing.class != Class::Visitor || !is_page(&exchange.info) {
        return standing;
    }
    if let (Some(visits), LookupPurpose::Serve) = (&exchange.site.visits, purpose) {
        visits.count_page(proof);
    }
    let facets = &exchange.site.core.counters.facets;
    if proof == Proof::Visit
        && let Some(query) = exchange.info.query()
        && facets.are_combined(exchange.info.decoded_path(), query)
        && (purpose == LookupPurpose::Explain
            || !facets.take(
                &services.clients,
                exchange.site.mark,
                exchange.client.ip(),
                now,
            ))
    {
        standing.class = Class::Unseen;
    }
    standing
}

/// Whether a head is not one of a browser of today. Every sign is wrong for somebody, which is why they only order those who wait:
///
/// - HTTP/1.0: wrong for people behind very old proxies.
/// - No `Accept-Language`: wrong for browsers whose extensions remove it, and right for most programs, whose requests for pages
///   are none of people.
/// - A `User-Agent` of Chromium over TLS without `Sec-Fetch-Mode`, which Chromium sends since 2019: wrong for older ones, for some
///   apps that show pages, and for virus scanners that repeat a request.
///
/// Behind a trusted proxy, version and TLS are those of the proxy, and not looked at.
fn contradicts_itself(exchange: &Exchange<'_>) -> bool {
    let has = |wanted: &str| {
        let mut names = exchange.head.fields().map(|(name, _)| name);
        names.any(|name| name.eq_ignore_ascii_case(wanted))
    };
    let is_chromium = || {
        let agent = exchange.info.user_agent().unwrap_or_default();
        memchr::memmem::find(agent, b"Chrome/").is_some()
    };
    let is_direct = !exchange.is_from_proxy;
    let is_old = is_direct && exchange.head.version == Version::H10;
    let is_tls = is_direct && exchange.info.scheme() == Scheme::Https;
    is_old || !has("accept-language") || (is_tls && is_chromium() && !has("sec-fetch-mode"))
}

/// Whether a request is for a file that pages load, by its extension.
pub(super) fn is_part_of_pages(info: &RequestInfo) -> bool {
    let path = info.decoded_path();
    let dot = path
        .iter()
        .rev()
        .take(LONGEST)
        .position(|&byte| byte == b'.');
    let extension = dot.and_then(|at| path.get(path.len() - at..));
    info.method() == Method::Get && extension.is_some_and(|found| PARTS.contains(&found))
}

/// Records the client if it gets a file that pages load.
pub(super) fn note_file(services: &Services, exchange: &Exchange<'_>, response: &Response) {
    let is_sent = matches!(response.status, 200 | 206 | 304) && response.outcome == Outcome::File;
    if is_sent && is_part_of_pages(&exchange.info) {
        note(services, exchange, true);
    }
}

/// Records the client if WordPress answered a request for a page of its administration, `status`, instead of redirecting it.
pub(super) fn note_session(services: &Services, exchange: &Exchange<'_>, status: u16) {
    let path = exchange.info.decoded_path();
    let is_admin = || memchr::memmem::find(path, b"/wp-admin/").is_some();
    let is_public = || PUBLIC.iter().any(|script| path.ends_with(script));
    if status == 200 && exchange.info.has_login() && is_admin() && !is_public() {
        note(services, exchange, false);
    }
}

/// Records the client, unless its address is that of a proxy.
pub(super) fn note(services: &Services, exchange: &Exchange<'_>, is_by_file: bool) {
    let now = services.clock.tick();
    let client = exchange.client.ip();
    let new = |visits: &Visits| visits.unless_known(client, now);
    let Some((visits, new)) =
        (exchange.site.visits.as_deref()).and_then(|visits| Some((visits, new(visits)?)))
    else {
        return;
    };
    if is_known_address(exchange) {
        visits.add(&new, is_by_file, now);
    } else {
        visits.decline(&new);
    }
}

/// Whether the client's address is that of the client, and not that of a proxy.
pub(super) fn is_known_address(exchange: &Exchange<'_>) -> bool {
    let mut names = exchange.head.fields().map(|(name, _)| name);
    let is_forwarded = |name: &str| FORWARDING.iter().any(|one| one.eq_ignore_ascii_case(name));
    exchange.client.ip() != UNKNOWN_ADDRESS.ip()
        && if exchange.is_from_proxy {
            exchange.is_named_by_proxy
        } else {
            !names.any(is_forwarded)
        }
}

/// The extensions of files that pages load.
const PARTS: [&[u8]; 15] = [
    b"css", b"js", b"mjs", b"png", b"jpg", b"jpeg", b"gif", b"webp", b"avif", b"svg", b"ico",
    b"woff", b"woff2", b"ttf", b"otf",
];

/// The longest of them, with the dot.
const LONGEST: usize = 6;

/// Scripts below `wp-admin` that WordPress answers without a session.
const PUBLIC: [&[u8]; 6] = [
    b"/admin-ajax.php",
    b"/admin-post.php",
    b"/load-scripts.php",
    b"/load-styles.php",
    b"/install.php",
    b"/upgrade.php",
];

/// The fields of proxies. A client that sends one itself only gives up its own proof.
const FORWARDING: [&str; 7] = [
    "via",
    "x-forwarded-for",
    "forwarded",
    "x-real-ip",
    "cdn-loop",
    "cf-connecting-ip",
    "true-client-ip",
];
