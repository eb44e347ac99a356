//! An option as it is shown: its value in one line, without secrets, and its position.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// The options of one section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveSection {
    /// The header as in the file, such as `[cache]`; with its number for a rule.
    pub header: String,
    /// The options in the order of the reference page.
    pub options: Vec<EffectiveOption>,
}

/// An option that has an effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveOption {
    /// The name within the section.
    pub name: String,
    /// The value as written in a file, or a text that explains what it depends on.
    pub value: String,
    /// `file:line` if a file sets it; `None` for a default.
    pub spot: Option<String>,
    /// A digest of the whole value, including masked and omitted parts.
    pub(crate) digest: u64,
}

impl EffectiveSection {
    pub(crate) fn find<'s>(sections: &'s [Self], header: &str) -> Option<&'s Self> {
        sections.iter().find(|section| section.header == header)
    }
}

impl EffectiveOption {
    /// An option with the value `text`, as written in a file.
    pub(crate) fn new(name: impl Into<String>, text: &str, spot: Option<String>) -> Self {
        let line = text.split_whitespace().collect::<Vec<&str>>().join(" ");
        let mut hasher = DefaultHasher::new();
        line.hash(&mut hasher);
        Self {
            name: name.into(),
            value: masked(&line),
            spot,
            digest: hasher.finish(),
        }
    }

    pub(crate) fn find<'o>(options: &'o [Self], name: &str) -> Option<&'o Self> {
        options.iter().find(|option| option.name == name)
    }
}

/// Masks names and passwords in URLs, and secrets in parameters and arguments, and shortens the line.
fn masked(line: &str) -> String {
    let mut line = without_secrets(&without_passwords(line));
    if let Some((at, _)) = line.char_indices().nth(MAX_LETTERS) {
        line.truncate(at);
        line.push('…');
    }
    line
}

fn without_passwords(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, after) = rest.split_at(at + "://".len());
        out.push_str(before);
        let end = after
            .find(|sign: char| sign.is_whitespace() || "/?#\"'".contains(sign))
            .unwrap_or(after.len());
        let at = after.get(..end).and_then(|authority| authority.rfind('@'));
        if at.is_some() {
            out.push_str("***");
        }
        // The end of the authority may begin another URL.
        rest = after.get(at.unwrap_or(0)..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

/// Masks `token=x` in a query, or `--api-key=x` in a command, as `token=***`.
fn without_secrets(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('=') {
        let (before, after) = rest.split_at(at + 1);
        out.push_str(before);
        let name = before.trim_end_matches('=').to_ascii_lowercase();
        let end = after
            .find(|sign: char| sign.is_whitespace() || "&\"',]}".contains(sign))
            .unwrap_or(after.len());
        let (value, behind) = after.split_at(end);
        if !value.is_empty() && SECRET_NAMES.iter().any(|one| name.ends_with(one)) {
            out.push_str("***");
            rest = behind;
        } else {
            rest = after;
        }
    }
    out.push_str(rest);
    out
}

/// Endings of the names of parameters whose values are secrets.
const SECRET_NAMES: &[&str] = &["password", "passwd", "secret", "token", "key"];

/// The maximum number of characters of a value that are shown.
const MAX_LETTERS: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_urls_are_masked() {
        for (text, shown) in [
            ("\"redis://jane:s@cret@host:1\"", "\"redis://***@host:1\""),
            (
                "[\"http://a:b@c/d@e\", \"x://y\"]",
                "[\"http://***@c/d@e\", \"x://y\"]",
            ),
            ("a@b", "a@b"),
            ("x://y@redis://j:s@host", "x://***@redis://***@host"),
            (
                "[\"serve\", \"--api-key=abc\", \"--mode=fast\"]",
                "[\"serve\", \"--api-key=***\", \"--mode=fast\"]",
            ),
            (
                "\"http://h/v1?token=a=b&x=1\"",
                "\"http://h/v1?token=***&x=1\"",
            ),
            ("{ key = \"site.key\" }", "{ key = \"site.key\" }"),
        ] {
            assert_eq!(masked(text), shown);
        }
    }

    proptest::proptest! {
        #[test]
        fn no_password_of_a_url_is_shown(name in "[a-z:@%]{0,9}", before in ".{0,20}", after in ".{0,20}") {
            let shown = masked(&format!("{before}redis://{name}S3CRET@host:1{after}"));
            proptest::prop_assert!(!shown.contains("S3CRET"), "{shown}");
        }
    }
}
