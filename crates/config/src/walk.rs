//! Converts the tree of one TOML file to the [`Document`]: finds names in the option table and reads values.
//!
//! It reports unknown names, sections of the wrong form, and options that are set twice. Combinations of values are checked
//! elsewhere.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic::{SourceSpan, nearest, shown};
use crate::options::{OptionRow, OptionSection};
use crate::read::read;
use crate::reader::ValueReader;
use crate::table::{self, STATUS};
use crate::tree::{Document, SectionTable, SiteTables, StatusTable};

/// Reads one file. Returns its includes as written.
pub(crate) fn walk(
    table: &DeTable<'_>,
    document: &mut Document,
    reader: &mut ValueReader<'_>,
) -> SectionTable {
    let whole = SourceSpan {
        source: reader.source,
        span: None,
    };
    let mut top = SectionTable::new(OptionSection::Top, whole);
    for (key, value) in table {
        let name: &str = key.get_ref();
        match name {
            "server" => fill(&mut document.server, reader, value),
            "admin" => fill(&mut document.admin, reader, value),
            "cache" => fill(&mut document.cache, reader, value),
            "log" => fill(&mut document.log, reader, value),
            "acme" => fill(&mut document.acme, reader, value),
            "cluster" => fill(&mut document.cluster, reader, value),
            "site" => {
                for (span, table) in tables(reader, OptionSection::Site, value) {
                    document.sites.push(site(reader, span, table));
                }
            }
            _ => option(&mut top, reader, key, value),
        }
    }
    top
}

fn site(reader: &mut ValueReader<'_>, span: Range<usize>, table: &DeTable<'_>) -> SiteTables {
    let mut site = SiteTables::new(&reader.position(span));
    for (key, value) in table {
        let name: &str = key.get_ref();
        match name {
            "ttl" => statuses(&mut site.ttl, reader, value),
            "error_pages" => statuses(&mut site.error_pages, reader, value),
            "log" => fill(&mut site.log, reader, value),
            "rule" => {
                for (span, table) in tables(reader, OptionSection::SiteRule, value) {
                    let mut rule =
                        SectionTable::new(OptionSection::SiteRule, reader.position(span));
                    options(&mut rule, reader, table);
                    site.rules.push(rule);
                }
            }
            _ => option(&mut site.options, reader, key, value),
        }
    }
    site
}

/// Reads `[site.ttl]` and `[site.error_pages]`, where each status is a name in addition to the options.
fn statuses(target: &mut StatusTable, reader: &mut ValueReader<'_>, value: &Spanned<DeValue<'_>>) {
    let section = target.options.kind;
    let Some(table) = one_table(reader, section, value) else {
        return;
    };
    target.options.position = reader.position(value.span());
    for (key, value) in table {
        let name: &str = key.get_ref();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) || name.is_empty() {
            option(&mut target.options, reader, key, value);
            continue;
        }
        let Some(status) = status(section, reader, key) else {
            continue;
        };
        if let Some(value) = table::find(section, STATUS).and_then(|row| read(reader, row, value)) {
            target.statuses.push((status, value));
        }
    }
}

fn status(
    section: OptionSection,
    reader: &mut ValueReader<'_>,
    key: &Spanned<std::borrow::Cow<'_, str>>,
) -> Option<u16> {
    let is_of_errors = section == OptionSection::SiteErrorPages;
    let (why, help) = match (key.get_ref().parse::<u16>(), is_of_errors) {
        (Ok(status @ 400..=599), true) => return Some(status),
        (_, true) => (
            "which is not the status of an error",
            "name a status from 400 to 599",
        ),
        (Ok(206 | 304), false) => (
            "which is part of another response and never stored by itself",
            OF_LIFETIMES,
        ),
        (Ok(status @ 200..=599), false) => return Some(status),
        (_, false) => ("which is not the status of a final response", OF_LIFETIMES),
    };
    let position = reader.position(key.span());
    let prefix = section.prefix();
    let message = format!("`{prefix}` names {}, {why}", shown(key.get_ref()));
    reader
        .diagnostics
        .add(&position, format!("{prefix}.{STATUS}"), message, help);
    None
}

/// Reads a section that exists once: its options are added to those of other files.
fn fill(target: &mut SectionTable, reader: &mut ValueReader<'_>, value: &Spanned<DeValue<'_>>) {
    if let Some(table) = one_table(reader, target.kind, value) {
        target.position = reader.position(value.span());
        options(target, reader, table);
    }
}

fn options(target: &mut SectionTable, reader: &mut ValueReader<'_>, table: &DeTable<'_>) {
    for (key, value) in table {
        option(target, reader, key, value);
    }
}

