//! `internal`: folders whose files visitors get only if a response of the upstream names them.

use galley_policy::send_file::InternalFolder;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::nearest;
use crate::reader::{Problem, ValueReader, problem};
use crate::value::ConfigValue;

/// Reads `"/path/"`.
pub(crate) fn of_text(text: &str) -> Result<ConfigValue, Problem> {
    let path = path(text)?;
    Ok(ConfigValue::Internal(InternalFolder { path, folder: None }))
}

/// Reads `{ path = "/path/", folder = "/srv/files" }`.
pub(crate) fn of_table(
    reader: &ValueReader<'_>,
    table: &DeTable<'_>,
) -> Result<ConfigValue, Problem> {
    for key in table.keys() {
        let name = key.get_ref();
        if !KEYS.contains(&&**name) {
            let near = nearest(name, KEYS.iter().copied());
            let help = near.map_or_else(
                || EXAMPLE.to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            return problem(format!("in which `{name}` is unknown"), help);
        }
    }
    let text = |name: &str| match table.get(name).map(toml::Spanned::get_ref) {
        Some(DeValue::String(text)) => Ok(text.to_string()),
        Some(_) => problem(format!("whose `{name}` is not a string"), EXAMPLE),
        None => problem(format!("which has no `{name}`"), EXAMPLE),
    };
    Ok(ConfigValue::Internal(InternalFolder {
        path: path(&text("path")?)?,
        folder: Some(reader.base.join(text("folder")?)),
    }))
}

/// A path with a slash at both ends, so that nobody takes it for the begin of a name.
fn path(text: &str) -> Result<String, Problem> {
    let is_plain = |segment: &str| {
        !matches!(segment, "" | "." | "..")
            && !segment.contains(['\\', '%', '*', '?'])
            && !segment.contains(char::is_control)
    };
    let inner = text
        .strip_prefix('/')
        .and_then(|text| text.strip_suffix('/'));
    match inner {
        Some(inner) if inner.split('/').all(is_plain) => Ok(text.to_owned()),
        _ => problem(
            "which is not the path of a folder",
            "write it decoded, with a slash at both ends: `/protected/`",
        ),
    }
}

const KEYS: [&str; 2] = ["path", "folder"];

/// The remedy for an invalid value.
pub(crate) const EXAMPLE: &str =
    "for example `internal = [{ path = \"/protected/\", folder = \"/srv/files\" }]`";
