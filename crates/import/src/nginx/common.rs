//! Statements with the same meaning in a server and in a location: they set options of the site, or of a rule.

use galley_policy::access::RateLimit;

use crate::directive::Directive;
use crate::draft::{Section, Value};
use crate::gate::{self, Gate, PartGate, is_network};
use crate::known;
use crate::names::NGINX;
use crate::nginx::context::Context;
use crate::nginx::fields::{header_fate, lifetime, name_and_value};
use crate::units;
use crate::words::WordList;

/// What a statement applies to, which determines the options that it may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectiveScope {
    Site,
    Rule,
}

/// Converts a statement to options of `section`, unless its meaning differs between servers and locations.
pub(super) fn convert(
    directive: &Directive,
    scope: DirectiveScope,
    section: &mut Section,
    context: &mut Context<'_>,
) {
    let argument = directive.argument(0);
    match directive.name() {
        "client_max_body_size" => match units::size(argument).filter(|size| size != "0B") {
            Some(size) => directive.sets("request_body", size, section),
            None => directive.not_carried("set `request_body` to a limit: Galley always has one"),
        },
        "add_header" | "more_set_headers" => add_header(directive, scope, section),
        "proxy_hide_header" | "fastcgi_hide_header" | "more_clear_headers" => {
            hide_header(directive, section);
        }
        "expires" => expires(directive, section),
        "allow" | "deny" => {} // Handled together in `access`.
        _ if is_of_access(directive) => access_by_others(directive, section),
        name if name.ends_with("_no_cache") || name.ends_with("_cache_bypass") => {
            bypasses(directive, context);
        }
        "limit_req" => limit(directive, section, context),
        name if name.ends_with("_read_timeout") => {
            directive.sets_times(&["first_byte_timeout", "read_timeout"], section);
        }
        name if name.ends_with("_connect_timeout") && scope == DirectiveScope::Site => {
            directive.sets_times(&["connect_timeout"], section);
        }
        name if name.ends_with("_connect_timeout") => {
            directive.not_carried("the site's `connect_timeout` applies");
        }
        "fastcgi_request_buffering" | "proxy_request_buffering"
            if scope == DirectiveScope::Rule && argument == "off" =>
        {
            directive.sets("stream_request", true, section);
        }
        "fastcgi_param" if directive.arguments() == ["HTTPS", "on"] => {
            if context.server.plain_ports.is_empty() {
                directive.not_needed("Galley tells PHP the scheme of the visitor");
            } else {
                directive.not_carried(TLS_OF_PROXY);
            }
        }
        "index" => index(directive),
        "root" if scope == DirectiveScope::Rule => {
            let remedy = "Galley has one `root` per site: link the folder into it";
            directive.not_carried(remedy);
        }
        "ssl_protocols" if known::is_tls_13_only(directive.arguments()) => {
            NGINX.record_as("ssl_protocols TLSv1.3", directive);
        }
        name if name.ends_with("_cache_key") && !is_of_address(argument) => {
            directive.not_carried(OTHER_KEY);
        }
        _ => NGINX.record(directive),
    }
}

/// Whether the key of a cache is the address of a page, as in Galley.
pub(super) fn is_of_address(key: &str) -> bool {
    let is_known = |name: &str| {
        let whole = name.strip_prefix('{').and_then(|name| name.split_once('}'));
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = name.find(|c| !is_name(c)).unwrap_or(name.len());
        let name = whole.map_or_else(|| name.get(..end), |(name, _)| Some(name));
        name.is_some_and(|name| OF_ADDRESS.contains(name))
    };
    key.split('$').skip(1).all(is_known)
}

/// Variables that are the same for all requests of a method for an address. `$proxy_host` is the constant in `proxy_pass`.
const OF_ADDRESS: WordList = WordList(
    "scheme request_method host http_host request_uri uri document_uri args query_string is_args proxy_host",
);

const OTHER_KEY: &str = "Galley stores one page per address: write rules with `cache = false` for pages that differ by something else, or name its cookies in \
     `bypass_cookies`";

/// Why PHP would not know that visitors use TLS.
const TLS_OF_PROXY: &str = "name the proxies in `server.trusted_proxies`: Galley tells PHP that a visitor uses TLS if it has accepted the connection itself, or \
     if such a proxy says so in X-Forwarded-Proto";

