//! Values of `tls` and `upstream_tls`: tables with the files of certificates.

use galley_certs::CertificateFiles;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{SourceSpan, nearest, shown};
use crate::options::OptionRow;
use crate::reader::ValueReader;
use crate::upstream::UpstreamTls;
use crate::value::ConfigValue;

/// Reads `tls`: a certificate with its key, or a list of them; none for `auto`.
pub(crate) fn read(
    reader: &mut ValueReader<'_>,
    row: &OptionRow,
    value: &Spanned<DeValue<'_>>,
) -> Option<ConfigValue> {
    match value.get_ref() {
        DeValue::Array(members) if !members.is_empty() => {
            let pairs = members.iter().map(|one| pair(reader, row, one));
            let pairs: Vec<_> = pairs.collect();
            Some(ConfigValue::Certificates(
                pairs.into_iter().collect::<Option<Vec<_>>>()?,
            ))
        }
        DeValue::String(text) if text == "auto" => Some(ConfigValue::Certificates(Vec::new())),
        _ => Some(ConfigValue::Certificates(vec![pair(reader, row, value)?])),
    }
}

/// Reads `{ cert = "...", key = "..." }`.
fn pair(
    reader: &mut ValueReader<'_>,
    row: &OptionRow,
    value: &Spanned<DeValue<'_>>,
) -> Option<(SourceSpan, CertificateFiles)> {
    let position = reader.position(value.span());
    let table = table(reader, row, value)?;
    check_keys(reader, row, table, &["cert", "key"])?;
    let mut file = |name: &str| {
        let path = text(reader, row, table, name).ok()?;
        if path.is_none() {
            let message = format!("`{}` has no `{name}`", row.path());
            let help = format!("for example `{} = {}`", row.name, row.example);
            reader.diagnostics.add(&position, row.path(), message, help);
        }
        path.map(|path| reader.base.join(path))
    };
    let (cert, key) = (file("cert"), file("key"));
    Some((
        position.clone(),
        CertificateFiles {
            cert: cert?,
            key: key?,
        },
    ))
}

/// Reads `upstream_tls`: `{ name = "...", ca = "...", verify = true }`; all keys are optional.
pub(crate) fn read_upstream(
    reader: &mut ValueReader<'_>,
    row: &OptionRow,
    value: &Spanned<DeValue<'_>>,
) -> Option<ConfigValue> {
    let table = table(reader, row, value)?;
    check_keys(reader, row, table, &["name", "ca", "verify"])?;
    let base = reader.base;
    let in_folder = |path: String| base.join(path);
    let verify = match table.get("verify").map(|flag| (flag, flag.get_ref())) {
        None => true,
        Some((_, DeValue::Boolean(verify))) => *verify,
        Some((flag, _)) => {
            report(reader, row, flag, "holds", "`true` or `false`");
            return None;
        }
    };
    Some(ConfigValue::UpstreamTls(UpstreamTls {
        name: text(reader, row, table, "name").ok()?,
        ca: text(reader, row, table, "ca").ok()?.map(in_folder),
        verify,
    }))
}

fn table<'v, 'i>(
    reader: &mut ValueReader<'_>,
    row: &OptionRow,
    value: &'v Spanned<DeValue<'i>>,
) -> Option<&'v DeTable<'i>> {
    if let DeValue::Table(table) = value.get_ref() {
        return Some(table);
    }
    report(reader, row, value, "is", &row.kind.describe());
    None
}

/// Reports unknown keys and then returns `None`.
fn check_keys(
    reader: &mut ValueReader<'_>,
    row: &OptionRow,
    table: &DeTable<'_>,
    names: &[&str],
) -> Option<()> {
    let mut is_valid = Some(());
    for key in table.keys() {
        let name: &str = key.get_ref();
        if !names.contains(&name) {
            let position = reader.position(key.span());
            let message = format!("unknown name {} in `{}`", shown(name), row.path());
            let help = match nearest(name, names.iter().copied()) {
                Some(word) => format!("did you mean `{word}`?"),
                None => format!("known names: {}", names.join(", ")),
            };
            reader.diagnostics.add(&position, row.path(), message, help);
            is_valid = None;
        }
    }
    is_valid
}

/// Marks an invalid value about which a diagnostic was added.
struct ReportedInvalid;

/// A string of the table, if the key exists.
fn text(
    reader: &mut ValueReader<'_>,
    row: &OptionRow,
    table: &DeTable<'_>,
    name: &str,
) -> Result<Option<String>, ReportedInvalid> {
    let Some(value) = table.get(name) else {
        return Ok(None);
    };
    match value.get_ref() {
        DeValue::String(text) if !text.is_empty() && !text.contains('\0') => {
            Ok(Some(text.to_string()))
        }
        _ => {
            report(reader, row, value, "holds", "a string");
            Err(ReportedInvalid)
        }
    }
}

/// Reports a value of another type than `wanted`. `verb`: `is` for the option's value, `holds` for a part of it.
fn report(
    reader: &mut ValueReader<'_>,
    row: &OptionRow,
    value: &Spanned<DeValue<'_>>,
    verb: &str,
    wanted: &str,
) {
    let position = reader.position(value.span());
    let written = reader.diagnostics.text(reader.source);
    let written = shown(written.get(value.span()).unwrap_or_default());
    let message = format!("`{}` {verb} {written}; expected {wanted}", row.path());
    let help = format!("for example `{} = {}`", row.name, row.example);
    reader.diagnostics.add(&position, row.path(), message, help);
}
