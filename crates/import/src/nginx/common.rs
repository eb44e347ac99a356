//! Statements with the same meaning in a server and in a location: they set options of the site, or of a rule.

use crate::draft::{Section, Value};
use crate::known;
use crate::nginx::context::Context;
use crate::nginx::table;
use crate::report::{Report, StatementOutcome};
use crate::tree::ParsedDirective;
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
        "client_max_body_size" => match units::size(argument) {
            Some(size) if size == "0B" => directive.sets("request_body", "64GiB", section, report),
            Some(size) => directive.sets("request_body", size, section, report),
            None => report.not_carried(directive.id, "set `request_body`"),
        },
        "add_header" | "more_set_headers" => add_header(directive, scope, section, report),
        "proxy_hide_header" | "fastcgi_hide_header" | "more_clear_headers" => {
            hide_header(directive, section, report);
        }
        "expires" => expires(directive, section, report),
        "allow" | "deny" => {} // Handled together in `access`.
        "auth_basic" if argument == "off" => {
            directive.sets("basic_auth", "off", section, report);
        }
        "auth_basic" => report.carried(directive.id, "basic_auth"),
        "auth_basic_user_file" => {
            directive.sets("basic_auth", argument, section, report);
        }
        "limit_req" => limit(directive, section, context),
        "fastcgi_read_timeout" | "proxy_read_timeout" => {
            let options = ["first_byte_timeout", "read_timeout"];
            timeout(directive, &options, section, report);
        }
        "fastcgi_connect_timeout" | "proxy_connect_timeout" if scope == DirectiveScope::Site => {
            timeout(directive, &["connect_timeout"], section, report);
        }
        "fastcgi_connect_timeout" | "proxy_connect_timeout" => {
            report.not_needed(directive.id, "the site's `connect_timeout` applies");
        }
        "fastcgi_ignore_headers" | "proxy_ignore_headers" => {
            ignore_headers(directive, scope, section, report);
        }
        "fastcgi_request_buffering" | "proxy_request_buffering"
            if scope == DirectiveScope::Rule && argument == "off" =>
        {
            directive.sets("stream_request", true, section, report);
        }
        "fastcgi_param" => fastcgi_param(directive, report),
        "proxy_set_header" => proxy_set_header(directive, report),
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
        directive.adds("set_headers", [format!("{name}: {value}")], section, report);
    }
}

fn name_and_value(directive: &ParsedDirective) -> (&str, &str) {
    let (first, second) = (directive.argument(0), directive.argument(1));
    let (name, value) = match directive.name() {
        "more_set_headers" => first.split_once(':').unwrap_or((first, "")),
        _ => (first, second),
    };
    (name.trim(), value.trim())
}

const ONE_HSTS: &str = "set `hsts` in the site: it is one for all paths of a host";

/// The result for a field that no option sets; `lower`: its name. `None` if an option sets it.
fn header_fate(lower: &str, value: &str) -> Option<StatementOutcome> {
    let not_needed = |why: &str| Some(StatementOutcome::NotNeeded(why.to_owned()));
    let not_carried = |remedy: &str| Some(StatementOutcome::NotCarried(remedy.to_owned()));
    let has_variable = value.contains('$');
    match lower {
        _ if value.contains("cache_status")
            || lower.starts_with("x-cache")
            || lower.contains("-cache-") && has_variable =>
        {
            not_needed("Galley sends Cache-Status (RFC 9211)")
        }
        "alt-svc" => not_carried("Galley does not offer HTTP/3 yet"),
        "vary" if value.to_ascii_lowercase().starts_with("accept-encoding") => {
            not_needed("Galley sends Vary: Accept-Encoding where it applies")
        }
        "vary" if value.eq_ignore_ascii_case("accept") => not_needed(known::PICTURES),
        "vary" => not_carried(VARY),
        "x-powered-by" | "server" => not_needed("Galley removes this field by default"),
        "strict-transport-security" if !value.is_empty() && !has_variable => None,
        _ if has_variable => {
            not_carried("a value with a variable of nginx: have PHP send the field")
        }
        _ if value.is_empty() => not_needed("nginx adds no field with an empty value"),
        _ => None,
    }
}

const VARY: &str =
    "have PHP send Vary; Galley forwards it, and stores such pages only if the field is in its key";

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

fn hsts(directive: &ParsedDirective, value: &str, section: &mut Section, report: &mut Report) {
    let lower = value.to_ascii_lowercase();
    let age = lower
        .split(';')
        .find_map(|part| part.trim().strip_prefix("max-age="));
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
                directive.adds("remove_headers", [name.clone()], section, report);
            }
        }
    }
}

