//! Converts `vcl_backend_response` and `vcl_deliver`: lifetimes, and response fields that VCL sets and removes.

use super::words::computes;
use crate::directive::ParsedDirective;
use crate::draft::ImportedSite;
use crate::report::Report;
use crate::units;

/// Converts a statement of `vcl_backend_response`.
pub(super) fn response(directive: &ParsedDirective, site: &mut ImportedSite, report: &mut Report) {
    let text = directive.words.join(" ");
    let time = |name: &str| {
        text.strip_prefix(&format!("set beresp.{name} = "))
            .map(units::duration)
    };
    if let Some(Some(time)) = time("ttl") {
        site.ttl.set("default", within(&time), &directive.origin);
        report.not_carried(directive.id, "set as lifetime of responses that state none; Varnish applied it to all: see `ignore` and `ttl` of a rule");
    } else if let Some(Some(time)) = time("grace") {
        let known = within(&time);
        for option in ["stale_while_revalidate", "stale_if_error"] {
            site.ttl.set(option, known.clone(), &directive.origin);
        }
        if known == time {
            report.carried(directive.id, "stale_while_revalidate, stale_if_error");
        } else {
            report.not_carried(directive.id, format!("set to the maximum, {known}"));
        }
    } else if !field(directive, "beresp.http.", site, report) {
        computes(directive, report);
    }
}

/// A duration, or the maximum of lifetimes.
fn within(time: &str) -> String {
    let seconds = units::seconds(time).unwrap_or(0);
    if seconds > MAX_DAYS * 86_400 {
        return format!("{MAX_DAYS}d");
    }
    time.to_owned()
}

/// The maximum of `[site.ttl]`.
const MAX_DAYS: u64 = 3_650;

/// Converts a statement of `vcl_deliver`.
pub(super) fn deliver(directive: &ParsedDirective, site: &mut ImportedSite, report: &mut Report) {
    if !field(directive, "resp.http.", site, report) {
        computes(directive, report);
    }
}

/// Converts a field that VCL sets or removes. False if the statement is about something else.
fn field(
    directive: &ParsedDirective,
    prefix: &str,
    site: &mut ImportedSite,
    report: &mut Report,
) -> bool {
    let Some(name) = directive.argument(0).strip_prefix(prefix) else {
        return false;
    };
    match directive.name() {
        "unset" | "remove" => removed(directive, name, site, report),
        "set" if is_about_cache(&name.to_ascii_lowercase()) => {
            report.not_carried(directive.id, CACHE_STATUS);
        }
        "set" => match fixed(directive) {
            Some(value) => {
                let fields = [format!("{name}: {value}")];
                directive.adds("set_headers", fields, &mut site.section, report);
            }
            None => report.not_carried(directive.id, COMPUTED),
        },
        _ => return false,
    }
    true
}

fn removed(directive: &ParsedDirective, name: &str, site: &mut ImportedSite, report: &mut Report) {
    let lower = name.to_ascii_lowercase();
    if OF_STORING.contains(&lower.as_str()) || lower == "age" {
        report.not_carried(
            directive.id,
            "Galley needs this field to decide about storing: see `ignore` in a rule",
        );
    } else if OWN_FIELDS.contains(&lower.as_str()) {
        report.not_needed(directive.id, "Galley does not send this field");
    } else {
        site.section.hides(name, &directive.origin);
        report.carried(directive.id, "remove_headers");
    }
}

/// The value of `set NAME = "VALUE"`. `None` if VCL computes it.
fn fixed(directive: &ParsedDirective) -> Option<&str> {
    match directive.arguments() {
        [_, equals, value] if equals == "=" => {
            let computes = COMPUTED_FROM.iter().any(|start| value.starts_with(start));
            (!computes && !value.is_empty()).then_some(value)
        }
        _ => None,
    }
}

fn is_about_cache(name: &str) -> bool {
    name.contains("cache") && name != "cache-control" || name.starts_with("x-varnish")
}

const CACHE_STATUS: &str = "Galley sends Cache-Status (RFC 9211) with every response";

const COMPUTED: &str = "a value that VCL computes: have PHP send the field";

/// Prefixes of the names of variables.
const COMPUTED_FROM: &[&str] = &[
    "bereq.", "beresp.", "client.", "now", "obj.", "regsub", "req.", "resp.", "server.", "std.",
];

/// Fields that VCL removes so that Varnish stores a response.
const OF_STORING: &[&str] = &[
    "cache-control",
    "etag",
    "expires",
    "last-modified",
    "pragma",
    "set-cookie",
    "vary",
];

const OWN_FIELDS: &[&str] = &["x-powered-by", "server", "via", "x-varnish", "x-pingback"];
