//! Writes a draft as a configuration file. Each option has a comment with its origin.

use std::fmt::Write as _;

use crate::draft::{Draft, ImportedSite, Section, Setting, Value};

/// The text of the file. It is not checked here; loading the file does that.
pub(crate) fn write(draft: &Draft, head: &str) -> String {
    let mut text = String::new();
    for line in head.lines() {
        let _ = writeln!(text, "# {line}");
    }
    section(&mut text, "[server]", &draft.server);
    section(&mut text, "[cache]", &draft.cache);
    section(&mut text, "[log]", &draft.log);
    section(&mut text, "[acme]", &draft.acme);
    for site in &draft.sites {
        write_site(&mut text, site);
    }
    text
}

fn write_site(text: &mut String, site: &ImportedSite) {
    text.push_str("\n[[site]]\n");
    // The most important options come first.
    let is_first = |setting: &&Setting| FIRST.contains(&setting.name.as_str());
    for name in FIRST {
        let settings = site.section.settings.iter();
        settings
            .filter(|setting| setting.name == *name)
            .for_each(|setting| write_setting(text, setting));
    }
    let rest = site
        .section
        .settings
        .iter()
        .filter(|setting| !is_first(setting));
    rest.for_each(|setting| write_setting(text, setting));
    section(text, "[site.ttl]", &site.ttl);
    section(text, "[site.log]", &site.log);
    for rule in &site.rules {
        section(text, "[[site.rule]]", &rule.section);
    }
}

const FIRST: &[&str] = &[
    "hosts",
    "listen",
    "listen_tls",
    "root",
    "php",
    "upstream",
    "tls",
];

fn section(text: &mut String, header: &str, section: &Section) {
    if section.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{header}");
    for setting in &section.settings {
        write_setting(text, setting);
    }
}

fn write_setting(text: &mut String, setting: &Setting) {
    let _ = write!(text, "{} = {}", setting.name, value(&setting.value));
    let mut origins = setting.origins.iter();
    if let Some(first) = origins.next() {
        let _ = write!(text, "  # {}", one_line(&first.to_string()));
        for origin in origins.take(MAX_ORIGINS) {
            let _ = write!(text, ", {}", one_line(&origin.to_string()));
        }
    }
    text.push('\n');
}

/// A path without control characters: it may contain anything, but a comment ends at the end of the line.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

const MAX_ORIGINS: usize = 5;

fn value(value: &Value) -> String {
    match value {
        Value::Text(text) => quoted(text),
        Value::Flag(is_on) => is_on.to_string(),
        Value::Verbatim(text) => text.clone(),
        Value::List(list) => {
            let items: Vec<String> = list.iter().map(|text| item(text)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// An item of a list: a string, or a table in TOML syntax.
fn item(text: &str) -> String {
    if text.starts_with("{ ") {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// A value of `tls`.
pub(crate) fn certificate_pair(cert: &str, key: &str) -> Value {
    let text = format!("{{ cert = {}, key = {} }}", quoted(cert), quoted(key));
    Value::Verbatim(text)
}

pub(crate) fn quoted(text: &str) -> String {
    let is_plain = !text.contains(['\'', '\n', '\r']) && !text.chars().any(char::is_control);
    if text.contains(['\\', '"']) && is_plain {
        return format!("'{text}'");
    }
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted() {
        assert_eq!(quoted("a"), "\"a\"");
        assert_eq!(quoted("\\.php$"), "'\\.php$'");
        assert_eq!(quoted("a'b\"c\n"), "\"a'b\\\"c\\u000A\"");
    }
}
