//! What several parts of the conversion of VCL use.

use crate::directive::ParsedDirective;
use crate::report::Report;

/// An entry of an access list. `None` for a name or an exclusion.
pub(super) fn network(entry: &ParsedDirective) -> Option<String> {
    let words = entry.words.join("");
    let network = match words.as_str() {
        "localhost" => "127.0.0.0/8",
        words => words,
    };
    let address = network.split('/').next()?;
    let is_address = address.parse::<std::net::IpAddr>().is_ok();
    is_address.then(|| network.to_owned())
}

/// Reports a statement that VCL computes something with, and those in it: what visitors notice, and what to write.
pub(super) fn computes(directive: &ParsedDirective, report: &mut Report) {
    let text = directive.words.join(" ").to_ascii_lowercase();
    let known = NOTICES.iter().find(|(start, _)| text.starts_with(start));
    report.not_carried(directive.id, known.map_or(CONDITION, |(_, remedy)| remedy));
    for inner in directive.inner() {
        computes(inner, report);
    }
}

const CONDITION: &str = "the statements in it have no effect: look at each of them, and write rules for the paths, or decide in PHP";

/// Beginnings of statements, what visitors notice without them, and what to write.
const NOTICES: &[(&str, &str)] = &[
    (
        "set req.url",
        "addresses that Varnish joins are stored one by one: name parameters that change no page in `ignore_query`",
    ),
    (
        "set req.backend",
        "all requests go to the default backend: write a rule with `upstream` for the paths",
    ),
    (
        "set req.http.cookie",
        "PHP gets the cookies that identify visitors, and no others: compare `bypass_cookies`",
    ),
    (
        "unset req.http.cookie",
        "cookies that identify visitors bypass the cache here, too: write a rule with `cache` for the paths",
    ),
    (
        "set req.http.",
        "PHP does not get this field: name the proxies in `server.trusted_proxies`, or set it in PHP",
    ),
    (
        "set beresp.ttl",
        "pages are stored for another time: set `ttl` in a rule for the paths",
    ),
    (
        "set beresp.grace",
        "stale pages are served for another time: set `[site.ttl]`",
    ),
    (
        "set beresp.do_esi",
        "visitors see the ESI tags of pages unless `esi` is on",
    ),
    (
        "set beresp.http.",
        "responses lack this field: write a rule with `set_headers`, or have PHP send it",
    ),
    (
        "set resp.http.",
        "responses lack this field: write a rule with `set_headers`, or have PHP send it",
    ),
    (
        "unset beresp.http.",
        "responses keep this field: see `remove_headers`, and `ignore` in a rule",
    ),
    (
        "return ( synth",
        "visitors get the page of the backend in place of this answer: write a rule with `deny` or `redirect`",
    ),
    (
        "return (synth",
        "visitors get the page of the backend in place of this answer: write a rule with `deny` or `redirect`",
    ),
    (
        "return",
        "whether the page comes from the cache: Galley stores what its preset permits; write a rule with `cache` for the paths",
    ),
];
