//! Converts `vcl_backend_response` and `vcl_deliver`: lifetimes, and response fields that VCL sets and removes.

use super::idioms::{COMPUTES, contains};
use crate::draft::ImportedSite;
use crate::report::Report;
use crate::tree::ParsedDirective;
use crate::units;

/// Converts a statement of `vcl_backend_response`.
pub(super) fn response(directive: &ParsedDirective, site: &mut ImportedSite, report: &mut Report) {
    let text = directive.words.join(" ");
    let origin = &directive.origin;
    let mut times = OF_TIMES.iter().filter_map(|(name, options)| {
        let time = text.strip_prefix(&format!("set beresp.{name} = "))?;
        Some((units::duration(time)?, options))
    });
    if let Some((time, options)) = times.next() {
        for option in *options {
            site.ttl.set(option, time.clone(), origin);
        }
        let first = options.first().unwrap_or(&"");
        report.carried(directive.id, format!("site.ttl.{first}"));
    } else if text == "set beresp.do_esi = true" {
        site.section.set("esi", true, origin);
        report.carried(directive.id, "esi, for pages with `Surrogate-Control`");
    } else if !field(directive, "beresp.http.", site, report) {
        conditional(directive, STORES, report);
    }
}

/// Durations of Varnish, and the corresponding options of Galley.
const OF_TIMES: &[(&str, &[&str])] = &[
    ("ttl", &["default"]),
    ("grace", &["stale_while_revalidate", "stale_if_error"]),
    ("keep", &["stale_if_error"]),
];

/// Converts a statement of `vcl_deliver`.
pub(super) fn deliver(directive: &ParsedDirective, site: &mut ImportedSite, report: &mut Report) {
    if !field(directive, "resp.http.", site, report) {
        conditional(directive, CACHE_STATUS, report);
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
        "unset" | "remove" => removed(directive, name, prefix, site, report),
        "set" if is_about_cache(&name.to_ascii_lowercase()) => {
            report.not_needed(directive.id, CACHE_STATUS);
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

fn removed(
    directive: &ParsedDirective,
    name: &str,
    prefix: &str,
    site: &mut ImportedSite,
    report: &mut Report,
) {
    let lower = name.to_ascii_lowercase();
    if prefix == "beresp.http." && OF_STORING.contains(&lower.as_str()) {
        report.not_needed(directive.id, STORES);
    } else if OWN_FIELDS.contains(&lower.as_str()) {
        let why = "Galley does not send this field, or needs it (Age)";
        report.not_needed(directive.id, why);
    } else {
        let names = [name.to_owned()];
        directive.adds("remove_headers", names, &mut site.section, report);
    }
}

/// Records that a condition is not needed, except for fields in it that visitors see.
fn conditional(directive: &ParsedDirective, why: &str, report: &mut Report) {
    directive.not_needed(why, report);
    lost_fields(directive.inner(), report);
}

fn lost_fields(block: &[ParsedDirective], report: &mut Report) {
    for directive in block {
        let name = directive.argument(0).to_ascii_lowercase();
        let (prefix, name) = name.split_once("resp.http.").unwrap_or_default();
        let is_of_storing = prefix == "be" && OF_STORING.contains(&name);
        if directive.name() == "set" && !name.is_empty() && !is_of_storing && !is_about_cache(name)
        {
            report.not_carried(
                directive.id,
                "write a rule for the paths, with `set_headers`",
            );
        }
        lost_fields(directive.inner(), report);
    }
    if contains(block, &|one| one.words.join("").contains("return(synth(")) {
        for directive in block {
            directive.not_carried(COMPUTES, report);
        }
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

const STORES: &str =
    "Galley decides from the response what it may store: status, Set-Cookie, Cache-Control, Vary";

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

const OWN_FIELDS: &[&str] = &[
    "x-powered-by",
    "server",
    "via",
    "x-varnish",
    "age",
    "x-pingback",
];
