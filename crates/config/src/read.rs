//! Converts a TOML value to a value of the kind in the option table, or reports why not.
//!
//! `text` defines the meaning of strings. Bounds of numbers are checked only here.

use toml::Spanned;
use toml::de::{DeInteger, DeValue};

use crate::certificates;
use crate::internal;
use crate::limit;
use crate::options::{OptionRow, ValueKind};
use crate::read_crawlers;
use crate::read_forward;
use crate::reader::{Problem, ValueReader, problem};
use crate::servers;
use crate::text::{bounded_number, parse_text};
use crate::value::ConfigValue;

/// The value of an option; `None` after a diagnostic.
pub(crate) fn read(
    reader: &mut ValueReader<'_>,
    row: &OptionRow,
    value: &Spanned<DeValue<'_>>,
) -> Option<ConfigValue> {
    match row.kind {
        ValueKind::List(each) => read_list(reader, row, each, value),
        ValueKind::Certificates => certificates::read(reader, row, value),
        ValueKind::PhpAddress => servers::read_php(reader, row, value),
        ValueKind::UpstreamTls => certificates::read_upstream(reader, row, value),
        _ => read_one(reader, row, &row.kind, value, "is"),
    }
}

fn read_list(
    reader: &mut ValueReader<'_>,
    row: &OptionRow,
    each: &ValueKind,
    value: &Spanned<DeValue<'_>>,
) -> Option<ConfigValue> {
    let DeValue::Array(members) = value.get_ref() else {
        let problem = Problem {
            help: format!("put it in brackets: `{} = {}`", row.name, row.example),
            ..wrong_type(row, &row.kind, value.get_ref())
        };
        reader.report(row, value, "is", problem);
        return None;
    };
    let mut list = Vec::new();
    for member in members {
        if let Some(read) = read_one(reader, row, each, member, "holds") {
            list.push((reader.position(member.span()), read));
        }
    }
    // A list whose members were all rejected is not an empty list.
    (!list.is_empty() || members.is_empty()).then_some(ConfigValue::List(list))
}

fn read_one(
    reader: &mut ValueReader<'_>,
    row: &OptionRow,
    kind: &ValueKind,
    value: &Spanned<DeValue<'_>>,
    verb: &str,
) -> Option<ConfigValue> {
    let read = match (kind, value.get_ref()) {
        (ValueKind::Flag, DeValue::Boolean(flag)) => Ok(ConfigValue::Flag(*flag)),
        (
            ValueKind::Count { .. } | ValueKind::Size { .. } | ValueKind::SizeOrOff { .. },
            DeValue::Integer(number),
        ) => whole(number).and_then(|n| bounded_number(kind, n)),
        (ValueKind::Limit, DeValue::Table(table)) => limit::of_table(table).map(ConfigValue::Limit),
        (ValueKind::PurgeForward, DeValue::Table(table)) => read_forward::of_table(reader, table),
        (ValueKind::CrawlerLists, DeValue::Table(table)) => {
            read_crawlers::lists_of_table(reader, table)
        }
        (ValueKind::CrawlerRules, DeValue::Table(table)) => read_crawlers::rules_of_table(table),
        (ValueKind::UpstreamUrl, DeValue::Table(table)) => servers::of_table(reader, kind, table),
        (ValueKind::Internal, DeValue::Table(table)) => internal::of_table(reader, table),
        (ValueKind::Flag | ValueKind::Count { .. }, other) => Err(wrong_type(row, kind, other)),
        (_, DeValue::String(text)) => parse_text(kind, text, reader.base),
        (_, other) => Err(wrong_type(row, kind, other)),
    };
    read.map_err(|problem| reader.report(row, value, verb, problem))
        .ok()
}

fn whole(number: &DeInteger<'_>) -> Result<u64, Problem> {
    match u64::from_str_radix(number.as_str(), number.radix()) {
        Ok(number) => Ok(number),
        Err(_) if number.as_str().starts_with('-') => {
            problem("which is below 0", "give a whole number of at least 0")
        }
        Err(_) => problem("which is too large", "give a smaller number"),
    }
}

fn wrong_type(row: &OptionRow, kind: &ValueKind, value: &DeValue<'_>) -> Problem {
    Problem {
        why: format!("{}; expected {}", with_article(value), kind.describe()),
        help: format!("for example `{} = {}`", row.name, row.example),
    }
}

fn with_article(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a number",
        DeValue::Float(_) => "a floating-point number",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
