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
            .map(|inner| inner.argument(1))
    };
    let host = value(".host").unwrap_or("127.0.0.1");
    let port = value(".port").unwrap_or("80");
    let section = &mut site.section;
    directive.adds(
        "upstream",
        [format!("http://{host}:{port}")],
        section,
        ledger,
    );
    for inner in directive.inner() {
        let value = inner.argument(1);
        match (inner.name(), units::duration(value)) {
            (".host" | ".port", _) => ledger.carried(inner.id, "upstream"),
            (".connect_timeout", Some(time)) => {
                inner.sets("connect_timeout", time, section, ledger);
            }
            (".first_byte_timeout", Some(time)) => {
                inner.sets("first_byte_timeout", time, section, ledger);
            }
            (".between_bytes_timeout", Some(time)) => {
                inner.sets("read_timeout", time, section, ledger);
            }
            (".max_connections", _) => {
                inner.sets("in_flight", Value::Verbatim(number(value)), section, ledger);
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
            inner.adds("purge_allow", [network], &mut site.section, ledger);
        } else {
            let remedy = "name addresses and networks in `purge_allow`, `allow` or `admin_allow`";
            ledger.not_carried(inner.id, remedy);
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
        "vcl_recv" => statements(directive, receive, site, ledger),
        "vcl_backend_response" | "vcl_fetch" => statements(directive, response, site, ledger),
        "vcl_deliver" => statements(directive, deliver, site, ledger),
        "vcl_hash" if directive.inner().iter().any(is_about_phones) => {
            switch_on("device_variants", directive, site, ledger);
        }
        "vcl_hash" | "vcl_hit" | "vcl_miss" | "vcl_pass" | "vcl_pipe" | "vcl_purge"
        | "vcl_init" | "vcl_fini" | "vcl_backend_fetch" | "vcl_synth" | "vcl_backend_error"
        | "vcl_error" => {
            let why = "Galley's key, purges, WebSockets and error pages need no program";
            directive.not_needed(why, ledger);
        }
        _ => directive.not_carried(COMPUTES, ledger),
    }
}

fn statements(
    directive: &ParsedDirective,
    convert: fn(&ParsedDirective, &mut ImportedSite, &mut Ledger),
    site: &mut ImportedSite,
    ledger: &mut Ledger,
) {
    ledger.not_needed(directive.id, CONVERTED);
    for inner in directive.inner() {
        convert(inner, site, ledger);
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
        return statement(directive, &lower, ledger);
    }
    let is_method = |method: &str| {
        let mut names = ["req.method", "req.request"].into_iter();
        names.any(|name| lower.contains(&format!("{name} == {method}")))
    };
    if is_method("purge") || is_method("ban") || returns("return(purge)") {
        let why = "Galley accepts PURGE and BAN of the addresses in `purge_allow`";
        directive.not_needed(why, ledger);
    } else if returns("return(pass)") && lower.contains("req.url") {
        paths(directive, &text, site, ledger);
    } else if returns("return(pass)") && lower.contains("req.http.cookie ~") {
        cookies(directive, &text, site, ledger);
    } else if lower.contains("user-agent") && is_about_phones(directive) {
        switch_on("device_variants", directive, site, ledger);
    } else if lower.contains("https") || lower.contains("x-forwarded-proto") {
        switch_on("https_redirect", directive, site, ledger);
    } else if let Some((_, why)) = CONDITIONS.iter().find(|(word, _)| lower.contains(word)) {
        directive.not_needed(why, ledger);
    } else {
        directive.not_carried(COMPUTES, ledger);
    }
}

/// An option for what a condition, with its block, does.
fn switch_on(
    option: &str,
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    ledger: &mut Ledger,
) {
    site.section.set(option, true, &directive.origin);
    directive.carried(option, ledger);
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

/// Parts of statements about what Galley normalizes.
const NORMALIZED: &[&str] = &[
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
];

/// A statement without a condition.
fn statement(directive: &ParsedDirective, lower: &str, ledger: &mut Ledger) {
    if NORMALIZED.iter().any(|word| lower.contains(word)) {
        let why = "Galley normalizes address, host and cookies itself";
        ledger.not_needed(directive.id, why);
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
        return directive.not_needed("the preset knows these cookies", ledger);
    }
    site.section
        .add("bypass_cookies", unknown, &directive.origin);
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
        return directive.not_carried(COMPUTES, ledger);
    };
    let mut section = Section::default();
    section.set("pattern", pattern, &directive.origin);
    section.set("cache", false, &directive.origin);
    site.add_rule(RuleDraft::new(section, RulePriority::Pattern));
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
    let origin = &directive.origin;
    let time = |name: &str| {
        let rest = text.strip_prefix(&format!("set beresp.{name} = "))?;
        units::duration(rest)
    };
    if let Some(time) = time("ttl") {
        site.ttl.set("default", time, origin);
        ledger.carried(directive.id, "site.ttl.default");
    } else if let Some(time) = time("grace") {
        site.ttl.set("stale_while_revalidate", time.clone(), origin);
        site.ttl.set("stale_if_error", time, origin);
        ledger.carried(directive.id, "site.ttl.stale_while_revalidate");
    } else if let Some(time) = time("keep") {
        site.ttl.set("stale_if_error", time, origin);
        ledger.carried(directive.id, "site.ttl.stale_if_error");
    } else {
        let why = "Galley decides from the response what it may store: status, Set-Cookie, Cache-Control, Vary";
        directive.not_needed(why, ledger);
    }
}

/// A statement of `vcl_deliver`.
fn deliver(directive: &ParsedDirective, site: &mut ImportedSite, ledger: &mut Ledger) {
    let field = directive.argument(0).strip_prefix("resp.http.");
    let field = field.unwrap_or_default();
    let lower = field.to_ascii_lowercase();
    let value = directive.argument(2);
    let is_fixed = directive.arguments().len() == 3 && !value.contains('.');
    match directive.name() {
        "unset" | "remove" if OWN_FIELDS.contains(&lower.as_str()) => {
            let why = "Galley does not send this field, or needs it (Age)";
            ledger.not_needed(directive.id, why);
        }
        "unset" | "remove" if !field.is_empty() => {
            let names = [field.to_owned()];
            directive.adds("remove_headers", names, &mut site.section, ledger);
        }
        "set" if !lower.contains("cache") && is_fixed => {
            let fields = [format!("{field}: {value}")];
            directive.adds("set_headers", fields, &mut site.section, ledger);
        }
        _ => {
            let why = "Galley sends Cache-Status (RFC 9211) with every response";
            directive.not_needed(why, ledger);
        }
    }
}

const OWN_FIELDS: &[&str] = &[
    "x-powered-by",
    "server",
    "via",
    "x-varnish",
    "age",
    "x-pingback",
];

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
