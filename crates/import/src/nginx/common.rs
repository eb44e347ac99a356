//! Statements that mean the same in a server and in a location: they set options of the site, or of a rule.

use crate::draft::{Section, Value};
use crate::known;
use crate::ledger::{Ledger, StatementFate};
use crate::nginx::context::Context;
use crate::nginx::table;
use crate::tree::ParsedDirective;
use crate::units;

/// What options a statement may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DirectiveScope {
    Site,
    Rule,
}

/// Converts a statement into options of `section`. A statement that has its own meaning in a server or a location is not one of these.
pub(super) fn convert(
    directive: &ParsedDirective,
    scope: DirectiveScope,
    section: &mut Section,
    context: &mut Context<'_>,
) {
    let origin = Some(&directive.origin);
    let argument = directive.argument(0);
    let ledger = &mut *context.ledger;
    match directive.name() {
        "client_max_body_size" => match units::size(argument) {
            Some(size) if size == "0B" => {
                section.set("request_body", Value::Text("64GiB".to_owned()), origin);
                ledger.carried(directive.id, "request_body");
            }
            Some(size) => {
                section.set("request_body", Value::Text(size), origin);
                ledger.carried(directive.id, "request_body");
            }
            None => ledger.not_carried(directive.id, "set `request_body`"),
        },
        "add_header" | "more_set_headers" => add_header(directive, scope, section, ledger),
        "proxy_hide_header" | "fastcgi_hide_header" | "more_clear_headers" => {
            hide_header(directive, section, ledger);
        }
        "expires" => expires(directive, section, ledger),
        "allow" | "deny" => {} // Together, in `access`.
        "auth_basic" if argument == "off" => {
            section.set("basic_auth", Value::Text("off".to_owned()), origin);
            ledger.carried(directive.id, "basic_auth");
        }
        "auth_basic" => ledger.carried(directive.id, "basic_auth"),
        "auth_basic_user_file" => {
            section.set("basic_auth", Value::Text(argument.to_owned()), origin);
            ledger.carried(directive.id, "basic_auth");
        }
        "limit_req" => limit(directive, section, context),
        "limit_req_status" | "limit_req_log_level" | "limit_req_dry_run" => {
            ledger.not_needed(
                directive.id,
                "Galley answers 429, and logs limited requests",
            );
        }
        "fastcgi_read_timeout" | "proxy_read_timeout" => {
            timeout(
                directive,
                &["first_byte_timeout", "read_timeout"],
                section,
                ledger,
            );
        }
        "fastcgi_connect_timeout" | "proxy_connect_timeout" if scope == DirectiveScope::Site => {
            timeout(directive, &["connect_timeout"], section, ledger);
        }
        "fastcgi_connect_timeout" | "proxy_connect_timeout" => {
            ledger.not_needed(directive.id, "the site's `connect_timeout` applies");
        }
        "fastcgi_send_timeout" | "proxy_send_timeout" => {
            ledger.not_needed(
                directive.id,
                "Galley sends a body that it has received completely",
            );
        }
        "fastcgi_ignore_headers" | "proxy_ignore_headers" => {
            ignore_headers(directive, scope, section, ledger);
        }
        "fastcgi_param" => fastcgi_param(directive, ledger),
        "proxy_set_header" => proxy_set_header(directive, ledger),
        "root" if scope == DirectiveScope::Rule => {
            let remedy = "Galley has one `root` per site: link the folder into it";
            ledger.not_carried(directive.id, remedy);
        }
        name => match table::fate_of(name) {
            Some(StatementFate::NotNeeded(why)) => ledger.not_needed(directive.id, why),
            Some(StatementFate::NotCarried(why)) => ledger.not_carried(directive.id, why),
            Some(StatementFate::Carried(_)) | None => {}
        },
    }
}

