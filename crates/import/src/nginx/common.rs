//! Statements with the same meaning in a server and in a location: they set options of the site, or of a rule.

use crate::closed::undecided;
use crate::directive::ParsedDirective;
use crate::draft::{Section, Value};
use crate::nginx::context::Context;
use crate::nginx::fields::{header_fate, lifetime, name_and_value};
use crate::nginx::parameters::{fastcgi_param, proxy_set_header};
use crate::nginx::table;
use crate::report::{Report, StatementOutcome};
use crate::units;

/// What a statement applies to, which determines the options that it may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectiveScope {
    Site,
    Rule,
}

/// Converts a statement to options of `section`, unless its meaning differs between servers and locations.
pub(super) fn convert(
    directive: &ParsedDirective,
    scope: DirectiveScope,
    section: &mut Section,
    context: &mut Context<'_>,
) {
    let argument = directive.argument(0);
    let report = &mut *context.report;
    match directive.name() {
        "client_max_body_size" => match units::size(argument).filter(|size| size != "0B") {
            Some(size) => directive.sets("request_body", size, section, report),
            None => report.not_carried(
                directive.id,
                "set `request_body` to a limit: Galley always has one",
            ),
        },
        "add_header" | "more_set_headers" => add_header(directive, scope, section, report),
        "proxy_hide_header" | "fastcgi_hide_header" | "more_clear_headers" => {
            hide_header(directive, section, report);
        }
        "expires" => expires(directive, scope, section, report),
        "allow" | "deny" => {} // Handled together in `access`.
        name if OF_ACCESS.contains(&name) => access_by_others(directive, section, report),
        "limit_req" => limit(directive, section, context),
        name if name.ends_with("_read_timeout") || name.ends_with("_connect_timeout") => {
            upstream_timeout(directive, scope, section, report);
        }
        "fastcgi_ignore_headers" | "proxy_ignore_headers" => {
            ignore_headers(directive, scope, section, report);
        }
        "fastcgi_request_buffering" | "proxy_request_buffering"
            if scope == DirectiveScope::Rule && argument == "off" =>
        {
            directive.sets("stream_request", true, section, report);
        }
        "fastcgi_param" => fastcgi_param(directive, context),
        "proxy_set_header" => proxy_set_header(directive, report),
        "index" => index(directive, report),
        "root" if scope == DirectiveScope::Rule => {
            let remedy = "Galley has one `root` per site: link the folder into it";
            report.not_carried(directive.id, remedy);
        }
        name => match table::outcome_of(name) {
            Some(StatementOutcome::NotNeeded(why)) => report.not_needed(directive.id, why),
            Some(StatementOutcome::NotCarried(why)) => report.not_carried(directive.id, why),
            Some(StatementOutcome::Carried(_)) | None => {}
        },
    }
}

/// Statements about access, apart from lists of networks and rates.
const OF_ACCESS: &[&str] = &[
    "auth_basic",
    "auth_basic_user_file",
    "auth_request",
    "auth_jwt",
    "secure_link",
    "secure_link_md5",
    "limit_conn",
    "ssl_verify_client",
    "access_by_lua_block",
    "modsecurity",
];

/// Converts passwords. What another program decides is left to the owner of the site.
fn access_by_others(directive: &ParsedDirective, section: &mut Section, report: &mut Report) {
    let argument = directive.argument(0);
    match (directive.name(), argument) {
        ("auth_basic", "off") => directive.sets("basic_auth", "off", section, report),
        ("auth_basic", realm) if !realm.contains('$') => report.carried(directive.id, "basic_auth"),
        ("auth_basic_user_file", file) if file.starts_with('/') && !file.contains('$') => {
            directive.sets("basic_auth", file, section, report);
        }
        ("auth_basic_user_file", _) => {
            // Nobody gets in until the file is named.
            section.deny_all(&directive.origin);
            let remedy = "denied for all: name the file with its whole path in `basic_auth`, and remove `deny`";
            report.not_carried(directive.id, remedy);
        }
        (_, "off") => report.not_needed(directive.id, "it is off"),
        _ => undecided(directive, DECIDES, report),
    }
}

fn index(directive: &ParsedDirective, report: &mut Report) {
    let depends = |name: &String| name.contains('$') || name.starts_with('/');
    match directive.arguments() {
        [first, second, rest @ ..]
            if first == "index.php" && second == "index.html" && !rest.iter().any(depends) =>
        {
            report.not_needed(
                directive.id,
                "Galley looks for index.php, then for index.html",
            );
        }
        _ => {
            let remedy = "Galley looks for index.php, then for index.html, and for no other names";
            report.not_carried(directive.id, remedy);
        }
    }
}

