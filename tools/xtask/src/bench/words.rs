//! Words in double braces: how the files of the bench name what is known only when it runs (ports, paths, addresses).
//!
//! A word that nobody has set is an error that names it; nothing is ever left in place or filled with nothing.

use std::{collections::BTreeMap, fmt::Display};

use crate::demo::CommandError;

/// What the words mean.
#[derive(Debug, Clone, Default)]
pub(crate) struct Words(BTreeMap<&'static str, String>);

impl Words {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Gives a word its meaning, or another one.
    pub(crate) fn set(&mut self, word: &'static str, meaning: impl Display) {
        self.0.insert(word, meaning.to_string());
    }

    /// The text with all words replaced. What a word stands for is not looked at again.
    pub(crate) fn fill(&self, text: &str) -> Result<String, CommandError> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("{{") {
            let (word, after) = after
                .split_once("}}")
                .ok_or_else(|| format!("`{{{{` without an end in `{text}`"))?;
            let meaning = self
                .0
                .get(word)
                .ok_or_else(|| format!("no such word: `{{{{{word}}}}}`"))?;
            out.push_str(before);
            out.push_str(meaning);
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
    fn words_are_replaced_once_and_strangers_named() {
        let mut words = Words::new();
        words.set("port", 80);
        words.set("odd", "{{port}}");
        for (text, wanted) in [
            ("", Ok("")),
            ("plain { } text", Ok("plain { } text")),
            ("a {{port}} b {{port}}", Ok("a 80 b 80")),
            ("{{odd}}", Ok("{{port}}")),
            ("{{prot}}", Err("prot")),
            ("{{port", Err("without an end")),
        ] {
            match (words.fill(text), wanted) {
                (Ok(got), Ok(wanted)) => assert_eq!(got, wanted),
                (Err(got), Err(wanted)) => assert!(got.to_string().contains(wanted), "{got}"),
                (got, wanted) => panic!("{text}: {got:?}, wanted {wanted:?}"),
            }
        }
    }
}
