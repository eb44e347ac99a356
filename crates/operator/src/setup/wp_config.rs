//! The constants in `wp-config.php`, without running it.
//!
//! Only `define( 'NAME', literal );` outside comments counts. A value that PHP would have to compute is unknown.

use std::collections::HashMap;

/// The constants that the file defines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct WpConfig {
    constants: HashMap<String, String>,
}

impl WpConfig {
    /// Parses the text of the file.
    pub(super) fn parse(text: &str) -> Self {
        let plain = without_comments(text);
        let mut constants = HashMap::new();
        let mut rest = plain.as_str();
        while let Some((_, after)) = rest.split_once("define") {
            rest = after;
            if let Some((name, value)) = definition(after) {
                // In PHP the first definition of a constant counts.
                if constants.len() < MAX_CONSTANTS {
                    constants.entry(name).or_insert(value);
                }
            }
        }
        Self { constants }
    }

    /// The value of a constant; `true` and `false` are returned as words.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.constants.get(name).map(String::as_str)
    }

    pub(super) fn is_true(&self, name: &str) -> bool {
        matches!(self.get(name), Some("true" | "1"))
    }
}

/// Parses `( 'NAME', literal )`.
fn definition(text: &str) -> Option<(String, String)> {
    let (name, rest) = string(text.trim_start().strip_prefix('(')?)?;
    let rest = rest.trim_start().strip_prefix(',')?.trim_start();
    if let Some((value, rest)) = string(rest) {
        return rest.trim_start().starts_with(')').then_some((name, value));
    }
    let (word, _) = rest.split_once(')')?;
    let word = word.trim().to_ascii_lowercase();
    let is_literal = word == "true" || word == "false" || word.parse::<i64>().is_ok();
    is_literal.then_some((name, word))
}

/// A string literal in quotes, and the text after it. A literal in double quotes must not contain variables.
fn string(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start();
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            c if c == quote => return Some((value, text.get(at + 1..)?)),
            '$' if quote == '"' => return None,
            '\\' => match characters.next()?.1 {
                escaped if escaped == quote || escaped == '\\' => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            c => value.push(c),
        }
        if value.len() > MAX_VALUE {
            return None;
        }
    }
    None
}

/// The text with each comment replaced by a space.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '#' if rest.starts_with("#[") => 1,
            '#' => comment_end(rest, "\n"),
            '/' if rest.starts_with("//") => comment_end(rest, "\n"),
            '/' if rest.starts_with("/*") => comment_end(rest, "*/"),
            '\'' | '"' => string(rest).map_or(1, |(_, after)| rest.len() - after.len()),
            other => other.len_utf8(),
        };
        let is_comment = first == '#' || (first == '/' && end > 1);
        let (taken, after) = rest.split_at(end);
        plain.push_str(if is_comment { " " } else { taken });
        rest = after;
    }
    plain
}

fn comment_end(text: &str, end: &str) -> usize {
    text.find(end).map_or(text.len(), |at| at + end.len())
}

const MAX_CONSTANTS: usize = 1000;
const MAX_VALUE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn constants_outside_comments() {
        let config = WpConfig::parse(
            r#"<?php
            // define('DB_NAME', 'old');
            /* define( 'DB_USER', 'nobody' ); */
            # define( 'DB_HOST', 'x' );
            define( 'DB_NAME', 'site' ); define("DB_USER", "it's # me");
            define( 'DB_HOST', getenv('DB') );
            define('WP_HOME', 'https://example.com');
            define('WP_HOME', 'https://second.example.com');
            define( 'WP_SITEURL', "http://$host" );
            define( 'MULTISITE', TRUE ); define('X', 'a\'b\\c\n');
            "#,
        );
        assert_eq!(config.get("DB_NAME"), Some("site"));
        assert_eq!(config.get("DB_USER"), Some("it's # me"));
        assert_eq!(config.get("DB_HOST"), None);
        assert_eq!(config.get("WP_HOME"), Some("https://example.com"));
        assert_eq!(config.get("WP_SITEURL"), None);
        assert!(config.is_true("MULTISITE"));
        assert_eq!(config.get("X"), Some(r"a'b\c\n"));
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_without_panic(text in "(?s).{0,300}") {
            let _ = WpConfig::parse(&text);
        }

        #[test]
        fn any_tokens_are_parsed_without_panic(text in "(define|[(),;'\"#/*\\\\$ a\n]){0,80}") {
            let _ = WpConfig::parse(&text);
        }

        #[test]
        fn values_survive_parsing(name in "[A-Z_]{1,12}", value in "[^\\\\\0]{0,40}") {
            let escaped = value.replace('\'', "\\'");
            let config = WpConfig::parse(&format!("<?php define( '{name}', '{escaped}' );"));
            prop_assert_eq!(config.get(&name), Some(value.as_str()));
        }
    }
}
