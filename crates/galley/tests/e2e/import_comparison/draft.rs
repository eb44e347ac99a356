//! Plants differences in a draft and finds them in the report.

use serde_json::Value as Json;
use toml::{Table, Value};

/// A difference to plant in a draft.
pub struct PlantedDifference {
    pub name: &'static str,
    pub edit: DraftEdit,
    pub expected: ExpectedDifference,
}

/// What the owner of a site does because of a statement that is not carried.
pub struct ManualStep {
    /// The beginning of the statement in the report of the import.
    pub statement: &'static str,
    pub edit: DraftEdit,
}

/// A change of a draft. Values are TOML; `None` removes the option.
pub enum DraftEdit {
    /// Option of the site, value.
    SetSite(&'static str, Option<&'static str>),
    /// Path of the rule, option, value.
    SetRule(&'static str, &'static str, Option<&'static str>),
    /// Removes the rule for a path.
    RemoveRule(&'static str),
    /// Adds a rule before all others.
    AddRule(&'static str),
}

/// How the report has to name a difference.
pub struct ExpectedDifference {
    pub kind: &'static str,
    pub field: Option<&'static str>,
    /// Path of a request in the report.
    pub path: &'static str,
    /// Part of the description of Galley's response.
    pub galley: &'static str,
}

/// A draft that can be changed.
pub struct Draft(Table);

impl Draft {
    pub fn new(draft: Table) -> Self {
        Self(draft)
    }

    pub fn text(&self) -> String {
        self.0.to_string()
    }

    /// Changes the draft. `{dir}` is the folder of the test.
    pub fn apply(&mut self, edit: &DraftEdit, dir: &str) {
        let value = |text: &str| {
            let table: Table = format!("value = {}", text.replace("{dir}", dir))
                .parse()
                .unwrap();
            table["value"].clone()
        };
        match edit {
            DraftEdit::SetSite(option, text) => set(self.site(), option, text.map(value)),
            DraftEdit::SetRule(path, option, text) => {
                let (site, index) = self.rule_index(path);
                let rule = self.0["site"][site]["rule"][index].as_table_mut();
                set(rule.unwrap(), option, text.map(value));
            }
            DraftEdit::RemoveRule(path) => {
                let (site, index) = self.rule_index(path);
                self.0["site"][site]["rule"]
                    .as_array_mut()
                    .unwrap()
                    .remove(index);
            }
            DraftEdit::AddRule(text) => {
                let rule: Table = text.replace("{dir}", dir).parse().unwrap();
                self.rules().insert(0, Value::Table(rule));
            }
        }
    }

    fn site(&mut self) -> &mut Table {
        let sites = self.0["site"].as_array_mut().unwrap();
        let has_rules = |site: &&mut Value| site.get("rule").is_some();
        let site = sites.iter_mut().find(has_rules).unwrap();
        site.as_table_mut().unwrap()
    }

    fn rules(&mut self) -> &mut Vec<Value> {
        self.site()["rule"].as_array_mut().unwrap()
    }

    /// Indexes of the site and of its rule for a path, which drafts write as `/a`, `/a*`, `/a/*`, `^/a$` or `^/a(/.*)?$`.
    fn rule_index(&self, path: &str) -> (usize, usize) {
        let has_path = |rule: &Value| {
            let text = rule.get("path").or_else(|| rule.get("pattern")).unwrap();
            let text = text.as_str().unwrap().replace("\\.", ".");
            let text = text
                .trim_start_matches("(?i)")
                .trim_matches(['^', '$', '*']);
            let ends = ["", "/", ".", "/.", "(/.*)?"];
            ends.iter().any(|end| text.strip_suffix(end) == Some(path))
        };
        let mut sites = self.0["site"].as_array().unwrap().iter().enumerate();
        let in_site = |(site, one): (usize, &Value)| {
            let rules = one.get("rule")?.as_array()?;
            Some((site, rules.iter().position(has_path)?))
        };
        let found = sites.find_map(in_site);
        found.unwrap_or_else(|| panic!("no rule for {path} in {}", self.text()))
    }
}

fn set(table: &mut Table, option: &str, value: Option<Value>) {
    match value {
        Some(value) => table.insert(option.to_owned(), value),
        None => Some(
            table
                .remove(option)
                .unwrap_or_else(|| panic!("no {option} in {table}")),
        ),
    };
}

impl ExpectedDifference {
    /// Whether the report names the difference.
    pub fn is_in(&self, report: &Json) -> bool {
        let is_request = |request: &Json| {
            let url = request["url"].as_str().unwrap_or_default();
            let path = url.splitn(4, '/').nth(3).unwrap_or_default();
            path.split('?').next() == Some(self.path.trim_start_matches('/'))
        };
        report["differences"].as_array().unwrap().iter().any(|one| {
            one["kind"] == self.kind
                && one["galley"].as_str().unwrap().contains(self.galley)
                && one["field"].as_str() == self.field
                && one["requests"].as_array().unwrap().iter().any(is_request)
        })
    }
}
