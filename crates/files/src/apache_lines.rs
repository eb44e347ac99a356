//! The syntax of Apache's configuration files and of `.htaccess`: one directive per line, sections in angle brackets, `#` comments, and
//! `\` at the end of a line that continues on the next one.
//!
//! The words are those that Apache sees (`ap_getword_conf`, and `parseargline` of `mod_rewrite`). Any text is accepted.

use std::iter::Peekable;
use std::str::{Chars, Lines};

/// A directive, or the beginning or end of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApacheLine {
    /// The number of its first line, from 1.
    pub number: usize,
    /// The text, in which continued lines are joined.
    pub text: String,
    /// The name in lower case, and the arguments without quotes. The name of a section begins with `<`, that of its end with `</`.
    pub words: Vec<String>,
}

/// The lines of a text, without comments and empty ones.
pub fn apache_lines(text: &str) -> impl Iterator<Item = ApacheLine> {
    let mut lines = JoinedLines {
        lines: text.lines(),
        number: 0,
    };
    std::iter::from_fn(move || {
        loop {
            let (number, text) = lines.next()?;
            let words = words(text.trim());
            if !words.is_empty() {
                return Some(ApacheLine {
                    number,
                    text,
                    words,
                });
            }
        }
    })
}

struct JoinedLines<'t> {
    lines: Lines<'t>,
    number: usize,
}

impl Iterator for JoinedLines<'_> {
    type Item = (usize, String);

    fn next(&mut self) -> Option<Self::Item> {
        let first = self.number + 1;
        let mut joined = String::new();
        let mut is_begun = false;
        for line in self.lines.by_ref() {
            self.number += 1;
            is_begun = true;
            let continued = line.strip_suffix('\\');
            joined.push_str(continued.unwrap_or(line));
            if continued.is_none() {
                break;
            }
        }
        is_begun.then_some((first, joined))
    }
}

fn words(line: &str) -> Vec<String> {
    if line.starts_with('#') {
        return Vec::new();
    }
    let line = match line.strip_prefix('<') {
        Some(_) => line.rsplit_once('>').map_or(line, |(inside, _)| inside),
        None => line,
    };
    let lower = line.get(..7).unwrap_or_default().to_ascii_lowercase();
    let escaping = if lower == "rewrite" {
        Escaping::Spaces
    } else {
        Escaping::Quotes
    };
    let mut letters = line.chars().peekable();
    let mut words = Vec::new();
    while let Some(word) = word(&mut letters, escaping) {
        words.push(word);
    }
    if let Some(name) = words.first_mut() {
        name.make_ascii_lowercase();
    }
    words
}

/// What a backslash escapes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Escaping {
    /// A backslash and, in quotes, a quote. It is removed.
    Quotes,
    /// White space outside of quotes: in the arguments of `mod_rewrite`, where it is part of the pattern.
    Spaces,
}

fn word(letters: &mut Peekable<Chars<'_>>, escaping: Escaping) -> Option<String> {
    while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
    letters.peek()?;
    let quote = letters.next_if(|letter| matches!(letter, '"' | '\''));
    let mut word = String::new();
    while let Some(letter) = letters.next() {
        let is_end = match quote {
            Some(quote) => letter == quote,
            None => letter.is_whitespace(),
        };
        if is_end {
            break;
        }
        if letter == '\\' {
            let next = letters.peek().copied();
            match escaping {
                Escaping::Quotes if next == Some('\\') || next.is_some() && next == quote => {
                    word.extend(letters.next());
                    continue;
                }
                Escaping::Spaces if quote.is_none() && next.is_some_and(char::is_whitespace) => {
                    word.push(letter);
                    word.extend(letters.next());
                    continue;
                }
                Escaping::Quotes | Escaping::Spaces => {}
            }
        }
        word.push(letter);
    }
    Some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_into_words() {
        for (text, wanted) in [
            (
                "  ServerName example.com",
                &["servername", "example.com"][..],
            ),
            ("Header set X \"a b\"", &["header", "set", "X", "a b"]),
            (
                "Header set X 'a \\'b\\\\'",
                &["header", "set", "X", "a 'b\\"],
            ),
            ("<VirtualHost *:80>", &["<virtualhost", "*:80"]),
            ("</Files >", &["</files"]),
            ("<FilesMatch \"a>b\">", &["<filesmatch", "a>b"]),
            (
                "RewriteRule ^a\\ b$ \"-\" [F]",
                &["rewriterule", "^a\\ b$", "-", "[F]"],
            ),
            (
                "RedirectMatch \\.php$ /x",
                &["redirectmatch", "\\.php$", "/x"],
            ),
            ("A \"\"", &["a", ""]),
            ("# no", &[]),
        ] {
            let words: Vec<String> = apache_lines(text).flat_map(|line| line.words).collect();
            assert_eq!(words, wanted, "{text}");
        }
        let all: Vec<ApacheLine> = apache_lines("A \\\n b\n\nC\nD \\").collect();
        let numbers: Vec<(usize, usize)> = all
            .iter()
            .map(|one| (one.number, one.words.len()))
            .collect();
        assert_eq!(numbers, [(1, 2), (4, 1), (5, 1)]);
    }
}
