//! Patterns of paths, as rules name them.
//!
//! A pattern is a regular expression of the `regex` crate, compared with the decoded path: matching takes linear time,
//! whatever a client sends. Letters are bytes and `.` is any of them, a line feed too, so that no encoded byte slips past.
//! Size is bounded when it is compiled, which happens once.

use regex::bytes::{Regex, RegexBuilder};

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct PathPattern(Regex);

impl PathPattern {
    /// Compiles a regular expression.
    ///
    /// Errors: it is no regular expression, is too large, or needs backtracking (look-around, back references); the text
    /// says why, on one line.
    pub fn compile(text: &str) -> Result<Self, String> {
        RegexBuilder::new(text)
            .unicode(false)
            .dot_matches_new_line(true)
            .size_limit(MOST_BYTES)
            .dfa_size_limit(MOST_BYTES)
            .build()
            .map(Self)
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
                other => last_line(&other.to_string()),
            })
    }

    /// The same without regard to case. Itself where that is too large.
    pub(crate) fn without_case(&self) -> Self {
        let folded = Self::compile(&format!("(?i:{})", self.text()));
        folded.unwrap_or_else(|_| self.clone())
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        self.0.as_str()
    }

    /// Whether it is found somewhere in a decoded path.
    pub fn matches(&self, decoded_path: &[u8]) -> bool {
        self.0.is_match(decoded_path)
    }

    /// How many groups in brackets it has.
    pub fn groups(&self) -> usize {
        self.0.captures_len() - 1
    }

    /// What its groups have found, the first in place 0; `None` for one that took no part.
    pub fn captures<'p>(&self, decoded_path: &'p [u8]) -> Option<Vec<Option<&'p [u8]>>> {
        let found = self.0.captures(decoded_path)?;
        let groups = found.iter().skip(1);
        Some(
            groups
                .map(|group| group.map(|one| one.as_bytes()))
                .collect(),
        )
    }
}

/// The crate's messages draw the pattern first and say what is wrong last.
fn last_line(message: &str) -> String {
    let last = message.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

/// Of a compiled program: some thousand states, far more than paths need.
const MOST_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_by_pattern() {
        for (pattern, path, expected) in [
            (r"\.(jpg|png)$", "/a/b.png", true),
            (r"\.(jpg|png)$", "/a/b.png/c", false),
            ("(?i)^/A", "/a", true),
            ("^/a/.*$", "/a/b\nc", true),
            ("^/\u{e9}", "/\u{e9}t\u{e9}", true),
        ] {
            let compiled = PathPattern::compile(pattern).unwrap();
            assert_eq!(compiled.matches(path.as_bytes()), expected, "{pattern}");
        }
        let two = PathPattern::compile("^/(a)|/(b)$").unwrap();
        assert_eq!(two.groups(), 2);
        assert_eq!(two.captures(b"/b"), Some(vec![None, Some(&b"b"[..])]));
        assert_eq!(two.captures(b"/c"), None);
    }

    #[test]
    fn what_needs_backtracking_or_too_much_room_is_refused() {
        for (text, why) in [
            ("(", "unclosed group"),
            ("^(?!a)", "look-around"),
            (r"(a)\1", "backreferences"),
            ("(a{1000}){1000}", "too large"),
        ] {
            let error = PathPattern::compile(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains('\n'));
        }
    }
}
