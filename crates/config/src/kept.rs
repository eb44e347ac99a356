//! Values of the previous configuration that stay in effect after a reload.

use crate::effective_option::{EffectiveOption, EffectiveSection};

/// An option or section that keeps its value although the file has another one: only a restart changes it.
#[derive(Clone, Debug)]
pub(crate) enum KeptValue {
    Option {
        header: String,
        name: String,
        value: Option<EffectiveOption>,
    },
    Section {
        header: String,
        value: Option<EffectiveSection>,
    },
}

impl KeptValue {
    /// The value of an option (`cache.memory`) or a section (`[cluster]`) in `sections`.
    pub(crate) fn new(sections: &[EffectiveSection], path: &str) -> Option<Self> {
        if path.starts_with('[') {
            let value = EffectiveSection::find(sections, path).cloned();
            let header = path.to_owned();
            return Some(Self::Section { header, value });
        }
        let (table, name) = path.split_once('.')?;
        let header = format!("[{table}]");
        let value = EffectiveSection::find(sections, &header);
        let value = value.and_then(|one| EffectiveOption::find(&one.options, name));
        Some(Self::Option {
            name: name.to_owned(),
            value: value.cloned(),
            header,
        })
    }

    /// Replaces the value from the file.
    pub(crate) fn apply(&self, sections: &mut Vec<EffectiveSection>) {
        match self {
            Self::Section { header, value } => {
                let at = sections.iter().position(|one| one.header == *header);
                if let Some(at) = at {
                    sections.remove(at);
                }
                if let Some(value) = value {
                    sections.insert(at.unwrap_or(sections.len()), value.clone());
                }
            }
            Self::Option {
                header,
                name,
                value,
            } => {
                let section = sections.iter_mut().find(|one| one.header == *header);
                let Some(section) = section else { return };
                let at = section.options.iter().position(|one| one.name == *name);
                if let Some(at) = at {
                    section.options.remove(at);
                }
                if let Some(value) = value {
                    let at = at.unwrap_or(section.options.len());
                    section.options.insert(at, value.clone());
                }
            }
        }
    }
}
