//! The values of the fields that `Vary` names, in a form in which equivalent values are equal (RFC 9111 §4.1).
//!
//! Lines of one field are joined, and blanks around commas are removed. Of `Accept-Language` only the weights count, not the
//! order or the case. Values that are equal because of the key or the form of upstream requests are omitted. If a
//! response has one language, a client that prefers this language gets it, whatever else the client accepts.

use http::HeaderName;
use http::header::{ACCEPT_ENCODING, ACCEPT_LANGUAGE, COOKIE};

use crate::fields;

/// Writes the selections for one list of names.
#[derive(Clone, Copy, Debug)]
pub struct Selecting<'n> {
    names: &'n [HeaderName],
}

impl<'n> Selecting<'n> {
    /// A writer for the names of a `Vary`, in the order in which they are stored.
    pub fn new(names: &'n [HeaderName]) -> Self {
        Self { names }
    }

    /// The selection of a request; `None` if it is longer than [`MAX_SELECTION`], which is not worth an entry.
    pub fn of<'a>(
        self,
        fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    ) -> Option<Vec<u8>> {
        self.write(fields, None)
    }

    /// The selection of all requests that prefer `language`; `None` if `Vary` does not name `Accept-Language`.
    pub fn in_language<'a>(
        self,
        fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
        language: &[u8],
    ) -> Option<Vec<u8>> {
        if !self.names.contains(&ACCEPT_LANGUAGE) {
            return None;
        }
        self.write(fields, Some(&language.to_ascii_lowercase()))
    }

    /// The language that a request prefers to all others.
    pub fn most_wanted<'a>(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Option<Vec<u8>> {
        let languages = languages(values(fields, ACCEPT_LANGUAGE.as_str()));
        let (first, second) = (languages.first()?, languages.get(1));
        let stands_out = second.is_none_or(|second| second.weight < first.weight);
        (stands_out && first.weight > 0 && first.range != b"*").then(|| first.range.clone())
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "iterators are cheap to clone and read better by value"
    )]
    fn write<'a>(
        self,
        fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
        language: Option<&[u8]>,
    ) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for name in self.names {
            if CONSTANT.contains(name) {
                continue;
            }
            if let Some(language) = language.filter(|_| *name == ACCEPT_LANGUAGE) {
                push(2, language, &mut out);
                continue;
            }
            let mut lines = values(fields.clone(), name.as_str()).peekable();
            if lines.peek().is_none() {
                out.push(0);
                continue;
            }
            let value = if *name == ACCEPT_LANGUAGE {
                weighted(&languages(lines))
            } else {
                joined(lines)
            };
            push(1, &value, &mut out);
        }
        (out.len() <= MAX_SELECTION).then_some(out)
    }
}

fn push(kind: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
}

fn values<'a>(
    fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    wanted: &str,
) -> impl Iterator<Item = &'a [u8]> {
    fields
        .filter(move |(name, _)| name.eq_ignore_ascii_case(wanted))
        .map(|(_, value)| value)
}

fn joined<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for member in lines.flat_map(fields::members) {
        if !out.is_empty() {
            out.push(b',');
        }
        out.extend_from_slice(member);
    }
    out
}

/// A member of `Accept-Language`.
struct LanguagePreference {
    /// The language range, in lower case.
    range: Vec<u8>,
    /// The weight in thousandths.
    weight: u16,
}

/// All members by descending weight, those of equal weight by name.
fn languages<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<LanguagePreference> {
    let mut preferences: Vec<LanguagePreference> = lines
        .flat_map(fields::members)
        .map(|member| {
            let mut parts = fields::parts(member);
            let range = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts.find_map(|part| {
                let (name, value) = fields::name_value(part);
                // An invalid weight: not accepted.
                let weight = || value.and_then(fields::thousandths).unwrap_or_default();
                name.eq_ignore_ascii_case(b"q").then(weight)
            });
            LanguagePreference {
                range,
                weight: weight.unwrap_or(1000),
            }
        })
        .collect();
    preferences.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.range.cmp(&b.range)));
    preferences
}

fn weighted(wanted: &[LanguagePreference]) -> Vec<u8> {
    let mut out = Vec::new();
    for one in wanted {
        out.extend_from_slice(&one.range);
        out.push(b';');
        out.extend_from_slice(&one.weight.to_be_bytes());
    }
    out
}

