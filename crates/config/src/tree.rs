//! The contents of all files together by section, before they are checked as a whole.
//!
//! A [`SectionTable`] is one section as written; a [`Document`] is all of them. An option with an invalid value is kept
//! without a value, so that no second diagnostic says that it is missing.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::de::DeValue;

use crate::diagnostic::{Diagnostics, SourceSpan};
use crate::options::{Fallback, OptionSection};
use crate::read::read;
use crate::reader::ValueReader;
use crate::table;
use crate::value::{ConfigValue, FromValue};

/// The contents of all files.
#[derive(Debug)]
pub(crate) struct Document {
    pub server: SectionTable,
    pub admin: SectionTable,
    pub cache: SectionTable,
    pub log: SectionTable,
    pub acme: SectionTable,
    pub cluster: SectionTable,
    pub sites: Vec<SiteTables>,
    /// The files in the order of reading, absolute.
    pub files: Vec<PathBuf>,
    /// The patterns of `include`, absolute.
    pub patterns: Vec<PathBuf>,
    /// The position of the configuration as a whole.
    pub whole: SourceSpan,
    /// Whether a file could not be read or parsed, so that a missing option may be in it.
    pub is_incomplete: bool,
    pub diagnostics: Diagnostics,
}

/// One `[[site]]` with its sections.
#[derive(Debug)]
pub(crate) struct SiteTables {
    pub options: SectionTable,
    pub ttl: StatusTable,
    pub rules: Vec<SectionTable>,
    pub error_pages: StatusTable,
    pub log: SectionTable,
}

/// A section with options and statuses.
#[derive(Debug)]
pub(crate) struct StatusTable {
    pub options: SectionTable,
    pub statuses: Vec<(u16, ConfigValue)>,
}

/// One section as written.
#[derive(Debug)]
pub(crate) struct SectionTable {
    pub kind: OptionSection,
    /// The position of its header, or of the whole file.
    pub position: SourceSpan,
    values: BTreeMap<&'static str, (SourceSpan, Option<ConfigValue>)>,
}

impl Document {
    pub fn new(diagnostics: Diagnostics, whole: SourceSpan) -> Self {
        Self {
            server: SectionTable::new(OptionSection::Server, whole.clone()),
            admin: SectionTable::new(OptionSection::Admin, whole.clone()),
            cache: SectionTable::new(OptionSection::Cache, whole.clone()),
            log: SectionTable::new(OptionSection::Log, whole.clone()),
            acme: SectionTable::new(OptionSection::Acme, whole.clone()),
            cluster: SectionTable::new(OptionSection::Cluster, whole.clone()),
            sites: Vec::new(),
            files: Vec::new(),
            patterns: Vec::new(),
            whole,
            is_incomplete: false,
            diagnostics,
        }
    }
}

impl SiteTables {
    pub fn new(position: &SourceSpan) -> Self {
        Self {
            options: SectionTable::new(OptionSection::Site, position.clone()),
            ttl: StatusTable::new(OptionSection::SiteTtl, position),
            rules: Vec::new(),
            error_pages: StatusTable::new(OptionSection::SiteErrorPages, position),
            log: SectionTable::new(OptionSection::SiteLog, position.clone()),
        }
    }
}

impl StatusTable {
    fn new(section: OptionSection, position: &SourceSpan) -> Self {
        Self {
            options: SectionTable::new(section, position.clone()),
            statuses: Vec::new(),
        }
    }
}

impl SectionTable {
    pub fn new(kind: OptionSection, position: SourceSpan) -> Self {
        Self {
            kind,
            position,
            values: BTreeMap::new(),
        }
    }

    /// Sets a value, or `None` after a diagnostic about it. Returns the position of an earlier one.
    pub fn set(
        &mut self,
        name: &'static str,
        position: SourceSpan,
        value: Option<ConfigValue>,
    ) -> Option<SourceSpan> {
        self.values
            .insert(name, (position, value))
            .map(|(earlier, _)| earlier)
    }

    /// The option with its section, as in messages.
    pub fn path(&self, name: &str) -> String {
        format!("{}.{name}", self.kind.prefix())
    }

    /// Reports an option at its position, otherwise at that of its section; `why` continues after the option.
    pub fn report(
        &self,
        name: &str,
        why: impl fmt::Display,
        help: impl Into<String>,
        diagnostics: &mut Diagnostics,
    ) {
        let option = self.path(name);
        let message = format!("`{option}` {why}");
        diagnostics.add(self.position(name), option, message, help);
    }

    /// Reports each of these options that the file sets.
    pub fn report_each(
        &self,
        names: &[&str],
        why: &str,
        help: &str,
        diagnostics: &mut Diagnostics,
    ) {
        for name in names.iter().filter(|name| self.has(name)) {
            self.report(name, why, help, diagnostics);
        }
    }

    /// Whether the file sets the option, even to an invalid value.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Whether the file sets the option to a valid value.
    pub fn has_value(&self, name: &str) -> bool {
        self.values
            .get(name)
            .is_some_and(|(_, value)| value.is_some())
    }

    /// The position of the option, otherwise that of its section.
    pub fn position(&self, name: &str) -> &SourceSpan {
        self.values
            .get(name)
            .map_or(&self.position, |(position, _)| position)
    }

    /// The number of members of a list that is set.
    pub fn list_len(&self, name: &str) -> Option<usize> {
        match self.values.get(name)?.1.as_ref()? {
            ConfigValue::List(members) => Some(members.len()),
            _ => None,
        }
    }

    /// The value, if the file sets a valid one.
    pub fn get<T: FromValue>(&self, name: &str) -> Option<T> {
        let value = self.values.get(name)?.1.as_ref()?;
        Some(T::from_value(value).unwrap_or_else(|| wrong_kind(self.kind, name)))
    }

    /// The value, otherwise the default of the option table.
    pub fn value<T: FromValue>(&self, name: &str) -> T {
        self.get(name).unwrap_or_else(|| {
            let value = default(self.kind, name).unwrap_or_else(|| wrong_kind(self.kind, name));
            T::from_value(&value).unwrap_or_else(|| wrong_kind(self.kind, name))
        })
    }
}

/// The default of the option table, parsed as in a file.
fn default(section: OptionSection, name: &str) -> Option<ConfigValue> {
    let row = table::find(section, name)?;
    let Fallback::Value(text) = row.fallback else {
        return None;
    };
    let value = DeValue::parse(text).ok()?;
    let mut diagnostics = Diagnostics::default();
    let mut reader = ValueReader {
        base: Path::new("/"),
        source: 0,
        diagnostics: &mut diagnostics,
    };
    read(&mut reader, row, &value)
}

/// Panics because the option table and the code that reads an option disagree. A test that assembles an empty configuration
/// finds such mistakes.
fn wrong_kind<T>(section: OptionSection, name: &str) -> T {
    unreachable!(
        "the table has another kind for `{}.{name}`",
        section.prefix()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_in_the_table_can_be_read() {
        for row in table::options() {
            if matches!(row.fallback, Fallback::Value(_)) {
                assert!(default(row.section, row.name).is_some(), "{}", row.path());
            }
        }
    }
}