/// Statements about access, apart from lists of networks and rates.
const OF_ACCESS: WordList =
    WordList("secure_link secure_link_md5 limit_conn ssl_verify_client js_access");

fn is_of_access(directive: &Directive) -> bool {
    let starts = [
        "auth_",
        "access_by_",
        "rewrite_by_",
        "server_rewrite_by_",
        "modsecurity",
    ];
    let name = directive.name();
    OF_ACCESS.contains(name) || starts.iter().any(|start| name.starts_with(start))
}

/// Whether a statement refuses some requests.
pub(super) fn closes(directive: &Directive) -> bool {
    match directive.name() {
        "deny" | "internal" | "limit_except" | "limit_req" | "satisfy" => true,
        "return" => known::is_error_status(directive.argument(0)),
        _ => is_of_access(directive) && directive.argument(0) != "off",
    }
}

/// Converts passwords. What another program decides is left to the owner of the site.
fn access_by_others(directive: &Directive, section: &mut Section) {
    let argument = directive.argument(0);
    match (directive.name(), argument) {
        ("auth_basic", "off") => directive.sets("basic_auth", "off", section),
        ("auth_basic", realm) if !realm.contains('$') => directive.carried("basic_auth"),
        ("auth_basic_user_file", file) if file.starts_with('/') && !file.contains('$') => {
            directive.sets("basic_auth", file, section);
        }
        ("auth_basic_user_file", _) => {
            // Nobody gets in until the file is named.
            section.deny_all(&directive.origin);
            let remedy = "denied for all: name the file with its whole path in `basic_auth`, and remove `deny`";
            directive.not_carried(remedy);
        }
        (_, "off") => directive.not_needed("it is off"),
        _ => directive.undecided(DECIDES),
    }
}

/// Converts a statement with variables for which pages are not stored. Those that statements set are converted there.
fn bypasses(directive: &Directive, context: &mut Context<'_>) {
    for word in directive.arguments() {
        if let Some(cookie) = word.strip_prefix("$cookie_") {
            let cookie = (cookie.to_owned(), directive.origin.clone());
            context.bypass_cookies.push(cookie);
            directive.carried("bypass_cookies");
        } else if context.set_variables.contains(word) || word == "0" {
            directive.not_needed("the conditions are converted where they set the variables");
        } else if word == "$http_authorization" {
            directive.not_needed("Galley stores no response to Authorization");
        } else {
            directive.not_carried("pages are stored for such requests, too: write rules with `cache = false`, or name cookies in `bypass_cookies`");
        }
    }
}

fn index(directive: &Directive) {
    let depends = |name: &String| name.contains('$') || name.starts_with('/');
    match directive.arguments() {
        [first, second, rest @ ..]
            if first == "index.php" && second == "index.html" && !rest.iter().any(depends) =>
        {
            directive.not_needed("Galley looks for index.php, then for index.html");
        }
        _ => {
            let remedy = "Galley looks for index.php, then for index.html, and for no other names";
            directive.not_carried(remedy);
        }
    }
}

/// Converts `Name value` with a value that does not depend on the request.
fn add_header(directive: &Directive, scope: DirectiveScope, section: &mut Section) {
    let (name, value) = name_and_value(directive);
    let lower = name.to_ascii_lowercase();
    if let Some(outcome) = header_fate(&lower, value) {
        directive.entry.record(outcome);
    } else if lower == "strict-transport-security" && scope == DirectiveScope::Rule {
        directive.not_carried(ONE_HSTS);
    } else if lower == "strict-transport-security" {
        hsts(directive, value, section);
    } else if lower == "cache-control" {
        cache_control(directive, value, section);
        directive.carried("set_headers");
    } else {
        let origin = &directive.origin;
        section.add("set_headers", [format!("{name}: {value}")], origin);
        directive.carried("set_headers");
    }
}

const ONE_HSTS: &str = "set `hsts` in the site: it is one for all paths of a host";

