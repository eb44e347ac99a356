//! Upstream servers as tables: `{ url = "http://b:80", weight = 2, backup = true, max = 50 }`.

use toml::Spanned;
use toml::de::{DeInteger, DeTable, DeValue};

use crate::options::{OptionRow, ValueKind};
use crate::reader::{Problem, ValueReader, problem};
use crate::text::parse_text;
use crate::upstream::{HttpUpstream, PhpServer, ServerShare, UpstreamConfig};
use crate::value::ConfigValue;

/// Reads `php`: one address, `managed`, or a list of servers. `None` after a diagnostic.
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
            reader.report(row, member, "holds", Problem { why, help });
            return None;
        };
        servers.extend(one);
    }
    if servers.is_empty() {
        let why = "an empty list".to_owned();
        let help = format!("name a server: `{} = {}`", row.name, row.example);
        reader.report(row, value, "is", Problem { why, help });
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
    read.map_err(|problem| reader.report(row, value, verb, problem))
        .ok()
}

/// Reads a server: its address, and its share of the requests.
pub(crate) fn of_table(
    reader: &ValueReader<'_>,
    kind: &ValueKind,
    table: &DeTable<'_>,
) -> Result<ConfigValue, Problem> {
    let (name, form) = match kind {
        ValueKind::PhpAddress => ("address", PHP_FORM),
        _ => ("url", HTTP_FORM),
    };
    let mut share = ServerShare::default();
    for (key, value) in table.iter().filter(|(key, _)| key.get_ref() != name) {
        read_share(&mut share, key.get_ref(), value.get_ref(), form)?;
    }
    let address = match table.get(name).map(Spanned::get_ref) {
        Some(DeValue::String(text)) => parse_text(kind, text, reader.base)?,
        Some(_) => return problem(format!("whose `{name}` has the wrong type"), form),
        None => return problem(format!("which has no `{name}`"), form),
    };
    match address {
        ConfigValue::Url(server) => Ok(ConfigValue::Url(HttpUpstream { share, ..server })),
        ConfigValue::Php(UpstreamConfig::Php(servers)) => {
            let shared = servers.into_iter().map(|one| PhpServer { share, ..one });
            Ok(ConfigValue::Php(UpstreamConfig::Php(shared.collect())))
        }
        _ => problem("which cannot be one of several servers", form),
    }
}

/// Reads a key other than the address.
fn read_share(
    share: &mut ServerShare,
    key: &str,
    value: &DeValue<'_>,
    form: &str,
) -> Result<(), Problem> {
    match (key, value) {
        ("weight", DeValue::Integer(number)) => share.weight = bounded(key, number, MAX_WEIGHT)?,
        ("max", DeValue::Integer(number)) => {
            share.max = usize::try_from(bounded(key, number, MAX_REQUESTS)?).ok();
        }
        ("backup", DeValue::Boolean(backup)) => share.is_backup = *backup,
        ("weight" | "max" | "backup", _) => {
            return problem(format!("whose `{key}` has the wrong type"), form);
        }
        _ => return problem(format!("which has an unknown key `{key}`"), form),
    }
    Ok(())
}

/// Parses a number from 1 to `most`.
fn bounded(name: &str, number: &DeInteger<'_>, most: u32) -> Result<u32, Problem> {
    match u32::from_str_radix(number.as_str(), number.radix()) {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => problem(
            format!("whose `{name}` is out of bounds"),
            format!("give a value from 1 to {most}"),
        ),
    }
}

const HTTP_FORM: &str =
    "write `{ url = \"http://127.0.0.1:8080\", weight = 2, backup = true, max = 50 }`";

const PHP_FORM: &str =
    "write `{ address = \"10.0.0.1:9000\", weight = 2, backup = true, max = 50 }`";

/// The same maximum as in `HAProxy`. Larger ratios are better achieved with fewer servers.
const MAX_WEIGHT: u32 = 256;

/// The maximum of `in_flight`.
const MAX_REQUESTS: u32 = 65_536;