fn upstream_timeout(
    directive: &ParsedDirective,
    scope: DirectiveScope,
    section: &mut Section,
    report: &mut Report,
) {
    let is_read = directive.name().ends_with("_read_timeout");
    match (is_read, scope) {
        (true, _) => timeout(
            directive,
            &["first_byte_timeout", "read_timeout"],
            section,
            report,
        ),
        (false, DirectiveScope::Site) => timeout(directive, &["connect_timeout"], section, report),
        (false, DirectiveScope::Rule) => {
            report.not_carried(directive.id, "the site's `connect_timeout` applies");
        }
    }
}

/// Converts `Name value` with a value that does not depend on the request.
fn add_header(
    directive: &ParsedDirective,
    scope: DirectiveScope,
    section: &mut Section,
    report: &mut Report,
) {
    let (name, value) = name_and_value(directive);
    let lower = name.to_ascii_lowercase();
    if let Some(outcome) = header_fate(&lower, value) {
        report.record(directive.id, outcome);
    } else if lower == "strict-transport-security" && scope == DirectiveScope::Rule {
        report.not_carried(directive.id, ONE_HSTS);
    } else if lower == "strict-transport-security" {
        hsts(directive, value, section, report);
    } else if lower == "cache-control" {
        cache_control(directive, value, section);
        report.carried(directive.id, "set_headers");
    } else {
        let origin = &directive.origin;
        section.add("set_headers", [format!("{name}: {value}")], origin);
        report.carried(directive.id, "set_headers");
    }
}

const ONE_HSTS: &str = "set `hsts` in the site: it is one for all paths of a host";

/// Adds directives to `Cache-Control`, which a response has only once.
fn cache_control(directive: &ParsedDirective, directives: &str, section: &mut Section) {
    let known = section
        .list("set_headers")
        .iter()
        .find_map(|field| field.strip_prefix(CACHE_CONTROL));
    let value = match known {
        Some(known) if known.contains("max-age") && directives.starts_with("max-age") => {
            known.to_owned()
        }
        Some(known) => format!("{known}, {directives}"),
        None => directives.to_owned(),
    };
    section.retain("set_headers", |field| !field.starts_with(CACHE_CONTROL));
    section.add(
        "set_headers",
        [format!("{CACHE_CONTROL}{value}")],
        &directive.origin,
    );
}

const CACHE_CONTROL: &str = "Cache-Control: ";

/// Converts a value of `Strict-Transport-Security`.
pub(crate) fn hsts(
    directive: &ParsedDirective,
    value: &str,
    section: &mut Section,
    report: &mut Report,
) {
    let lower = value.to_ascii_lowercase();
    let mut parts = lower.split(';').map(str::trim);
    let age = parts.find_map(|part| part.strip_prefix("max-age="));
    let Some(age) = age.and_then(|age| units::duration(age.trim_matches('"'))) else {
        return report.not_carried(directive.id, "set `hsts`");
    };
    let origin = &directive.origin;
    section.set("hsts", age, origin);
    for (word, option) in [
        ("includesubdomains", "hsts_subdomains"),
        ("preload", "hsts_preload"),
    ] {
        if lower.contains(word) {
            section.set(option, true, origin);
        }
    }
    report.carried(directive.id, "hsts");
}

fn hide_header(directive: &ParsedDirective, section: &mut Section, report: &mut Report) {
    for name in directive.arguments() {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "x-powered-by" | "x-pingback" | "server" => {
                report.not_needed(directive.id, "Galley removes this field by default");
            }
            "vary" | "set-cookie" | "cache-control" | "expires" | "pragma" | "etag"
            | "last-modified" => {
                let remedy = "Galley needs this field to decide about storing: use `ignore` in a rule if the upstream is wrong";
                report.not_carried(directive.id, remedy);
            }
            _ => {
                section.hides(name, &directive.origin);
                report.carried(directive.id, "remove_headers");
            }
        }
    }
}

/// Converts `expires 30d`, the lifetime in browsers, to `Cache-Control`.
fn expires(
    directive: &ParsedDirective,
    scope: DirectiveScope,
    section: &mut Section,
    report: &mut Report,
) {
    let argument = directive.argument(0);
    if argument == "off" {
        return report.not_needed(directive.id, "Galley adds no Expires");
    }
    if argument.starts_with('$') && scope == DirectiveScope::Site {
        return report.carried(directive.id, "rules for the media types of its map");
    }
    let Some(value) = lifetime(directive) else {
        let remedy = "set `Cache-Control` with `set_headers` in a rule: the lifetime depends on the request or the time";
        return report.not_carried(directive.id, remedy);
    };
    cache_control(directive, &value, section);
    report.carried(directive.id, "set_headers");
}

