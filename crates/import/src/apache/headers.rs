//! `Header` and `ExpiresByType`: the options for them, and the fields of Apache's responses.

use crate::added_fields::sorted;
use crate::comparison::WantedFields;
use crate::directive::Directive;
use crate::draft::{ImportedSite, RuleDraft, RulePriority, Section};
use crate::known::{self, Patterns};
use crate::nginx;
use crate::words::WordList;

use super::parts::{ApacheHost, Part, PartKind};

/// `Header [always] ACTION NAME VALUE`.
struct HeaderChange<'d> {
    is_always: bool,
    /// In lower case.
    action: String,
    name: &'d str,
    value: &'d str,
    has_condition: bool,
}

impl<'d> HeaderChange<'d> {
    fn of(directive: &'d Directive) -> Self {
        let mut words = directive.arguments().iter().map(String::as_str).peekable();
        let table = words.next_if(|word| matches!(*word, "always" | "onsuccess"));
        let mut next = || words.next().unwrap_or_default();
        Self {
            is_always: table == Some("always"),
            action: next().to_ascii_lowercase(),
            name: next(),
            value: next(),
            has_condition: !next().is_empty(),
        }
    }

    /// Whether the value is a text, and not one that Apache computes.
    fn is_fixed(&self) -> bool {
        !self.value.contains('%') && !self.value.is_empty() && !self.has_condition
    }
}

/// Converts `Header [always] set Name "value"`.
pub(super) fn header(directive: &Directive, section: &mut Section, kind: PartKind) {
    let change = HeaderChange::of(directive);
    let (name, value) = (change.name, change.value);
    let lower = name.to_ascii_lowercase();
    let is_own = OWN_FIELDS.contains(lower.as_str());
    match change.action.as_str() {
        _ if change.has_condition => {
            directive.not_carried("a field under a condition: have PHP send it");
        }
        "append" | "merge" if lower == "vary" && value.eq_ignore_ascii_case("accept-encoding") => {
            directive.not_needed("Galley sends Vary: Accept-Encoding where it applies");
        }
        "set" if lower == "strict-transport-security" && kind < PartKind::Files => {
            nginx::hsts(directive, value, section);
        }
        "set" if change.is_fixed() && !is_own && lower != "strict-transport-security" => {
            directive.adds("set_headers", [format!("{name}: {value}")], section);
        }
        "unset" if matches!(lower.as_str(), "x-powered-by" | "server" | "x-pingback") => {
            directive.not_needed("Galley removes this field by default");
        }
        "unset" if !is_own && kind < PartKind::Files => {
            section.hides(name, &directive.origin);
            directive.carried("remove_headers");
        }
        _ => directive.not_carried("set `set_headers` or `remove_headers`, or `hsts`"),
    }
}

const OWN_FIELDS: WordList = WordList("etag vary set-cookie last-modified server x-powered-by");

/// The field that a directive is about, in lower case.
pub(super) fn field_of(directive: &Directive) -> Option<String> {
    match directive.name() {
        "header" => Some(HeaderChange::of(directive).name.to_ascii_lowercase()),
        "expiresbytype" => Some("cache-control".to_owned()),
        _ => None,
    }
}

/// Whether `ExpiresActive` is on: the last one of the site decides.
pub(super) fn expires(parts: &[Part<'_>]) -> bool {
    let directives = parts.iter().flat_map(|part| part.block.iter());
    let last = directives.rev().find(|one| one.name() == "expiresactive");
    last.is_some_and(|one| one.argument(0).eq_ignore_ascii_case("on"))
}

/// The fields of a response that is no error. `parts`: those that apply to its path, in the order in which they are merged.
pub(super) fn wanted<'d>(
    parts: &[&Part<'d>],
    path: &str,
    expires: bool,
    patterns: &Patterns,
) -> WantedFields<'d> {
    let mut tables = [WantedFields::new(), WantedFields::new()];
    let directives = parts.iter().flat_map(|part| part.block.iter().copied());
    let [on_success, _] = &mut tables;
    for one in directives
        .clone()
        .filter(|one| expires && one.name() == "expiresbytype")
    {
        if let Some((pattern, seconds)) = lifetime(one)
            && patterns
                .of(pattern, false)
                .is_some_and(|regex| regex.is_match(path))
        {
            let field = on_success.entry("cache-control".to_owned()).or_default();
            field.value = Some(format!("max-age={seconds}"));
            field.by = vec![one];
        }
    }
    for one in directives.filter(|one| one.name() == "header") {
        let change = HeaderChange::of(one);
        let [on_success, always] = &mut tables;
        let table = if change.is_always { always } else { on_success };
        let name = change.name.to_ascii_lowercase();
        match change.action.as_str() {
            "set" => {
                let field = table.entry(name).or_default();
                field.value = Some(change.value.to_owned()).filter(|_| change.is_fixed());
                field.by = vec![one];
            }
            "unset" => {
                table.remove(&name);
            }
            "add" | "append" | "merge" | "edit" | "edit*" => {
                let field = table.entry(name).or_default();
                field.value = None;
                field.by.push(one);
            }
            _ => {}
        }
    }
    let [mut wanted, always] = tables;
    for (name, field) in always {
        let former = wanted.entry(name).or_default();
        former.value = match (former.by.is_empty(), former.value.take(), field.value) {
            (true, _, value) => value,
            (false, Some(first), Some(second)) => Some(format!("{first}, {second}")),
            _ => None,
        };
        former.by.extend(field.by);
    }
    for (name, field) in &mut wanted {
        field.value = field.value.take().map(|value| sorted(name, &value));
    }
    wanted.retain(|name, _| name != "vary");
    wanted
}

