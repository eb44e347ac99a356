//! Values about crawlers: the files of their addresses, and what a site decides about names.

use std::cmp::Reverse;

use galley_policy::crawlers::{CrawlerRule, CrawlerTreatment, is_name};
use toml::de::{DeTable, DeValue};

use crate::diagnostic::shown;
use crate::quantity::parse_duration;
use crate::reader::{Problem, ValueReader, problem};
use crate::value::ConfigValue;

/// Reads `{ Googlebot = "googlebot.json", GPTBot = ["a.json", "b.json"] }`.
pub(crate) fn lists_of_table(
    reader: &ValueReader<'_>,
    table: &DeTable<'_>,
) -> Result<ConfigValue, Problem> {
    let mut files = Vec::new();
    for (key, value) in table {
        let name = name(key.get_ref())?;
        let texts = match value.get_ref() {
            DeValue::Array(members) => members.iter().collect(),
            _ => vec![value],
        };
        for text in texts {
            let DeValue::String(text) = text.get_ref() else {
                return problem(format!("whose `{name}` names no file"), LISTS);
            };
            files.push((name.clone(), reader.base.join(text.as_ref())));
        }
    }
    Ok(ConfigValue::CrawlerLists(files))
}

/// Reads `{ Bytespider = "refuse", GPTBot = "30s" }`. The longest name comes first, because the first one decides.
pub(crate) fn rules_of_table(table: &DeTable<'_>) -> Result<ConfigValue, Problem> {
    let mut rules = Vec::new();
    for (key, value) in table {
        let name = name(key.get_ref())?;
        let text = match value.get_ref() {
            DeValue::String(text) => text.as_ref(),
            _ => "",
        };
        let treatment = match (text, parse_duration(text)) {
            ("refuse", _) => CrawlerTreatment::Refuse,
            (_, Some(delay)) if (1..=86_400).contains(&delay.as_secs()) => {
                CrawlerTreatment::Delay(delay)
            }
            _ => {
                let why = format!("whose `{name}` is neither `refuse` nor a time from 1s to 1d");
                return problem(why, RULES);
            }
        };
        rules.push(CrawlerRule { name, treatment });
    }
    rules.sort_by_key(|rule| Reverse(rule.name.len()));
    Ok(ConfigValue::CrawlerRules(rules))
}

fn name(text: &str) -> Result<String, Problem> {
    if is_name(text) {
        return Ok(text.to_owned());
    }
    problem(
        format!("which contains {}, not the name of a crawler", shown(text)),
        "write the name as in its `User-Agent`, without version: 3 to 64 letters, digits and `-_.+`",
    )
}

const LISTS: &str =
    "write the name of the crawler and the file: `{ Googlebot = \"googlebot.json\" }`";

const RULES: &str = "write `{ Bytespider = \"refuse\", GPTBot = \"30s\" }`";

#[cfg(test)]
mod tests {
    use crate::load::from_text;

    #[test]
    fn the_rule_with_the_longest_name_comes_first() {
        let site = "crawler_rules = { bot = \"30s\", GPTBot = \"refuse\" }";
        let config = |site: &str| {
            let text = format!("[[site]]\nhosts = [\"a.test\"]\nroot = \"/\"\n{site}\n");
            from_text("test.toml", &text)
        };
        let rules = config(site).unwrap().sites[0]
            .policy
            .access
            .crawlers
            .clone();
        let names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
        assert_eq!(names, ["GPTBot", "bot"]);
        for value in [
            "{ GPTBot = \"0s\" }",
            "{ GPTBot = \"2d\" }",
            "{ GPTBot = \"no\" }",
            "{ GPTBot = 5 }",
        ] {
            let errors = config(&format!("crawler_rules = {value}")).unwrap_err();
            assert!(
                errors.to_string().contains("`GPTBot` is neither"),
                "{value}: {errors}"
            );
        }
    }
}
