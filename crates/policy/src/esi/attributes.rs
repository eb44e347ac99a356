//! Parsing of one tag: its attributes, and its end.

/// The maximum length of a tag, in bytes.
const MAX_TAG: usize = 8 * 1024;

/// The maximum number of attributes of a tag.
const MAX_ATTRIBUTES: usize = 16;

/// An opening tag after its name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TagAttributes {
    attributes: Vec<(String, String)>,
    /// The length in bytes, including the `>`.
    pub(super) length: usize,
    /// Whether the tag ends with `/>`.
    pub(super) is_empty: bool,
}

impl TagAttributes {
    /// The value of the first attribute with this name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut attributes = self.attributes.iter();
        let attribute = attributes.find(|(known, _)| known == name);
        attribute.map(|(_, value)| value.as_str())
    }
}

/// Parses a tag after its name; `None` if it is not a tag. Examines at most [`MAX_TAG`] bytes.
pub(super) fn parse(bytes: &[u8]) -> Option<TagAttributes> {
    let bytes = bytes.get(..MAX_TAG).unwrap_or(bytes);
    let mut attributes = Vec::new();
    let mut at = 0;
    loop {
        let start = at;
        at += leading(bytes.get(at..)?, u8::is_ascii_whitespace);
        let is_empty = bytes.get(at) == Some(&b'/');
        let end = at + usize::from(is_empty);
        if bytes.get(end) == Some(&b'>') {
            return Some(TagAttributes {
                attributes,
                length: end + 1,
                is_empty,
            });
        }
        if start == at || attributes.len() == MAX_ATTRIBUTES {
            return None;
        }
        let name = bytes.get(at..)?;
        let name = name.get(..leading(name, u8::is_ascii_alphanumeric))?;
        at += name.len();
        at += leading(bytes.get(at..)?, u8::is_ascii_whitespace);
        if name.is_empty() || bytes.get(at) != Some(&b'=') {
            return None;
        }
        at += 1;
        at += leading(bytes.get(at..)?, u8::is_ascii_whitespace);
        let quote = *bytes.get(at)?;
        if !matches!(quote, b'"' | b'\'') {
            return None;
        }
        at += 1;
        let value = bytes.get(at..)?;
        let value = value.get(..memchr::memchr(quote, value)?)?;
        at += value.len() + 1;
        let value = std::str::from_utf8(value).ok()?;
        attributes.push((text(name)?, without_entities(value)));
    }
}

fn leading(bytes: &[u8], is_part: impl Fn(&u8) -> bool) -> usize {
    bytes.iter().take_while(|&byte| is_part(byte)).count()
}

fn text(name: &[u8]) -> Option<String> {
    std::str::from_utf8(name).ok().map(str::to_owned)
}

/// Decodes the five entities of XML; other text is unchanged.
fn without_entities(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(at) = rest.find('&') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let entity = ENTITIES.iter().find(|(name, _)| from.starts_with(name));
        let (name, character) = entity.copied().unwrap_or(("&", '&'));
        out.push(character);
        rest = from.get(name.len()..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

const ENTITIES: [(&str, char); 5] = [
    ("&amp;", '&'),
    ("&lt;", '<'),
    ("&gt;", '>'),
    ("&quot;", '"'),
    ("&apos;", '\''),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_valid_attributes_form_a_tag() {
        let parsed = |text: &str| parse(text.as_bytes());
        let tag =
            parsed(" src=\"/a?b=1&amp;c=&lt;2\"\n alt = '/x\"' onerror='continue'/>rest").unwrap();
        assert_eq!(tag.get("src"), Some("/a?b=1&c=<2"));
        assert_eq!(tag.get("alt"), Some("/x\""));
        assert_eq!(tag.get("onerror"), Some("continue"));
        assert_eq!(tag.get("other"), None);
        assert!(tag.is_empty);
        assert_eq!(
            parsed(">").map(|tag| (tag.length, tag.is_empty)),
            Some((1, false))
        );
        assert_eq!(
            parsed(" />").map(|tag| (tag.length, tag.is_empty)),
            Some((3, true))
        );
        let first = parsed(" src='/a' src='/b'>").unwrap();
        assert_eq!(first.get("src"), Some("/a"));
        for text in [
            "",
            " ",
            "src='/a'>",
            " src>",
            " src=>",
            " src=/a>",
            " src='/a>",
            " src='/a' alt",
            " src='/a'alt='/b'>",
            " ='/a'>",
            " / >",
            " <>",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
        let long = format!(" src='{}'>", "a".repeat(MAX_TAG));
        assert_eq!(parsed(&long), None);
        let many = format!("{}>", " a='b'".repeat(MAX_ATTRIBUTES + 1));
        assert_eq!(parsed(&many), None);
    }
}