fn timeout(
    directive: &ParsedDirective,
    options: &[&str],
    section: &mut Section,
    report: &mut Report,
) {
    let Some(time) = units::duration(directive.argument(0)) else {
        return report.not_carried(directive.id, format!("set `{}`", options.join("`, `")));
    };
    for option in options {
        section.set(option, time.clone(), &directive.origin);
    }
    report.carried(directive.id, options.join(", "));
}

fn ignore_headers(
    directive: &ParsedDirective,
    scope: DirectiveScope,
    section: &mut Section,
    report: &mut Report,
) {
    if scope == DirectiveScope::Site {
        let why = "the preset stores pages that say nothing, and never those with Set-Cookie: see `harmless_cookies` and `[[site.rule]] ignore`";
        return report.not_needed(directive.id, why);
    }
    let known = |name: &String| match name.to_ascii_lowercase().as_str() {
        "cache-control" => Some("cache-control".to_owned()),
        "expires" | "x-accel-expires" => Some("expires".to_owned()),
        "set-cookie" => Some("set-cookie".to_owned()),
        "vary" => Some("vary".to_owned()),
        _ => None,
    };
    let fields = directive.arguments().iter().filter_map(known);
    directive.adds("ignore", fields, section, report);
}

fn limit(directive: &ParsedDirective, section: &mut Section, context: &mut Context<'_>) {
    let option = |name: &str| {
        let mut all = directive.arguments().iter();
        all.find_map(|argument| argument.strip_prefix(name))
    };
    let zone = option("zone=").unwrap_or_default();
    let Some(rate) = context.rates.get(zone) else {
        return undecided(
            directive,
            "set `limit`: its zone is not defined here, or does not count addresses",
            context.report,
        );
    };
    let burst: u32 = option("burst=")
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let value = format!("{{ rate = \"{rate}\", burst = {} }}", burst.max(1));
    directive.sets("limit", Value::Verbatim(value), section, context.report);
}

/// Converts `allow` and `deny` of one block. In nginx the first match decides; Galley has a list of permitted networks, and
/// one of denied networks that takes precedence. An order that these lists do not have denies what nginx denies, and more.
pub(super) fn access(block: &[ParsedDirective], section: &mut Section, report: &mut Report) {
    let rules: Vec<&ParsedDirective> = block
        .iter()
        .filter(|one| matches!(one.name(), "allow" | "deny"))
        .collect();
    // What is behind `all` never decides.
    let end = rules.iter().position(|one| one.argument(0) == "all");
    let (before, last) = match end {
        Some(at) => (rules.get(..at).unwrap_or_default(), rules.get(at).copied()),
        None => (rules.as_slice(), None),
    };
    let denies_rest = last.is_some_and(|one| one.name() == "deny");
    let is_plain = before.iter().all(|one| is_network(one.argument(0)));
    let first_allow = before
        .iter()
        .position(|one| one.name() == "allow")
        .unwrap_or(before.len());
    // `deny` before `allow`, as Galley compares them.
    let is_sorted = before
        .get(first_allow..)
        .unwrap_or_default()
        .iter()
        .all(|one| one.name() == "allow");
    for one in before {
        let network = [one.argument(0).to_owned()];
        match one.name() {
            _ if !is_network(one.argument(0)) => report.not_carried(one.id, NETWORKS),
            "deny" => one.adds("deny", network, section, report),
            _ if denies_rest => one.adds("allow", network, section, report),
            _ => report.not_needed(one.id, EVERYBODY),
        }
        if !is_plain && one.name() == "deny" && !is_network(one.argument(0)) {
            section.deny_all(&one.origin);
            report.not_carried(
                one.id,
                "denied for all: name addresses and networks in `deny`",
            );
        }
        if !is_sorted {
            report.not_carried(one.id, NETWORKS);
        }
    }
    if let Some(last) = last {
        match (denies_rest, section.has("allow")) {
            (true, true) => report.carried(last.id, "allow"),
            (true, false) => {
                section.deny_all(&last.origin);
                report.carried(last.id, "deny");
            }
            (false, _) => report.not_needed(last.id, EVERYBODY),
        }
    }
    for behind in rules.iter().skip(end.map_or(rules.len(), |at| at + 1)) {
        report.not_needed(
            behind.id,
            "the statement before it decides about every client",
        );
    }
}

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
}

const NETWORKS: &str = "Galley takes addresses and networks, and compares `deny` before `allow`";

const EVERYBODY: &str = "without `deny all` behind it every client may";

/// Why a statement about access is left to the owner of the site.
const DECIDES: &str = "another program decides about access here, which Galley does not ask: close the paths with `deny`, or decide in PHP";