/// Upstream requests accept identity only. Cookies are in the key, or the request passes.
const CONSTANT: &[HeaderName] = &[ACCEPT_ENCODING, COOKIE];

/// The maximum length of a selection in bytes, which is part of a key and of a list of variants.
pub const MAX_SELECTION: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn select(names: &[&'static str], rows: &[(&str, &str)]) -> Vec<u8> {
        let names: Vec<HeaderName> = names.iter().map(|n| HeaderName::from_static(n)).collect();
        let lines = rows.iter().map(|(name, value)| (*name, value.as_bytes()));
        Selecting::new(&names).of(lines).unwrap()
    }

    #[test]
    fn equivalent_requests_have_equal_selections() {
        type Rows<'a> = &'a [(&'a str, &'a str)];
        let table: &[(&[&'static str], Rows<'_>, Rows<'_>, bool)] = &[
            (&["foo"], &[("Foo", "1")], &[("foo", "1")], true),
            (&["foo"], &[("foo", "1")], &[("foo", "2")], false),
            (&["foo"], &[("foo", "a")], &[("foo", "A")], false),
            (&["foo"], &[], &[("foo", "")], false),
            (&["foo"], &[("foo", "1,2")], &[("foo", " 1 ,  2 ")], true),
            (
                &["foo"],
                &[("foo", "1, 2")],
                &[("foo", "1"), ("Foo", "2")],
                true,
            ),
            (
                &["foo"],
                &[("foo", "1, 2")],
                &[("foo", "2"), ("foo", "1")],
                false,
            ),
            (
                &["foo"],
                &[("foo", "\"1,2\"")],
                &[("foo", "\"1, 2\"")],
                false,
            ),
            (&["foo", "bar"], &[("foo", "1")], &[("bar", "1")], false),
            (
                &["foo"],
                &[("foo", "1"), ("bar", "1")],
                &[("foo", "1"), ("bar", "2")],
                true,
            ),
            (
                &["accept-encoding"],
                &[("accept-encoding", "br")],
                &[],
                true,
            ),
            (
                &["accept-language"],
                &[("accept-language", "en, de")],
                &[("accept-language", "DE,en;q=1.0")],
                true,
            ),
            (
                &["accept-language"],
                &[("accept-language", "en, de;q=0.5")],
                &[("accept-language", "de, en;q=0.5")],
                false,
            ),
        ];
        for (names, one, other, equal) in table {
            assert_eq!(
                select(names, one) == select(names, other),
                *equal,
                "{one:?} {other:?}"
            );
        }
    }

    #[test]
    fn the_preferred_language_is_found() {
        let table: &[(&[&str], Option<&str>)] = &[
            (&[], None),
            (&["de"], Some("de")),
            (&["en, de"], None),
            (&["fr;q=0.5, De;q=1.0"], Some("de")),
            (&["fr;q=0.5", "de;q=0.6, *;q=0.1"], Some("de")),
            (&["*"], None),
            (&["de;q=0"], None),
            (&["de;q=2, en;q=0.1"], Some("en")),
        ];
        for (lines, wanted) in table {
            let lines = lines
                .iter()
                .map(|line| ("accept-language", line.as_bytes()));
            let found = Selecting::most_wanted(lines);
            assert_eq!(found.as_deref(), wanted.map(str::as_bytes), "{wanted:?}");
        }
    }

    #[test]
    fn long_selections_are_rejected() {
        let long = "x".repeat(MAX_SELECTION);
        let names = [HeaderName::from_static("foo")];
        let lines = std::iter::once(("foo", long.as_bytes()));
        assert_eq!(Selecting::new(&names).of(lines), None);
    }

    proptest! {
        #[test]
        fn never_panics(value in proptest::collection::vec(any::<u8>(), 0..80)) {
            let names = [HeaderName::from_static("foo"), ACCEPT_LANGUAGE];
            let lines = [("foo", &value[..]), ("accept-language", &value[..])];
            let _ = Selecting::new(&names).of(lines.iter().copied());
            let _ = Selecting::most_wanted(lines.iter().copied());
        }
    }
}
