//! Path patterns of rules.
//!
//! A pattern is a regular expression of the `regex` crate, compared with the decoded path: matching takes linear time,
//! for any request. Characters are bytes, and `.` matches any of them, including a line feed, so that no encoded byte is
//! missed. The size is limited when the pattern is compiled, which happens once.

use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::literal::{ExtractKind, Extractor, Literal};
use regex_syntax::hir::{Hir, Look};

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct PathPattern(Regex);

impl PathPattern {
    /// Compiles a regular expression.
    ///
    /// Errors: it is invalid, too large, or needs backtracking (look-around, back references). The text gives the reason on one
    /// line.
    pub fn compile(text: &str) -> Result<Self, String> {
        RegexBuilder::new(text)
            .unicode(false)
            .dot_matches_new_line(true)
            .size_limit(MAX_BYTES)
            .dfa_size_limit(MAX_BYTES)
            .build()
            .map(Self)
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => "it is too large".to_owned(),
                other => last_line(&other.to_string()),
            })
    }

    /// The same pattern, case-insensitive. Unchanged if that would be too large.
    pub(crate) fn without_case(&self) -> Self {
        let folded = Self::compile(&format!("(?i:{})", self.text()));
        folded.unwrap_or_else(|_| self.clone())
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        self.0.as_str()
    }

    /// Whether the pattern matches anywhere in a decoded path.
    pub fn matches(&self, decoded_path: &[u8]) -> bool {
        self.0.is_match(decoded_path)
    }

    /// Whether each matching path ends with the name of a file that is not a page, such as `.sql`.
    pub fn names_files(&self) -> bool {
        let Some(hir) = self.without_flag() else {
            return false;
        };
        let is_anchored = hir.properties().look_set_suffix().contains(Look::End);
        let mut ends = Extractor::new();
        ends.kind(ExtractKind::Suffix);
        let ends = ends.extract(&hir);
        is_anchored
            && ends.literals().is_some_and(|ends| {
                !ends.is_empty() && ends.iter().all(|end| is_file(end.as_bytes()))
            })
    }

    /// Prefixes in lower case: each matching path begins with one of them, in any case. `None`: the pattern may match anywhere in a
    /// path, or has too many prefixes.
    pub(crate) fn prefixes(&self) -> Option<Vec<Vec<u8>>> {
        let hir = self.without_flag()?;
        let is_anchored = hir.properties().look_set_prefix().contains(Look::Start);
        let begins = Extractor::new().extract(&hir);
        let begins = begins.literals().filter(|_| is_anchored)?;
        let lower = |one: &Literal| one.as_bytes().to_ascii_lowercase();
        Some(begins.iter().map(lower).collect())
    }

    /// The syntax without a leading `(?i)`, if such a flag changes nothing but case.
    fn without_flag(&self) -> Option<Hir> {
        let text = self.text();
        let text = text.strip_prefix("(?i)").unwrap_or(text);
        let mut parser = ParserBuilder::new().utf8(false).unicode(false).build();
        parser.parse(text).ok()
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.0.captures_len() - 1
    }

    /// The text of each group, the first at index 0; `None` for a group that did not take part in the match.
    pub fn captures<'p>(&self, decoded_path: &'p [u8]) -> Option<Vec<Option<&'p [u8]>>> {
        let captures = self.0.captures(decoded_path)?;
        let groups = captures.iter().skip(1);
        Some(
            groups
                .map(|group| group.map(|one| one.as_bytes()))
                .collect(),
        )
    }
}

/// Whether a path with this end names a file that is not a page.
fn is_file(end: &[u8]) -> bool {
    let mut parts = end.rsplitn(2, |letter| *letter == b'.');
    let (Some(extension), Some(_)) = (parts.next(), parts.next()) else {
        return false;
    };
    let is_word = !extension.is_empty()
        && extension
            .iter()
            .all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, b'~' | b'_' | b'-'));
    is_word
        && !PAGE_EXTENSIONS
            .iter()
            .any(|page| page.eq_ignore_ascii_case(extension))
}

/// Extensions that URLs of pages may have: of scripts, permalinks, sitemaps and feeds.
const PAGE_EXTENSIONS: [&[u8]; 19] = [
    b"asp", b"aspx", b"atom", b"cfm", b"cgi", b"htm", b"html", b"json", b"jsp", b"md", b"php",
    b"phtml", b"pl", b"rdf", b"rss", b"shtml", b"txt", b"xhtml", b"xml",
];

/// The last line of an error message. The crate's messages draw the pattern first and state the error last.
fn last_line(message: &str) -> String {
    let last = message.lines().last().unwrap_or_default();
    last.trim_start_matches("error: ").to_owned()
}

/// The maximum size of a compiled pattern, in bytes: some thousand states, far more than paths need.
const MAX_BYTES: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_paths() {
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
    fn patterns_that_need_backtracking_or_are_too_large_are_rejected() {
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

    #[test]
    fn anchored_patterns_have_prefixes() {
        for (pattern, expected) in [
            ("^/internal", Some(&["/internal"][..])),
            ("^/internal(/|$)", Some(&["/internal/", "/internal"])),
            ("(?i)^/Internal", Some(&["/internal"])),
            ("^/(a|b)/x", Some(&["/a/x", "/b/x"])),
            ("^/a|^/b", Some(&["/a", "/b"])),
            ("^/a|/b", None),
            ("(?m)^/a", None),
            ("/internal", None),
            ("^.*internal", None),
            ("", None),
        ] {
            let compiled = PathPattern::compile(pattern).unwrap();
            let expected = expected.map(|all| {
                let all = all.iter().map(|one| one.as_bytes().to_vec());
                all.collect::<Vec<_>>()
            });
            assert_eq!(compiled.prefixes(), expected, "{pattern}");
        }
        // A pattern with an optional beginning has several prefixes, an empty one, or none.
        for pattern in ["^/?internal", "^(/internal)?", "^"] {
            let begins = PathPattern::compile(pattern).unwrap().prefixes();
            let is_open = |all: Vec<Vec<u8>>| all.contains(&Vec::new()) || all.len() > 1;
            assert!(begins.is_none_or(is_open), "{pattern}");
        }
    }

    #[test]
    fn patterns_of_files_end_with_an_extension() {
        for (pattern, expected) in [
            (r"\.(sql|bak|log|old)$", true),
            (r"(?i)\.(sql|bak)$", true),
            (r"^/uploads/.*\.(?:swf|jar)$", true),
            (r"\.sql~?$", true),
            (r"\.(sql|html)$", false),
            (r"\.(sql|PHP)$", false),
            (r"\.(sql|bak)", false),
            (r"(\.sql|/members)$", false),
            (r"\.sql/?$", false),
            (r"\.[a-z]+$", false),
            (r"sql$", false),
            (r"^/members(/|$)", false),
            ("", false),
        ] {
            let compiled = PathPattern::compile(pattern).unwrap();
            assert_eq!(compiled.names_files(), expected, "{pattern}");
        }
    }
}
