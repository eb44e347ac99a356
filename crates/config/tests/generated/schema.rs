//! The JSON schema of the configuration file (draft 7, which editors' TOML plugins read), generated from the option table.
//!
//! It finds unknown options, wrong types, words and numbers out of bounds while the file is written. `galley check` finds more: what
//! options require of each other, and what the machine has.

use galley_config::{Fallback, OptionRow, OptionSection, STATUS, ValueKind};
use serde_json::{Map, Value, json};

use super::reference::{fallback, full_text, rows, value};

/// The schema, as text that ends with a line feed.
pub fn schema() -> String {
    let mut top = section(OptionSection::Top);
    for (name, section_of) in [
        ("server", OptionSection::Server),
        ("admin", OptionSection::Admin),
        ("cache", OptionSection::Cache),
        ("log", OptionSection::Log),
        ("acme", OptionSection::Acme),
        ("cluster", OptionSection::Cluster),
    ] {
        top["properties"][name] = section(section_of);
    }
    let mut site = section(OptionSection::Site);
    for (name, section_of) in [
        ("ttl", OptionSection::SiteTtl),
        ("error_pages", OptionSection::SiteErrorPages),
        ("log", OptionSection::SiteLog),
    ] {
        site["properties"][name] = section(section_of);
    }
    site["properties"]["rule"] = list_of(&section(OptionSection::SiteRule));
    top["properties"]["site"] = list_of(&site);
    top["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    top["title"] = json!("Configuration of Galley");
    format!("{top:#}\n")
}

/// The options of a section as the properties of an object.
fn section(section: OptionSection) -> Value {
    let (mut properties, mut patterns) = (Map::new(), Map::new());
    let mut required = Vec::new();
    for row in rows(section) {
        if row.name == STATUS {
            patterns.insert("^[1-5][0-9]{2}$".to_owned(), option(row));
        } else {
            properties.insert(row.name.to_owned(), option(row));
        }
        if row.fallback == Fallback::Required {
            required.push(row.name);
        }
    }
    let mut object = json!({
        "type": "object", "description": section.text(), "properties": properties, "additionalProperties": false,
    });
    if !patterns.is_empty() {
        object["patternProperties"] = Value::Object(patterns);
    }
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn option(row: &OptionRow) -> Value {
    let mut schema = kind(&row.kind);
    let (value, fallback) = (value(row), fallback(row));
    let text = full_text(row);
    schema["description"] = json!(format!("{text}\n\nValue: {value}. Default: {fallback}."));
    schema
}

/// The values of a kind. Texts whose form is not regular are any text.
fn kind(kind: &ValueKind) -> Value {
    match kind {
        ValueKind::Flag => json!({ "type": "boolean" }),
        ValueKind::Count { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        ValueKind::Size { least, most } => any(&[
            json!({ "type": "integer", "minimum": least, "maximum": most }),
            json!({ "type": "string", "pattern": "^[0-9]+ ?(B|KiB|MiB|GiB|kB|MB|GB)?$" }),
        ]),
        ValueKind::SizeOrOff { least, most } => any(&[
            json!({ "type": "integer", "minimum": least, "maximum": most }),
            json!({ "type": "string", "pattern": "^([0-9]+ ?(B|KiB|MiB|GiB|kB|MB|GB)?|off)$" }),
        ]),
        ValueKind::Time { .. } => json!({ "type": "string", "pattern": format!("^{TIME}$") }),
        ValueKind::TimeOrOff { .. } => {
            json!({ "type": "string", "pattern": format!("^({TIME}|off)$") })
        }
        ValueKind::Word(words) => json!({ "type": "string", "enum": words }),
        ValueKind::PhpAddress => {
            let one = any(&[text(), server("address")]);
            any(&[text(), server("address"), list_of(&one)])
        }
        ValueKind::UpstreamUrl => any(&[text(), server("url")]),
        ValueKind::Certificates => {
            let pair = table(&[("cert", text()), ("key", text())], &["cert", "key"]);
            any(&[json!({ "const": "auto" }), pair.clone(), list_of(&pair)])
        }
        ValueKind::UpstreamTls => {
            let flag = json!({ "type": "boolean" });
            table(&[("name", text()), ("ca", text()), ("verify", flag)], &[])
        }
        ValueKind::CrawlerLists => {
            let files = any(&[text(), list_of(&text())]);
            json!({ "type": "object", "additionalProperties": files })
        }
        ValueKind::CrawlerRules => {
            let treatment = json!({ "type": "string", "pattern": format!("^({TIME}|refuse)$") });
            json!({ "type": "object", "additionalProperties": treatment })
        }
        ValueKind::PurgeForward => {
            json!({ "type": "object", "additionalProperties": text() })
        }
        ValueKind::Internal => {
            let keys = [("path", text()), ("folder", text())];
            any(&[text(), table(&keys, &["path"])])
        }
        ValueKind::Limit => {
            let burst = json!({ "type": "integer", "minimum": 1 });
            let flag = json!({ "type": "boolean" });
            let rate = json!({ "type": "string", "pattern": "^[0-9]+/[smhd]$" });
            let keys = [("rate", rate), ("burst", burst), ("shared", flag)];
            any(&[json!({ "const": "off" }), table(&keys, &["rate"])])
        }
        ValueKind::Country => json!({ "type": "string", "pattern": "^[A-Za-z]{2}$" }),
        ValueKind::List(each) => list_of(&self::kind(each)),
        ValueKind::Text
        | ValueKind::Path
        | ValueKind::Glob
        | ValueKind::Listen
        | ValueKind::AdminAddress
        | ValueKind::Host
        | ValueKind::Network
        | ValueKind::Proxy
        | ValueKind::Name
        | ValueKind::NameOrAll
        | ValueKind::UrlPath
        | ValueKind::Pattern
        | ValueKind::Method
        | ValueKind::FieldName
        | ValueKind::FieldLine
        | ValueKind::LogField
        | ValueKind::AccessLog
        | ValueKind::ErrorLog
        | ValueKind::FileOrOff => text(),
    }
}

fn text() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

fn list_of(each: &Value) -> Value {
    json!({ "type": "array", "items": each })
}

fn any(schemas: &[Value]) -> Value {
    json!({ "anyOf": schemas })
}

/// A server with its share of the load; `address` is the name of its address.
fn server(address: &str) -> Value {
    let count = || json!({ "type": "integer", "minimum": 1 });
    let flag = json!({ "type": "boolean" });
    let keys = [
        (address, text()),
        ("weight", count()),
        ("max", count()),
        ("backup", flag),
    ];
    table(&keys, &[address])
}

fn table(keys: &[(&str, Value)], required: &[&str]) -> Value {
    let properties = keys
        .iter()
        .map(|(name, kind)| ((*name).to_owned(), kind.clone()));
    json!({
        "type": "object", "properties": properties.collect::<Map<_, _>>(), "required": required,
        "additionalProperties": false,
    })
}

/// A duration; see `quantity`.
const TIME: &str = "[0-9]+ ?(ms|s|m|h|d)";