/// Whether the files of the type of an `ExpiresByType` are not those with its usual names: Apache's lists of types differ, and
/// directives change them.
pub(super) fn has_other_types(host: &ApacheHost<'_>, directive: &Directive) -> bool {
    let media_type = directive.argument(0);
    let Some(pattern) = known::paths_of_type(media_type) else {
        return false;
    };
    let has_name = |end: &String| {
        let path = format!("/a.{}", end.trim_start_matches('.'));
        let regex = host.patterns.of(pattern, false);
        regex.is_some_and(|regex| regex.is_match(&path))
    };
    let changes = |one: &&Directive| match one.name() {
        "forcetype" | "removetype" | "typesconfig" => true,
        "addtype" => {
            let is_same = one.argument(0).eq_ignore_ascii_case(media_type);
            let ends = one.arguments().get(1..).unwrap_or_default();
            ends.iter().any(|end| has_name(end) != is_same)
        }
        _ => false,
    };
    let mut directives = host
        .parts
        .iter()
        .flat_map(|part| part.block.iter().copied());
    AMBIGUOUS.contains(media_type) || directives.any(|one| changes(&one))
}

/// Types whose names changed between versions of the list, or that no list has.
const AMBIGUOUS: WordList = WordList(
    "application/javascript application/x-javascript text/javascript image/jpg image/x-icon image/vnd.microsoft.icon",
);

/// Converts `ExpiresByType text/css "access plus 1 year"`.
pub(super) fn expires_by_type(directive: &Directive, site: &mut ImportedSite) {
    let Some((pattern, seconds)) = lifetime(directive) else {
        let remedy = "write a rule with `pattern` and `set_headers`";
        return directive.not_carried(remedy);
    };
    let origin = &directive.origin;
    let mut section = Section::default();
    section.set("pattern", pattern, origin);
    let field = format!("Cache-Control: max-age={seconds}");
    section.add("set_headers", [field], origin);
    site.add_rule(RuleDraft::new(section, RulePriority::Condition));
    directive.carried("a rule with set_headers");
}

/// The paths and the lifetime of `ExpiresByType`. `None` for types that other paths have, too, and for lifetimes since a change.
fn lifetime(directive: &Directive) -> Option<(&'static str, u64)> {
    let text = directive.arguments().get(1..).unwrap_or_default().join(" ");
    let seconds = expiry_seconds(&text).filter(|_| !text.starts_with(['M', 'm']))?;
    Some((known::paths_of_type(directive.argument(0))?, seconds))
}

/// The seconds of `access plus 1 month 2 days` or `A2592000`.
fn expiry_seconds(text: &str) -> Option<u64> {
    if let Some(seconds) = text.strip_prefix('A').and_then(|rest| rest.parse().ok()) {
        return Some(seconds);
    }
    let mut seconds: u64 = 0;
    let mut words = text
        .split_whitespace()
        .filter(|word| !matches!(*word, "access" | "now" | "plus"));
    while let Some(number) = words.next() {
        let number: u64 = number.parse().ok()?;
        let unit = unit_seconds(words.next()?.trim_end_matches('s'))?;
        seconds = seconds.checked_add(number.checked_mul(unit)?)?;
    }
    Some(seconds)
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
