//! Varnish's VCL, by the idioms of WordPress sites: backends, purges, what passes the cache, lifetimes.
//!
//! VCL is a program. Its conditions about cookies and paths become options; what a condition computes otherwise is reported as not carried.

use std::path::Path;

use crate::draft::{Draft, ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::known;
use crate::ledger::Ledger;
use crate::source::Source;
use crate::tree::{self, Grammar, ParsedDirective};
use crate::units;

/// Converts a VCL file to one site for every host.
pub(crate) fn convert(source: &dyn Source, main: &Path, ledger: &mut Ledger) -> Draft {
    let all = tree::read(source, main, Grammar::Vcl, ledger);
    let mut site = ImportedSite::default();
    site.section.add("hosts", ["*".to_owned()], None);
    for directive in &all {
        match directive.name() {
            "vcl" | "import" => ledger.not_needed(directive.id, "Galley needs no program"),
            "backend" => backend(directive, &mut site, ledger),
            "acl" => acl(directive, &mut site, ledger),
            "probe" => {
                directive.not_needed("Galley notices a failing server by its responses", ledger);
            }
            "sub" => subroutine(directive, &mut site, ledger),
            _ => {}
        }
    }
    site.sort_rules();
    Draft {
        sites: vec![site],
        ..Draft::default()
    }
}

/// `.host = "127.0.0.1"; .port = "8080";`
fn backend(directive: &ParsedDirective, site: &mut ImportedSite, ledger: &mut Ledger) {
    let value = |name: &str| {
        let mut all = directive.inner().iter();
        all.find(|inner| inner.name() == name)
            .map(|inner| inner.argument(1).to_owned())
    };
    let host = value(".host").unwrap_or_else(|| "127.0.0.1".to_owned());
    let port = value(".port").unwrap_or_else(|| "80".to_owned());
    site.section.add(
        "upstream",
        [format!("http://{host}:{port}")],
        Some(&directive.origin),
    );
    ledger.carried(directive.id, "upstream");
    for inner in directive.inner() {
        let option = match inner.name() {
            ".host" | ".port" => Some("upstream"),
            ".connect_timeout" => Some("connect_timeout"),
            ".first_byte_timeout" => Some("first_byte_timeout"),
            ".between_bytes_timeout" => Some("read_timeout"),
            _ => None,
        };
        match (option, units::duration(inner.argument(1))) {
            (Some("upstream"), _) => ledger.carried(inner.id, "upstream"),
            (Some(option), Some(time)) => {
                site.section
                    .set(option, Value::Text(time), Some(&inner.origin));
                ledger.carried(inner.id, option);
            }
            _ if inner.name() == ".max_connections" => {
                site.section.set(
                    "in_flight",
                    Value::Verbatim(number(inner.argument(1))),
                    Some(&inner.origin),
                );
                ledger.carried(inner.id, "in_flight");
            }
            _ => inner.not_needed("Galley notices a failing server by its responses", ledger),
        }
    }
}

fn number(text: &str) -> String {
    text.parse::<u32>().unwrap_or(0).min(65_536).to_string()
}

/// An access list with `purge` in its name permits purges.
fn acl(directive: &ParsedDirective, site: &mut ImportedSite, ledger: &mut Ledger) {
    let is_for_purges = ["purge", "ban"]
        .iter()
        .any(|word| directive.argument(0).contains(word));
    for inner in directive.inner() {
        let words = inner.words.join("");
        let network = match words.as_str() {
            "localhost" => "127.0.0.0/8".to_owned(),
            words => words.to_owned(),
        };
        let address = network.split('/').next().unwrap_or_default();
        if is_for_purges && address.parse::<std::net::IpAddr>().is_ok() {
            site.section
                .add("purge_allow", [network], Some(&inner.origin));
            ledger.carried(inner.id, "purge_allow");
        } else {
            ledger.not_carried(
                inner.id,
                "name addresses and networks in `purge_allow`, `allow` or `admin_allow`",
            );
        }
    }
    if is_for_purges {
        ledger.carried(directive.id, "purge_allow");
    } else {
        ledger.not_carried(directive.id, "use the list in `allow` or `admin_allow`");
    }
}

fn subroutine(directive: &ParsedDirective, site: &mut ImportedSite, ledger: &mut Ledger) {
    match directive.argument(0) {
        "vcl_recv" => {
            ledger.not_needed(directive.id, CONVERTED);
            for inner in directive.inner() {
                receive(inner, site, ledger);
            }
        }
        "vcl_backend_response" | "vcl_fetch" => {
            ledger.not_needed(directive.id, CONVERTED);
            for inner in directive.inner() {
                response(inner, site, ledger);
            }
        }
        "vcl_deliver" => {
            ledger.not_needed(directive.id, CONVERTED);
            for inner in directive.inner() {
                deliver(inner, site, ledger);
            }
        }
        "vcl_hash" if directive.inner().iter().any(is_about_phones) => {
            site.section.set(
                "device_variants",
                Value::Flag(true),
                Some(&directive.origin),
            );
            directive.carried("device_variants", ledger);
        }
        "vcl_hash" | "vcl_hit" | "vcl_miss" | "vcl_pass" | "vcl_pipe" | "vcl_purge"
        | "vcl_init" | "vcl_fini" | "vcl_backend_fetch" | "vcl_synth" | "vcl_backend_error"
        | "vcl_error" => {
            directive.not_needed(
                "Galley's key, purges, WebSockets and error pages need no program",
                ledger,
            );
        }
        _ => directive.not_carried(COMPUTES, ledger),
    }
}

const CONVERTED: &str = "the statements in the subroutine are converted one by one";

/// A statement of `vcl_recv`.
fn receive(directive: &ParsedDirective, site: &mut ImportedSite, ledger: &mut Ledger) {
    let text = directive.words.join(" ");
    let lower = text.to_ascii_lowercase();
    let inner = directive.inner();
    let returns = |what: &str| contains(inner, &|one| one.words.join("").contains(what));
    if !matches!(directive.name(), "if" | "else" | "elseif" | "elsif") {
        statement(directive, &lower, ledger);
        return;
    }
    let is_method = |method: &str| {
        ["req.method", "req.request"]
            .iter()
            .any(|name| lower.contains(&format!("{name} == {method}")))
    };
    if is_method("purge") || is_method("ban") || returns("return(purge)") {
        let why = "Galley accepts PURGE and BAN of the addresses in `purge_allow`";
        directive.not_needed(why, ledger);
    } else if returns("return(pass)") && lower.contains("req.url") {
        paths(directive, &text, site, ledger);
    } else if returns("return(pass)") && lower.contains("req.http.cookie ~") {
        cookies(directive, &text, site, ledger);
    } else if lower.contains("user-agent") && is_about_phones(directive) {
        site.section.set(
            "device_variants",
            Value::Flag(true),
            Some(&directive.origin),
        );
        directive.carried("device_variants", ledger);
    } else if lower.contains("https") || lower.contains("x-forwarded-proto") {
        site.section
            .set("https_redirect", Value::Flag(true), Some(&directive.origin));
        directive.carried("https_redirect", ledger);
    } else if let Some((_, why)) = CONDITIONS.iter().find(|(word, _)| lower.contains(word)) {
        directive.not_needed(why, ledger);
    } else {
        directive.not_carried(COMPUTES, ledger);
    }
}

/// Parts of conditions, and why Galley needs none of what they do.
const CONDITIONS: &[(&str, &str)] = &[
    (
        "authorization",
        "Galley never stores responses to requests with Authorization",
    ),
    (
        "req.method",
        "Galley serves only GET and HEAD from the cache, and refuses methods that it does not know",
    ),
    (
        "req.request",
        "Galley serves only GET and HEAD from the cache, and refuses methods that it does not know",
    ),
    (
        "x-requested-with",
        "Galley knows requests by scripts (admin-ajax.php and the REST API)",
    ),
    ("upgrade", "Galley forwards WebSockets"),
    (
        "req.url",
        "Galley removes tracking parameters and the cookies of files itself (`ignore_query` adds parameters)",
    ),
    (
        "accept-encoding",
        "Galley normalizes the request itself: codings, addresses, cookies, stale pages",
    ),
    (
        "x-forwarded-for",
        "Galley normalizes the request itself: codings, addresses, cookies, stale pages",
    ),
    (
        "cookie",
        "Galley normalizes the request itself: codings, addresses, cookies, stale pages",
    ),
    (
        "grace",
        "Galley normalizes the request itself: codings, addresses, cookies, stale pages",
    ),
    (
        "req.restarts",
        "Galley normalizes the request itself: codings, addresses, cookies, stale pages",
    ),
    (
        "cache-control",
        "the preset ignores Cache-Control of visitors, who could load PHP with it",
    ),
];

/// A statement without a condition.
fn statement(directive: &ParsedDirective, lower: &str, ledger: &mut Ledger) {
    let is_known = [
        "req.http.cookie",
        "req.url",
        "req.http.host",
        "x-forwarded-for",
        "accept-encoding",
        "return",
        "req.backend",
        "req.grace",
        "purge",
        "surrogate-capability",
        "std.log",
        "req.http.proxy",
        "unset req.http",
    ]
    .iter()
    .any(|word| lower.contains(word));
    if is_known {
        ledger.not_needed(
            directive.id,
            "Galley normalizes address, host and cookies itself",
        );
    } else {
        directive.not_carried(COMPUTES, ledger);
    }
}

fn cookies(directive: &ParsedDirective, text: &str, site: &mut ImportedSite, ledger: &mut Ledger) {
    let unknown: Vec<String> = patterns(text)
        .iter()
        .flat_map(|pattern| known::cookies(pattern).unknown)
        .collect();
    if unknown.is_empty() {
        directive.not_needed("the preset knows these cookies", ledger);
        return;
    }
    site.section
        .add("bypass_cookies", unknown, Some(&directive.origin));
    directive.carried("bypass_cookies", ledger);
}

fn paths(directive: &ParsedDirective, text: &str, site: &mut ImportedSite, ledger: &mut Ledger) {
    let unknown: Vec<String> = patterns(text)
        .iter()
        .flat_map(|pattern| known::paths(pattern).unknown)
        .filter(|pattern| !pattern.contains("\\?"))
        .collect();
    if unknown.is_empty() {
        directive.not_needed(
            "the preset knows these paths and parameters of WordPress",
            ledger,
        );
        return;
    }
    let Some(pattern) = known::pattern(&unknown.join("|"), false) else {
        directive.not_carried(COMPUTES, ledger);
        return;
    };
    let mut section = Section::default();
    section.set("pattern", Value::Text(pattern), Some(&directive.origin));
    section.set("cache", Value::Flag(false), Some(&directive.origin));
    site.add_rule(RuleDraft {
        section,
        priority: RulePriority::Pattern,
        length: 0,
    });
    directive.carried("a rule with cache = false", ledger);
}

/// The patterns after each `~` of a condition.
fn patterns(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split(' ').collect();
    let after = |index: usize| {
        words
            .get(index + 1)
            .map(|word| word.trim_end_matches([')', '{']))
    };
    words
        .iter()
        .enumerate()
        .filter(|(_, word)| word.ends_with('~'))
        .filter_map(|(index, _)| after(index))
        .map(|word| {
            if word.matches('(').count() > word.matches(')').count() {
                format!("{word})")
            } else {
                word.to_owned()
            }
        })
        .collect()
}

/// A statement of `vcl_backend_response`.
fn response(directive: &ParsedDirective, site: &mut ImportedSite, ledger: &mut Ledger) {
    let text = directive.words.join(" ");
    let origin = Some(&directive.origin);
    if let Some(time) = text
        .strip_prefix("set beresp.ttl = ")
        .and_then(units::duration)
    {
        site.ttl.set("default", Value::Text(time), origin);
        ledger.carried(directive.id, "site.ttl.default");
    } else if let Some(time) = text
        .strip_prefix("set beresp.grace = ")
        .and_then(units::duration)
    {
        site.ttl
            .set("stale_while_revalidate", Value::Text(time.clone()), origin);
        site.ttl.set("stale_if_error", Value::Text(time), origin);
        ledger.carried(directive.id, "site.ttl.stale_while_revalidate");
    } else if let Some(time) = text
        .strip_prefix("set beresp.keep = ")
        .and_then(units::duration)
    {
        site.ttl.set("stale_if_error", Value::Text(time), origin);
        ledger.carried(directive.id, "site.ttl.stale_if_error");
    } else {
        directive.not_needed(
"Galley decides from the response what it may store: status, Set-Cookie, Cache-Control, Vary",
            ledger,
        );
    }
}

/// A statement of `vcl_deliver`.
fn deliver(directive: &ParsedDirective, site: &mut ImportedSite, ledger: &mut Ledger) {
    let name = directive.argument(0);
    let field = name.strip_prefix("resp.http.").unwrap_or_default();
    let lower = field.to_ascii_lowercase();
    match directive.name() {
        "unset" | "remove"
            if matches!(
                lower.as_str(),
                "x-powered-by" | "server" | "via" | "x-varnish" | "age" | "x-pingback"
            ) =>
        {
            ledger.not_needed(
                directive.id,
                "Galley does not send this field, or needs it (Age)",
            );
        }
        "unset" | "remove" if !field.is_empty() => {
            site.section.add(
                "remove_headers",
                [field.to_owned()],
                Some(&directive.origin),
            );
            ledger.carried(directive.id, "remove_headers");
        }
        "set"
            if !lower.contains("cache")
                && directive.arguments().len() == 3
                && !directive.argument(2).contains('.') =>
        {
            let value = format!("{field}: {}", directive.argument(2));
            site.section
                .add("set_headers", [value], Some(&directive.origin));
            ledger.carried(directive.id, "set_headers");
        }
        _ => directive.not_needed(
            "Galley sends Cache-Status (RFC 9211) with every response",
            ledger,
        ),
    }
}

fn is_about_phones(directive: &ParsedDirective) -> bool {
    let text = directive.words.join(" ").to_ascii_lowercase();
    ["iphone", "android", "x-device", "x-ua", "mobile"]
        .iter()
        .any(|word| text.contains(word))
        || directive.inner().iter().any(is_about_phones)
}

fn contains(block: &[ParsedDirective], holds: &dyn Fn(&ParsedDirective) -> bool) -> bool {
    block
        .iter()
        .any(|one| holds(one) || contains(one.inner(), holds))
}

const COMPUTES: &str = "VCL computes something here: write rules for the paths, or decide in PHP";