/// `Name value` with a value that does not depend on the request.
fn add_header(
    directive: &ParsedDirective,
    scope: DirectiveScope,
    section: &mut Section,
    ledger: &mut Ledger,
) {
    let (name, value) = match directive.name() {
        "more_set_headers" => directive
            .argument(0)
            .split_once(':')
            .map_or((directive.argument(0), ""), |(name, value)| {
                (name.trim(), value.trim())
            }),
        _ => (directive.argument(0), directive.argument(1)),
    };
    let lower = name.to_ascii_lowercase();
    if value.contains("cache_status")
        || lower.starts_with("x-cache")
        || lower.contains("-cache-") && value.contains('$')
    {
        ledger.not_needed(directive.id, "Galley sends Cache-Status (RFC 9211)");
    } else if lower == "strict-transport-security" && scope == DirectiveScope::Site {
        hsts(directive, value, section, ledger);
    } else if lower == "alt-svc" {
        ledger.not_carried(directive.id, "Galley does not offer HTTP/3 yet");
    } else if lower == "vary" && value.to_ascii_lowercase().starts_with("accept-encoding") {
        ledger.not_needed(
            directive.id,
            "Galley sends Vary: Accept-Encoding where it applies",
        );
    } else if lower == "vary" {
        let remedy = "have PHP send Vary; Galley forwards it, and stores such pages only if the field is in its key";
        ledger.not_carried(directive.id, remedy);
    } else if lower == "x-powered-by" || lower == "server" {
        ledger.not_needed(directive.id, "Galley removes this field by default");
    } else if value.contains('$') {
        let remedy = "a value with a variable of nginx: have PHP send the field";
        ledger.not_carried(directive.id, remedy);
    } else if value.is_empty() {
        ledger.not_needed(directive.id, "nginx adds no field with an empty value");
    } else if lower == "cache-control" {
        cache_control(directive, value, section);
        ledger.carried(directive.id, "set_headers");
    } else {
        section.add(
            "set_headers",
            [format!("{name}: {value}")],
            Some(&directive.origin),
        );
        ledger.carried(directive.id, "set_headers");
    }
}

/// Adds directives of `Cache-Control` to the one field that a response has.
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
        Some(&directive.origin),
    );
}

const CACHE_CONTROL: &str = "Cache-Control: ";

fn hsts(directive: &ParsedDirective, value: &str, section: &mut Section, ledger: &mut Ledger) {
    let lower = value.to_ascii_lowercase();
    let age = lower
        .split(';')
        .find_map(|part| part.trim().strip_prefix("max-age="));
    let Some(age) = age.and_then(|age| units::duration(age.trim_matches('"'))) else {
        ledger.not_carried(directive.id, "set `hsts`");
        return;
    };
    let origin = Some(&directive.origin);
    section.set("hsts", Value::Text(age), origin);
    for (word, option) in [
        ("includesubdomains", "hsts_subdomains"),
        ("preload", "hsts_preload"),
    ] {
        if lower.contains(word) {
            section.set(option, Value::Flag(true), origin);
        }
    }
    ledger.carried(directive.id, "hsts");
}

fn hide_header(directive: &ParsedDirective, section: &mut Section, ledger: &mut Ledger) {
    for name in directive.arguments() {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "x-powered-by" | "x-pingback" | "server" => {
                ledger.not_needed(directive.id, "Galley removes this field by default");
            }
            "vary" | "set-cookie" | "cache-control" | "expires" | "pragma" | "etag"
            | "last-modified" => {
                let remedy = "Galley needs this field to decide about storing: use `ignore` in a rule if the upstream is wrong";
                ledger.not_carried(directive.id, remedy);
            }
            _ => {
                section.add("remove_headers", [name.clone()], Some(&directive.origin));
                ledger.carried(directive.id, "remove_headers");
            }
        }
    }
}

/// `expires 30d` is what browsers may keep, which Galley sends in `Cache-Control`.
fn expires(directive: &ParsedDirective, section: &mut Section, ledger: &mut Ledger) {
    let value = match directive.argument(0) {
        "off" => {
            ledger.not_needed(directive.id, "Galley adds no Expires");
            return;
        }
        "epoch" | "-1" | "0" => "no-cache".to_owned(),
        "max" => "max-age=315360000".to_owned(),
        text if text.starts_with('$') => {
            ledger.carried(directive.id, "rules for the media types of its map");
            return;
        }
        text => {
            if let Some(seconds) = units::seconds(text) {
                format!("max-age={seconds}")
            } else {
                let remedy = "set `Cache-Control` with `set_headers` in a rule";
                ledger.not_carried(directive.id, remedy);
                return;
            }
        }
    };
    cache_control(directive, &value, section);
    ledger.carried(directive.id, "set_headers");
}

fn timeout(
    directive: &ParsedDirective,
    options: &[&str],
    section: &mut Section,
    ledger: &mut Ledger,
) {
    let Some(time) = units::duration(directive.argument(0)) else {
        ledger.not_carried(directive.id, format!("set `{}`", options.join("`, `")));
        return;
    };
    for option in options {
        section.set(option, Value::Text(time.clone()), Some(&directive.origin));
    }
    ledger.carried(directive.id, options.join(", "));
}

