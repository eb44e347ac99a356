//! `Header` and `ExpiresByType`.

use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section, Value};
use crate::known;
use crate::ledger::Ledger;
use crate::tree::ParsedDirective;
use crate::units;

/// What a directive in a section applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    Site,
    Paths,
}

/// `Header [always] set Name "value"`.
pub(super) fn header(
    directive: &ParsedDirective,
    section: &mut Section,
    reach: Reach,
    ledger: &mut Ledger,
) {
    let mut words = directive.arguments().to_vec();
    if words
        .first()
        .is_some_and(|word| matches!(word.as_str(), "always" | "onsuccess"))
    {
        words.remove(0);
    }
    let mut words = words.into_iter();
    let action = words.next().unwrap_or_default().to_ascii_lowercase();
    let (name, value) = (
        words.next().unwrap_or_default(),
        words.next().unwrap_or_default(),
    );
    let lower = name.to_ascii_lowercase();
    let origin = Some(&directive.origin);
    match action.as_str() {
        "set" | "add" | "setifempty" | "append" | "merge" if lower == "vary" => {
            ledger.not_needed(directive.id, "Galley sends Vary where it applies");
        }
        "set" if lower == "strict-transport-security" && reach == Reach::Site => {
            let age = value.to_ascii_lowercase();
            let age = age.split(';').find_map(|part| {
                part.trim()
                    .strip_prefix("max-age=")
                    .and_then(units::duration)
            });
            match age {
                Some(age) => {
                    section.set("hsts", Value::Text(age), origin);
                    ledger.carried(directive.id, "hsts");
                }
                None => ledger.not_carried(directive.id, "set `hsts`"),
            }
        }
        "set" | "add" | "setifempty" if !value.contains("%{") && !value.is_empty() => {
            section.add("set_headers", [format!("{name}: {value}")], origin);
            ledger.carried(directive.id, "set_headers");
        }
        "unset"
            if matches!(
                lower.as_str(),
                "etag"
                    | "vary"
                    | "cache-control"
                    | "expires"
                    | "pragma"
                    | "set-cookie"
                    | "last-modified"
            ) =>
        {
            ledger.not_needed(directive.id, "Galley decides about these fields itself");
        }
        "unset" => {
            section.add("remove_headers", [name], origin);
            ledger.carried(directive.id, "remove_headers");
        }
        _ => ledger.not_carried(directive.id, "set `set_headers` or `remove_headers`"),
    }
}

/// `ExpiresByType text/css "access plus 1 year"`.
pub(super) fn expires_by_type(
    directive: &ParsedDirective,
    site: &mut ImportedSite,
    ledger: &mut Ledger,
) {
    let media_type = directive.argument(0);
    let text = directive.arguments().get(1..).unwrap_or_default().join(" ");
    let Some(seconds) = expiry_seconds(&text) else {
        ledger.not_carried(
            directive.id,
            "write a rule with `pattern` and `set_headers`",
        );
        return;
    };
    let Some(pattern) = known::paths_of_type(media_type).filter(|_| seconds > 0) else {
        ledger.not_needed(
            directive.id,
            "Galley lets browsers ask again, and answers 304 from the cache",
        );
        return;
    };
    let origin = Some(&directive.origin);
    let field = format!("Cache-Control: max-age={seconds}");
    let same = site
        .rules
        .iter_mut()
        .find(|rule| rule.section.get("pattern") == Some(&Value::Text(pattern.to_owned())));
    if same.is_none() {
        let mut section = Section::default();
        section.set("pattern", Value::Text(pattern.to_owned()), origin);
        section.add("set_headers", [field], origin);
        site.add_rule(RuleDraft {
            section,
            priority: RulePriority::Pattern,
            length: 0,
        });
    }
    ledger.carried(directive.id, "a rule with set_headers");
}

/// `access plus 1 month 2 days`, `A2592000`.
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
        let unit = words.next()?.trim_end_matches('s');
        let factor = match unit {
            "year" => 365 * 86_400,
            "month" => 30 * 86_400,
            "week" => 7 * 86_400,
            "day" => 86_400,
            "hour" => 3_600,
            "minute" => 60,
            "second" => 1,
            _ => return None,
        };
        all = all.checked_add(number.checked_mul(factor)?)?;
    }
    Some(all)
}
