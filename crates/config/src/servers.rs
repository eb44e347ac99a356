//! Servers as tables: `{ url = "http://b:80", weight = 2, backup = true, max = 50 }`.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::options::{OptionRow, ValueKind};
use crate::reader::{Problem, ValueReader, problem};
use crate::text::parse_text;
use crate::upstream::{HttpUpstream, PhpServer, ServerShare, UpstreamConfig};
use crate::value::ConfigValue;

/// `php`: one address, `managed`, or a list of servers. `None` after a complaint.
pub(crate) fn read_php(
    reader: &mut ValueReader<'_>,
    row: &OptionRow,
    value: &Spanned<DeValue<'_>>,
) -> Option<ConfigValue> {
    let DeValue::Array(members) = value.get_ref() else {
        return read_member(reader, row, value, "is");
    };
    let mut servers = Vec::new();
    for member in members {
        let read = read_member(reader, row, member, "holds")?;
        let ConfigValue::Php(UpstreamConfig::Php(one)) = read else {
            let help = "name the servers by their addresses, or write `php = \"managed\"` alone";
            let why = "which cannot be one of several servers".to_owned();
            let help = help.to_owned();
            reader.complain(row, member, "holds", Problem { why, help });
            return None;
        };
        servers.extend(one);
    }
    if servers.is_empty() {
        let why = "an empty list".to_owned();
        let help = format!("name a server: `{} = {}`", row.name, row.example);
        reader.complain(row, value, "is", Problem { why, help });
        return None;
    }
    Some(ConfigValue::Php(UpstreamConfig::Php(servers)))
}

fn read_member(
    reader: &mut ValueReader<'_>,
    row: &OptionRow,
    value: &Spanned<DeValue<'_>>,
    verb: &str,
) -> Option<ConfigValue> {
    let read = match value.get_ref() {
        DeValue::String(text) => parse_text(&ValueKind::PhpAddress, text, reader.base),
        DeValue::Table(table) => of_table(reader, &ValueKind::PhpAddress, table),
        _ => problem(
            format!("which is neither {}", ValueKind::PhpAddress.describe()),
            format!("for example `{} = {}`", row.name, row.example),
        ),
    };
    read.map_err(|problem| reader.complain(row, value, verb, problem))
        .ok()
}

/// One server as a table: its address, and its share of the requests.
pub(crate) fn of_table(
    reader: &ValueReader<'_>,
    kind: &ValueKind,
    table: &DeTable<'_>,
) -> Result<ConfigValue, Problem> {
    let is_php = matches!(kind, ValueKind::PhpAddress);
    let (name, form) = if is_php {
        ("address", PHP_FORM)
    } else {
        ("url", HTTP_FORM)
    };
    let mut address = None;
    let mut share = ServerShare::default();
    for (key, value) in table {
        match (key.get_ref().as_ref(), value.get_ref()) {
            (key, DeValue::String(text)) if key == name => {
                address = Some(parse_text(kind, text, reader.base)?);
            }
            ("weight", DeValue::Integer(number)) => {
                share.weight = bounded(number.as_str(), number.radix(), 1, MOST_WEIGHT)
                    .ok_or_else(|| out_of_bounds("weight", 1, MOST_WEIGHT))?;
            }
            ("max", DeValue::Integer(number)) => {
                let max = bounded(number.as_str(), number.radix(), 1, MOST_REQUESTS)
                    .ok_or_else(|| out_of_bounds("max", 1, MOST_REQUESTS))?;
                share.max = usize::try_from(max).ok();
            }
            ("backup", DeValue::Boolean(backup)) => share.is_backup = *backup,
            (key, _) if key == name || ["weight", "max", "backup"].contains(&key) => {
                return problem(format!("whose `{key}` has the wrong type"), form);
            }
            (key, _) => return problem(format!("which has an unknown key `{key}`"), form),
        }
    }
    match address {
        Some(ConfigValue::Url(server)) => Ok(ConfigValue::Url(HttpUpstream { share, ..server })),
        Some(ConfigValue::Php(UpstreamConfig::Php(servers))) => {
            let shared = servers.into_iter().map(|one| PhpServer { share, ..one });
            Ok(ConfigValue::Php(UpstreamConfig::Php(shared.collect())))
        }
        Some(_) => problem("which cannot be one of several servers", form),
        None => problem(format!("which has no `{name}`"), form),
    }
}

fn bounded(text: &str, radix: u32, least: u32, most: u32) -> Option<u32> {
    let number = u32::from_str_radix(text, radix).ok()?;
    (least..=most).contains(&number).then_some(number)
}

fn out_of_bounds(name: &str, least: u32, most: u32) -> Problem {
    Problem {
        why: format!("whose `{name}` is out of bounds"),
        help: format!("give a value from {least} to {most}"),
    }
}

const HTTP_FORM: &str =
    "write `{ url = \"http://127.0.0.1:8080\", weight = 2, backup = true, max = 50 }`";

const PHP_FORM: &str =
    "write `{ address = \"10.0.0.1:9000\", weight = 2, backup = true, max = 50 }`";

/// As much as `HAProxy` allows; larger ratios are better made with fewer servers.
const MOST_WEIGHT: u32 = 256;

/// The bound of `in_flight`.
const MOST_REQUESTS: u32 = 65_536;