fn ignore_headers(
    directive: &ParsedDirective,
    scope: DirectiveScope,
    section: &mut Section,
    ledger: &mut Ledger,
) {
    if scope == DirectiveScope::Site {
        let why = "the preset stores pages that say nothing, and never those with Set-Cookie: see `harmless_cookies` and `[[site.rule]] ignore`";
        ledger.not_needed(directive.id, why);
        return;
    }
    let known = |name: &String| match name.to_ascii_lowercase().as_str() {
        "cache-control" => Some("cache-control".to_owned()),
        "expires" | "x-accel-expires" => Some("expires".to_owned()),
        "set-cookie" => Some("set-cookie".to_owned()),
        "vary" => Some("vary".to_owned()),
        _ => None,
    };
    let fields = directive.arguments().iter().filter_map(known);
    section.add("ignore", fields, Some(&directive.origin));
    ledger.carried(directive.id, "ignore");
}

fn fastcgi_param(directive: &ParsedDirective, ledger: &mut Ledger) {
    match directive.argument(0) {
        "PHP_VALUE" | "PHP_ADMIN_VALUE" => {
            let remedy =
                "put these values into the pool of PHP-FPM (`php_admin_value[...]`) or php.ini";
            ledger.not_carried(directive.id, remedy);
        }
        name if STANDARD_PARAMETERS.contains(&name) || name.starts_with("SSL_") => {
            ledger.not_needed(directive.id, "Galley sends this parameter itself");
        }
        "GEOIP_COUNTRY_CODE" | "GEOIP_COUNTRY_NAME" => {
            ledger.not_carried(directive.id, "look the country up in PHP");
        }
        _ => {
            let remedy = "set the variable in the pool of PHP-FPM (`env[NAME]`)";
            ledger.not_carried(directive.id, remedy);
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

fn proxy_set_header(directive: &ParsedDirective, ledger: &mut Ledger) {
    let name = directive.argument(0).to_ascii_lowercase();
    if FORWARDED_FIELDS.contains(&name.as_str()) || directive.argument(1).is_empty() {
        ledger.not_needed(
            directive.id,
            "Galley sends the client's address, scheme and host itself",
        );
    } else {
        ledger.not_carried(
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
        context
            .ledger
            .not_carried(directive.id, "set `limit`: its zone is not defined here");
        return;
    };
    let burst: u32 = option("burst=")
        .and_then(|text| text.parse().ok())
        .unwrap_or(1);
    let value = format!("{{ rate = \"{rate}\", burst = {} }}", burst.max(1));
    section.set("limit", Value::Verbatim(value), Some(&directive.origin));
    context.ledger.carried(directive.id, "limit");
}

/// `allow` and `deny` of one block. nginx takes the first that matches; Galley has a list of permitted networks, and one of refused ones
/// that comes first.
pub(super) fn access(
    block: &[ParsedDirective],
    option: &str,
    section: &mut Section,
    ledger: &mut Ledger,
) {
    let mut allowed: Vec<&ParsedDirective> = Vec::new();
    let rules = block
        .iter()
        .filter(|inner| matches!(inner.name(), "allow" | "deny"));
    for rule in rules {
        let (origin, network) = (Some(&rule.origin), rule.argument(0));
        match (rule.name(), network) {
            ("deny", "all") if allowed.is_empty() => {
                section.add("deny", ["0.0.0.0/0".to_owned(), "::/0".to_owned()], origin);
                ledger.carried(rule.id, "deny");
            }
            ("deny", "all") => {
                for allow in std::mem::take(&mut allowed) {
                    section.add(option, [allow.argument(0).to_owned()], Some(&allow.origin));
                    ledger.carried(allow.id, option);
                }
                ledger.carried(rule.id, option);
            }
            ("allow", _) if is_network(network) => allowed.push(rule),
            ("deny", _) if is_network(network) && allowed.is_empty() => {
                section.add("deny", [network.to_owned()], origin);
                ledger.carried(rule.id, "deny");
            }
            ("allow", "all") => ledger.not_needed(rule.id, EVERYBODY),
            _ => {
                let remedy =
                    "Galley takes addresses and networks, and compares `deny` before `allow`";
                ledger.not_carried(rule.id, remedy);
            }
        }
    }
    for allow in allowed {
        ledger.not_needed(allow.id, EVERYBODY);
    }
}

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
}

const EVERYBODY: &str = "without `deny all` behind it every client may";

/// Whether a block refuses every request.
pub(super) fn refuses_all(block: &[ParsedDirective]) -> bool {
    block.iter().any(|inner| match inner.name() {
        "deny" => inner.argument(0) == "all",
        "return" => ["403", "404", "444"].contains(&inner.argument(0)),
        _ => false,
    }) && !block.iter().any(|inner| inner.name() == "allow")
}

/// A pattern for a rule, if Galley's regular expressions have it.
pub(super) fn rule_pattern(text: &str, ignores_case: bool) -> Option<Value> {
    known::pattern(text, ignores_case).map(Value::Text)
}
