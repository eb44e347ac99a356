//! What all files together say, section by section, before it is checked as a whole.
//!
//! A [`Given`] is one section as given; a [`Document`] is all of them. An option whose value could not be read is kept
//! as given without value, so that nobody complains a second time that it is missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::de::DeValue;

use crate::assemble;
use crate::complaint::{Complaints, Place};
use crate::config::Config;
use crate::machine::Surroundings;
use crate::options::{Fallback, Section};
use crate::origin::Origin;
use crate::read;
use crate::table;
use crate::value::{FromValue, Value};

/// Everything the files say.
#[derive(Debug)]
pub(crate) struct Document {
    pub server: Given,
    pub admin: Given,
    pub cache: Given,
    pub log: Given,
    pub acme: Given,
    pub sites: Vec<GivenSite>,
    /// Files in the order of reading, absolute.
    pub files: Vec<PathBuf>,
    /// The configuration as a whole.
    pub whole: Place,
    /// Whether some file could not be read or parsed, so that what is missing may stand there.
    pub torn: bool,
    pub complaints: Complaints,
}

/// One `[[site]]` with what belongs to it.
#[derive(Debug)]
pub(crate) struct GivenSite {
    pub own: Given,
    pub ttl: Given,
    /// Rows of `[site.ttl]` whose name is a status.
    pub statuses: Vec<(u16, Value)>,
    pub rules: Vec<Given>,
    /// `[site.error_pages]`.
    pub pages: Given,
    /// Its rows.
    pub error_pages: Vec<(u16, Value)>,
    pub log: Given,
}

/// One section as given.
#[derive(Debug)]
pub(crate) struct Given {
    pub section: Section,
    /// Its header, or the whole file.
    pub place: Place,
    values: BTreeMap<&'static str, (Place, Option<Value>)>,
}

impl Document {
    pub fn new(complaints: Complaints, whole: Place) -> Self {
        Self {
            server: Given::new(Section::Server, whole.clone()),
            admin: Given::new(Section::Admin, whole.clone()),
            cache: Given::new(Section::Cache, whole.clone()),
            log: Given::new(Section::Log, whole.clone()),
            acme: Given::new(Section::Acme, whole.clone()),
            sites: Vec::new(),
            files: Vec::new(),
            whole,
            torn: false,
            complaints,
        }
    }

    /// Checks the whole and gives the configuration, or all complaints.
    pub fn finish(mut self, here: &Surroundings) -> Result<Config, Complaints> {
        let mut config = assemble::assemble(&mut self, here);
        config.warnings = self.complaints.take_warnings();
        if self.complaints.is_empty() {
            config.origin = Some(Origin::new(self));
            Ok(config)
        } else {
            Err(self.complaints.sorted())
        }
    }
}

impl GivenSite {
    pub fn new(place: &Place) -> Self {
        Self {
            own: Given::new(Section::Site, place.clone()),
            ttl: Given::new(Section::SiteTtl, place.clone()),
            statuses: Vec::new(),
            rules: Vec::new(),
            pages: Given::new(Section::SiteErrorPages, place.clone()),
            error_pages: Vec::new(),
            log: Given::new(Section::SiteLog, place.clone()),
        }
    }
}

impl Given {
    pub fn new(section: Section, place: Place) -> Self {
        Self {
            section,
            place,
            values: BTreeMap::new(),
        }
    }

    /// Takes in a value, or `None` for one that was complained about. Gives the place of an earlier one.
    pub fn set(&mut self, name: &'static str, place: Place, value: Option<Value>) -> Option<Place> {
        self.values
            .insert(name, (place, value))
            .map(|(earlier, _)| earlier)
    }

    /// Whether the file names the option, readable or not.
    pub fn has(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Whether the file gives a value that can be read.
    pub fn stands(&self, name: &str) -> bool {
        self.values
            .get(name)
            .is_some_and(|(_, value)| value.is_some())
    }

    /// Where the option stands, else where its section does.
    pub fn place(&self, name: &str) -> &Place {
        self.values
            .get(name)
            .map_or(&self.place, |(place, _)| place)
    }

    /// How many members a given list has.
    pub fn list_len(&self, name: &str) -> Option<usize> {
        match self.values.get(name)?.1.as_ref()? {
            Value::List(members) => Some(members.len()),
            _ => None,
        }
    }

    /// The value, if the file gives one that can be read.
    pub fn given<T: FromValue>(&self, name: &str) -> Option<T> {
        let value = self.values.get(name)?.1.as_ref()?;
        Some(T::from_value(value).unwrap_or_else(|| wrong_kind(self.section, name)))
    }

    /// The value, else the default that the table has for it.
    pub fn value<T: FromValue>(&self, name: &str) -> T {
        self.given(name).unwrap_or_else(|| {
            let value =
                default(self.section, name).unwrap_or_else(|| wrong_kind(self.section, name));
            T::from_value(&value).unwrap_or_else(|| wrong_kind(self.section, name))
        })
    }
}

/// The default in the table, read as a file would be.
fn default(section: Section, name: &str) -> Option<Value> {
    let row = table::find(section, name)?;
    let Fallback::Value(text) = row.fallback else {
        return None;
    };
    let value = DeValue::parse(text).ok()?;
    let mut complaints = Complaints::default();
    let mut reader = read::Reader {
        base: Path::new("/"),
        source: 0,
        complaints: &mut complaints,
    };
    reader.read(row, &value)
}

/// The table and the place that reads an option disagree: found by the test that assembles an empty configuration.
fn wrong_kind<T>(section: Section, name: &str) -> T {
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
        for row in table::all() {
            if matches!(row.fallback, Fallback::Value(_)) {
                assert!(default(row.section, row.name).is_some(), "{}", row.path());
            }
        }
    }
}
