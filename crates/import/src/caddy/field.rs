//! Converts fields of responses.

use crate::directive::ParsedDirective;
use crate::draft::Section;
use crate::report::{Report, StatementOutcome};

/// Converts `Name value`, `-Name`, `+Name value`.
pub(super) fn field(
    directive: &ParsedDirective,
    words: &[String],
    section: &mut Section,
    report: &mut Report,
) {
    let word = |place: usize| words.get(place).map_or("", String::as_str);
    let (name, value) = (word(0), word(1));
    let lower = name
        .trim_start_matches(['-', '+', '>'])
        .to_ascii_lowercase();
    let outcome = match name.strip_prefix('-') {
        Some(removed) if matches!(lower.as_str(), "server" | "x-powered-by") => {
            StatementOutcome::NotNeeded(format!("Galley removes `{removed}` by default"))
        }
        Some(removed) if !matches!(lower.as_str(), "etag" | "vary" | "last-modified") && !removed.contains('*') => {
            section.hides(removed, &directive.origin);
            StatementOutcome::Carried("remove_headers".to_owned())
        }
        None if words.len() == 2 && !name.starts_with('?') && !value.is_empty() && !value.contains('{') && !OWN_FIELDS.contains(&lower.as_str()) => {
            let option = if name.starts_with('+') { "add_headers" } else { "set_headers" };
            let field = format!("{}: {value}", name.trim_start_matches(['+', '>']));
            section.add(option, [field], &directive.origin);
            StatementOutcome::Carried(option.to_owned())
        }
        Some(_) | None => StatementOutcome::NotCarried("a field that Galley decides about, or a value that depends on the request or response: have PHP send it".to_owned()),
    };
    report.record(directive.id, outcome);
}

/// Fields that Galley sets itself.
const OWN_FIELDS: &[&str] = &[
    "server",
    "x-powered-by",
    "etag",
    "last-modified",
    "vary",
    "date",
    "age",
    "strict-transport-security",
    "content-length",
    "content-encoding",
];
