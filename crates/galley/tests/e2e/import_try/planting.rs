//! Changes a draft, and says how the report has to name the change.

use serde_json::Value as Json;
use toml::{Table, Value};

/// A difference in a draft.
pub struct Plant {
    pub name: &'static str,
    pub edit: DraftEdit,
    pub sign: PlantedSign,
}

/// What is changed.
pub enum DraftEdit {
    /// An option of the site; `None`: it is removed. The value is TOML.
    Site(&'static str, Option<&'static str>),
    /// An option of the rule for a path.
    Rule(&'static str, &'static str, Option<&'static str>),
    /// The rule for a path is removed.
    NoRule(&'static str),
    /// A new rule before all others.
    NewRule(&'static str),
}

/// How the report names a difference.
pub struct PlantedSign {
    pub kind: &'static str,
    pub field: Option<&'static str>,
    /// The path of a request that shows it.
    pub path: &'static str,
    /// What Galley does.
    pub galley: &'static str,
}

/// A draft that can be changed.
pub struct PlantedDraft(Table);

impl PlantedDraft {
    pub fn new(draft: Table) -> Self {
        Self(draft)
    }

    pub fn text(&self) -> String {
        self.0.to_string()
    }

    /// Changes the draft; `{dir}` stands for the folder of the test.
    pub fn plant(&mut self, plant: &Plant, dir: &str) {
        let value = |text: &str| {
            let table: Table = format!("value = {}", text.replace("{dir}", dir))
                .parse()
                .unwrap();
            table["value"].clone()
        };
        match &plant.edit {
            DraftEdit::Site(option, text) => set(self.site(), option, text.map(value)),
            DraftEdit::Rule(path, option, text) => {
                let at = self.rule(path);
                let rule = self.rules()[at].as_table_mut().unwrap();
                set(rule, option, text.map(value));
            }
            DraftEdit::NoRule(path) => {
                let at = self.rule(path);
                self.rules().remove(at);
            }
            DraftEdit::NewRule(text) => {
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

    /// The rule for a path, which servers write as `/a`, `/a*` or `^/a$`.
    fn rule(&mut self, path: &str) -> usize {
        let is_it = |rule: &Value| {
            let text = rule.get("path").or_else(|| rule.get("pattern")).unwrap();
            text.as_str().unwrap().trim_matches(['^', '$', '*']) == path
        };
        let found = self.rules().iter().position(is_it);
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

impl PlantedSign {
    /// Whether the report names it.
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
