//! SQL in the spellings that people write: upper and lower case, quoted and qualified names, comments, line breaks.

use crate::faults::random::Random;

/// Replaces each `SQL(...)` in PHP code by a PHP string with the statement in a random spelling.
pub(super) fn with_statements(php: &str, random: &mut Random) -> String {
    let mut parts = php.split("SQL(");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = closing_parenthesis(part);
        let (statement, rest) = part.split_at(end);
        out += &php_string(statement, random);
        out += rest.strip_prefix(')').unwrap_or(rest);
    }
    out
}

/// Position of the parenthesis that closes one before the text.
fn closing_parenthesis(text: &str) -> usize {
    let mut depth = 0_usize;
    for (position, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' if depth == 0 => return position,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// A PHP string in double quotes. `{name}` becomes the name of a table or of a column.
fn php_string(statement: &str, random: &mut Random) -> String {
    let spelling = Spelling {
        is_lower: random.once_in(3),
        has_breaks: random.once_in(3),
        has_comment: random.once_in(6),
        is_quoted: random.once_in(3),
        is_qualified: random.once_in(5),
    };
    let mut out = String::new();
    // Text in quotes and names in braces are single words.
    for (number, word) in statement.split(' ').enumerate() {
        if number > 0 {
            out += if spelling.has_breaks && random.once_in(3) {
                "\\n\\t"
            } else {
                " "
            };
        }
        out += &spelling.word(word);
        if number == 0 && spelling.has_comment {
            out += " /* from PRE */";
        }
    }
    format!("\"{out}\"")
}

#[expect(clippy::struct_excessive_bools, reason = "independent choices")]
struct Spelling {
    is_lower: bool,
    has_breaks: bool,
    has_comment: bool,
    is_quoted: bool,
    is_qualified: bool,
}

impl Spelling {
    fn word(&self, word: &str) -> String {
        if let Some((before, rest)) = word.split_once('{')
            && let Some((name, after)) = rest.split_once('}')
        {
            return format!("{before}{}{after}", self.name(name));
        }
        let bare = word.trim_matches(['(', ')', ',']);
        if self.is_lower && KEYWORDS.contains(&bare) {
            return word.to_lowercase();
        }
        word.to_owned()
    }

    fn name(&self, name: &str) -> String {
        let variable = match name {
            "column" => return "{$column}".to_owned(),
            "table" => "{$table}".to_owned(),
            "item" | "part" | "queue" | "shown" | "copy" | "old" => {
                format!("{{$wpdb->prefix}}PRE_{name}")
            }
            core => format!("{{$wpdb->{core}}}"),
        };
        let quote = if self.is_quoted { "`" } else { "" };
        let database = if self.is_qualified {
            format!("{quote}{{$wpdb->dbname}}{quote}.")
        } else {
            String::new()
        };
        format!("{database}{quote}{variable}{quote}")
    }
}

const KEYWORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "AND",
    "OR",
    "ORDER",
    "GROUP",
    "BY",
    "LIMIT",
    "JOIN",
    "INNER",
    "LEFT",
    "ON",
    "AS",
    "IN",
    "LIKE",
    "UNION",
    "ALL",
    "UPDATE",
    "SET",
    "INSERT",
    "INTO",
    "VALUES",
    "DELETE",
    "REPLACE",
    "IGNORE",
    "DUPLICATE",
    "KEY",
    "TRUNCATE",
    "TABLE",
    "ALTER",
    "ADD",
    "COLUMN",
    "DESC",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_become_php_strings_in_many_spellings() {
        let php = "f( SQL(SELECT COUNT(*) FROM {item} WHERE id IN (1, %d)), $n );";
        let all: std::collections::BTreeSet<String> = (0..200)
            .map(|seed| with_statements(php, &mut Random::new(seed)))
            .collect();
        assert!(all.len() > 20, "{}", all.len());
        assert!(all.contains(
            "f( \"SELECT COUNT(*) FROM {$wpdb->prefix}PRE_item WHERE id IN (1, %d)\", $n );"
        ));
        assert!(
            all.iter()
                .any(|php| php.contains("from `{$wpdb->dbname}`.`{$wpdb->prefix}PRE_item`"))
        );
        assert!(
            all.iter()
                .all(|php| php.starts_with("f( \"") && php.ends_with("\", $n );"))
        );
    }
}
