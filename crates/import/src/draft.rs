//! The configuration of Galley that an import composes: sections with options, each with the statements that it comes from.

use crate::source::StatementOrigin;

/// A value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Flag(bool),
    List(Vec<String>),
    /// `{ name = "value", ... }`, a number, or another value as it stands in the file.
    Verbatim(String),
}

/// An option with its value.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub name: String,
    pub value: Value,
    /// Where its statements stand; never empty.
    pub origins: Vec<StatementOrigin>,
}

/// The options of one section, in the order in which they were set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Section {
    pub settings: Vec<Setting>,
}

impl Section {
    /// Sets an option, or replaces its value.
    pub fn set(&mut self, name: &str, value: Value, origin: Option<&StatementOrigin>) {
        let origins: Vec<StatementOrigin> = origin.into_iter().cloned().collect();
        match self.find_mut(name) {
            Some(setting) => {
                setting.value = value;
                setting.origins = origins;
            }
            None => self.settings.push(Setting {
                name: name.to_owned(),
                value,
                origins,
            }),
        }
    }

    /// Adds values to a list, each once.
    pub fn add<I>(&mut self, name: &str, values: I, origin: Option<&StatementOrigin>)
    where
        I: IntoIterator<Item = String>,
    {
        if self.find_mut(name).is_none() {
            self.set(name, Value::List(Vec::new()), None);
        }
        let Some(setting) = self.find_mut(name) else {
            return;
        };
        let Value::List(list) = &mut setting.value else {
            return;
        };
        for value in values {
            if !list.contains(&value) {
                list.push(value);
            }
        }
        if let Some(origin) = origin
            && !setting.origins.contains(origin)
        {
            setting.origins.push(origin.clone());
        }
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.settings
            .iter()
            .find(|setting| setting.name == name)
            .map(|setting| &setting.value)
    }

    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub fn list(&self, name: &str) -> &[String] {
        match self.get(name) {
            Some(Value::List(list)) => list,
            _ => &[],
        }
    }

    /// Keeps the values of a list that `keeps` accepts.
    pub fn retain(&mut self, name: &str, keeps: impl Fn(&String) -> bool) {
        if let Some(Setting {
            value: Value::List(list),
            ..
        }) = self.find_mut(name)
        {
            list.retain(keeps);
        }
    }

    pub fn remove(&mut self, name: &str) {
        self.settings.retain(|setting| setting.name != name);
    }

    pub fn is_empty(&self) -> bool {
        self.settings.is_empty()
    }

    fn find_mut(&mut self, name: &str) -> Option<&mut Setting> {
        self.settings
            .iter_mut()
            .find(|setting| setting.name == name)
    }
}

/// In which order rules are compared with a request; within one, in the order of the file unless `length` differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RulePriority {
    Exact,
    FirstPrefix,
    Pattern,
    Prefix,
}

/// A `[[site.rule]]`.
#[derive(Clone, Debug)]
pub(crate) struct RuleDraft {
    pub section: Section,
    pub priority: RulePriority,
    /// Of the prefix, in bytes: the longest comes first. 0 for others.
    pub length: usize,
}

/// A `[[site]]`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ImportedSite {
    pub section: Section,
    pub ttl: Section,
    pub rules: Vec<RuleDraft>,
    pub error_pages: Section,
    pub log: Section,
}

impl ImportedSite {
    pub fn hosts(&self) -> &[String] {
        self.section.list("hosts")
    }

    /// Adds a rule, unless it has nothing but its paths.
    pub fn add_rule(&mut self, rule: RuleDraft) {
        if rule.section.settings.len() > 1 {
            self.rules.push(rule);
        }
    }

    /// Puts rules into the order of comparison.
    pub fn sort_rules(&mut self) {
        self.rules
            .sort_by_key(|rule| (rule.priority, std::cmp::Reverse(rule.length)));
    }
}

/// A whole configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Draft {
    pub server: Section,
    pub cache: Section,
    pub log: Section,
    pub acme: Section,
    pub sites: Vec<ImportedSite>,
}

impl Draft {
    /// Adds another configuration. Where both set an option, the one that is there stays.
    pub fn join(&mut self, other: Self) {
        join_section(&mut self.server, other.server);
        join_section(&mut self.cache, other.cache);
        join_section(&mut self.log, other.log);
        join_section(&mut self.acme, other.acme);
        for site in other.sites {
            let same = self
                .sites
                .iter_mut()
                .find(|known| known.hosts().iter().any(|host| site.hosts().contains(host)));
            match same {
                Some(known) => {
                    join_section(&mut known.section, site.section);
                    join_section(&mut known.ttl, site.ttl);
                    join_section(&mut known.error_pages, site.error_pages);
                    join_section(&mut known.log, site.log);
                    known.rules.extend(site.rules);
                    known.sort_rules();
                }
                None => self.sites.push(site),
            }
        }
    }
}

fn join_section(section: &mut Section, other: Section) {
    for setting in other.settings {
        match (section.find_mut(&setting.name), setting.value) {
            (None, value) => section.settings.push(Setting { value, ..setting }),
            (Some(known), Value::List(more)) => {
                if let Value::List(list) = &mut known.value {
                    let new: Vec<String> =
                        more.into_iter().filter(|one| !list.contains(one)).collect();
                    list.extend(new);
                }
            }
            (Some(_), _) => {}
        }
    }
}
