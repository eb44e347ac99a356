//! Converts `Header` and `ExpiresByType`.

use crate::directive::ParsedDirective;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section};
use crate::report::Report;
use crate::{known, nginx};

/// What a header directive applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderScope {
    Site,
    Paths,
}

/// Converts `Header [always] set Name "value"`.
pub(super) fn header(
    directive: &ParsedDirective,
    section: &mut Section,
    scope: HeaderScope,
    report: &mut Report,
) {
    let words = directive.arguments().iter().map(String::as_str);
    let mut words = words.skip_while(|word| matches!(*word, "always" | "onsuccess"));
    let mut next = || words.next().unwrap_or_default();
    let (action, name, value) = (next().to_ascii_lowercase(), next(), next());
    let lower = name.to_ascii_lowercase();
    match action.as_str() {
        _ if !next().is_empty() => {
            report.not_carried(directive.id, "a field under a condition: have PHP send it");
        }
        "append" | "merge" if lower == "vary" && value.eq_ignore_ascii_case("accept-encoding") => {
            report.not_needed(
                directive.id,
                "Galley sends Vary: Accept-Encoding where it applies",
            );
        }
        "set" if lower == "strict-transport-security" && scope == HeaderScope::Site => {
            nginx::hsts(directive, value, section, report);
        }
        "set" | "add" | "setifempty" if lower == "strict-transport-security" => {
            let remedy = "set `hsts` in the site: it is one for all paths of a host";
            report.not_carried(directive.id, remedy);
        }
        "set" | "add"
            if !value.contains('%')
                && !value.is_empty()
                && !OWN_FIELDS.contains(&lower.as_str()) =>
        {
            let option = if action == "set" {
                "set_headers"
            } else {
                "add_headers"
            };
            directive.adds(option, [format!("{name}: {value}")], section, report);
        }
        "unset" if matches!(lower.as_str(), "x-powered-by" | "server" | "x-pingback") => {
            report.not_needed(directive.id, "Galley removes this field by default");
        }
        "unset" if !OWN_FIELDS.contains(&lower.as_str()) => {
            section.hides(name, &directive.origin);
            report.carried(directive.id, "remove_headers");
        }
        _ => report.not_carried(directive.id, "set `set_headers` or `remove_headers`"),
    }
}

const OWN_FIELDS: &[&str] = &[
    "etag",
    "vary",
    "set-cookie",
    "last-modified",
    "server",
    "x-powered-by",
];

/// Converts `ExpiresByType text/css "access plus 1 year"`.
pub(super) fn expires_by_type(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    report: &mut Report,
) {
    let media_type = directive.argument(0);
    let text = directive.arguments().get(1..).unwrap_or_default().join(" ");
    let seconds = expiry_seconds(&text).filter(|_| !text.starts_with(['M', 'm']));
    let (Some(seconds), Some(pattern)) = (seconds, known::paths_of_type(media_type)) else {
        let remedy = "write a rule with `pattern` and `set_headers`";
        return report.not_carried(directive.id, remedy);
    };
    let origin = &directive.origin;
    let field = format!("Cache-Control: max-age={seconds}");
    let mut known = site.rules.iter();
    if !known.any(|rule| rule.section.text("pattern") == Some(pattern)) {
        let mut section = Section::default();
        section.set("pattern", pattern, origin);
        section.add("set_headers", [field], origin);
        site.add_rule(RuleDraft::new(section, RulePriority::Pattern));
    }
    report.carried(directive.id, "a rule with set_headers");
}

/// The seconds of `access plus 1 month 2 days` or `A2592000`.
fn expiry_seconds(text: &str) -> Option<u64> {
    if let Some(seconds) = text
        .strip_prefix(['A', 'M'])
        .and_then(|rest| rest.parse().ok())
    {
        return Some(seconds);
    }
    let mut all: u64 = 0;
    let mut words = text
        .split_whitespace()
        .filter(|word| !matches!(*word, "access" | "now" | "modification" | "plus"));
    while let Some(number) = words.next() {
        let number: u64 = number.parse().ok()?;
        let unit = unit_seconds(words.next()?.trim_end_matches('s'))?;
        all = all.checked_add(number.checked_mul(unit)?)?;
    }
    Some(all)
}

fn unit_seconds(unit: &str) -> Option<u64> {
    Some(match unit {
        "year" => 365 * 86_400,
        "month" => 30 * 86_400,
        "week" => 7 * 86_400,
        "day" => 86_400,
        "hour" => 3_600,
        "minute" => 60,
        "second" => 1,
        _ => return None,
    })
}
