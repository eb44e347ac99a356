//! The label of purges: what an edit was, for people who read the history of purges. It purges nothing.
//!
//! The text comes from an upstream or from the holder of a token, who may send anything: it becomes one short line without
//! characters that control a terminal or change the order of the text around them. It is never markup, and never logged.

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode;

use crate::tags;

/// What caused purges, such as "Edit of “Hello”": one line of at most 120 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeLabel(Box<str>);

impl PurgeLabel {
    /// Cleans a text. `None` if nothing remains.
    pub fn new(text: &str) -> Option<Self> {
        let shown = text.chars().take(MAX_READ).filter(|c| !is_invisible(*c));
        let shown: String = shown
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let words: Vec<&str> = shown.split_whitespace().collect();
        let line: String = words.join(" ").chars().take(MAX_CHARS).collect();
        let line = line.trim_end();
        (!line.is_empty()).then(|| Self(line.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The label of the purges in a response: `Galley-Purge: label=Edit%20of%20Hello,p12`.
pub fn label(fields: &HeaderMap) -> Option<PurgeLabel> {
    let values = fields.get_all(GALLEY_PURGE).into_iter();
    let mut words = values.flat_map(|value| tags::split(value.as_bytes()));
    words.find_map(label_in)
}

/// The label in `label=Edit%20of%20Hello`.
pub(super) fn label_in(word: &[u8]) -> Option<PurgeLabel> {
    let encoded = word.strip_prefix(b"label=")?;
    if encoded.len() > MAX_ENCODED {
        return None;
    }
    PurgeLabel::new(&percent_decode(encoded).decode_utf8().ok()?)
}

/// Characters without a glyph that change the text around them: soft hyphens, joiners, directions, tags.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

pub(super) const GALLEY_PURGE: HeaderName = HeaderName::from_static("galley-purge");

/// A title and a few words around it.
const MAX_CHARS: usize = 120;

/// The maximum number of characters that are read, of which some may be dropped.
const MAX_READ: usize = 4 * MAX_CHARS;

/// The maximum length in a header: each character of the label as three bytes, each of them percent-encoded.
const MAX_ENCODED: usize = 9 * MAX_CHARS;

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn cleaned(text: &str) -> Option<String> {
        PurgeLabel::new(text).map(|label| label.as_str().to_owned())
    }

    #[test]
    fn a_label_is_one_short_visible_line() {
        for (text, wanted) in [
            ("Edit of “Grüße 日本”", Some("Edit of “Grüße 日本”")),
            ("a\r\nb\u{1b}[31m\tc", Some("a b [31m c")),
            ("gpj.\u{202e}exe\u{200b}\u{e0041}", Some("gpj.exe")),
            ("\u{2028}\u{7f}\u{feff} ", None),
            ("<b>", Some("<b>")),
        ] {
            assert_eq!(cleaned(text).as_deref(), wanted, "{text:?}");
        }
        let long = cleaned(&"é".repeat(10_000)).unwrap_or_default();
        assert_eq!(long.chars().count(), MAX_CHARS);
    }

    #[test]
    fn a_response_names_its_edit_without_purging_more() {
        let mut fields = HeaderMap::new();
        let of = |fields: &HeaderMap| label(fields).map(|label| label.as_str().to_owned());
        fields.append("x-litespeed-purge", HeaderValue::from_static("label=other"));
        assert_eq!(of(&fields), None);
        for line in [
            "label=%ff,label=,id=a1",
            "p12,label=Edit%20of%20%E2%80%9Ca%2Cb%E2%80%9D",
        ] {
            fields.append(GALLEY_PURGE, HeaderValue::from_static(line));
        }
        assert_eq!(of(&fields).as_deref(), Some("Edit of “a,b”"));
        let long = format!("label={}", "a".repeat(MAX_ENCODED + 1));
        assert_eq!(label_in(long.as_bytes()), None);
    }

    proptest! {
        #[test]
        fn any_text_becomes_a_clean_label(text in "\\PC{0,300}|[\\x00-\\u{10ffff}]{0,300}") {
            if let Some(line) = cleaned(&text) {
                prop_assert!(line.chars().count() <= MAX_CHARS);
                prop_assert!(!line.chars().any(|c| c.is_control() || is_invisible(c)));
                prop_assert_eq!(line.trim(), &line);
            }
        }

        #[test]
        fn no_word_panics(word in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = label_in(&[b"label=".as_slice(), &word].concat());
        }
    }
}
