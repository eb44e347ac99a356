//! The fields that nginx adds to responses.

use crate::added_fields::sorted;
use crate::comparison::WantedFields;
use crate::directive::Directive;
use crate::report::StatementOutcome;
use crate::units;

/// The fields that statements of nginx add, by name in lower case.
pub(super) fn wanted<'d>(statements: &[&'d Directive]) -> WantedFields<'d> {
    let mut fields = WantedFields::new();
    for one in statements {
        let (Some(name), value) = (name_of(one), value_of(one)) else {
            continue;
        };
        if value.as_deref() == Some("") {
            continue;
        }
        let is_first = !fields.contains_key(&name);
        let field = fields.entry(name.clone()).or_default();
        field.value = match (&field.value, value) {
            (_, value) if is_first => value,
            (Some(before), Some(value)) => Some(format!("{before}, {value}")),
            _ => None,
        };
        field.value = field.value.take().map(|value| sorted(&name, &value));
        field.by.push(one);
    }
    fields
}

/// The name of the field that a statement adds, in lower case.
pub(super) fn name_of(directive: &Directive) -> Option<String> {
    match directive.name() {
        "add_header" | "more_set_headers" => {
            let name = name_and_value(directive).0.to_ascii_lowercase();
            (!name.is_empty()).then_some(name)
        }
        "expires" if directive.argument(0) != "off" => Some("cache-control".to_owned()),
        _ => None,
    }
}

fn value_of(directive: &Directive) -> Option<String> {
    if directive.name() == "expires" {
        return lifetime(directive);
    }
    let (name, value) = name_and_value(directive);
    let is_own = header_fate(&name.to_ascii_lowercase(), value).is_some() && !value.is_empty();
    (!is_own).then(|| value.to_owned())
}

/// The value of `Cache-Control` that `expires` sends.
pub(super) fn lifetime(directive: &Directive) -> Option<String> {
    match directive.arguments() {
        [text] => match text.as_str() {
            "epoch" | "-1" => Some("no-cache".to_owned()),
            "max" => Some("max-age=315360000".to_owned()),
            text => units::seconds(text).map(|seconds| format!("max-age={seconds}")),
        },
        _ => None,
    }
}

/// The name and the value of the field of a statement.
pub(super) fn name_and_value(directive: &Directive) -> (&str, &str) {
    let (first, second) = (directive.argument(0), directive.argument(1));
    let (name, value) = match directive.name() {
        "more_set_headers" => first.split_once(':').unwrap_or((first, "")),
        _ => (first, second),
    };
    (name.trim(), value.trim())
}

/// The result for a field that no option sets; `lower`: its name. `None` if an option sets it.
pub(super) fn header_fate(lower: &str, value: &str) -> Option<StatementOutcome> {
    let not_needed = |why: &str| Some(StatementOutcome::NotNeeded(why.to_owned()));
    let not_carried = |remedy: &str| Some(StatementOutcome::NotCarried(remedy.to_owned()));
    let has_variable = value.contains('$');
    match lower {
        _ if value.contains("cache_status") => {
            not_carried("Galley sends Cache-Status (RFC 9211) in place of this field")
        }
        "alt-svc" => not_needed("Galley sends Alt-Svc itself, while its UDP port answers"),
        "vary" if value.to_ascii_lowercase().starts_with("accept-encoding") => {
            not_needed("Galley sends Vary: Accept-Encoding where it applies")
        }
        "vary" => not_carried(VARY),
        "x-powered-by" | "server" | "date" | "age" | "content-length" | "content-encoding"
        | "connection" => not_carried("Galley removes this field, or sends its own"),
        "set-cookie" | "link" | "content-type" | "location" | "etag" | "last-modified" => {
            not_carried(
                "nginx adds this field to those of PHP, and `set_headers` would replace them: see `add_headers`",
            )
        }
        _ if has_variable => {
            not_carried("a value with a variable of nginx: have PHP send the field")
        }
        _ if value.is_empty() => not_needed("nginx adds no field with an empty value"),
        _ => None,
    }
}

const VARY: &str =
    "have PHP send Vary; Galley forwards it, and stores such pages only if the field is in its key";
