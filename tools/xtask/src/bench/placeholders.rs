//! Placeholders in double braces for values that are known only at run time: ports, paths, addresses.
//!
//! An unknown placeholder is an error that names it; it is never left in the text or replaced with an empty string.

use std::{collections::BTreeMap, fmt::Display};

use crate::error::CommandError;

/// The values of placeholders.
#[derive(Debug, Clone, Default)]
pub(crate) struct Placeholders(BTreeMap<&'static str, String>);

impl Placeholders {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets or replaces the value of a placeholder.
    pub(crate) fn set(&mut self, name: &'static str, value: impl Display) {
        self.0.insert(name, value.to_string());
    }

    /// Replaces all placeholders in a text. Placeholders inside values are not replaced.
    pub(crate) fn fill(&self, text: &str) -> Result<String, CommandError> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (name, after) = after
                .split_once("}}")
                .ok_or_else(|| format!("`{{{{` without `}}}}` in `{text}`"))?;
            let value = self
                .0
                .get(name)
                .ok_or_else(|| format!("unknown placeholder: `{{{{{name}}}}}`"))?;
            out.push_str(before);
            out.push_str(value);
            rest = after;
        }
        out.push_str(rest);
        Ok(out)
    }

    /// [`fill`](Self::fill) for each argument of a command line.
    pub(crate) fn fill_all(&self, texts: &[String]) -> Result<Vec<String>, CommandError> {
        texts.iter().map(|text| self.fill(text)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_once_and_unknown_ones_are_errors() {
        let mut placeholders = Placeholders::new();
        placeholders.set("port", 80);
        placeholders.set("odd", "{{port}}");
        for (text, expected) in [
            ("", Ok("")),
            ("plain { } text", Ok("plain { } text")),
            ("a {{port}} b {{port}}", Ok("a 80 b 80")),
            ("{{odd}}", Ok("{{port}}")),
            ("{{prot}}", Err("prot")),
            ("{{port", Err("without `}}`")),
        ] {
            match (placeholders.fill(text), expected) {
                (Ok(got), Ok(expected)) => assert_eq!(got, expected),
                (Err(got), Err(expected)) => assert!(got.to_string().contains(expected), "{got}"),
                (got, expected) => panic!("{text}: {got:?}, expected {expected:?}"),
            }
        }
    }
}