fn option(
    target: &mut SectionTable,
    reader: &mut ValueReader<'_>,
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
) {
    let position = reader.position(key.span());
    let row = table::find(target.kind, key.get_ref()).filter(|row| row.name != STATUS);
    let Some(row) = row else {
        unknown(
            target.kind,
            reader,
            &position,
            key.get_ref(),
            value.get_ref(),
        );
        return;
    };
    let read = read(reader, row, value);
    let at = reader.position(value.span());
    if let Some(earlier) = target.set(row.name, at, read) {
        set_twice(row, reader, &position, &earlier);
    }
}

fn set_twice(
    row: &OptionRow,
    reader: &mut ValueReader<'_>,
    position: &SourceSpan,
    earlier: &SourceSpan,
) {
    let message = format!(
        "`{}` is given a second time; the first is at {}",
        row.path(),
        reader.diagnostics.spot(earlier)
    );
    reader
        .diagnostics
        .add(position, row.path(), message, "keep one of the two");
}

fn unknown(
    section: OptionSection,
    reader: &mut ValueReader<'_>,
    position: &SourceSpan,
    name: &str,
    value: &DeValue<'_>,
) {
    let option = match section.prefix() {
        "" => name.to_owned(),
        prefix => format!("{prefix}.{name}"),
    };
    let text = shown(name);
    let message = match (section, value) {
        (OptionSection::Top, DeValue::Table(_)) => format!("unknown section {text}"),
        (OptionSection::Top, _) => format!("unknown option {text} before the first section"),
        (other, _) => format!("unknown option {text} in `{}`", other.header()),
    };
    let help = help_for_unknown(section, name);
    reader.diagnostics.add(position, option, message, help);
}

/// The remedy for an unknown name.
fn help_for_unknown(section: OptionSection, name: &str) -> String {
    let mut absent = ABSENT.iter();
    if let Some((_, help)) = absent.find(|(names, _)| names.contains(&name)) {
        return (*help).to_owned();
    }
    let names = known_in(section);
    let elsewhere = |name: &str| table::options().find(|row| row.name == name);
    if let Some(word) = nearest(name, names.iter().copied()) {
        format!("did you mean `{word}`?")
    } else if let Some(row) = elsewhere(name) {
        match row.section {
            OptionSection::Top => format!("`{name}` belongs before the first section"),
            other => format!("`{name}` belongs to `{}`", other.header()),
        }
    } else if let Some(row) =
        nearest(name, table::options().map(|row| row.name)).and_then(elsewhere)
    {
        format!("did you mean `{}`?", row.path())
    } else {
        format!("known names: {}", names.join(", "))
    }
}

/// What other servers name otherwise, or have an option for and Galley does not.
const ABSENT: &[(&[&str], &str)] = &[
    (
        &["http3", "h3", "quic"],
        "remove it: listeners with TLS speak HTTP/3, unless `listen_quic = []` is in `[server]` or `http3 = false` in the site",
    ),
    (
        &["http2", "h2"],
        "remove it: listeners with TLS speak HTTP/2, and `h2c` of `[server]` permits it without TLS",
    ),
];

/// The names that a section may contain: its options and its subsections.
fn known_in(section: OptionSection) -> Vec<&'static str> {
    let inner: &[&str] = match section {
        OptionSection::Top => &["server", "admin", "cache", "log", "acme", "cluster", "site"],
        OptionSection::Site => &["ttl", "rule", "error_pages", "log"],
        _ => &[],
    };
    table::rows(section)
        .map(|row| row.name)
        .chain(inner.iter().copied())
        .collect()
}

fn one_table<'v, 'i>(
    reader: &mut ValueReader<'_>,
    section: OptionSection,
    value: &'v Spanned<DeValue<'i>>,
) -> Option<&'v DeTable<'i>> {
    if let DeValue::Table(table) = value.get_ref() {
        return Some(table);
    }
    wrong_form(reader, section, value);
    None
}

fn tables<'v, 'i>(
    reader: &mut ValueReader<'_>,
    section: OptionSection,
    value: &'v Spanned<DeValue<'i>>,
) -> Vec<(Range<usize>, &'v DeTable<'i>)> {
    let DeValue::Array(members) = value.get_ref() else {
        wrong_form(reader, section, value);
        return Vec::new();
    };
    let mut tables = Vec::new();
    for member in members {
        match member.get_ref() {
            DeValue::Table(table) => tables.push((member.span(), table)),
            _ => wrong_form(reader, section, member),
        }
    }
    tables
}

fn wrong_form(reader: &mut ValueReader<'_>, section: OptionSection, value: &Spanned<DeValue<'_>>) {
    let position = reader.position(value.span());
    let message = format!(
        "`{}` is a section, but has another form here",
        section.prefix()
    );
    let help = format!(
        "write `{}` on a line of its own and the options below it",
        section.header()
    );
    reader
        .diagnostics
        .add(&position, section.prefix(), message, help);
}

const OF_LIFETIMES: &str = "name a status from 200 to 599, but not 206 or 304";