/// Converts `expires 30d`, the lifetime in browsers, to `Cache-Control`.
fn expires(directive: &ParsedDirective, section: &mut Section, report: &mut Report) {
    let value = match directive.argument(0) {
        "off" => {
            return report.not_needed(directive.id, "Galley adds no Expires");
        }
        "epoch" | "-1" | "0" => "no-cache".to_owned(),
        "max" => "max-age=315360000".to_owned(),
        text if text.starts_with('$') => {
            return report.carried(directive.id, "rules for the media types of its map");
        }
        text => {
            if let Some(seconds) = units::seconds(text) {
                format!("max-age={seconds}")
            } else {
                let remedy = "set `Cache-Control` with `set_headers` in a rule";
                return report.not_carried(directive.id, remedy);
            }
        }
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

fn fastcgi_param(directive: &ParsedDirective, report: &mut Report) {
    match directive.argument(0) {
        "PHP_VALUE" | "PHP_ADMIN_VALUE" => {
            let remedy =
                "put these values into the pool of PHP-FPM (`php_admin_value[...]`) or php.ini";
            report.not_carried(directive.id, remedy);
        }
        name if STANDARD_PARAMETERS.contains(&name) || name.starts_with("SSL_") => {
            report.not_needed(directive.id, "Galley sends this parameter itself");
        }
        "GEOIP_COUNTRY_CODE" | "GEOIP_COUNTRY_NAME" => {
            let remedy = "look the country up in PHP, or set `geoip` and `allow_countries` or `deny_countries` if it is about access";
            report.not_carried(directive.id, remedy);
        }
        _ => {
            let remedy = "set the variable in the pool of PHP-FPM (`env[NAME]`)";
            report.not_carried(directive.id, remedy);
        }
    }
}

const STANDARD_PARAMETERS: &[&str] = &[
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "DOCUMENT_URI",
    "GATEWAY_INTERFACE",
    "HTTPS",
    "HTTP_HOST",
    "HTTP_PROXY",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_ADDR",
    "SERVER_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SERVER_SOFTWARE",
    "HTTP_X_FORWARDED_PROTO",
    "HTTP_X_REAL_IP",
    "HTTP_ACCEPT_ENCODING",
];

fn proxy_set_header(directive: &ParsedDirective, report: &mut Report) {
    let name = directive.argument(0).to_ascii_lowercase();
    if FORWARDED_FIELDS.contains(&name.as_str()) || directive.argument(1).is_empty() {
        report.not_needed(
            directive.id,
            "Galley sends the client's address, scheme and host itself",
        );
    } else {
        report.not_carried(
            directive.id,
            "Galley adds no other fields to requests for the upstream",
        );
    }
}

const FORWARDED_FIELDS: &[&str] = &[
    "host",
    "x-real-ip",
    "x-forwarded-for",
    "x-forwarded-proto",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-scheme",
    "x-scheme",
    "connection",
    "upgrade",
    "accept-encoding",
    "forwarded",
    "proxy",
    "x-url-scheme",
    "https",
];

fn limit(directive: &ParsedDirective, section: &mut Section, context: &mut Context<'_>) {
    let option = |name: &str| {
        let mut all = directive.arguments().iter();
        all.find_map(|argument| argument.strip_prefix(name))
    };
    let zone = option("zone=").unwrap_or_default();
    let Some(rate) = context.rates.get(zone) else {
        return context.not_carried(directive, "set `limit`: its zone is not defined here");
    };
    let burst: u32 = option("burst=")
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let value = format!("{{ rate = \"{rate}\", burst = {} }}", burst.max(1));
    directive.sets("limit", Value::Verbatim(value), section, context.report);
}

/// Converts `allow` and `deny` of one block. In nginx the first match decides; Galley has a list of permitted networks, and
/// one of denied networks that takes precedence.
pub(super) fn access(
    block: &[ParsedDirective],
    option: &str,
    section: &mut Section,
    report: &mut Report,
) {
    let mut allowed: Vec<&ParsedDirective> = Vec::new();
    for rule in block {
        let network = rule.argument(0);
        match (rule.name(), network) {
            ("deny", "all") if allowed.is_empty() => {
                section.deny_all(&rule.origin);
                report.carried(rule.id, "deny");
            }
            ("deny", "all") => {
                for allow in allowed.drain(..) {
                    allow.adds(option, [allow.argument(0).to_owned()], section, report);
                }
                report.carried(rule.id, option);
            }
            ("allow", _) if is_network(network) => allowed.push(rule),
            ("deny", _) if is_network(network) && allowed.is_empty() => {
                rule.adds("deny", [network.to_owned()], section, report);
            }
            ("allow", "all") => report.not_needed(rule.id, EVERYBODY),
            ("allow" | "deny", _) => report.not_carried(rule.id, NETWORKS),
            _ => {}
        }
    }
    for allow in allowed {
        report.not_needed(allow.id, EVERYBODY);
    }
}

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
}

const NETWORKS: &str = "Galley takes addresses and networks, and compares `deny` before `allow`";

const EVERYBODY: &str = "without `deny all` behind it every client may";

/// Whether a block denies every request.
pub(super) fn refuses_all(block: &[ParsedDirective]) -> bool {
    block.iter().any(|inner| match inner.name() {
        "deny" => inner.argument(0) == "all",
        "return" => ["403", "404", "444"].contains(&inner.argument(0)),
        _ => false,
    }) && !block.iter().any(|inner| inner.name() == "allow")
}

/// A pattern for a rule, if Galley supports it.
pub(super) fn rule_pattern(text: &str, ignores_case: bool) -> Option<Value> {
    known::pattern(text, ignores_case).map(Value::Text)
}
