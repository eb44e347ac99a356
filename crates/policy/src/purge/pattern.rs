//! Patterns of purges: regular expressions that are checked when they are parsed, so that publishing one cannot fail.

use super::error::{MAX_PATTERN_BYTES, PurgeError};
use regex::bytes::{Regex, RegexBuilder};
use std::fmt;
use std::hash::{Hash, Hasher};

/// A regular expression of the `regex` crate, compared with canonical `path?query`. Any pattern matches in linear time, and
/// its size is limited.
#[derive(Clone, Debug)]
pub struct PurgePattern(Regex);

impl PurgePattern {
    /// Reads and compiles a pattern.
    pub fn parse(text: &str) -> Result<Self, PurgeError> {
        if text.len() > MAX_PATTERN_BYTES {
            return Err(PurgeError::PatternTooLong);
        }
        // Canonical paths are ASCII, so Unicode classes would only cost memory.
        RegexBuilder::new(text)
            .unicode(false)
            .size_limit(COMPILED_BYTES)
            .dfa_size_limit(COMPILED_BYTES)
            .build()
            .map(Self)
            .map_err(|error| PurgeError::Pattern(error.to_string()))
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the pattern matches anywhere in `path?query`.
    pub fn matches(&self, path_query: &[u8]) -> bool {
        self.0.is_match(path_query)
    }
}

impl PartialEq for PurgePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for PurgePattern {}

impl Hash for PurgePattern {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.text().hash(hasher);
    }
}

impl fmt::Display for PurgePattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().escape_debug().fmt(out)
    }
}

/// The memory of one compiled pattern and of its scratch space, in bytes. The limit on the number of patterns limits the total.
const COMPILED_BYTES: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_limited_in_size() {
        let matches =
            |text: &str| PurgePattern::parse(text).map(|pattern| pattern.matches(b"/a?x=1"));
        assert_eq!(matches("^/a"), Ok(true));
        assert_eq!(matches("x=2$"), Ok(false));
        let long = "a".repeat(MAX_PATTERN_BYTES + 1);
        assert_eq!(matches(&long), Err(PurgeError::PatternTooLong));
        assert!(matches!(matches("(a"), Err(PurgeError::Pattern(_))));
        assert!(matches!(
            matches("((a{100}){100}){100}"),
            Err(PurgeError::Pattern(_))
        ));
    }
}