/// Adds directives to `Cache-Control`, which a response has only once.
fn cache_control(directive: &Directive, directives: &str, section: &mut Section) {
    let cache_control = section
        .list("set_headers")
        .iter()
        .find_map(|field| field.strip_prefix(CACHE_CONTROL));
    let value = match cache_control {
        Some(cache_control)
            if cache_control.contains("max-age") && directives.starts_with("max-age") =>
        {
            cache_control.to_owned()
        }
        Some(cache_control) => format!("{cache_control}, {directives}"),
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
pub(crate) fn hsts(directive: &Directive, value: &str, section: &mut Section) {
    let lower = value.to_ascii_lowercase();
    let mut parts = lower.split(';').map(str::trim);
    let age = parts.find_map(|part| part.strip_prefix("max-age="));
    let Some(age) = age.and_then(|age| units::duration(age.trim_matches('"'))) else {
        return directive.not_carried("set `hsts`");
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
    directive.carried("hsts");
}

fn hide_header(directive: &Directive, section: &mut Section) {
    for name in directive.arguments() {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "x-powered-by" | "x-pingback" | "server" => {
                directive.not_needed("Galley removes this field by default");
            }
            "vary" | "set-cookie" | "cache-control" | "expires" | "pragma" | "etag"
            | "last-modified" => {
                let remedy = "Galley needs this field to decide about storing: use `ignore` in a rule if the upstream is wrong";
                directive.not_carried(remedy);
            }
            _ => {
                section.hides(name, &directive.origin);
                directive.carried("remove_headers");
            }
        }
    }
}

/// Converts `expires 30d`, the lifetime in browsers, to `Cache-Control`.
fn expires(directive: &Directive, section: &mut Section) {
    let argument = directive.argument(0);
    if argument == "off" {
        return directive.not_needed("Galley adds no Expires");
    }
    let Some(value) = lifetime(directive) else {
        let remedy = "set `Cache-Control` with `set_headers` in a rule: the lifetime depends on the request or the time";
        return directive.not_carried(remedy);
    };
    cache_control(directive, &value, section);
    directive.carried("set_headers");
}

fn limit(directive: &Directive, section: &mut Section, context: &mut Context<'_>) {
    let zone = directive.option("zone=").unwrap_or_default();
    if section.has("limit") {
        return directive.undecided("a site and a rule have one `limit`: set the lower rate");
    }
    let Some(rate) = context.rates.get(zone) else {
        return directive
            .undecided("set `limit`: its zone is not defined here, or does not count addresses");
    };
    let burst: u32 = directive
        .option("burst=")
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let is_possible = RateLimit::parse_rate(rate)
        .is_some_and(|(count, per_s)| RateLimit::new(count, per_s, burst.max(1).into()).is_some());
    if !is_possible {
        return directive.undecided("set `limit`: Galley has no limit of this size");
    }
    let value = format!("{{ rate = \"{rate}\", burst = {} }}", burst.max(1));
    directive.sets("limit", Value::Verbatim(value), section);
}

/// Converts `allow` and `deny` of one block.
pub(super) fn access(block: &[Directive], section: &mut Section) {
    let is_meant = |one: &&Directive| matches!(one.name(), "allow" | "deny");
    let by: Vec<_> = block.iter().filter(is_meant).collect();
    if !by.is_empty() {
        let gate = gate_of(&by);
        gate::apply(&PartGate { gate, by }, section);
    }
}

/// The gate of `allow` and `deny`, of which the first match decides.
fn gate_of(all: &[&Directive]) -> Gate {
    // What is behind `all` never decides.
    let mut before = all.split(|one| one.argument(0) == "all");
    let before = before.next().unwrap_or_default();
    let is_denied = all
        .get(before.len())
        .is_some_and(|one| one.name() == "deny");
    let of = |name: &str| -> Vec<String> {
        let directives = before.iter().filter(|one| one.name() == name);
        directives.map(|one| one.argument(0).to_owned()).collect()
    };
    let (denied, allowed) = (of("deny"), of("allow"));
    match (is_denied, denied.is_empty(), allowed.is_empty()) {
        _ if !before.iter().all(|one| is_network(one.argument(0))) => Gate::Unknown,
        (true, _, true) => Gate::Nobody,
        (true, true, false) => Gate::Allow(allowed),
        (false, true, _) => Gate::Everybody,
        (false, false, _) if before.is_sorted_by_key(|one| one.name() == "allow") => {
            Gate::Deny(denied)
        }
        _ => Gate::Unknown,
    }
}

/// Why a statement about access is left to the owner of the site.
const DECIDES: &str = "another program decides about access here, which Galley does not ask: close the paths with `deny`, or decide in PHP";
