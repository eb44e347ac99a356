//! Patterns of `<Files>`, `<FilesMatch>`, `RewriteRule` and `RedirectMatch`.
//!
//! Apache uses PCRE. Here matching takes linear time, so a pattern that needs backtracking (look-around, back references)
//! does not compile. The only such form that site owners use, a leading `^(?!...)`, is split into two patterns.

use regex::bytes::{Regex, RegexBuilder};

/// One compiled pattern.
#[derive(Clone, Debug)]
pub(super) struct HtaccessPattern {
    is: Regex,
    /// The pattern in `^(?!...)`, which must not match.
    is_not: Option<Regex>,
}

/// Whether matching is case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaseSensitivity {
    Exact,
    Ignored,
}

impl HtaccessPattern {
    /// Compiles a regular expression; `None` if it is invalid, too large, or needs backtracking.
    pub(super) fn regex(text: &str, case: CaseSensitivity) -> Option<Self> {
        if let Some((not, rest)) = split_negation(text) {
            return Some(Self {
                is: compile(&format!("^(?:{rest})"), case)?,
                is_not: Some(compile(&format!("^(?:{not})"), case)?),
            });
        }
        Some(Self {
            is: compile(text, case)?,
            is_not: None,
        })
    }

    /// Compiles a file name with `*`, `?` and `[...]`.
    pub(super) fn glob(text: &str) -> Option<Self> {
        let mut regex = String::from("^");
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '*' => regex.push_str(".*"),
                '?' => regex.push('.'),
                '[' => {
                    regex.push('[');
                    if letters.next_if(|next| *next == '!').is_some() {
                        regex.push('^');
                    }
                    for inside in letters.by_ref() {
                        regex.push(inside);
                        if inside == ']' {
                            break;
                        }
                    }
                }
                other => regex.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
            }
        }
        regex.push('$');
        Self::regex(&regex, CaseSensitivity::Exact)
    }

    /// Compiles a URL path that also matches every path below it.
    pub(super) fn below(path: &str) -> Option<Self> {
        let path = regex::escape(path.trim_end_matches('/'));
        Self::regex(&format!("^{path}(?:/|$)"), CaseSensitivity::Exact)
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        self.is.is_match(text) && !self.is_not.as_ref().is_some_and(|not| not.is_match(text))
    }
}

fn compile(text: &str, case: CaseSensitivity) -> Option<Regex> {
    RegexBuilder::new(text)
        .unicode(false)
        .case_insensitive(case == CaseSensitivity::Ignored)
        .dot_matches_new_line(true)
        .size_limit(MAX_SIZE)
        .dfa_size_limit(MAX_SIZE)
        .build()
        .ok()
}

/// Splits `^(?!A)B` into `A` and `B`.
fn split_negation(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix("^(?!")?;
    let mut depth = 1_usize;
    let mut in_class = false;
    let mut is_escaped = false;
    for (at, letter) in inside.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth -= 1,
            // The caret does not apply to all of `B`.
            '|' if depth == 0 => return None,
            _ => {}
        }
        if depth == 0 {
            let rest = inside.get(at + 1..)?;
            return Some((inside.get(..at)?, rest));
        }
    }
    None
}

/// The maximum size of a compiled pattern, in bytes; enough for a list of a few hundred words.
const MAX_SIZE: usize = 1 << 18;
