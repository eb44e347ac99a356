//! Request heads with placeholders, so that requests can differ.
//!
//! ```text
//! {count}      the number of the request, from 1, with ten digits
//! {page}       the number of the page, from 1
//! {digits:N}   N random digits          {token:N}   N random letters, digits, - and _
//! {name}       a random text from the list with that name; it may contain placeholders, too
//! ```
//!
//! The random numbers are the same in each run of the program, so that two servers get the same requests.

use std::collections::BTreeMap;

use crate::LoadError;

/// A text with placeholders.
#[derive(Debug, Clone)]
pub struct Template(Vec<TemplatePart>);

#[derive(Debug, Clone)]
enum TemplatePart {
    Text(Vec<u8>),
    Count,
    Page,
    /// A number of random characters from this alphabet, whose length is a power of two, or from the ten digits.
    Random(usize, &'static [u8]),
    OneOf(Vec<Template>),
}

/// The values of placeholders in one request.
#[derive(Debug)]
pub(crate) struct Values {
    pub(crate) count: u64,
    pub(crate) page: usize,
    pub(crate) random: Random,
}

/// xorshift64*: fast, and random enough to select requests.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Template {
    /// Parses a text; `lists` defines the other names in braces.
    ///
    /// # Errors
    ///
    /// [`LoadError::Template`] for an unknown name, an empty list, an unclosed brace, and lists that refer to each other in a loop.
    pub fn parse(text: &str, lists: &BTreeMap<String, Vec<String>>) -> Result<Self, LoadError> {
        Self::within(text, lists, DEPTH)
    }

    fn within(
        text: &str,
        lists: &BTreeMap<String, Vec<String>>,
        depth: usize,
    ) -> Result<Self, LoadError> {
        let wrong = |what: String| LoadError::Template(what);
        let depth = depth
            .checked_sub(1)
            .ok_or_else(|| wrong(format!("lists are too deep: `{text}`")))?;
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after
                .split_once('}')
                .ok_or_else(|| wrong(format!("`{{` without `}}`: `{text}`")))?;
            parts.push(TemplatePart::Text(before.into()));
            let length = |digits: &str| {
                let length = digits.parse().ok().filter(|length| *length <= MAX_LENGTH);
                length
                    .ok_or_else(|| wrong(format!("`{{{name}}}`: not a length up to {MAX_LENGTH}")))
            };
            parts.push(match (name, name.split_once(':')) {
                ("count", _) => TemplatePart::Count,
                ("page", _) => TemplatePart::Page,
                (_, Some(("digits", digits))) => TemplatePart::Random(length(digits)?, DIGITS),
                (_, Some(("token", digits))) => TemplatePart::Random(length(digits)?, LETTERS),
                _ => {
                    let list = lists.get(name).filter(|list| !list.is_empty());
                    let list = list.ok_or_else(|| wrong(format!("unknown name `{{{name}}}`")))?;
                    let all = list.iter().map(|text| Self::within(text, lists, depth));
                    TemplatePart::OneOf(all.collect::<Result<_, _>>()?)
                }
            });
            rest = after;
        }
        parts.push(TemplatePart::Text(rest.into()));
        Ok(Self(parts))
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>, values: &mut Values) {
        for part in &self.0 {
            match part {
                TemplatePart::Text(text) => out.extend_from_slice(text),
                TemplatePart::Count => {
                    out.extend_from_slice(format!("{:010}", values.count).as_bytes());
                }
                TemplatePart::Page => {
                    out.extend_from_slice((values.page + 1).to_string().as_bytes());
                }
                TemplatePart::Random(length, letters) => values.random.fill(out, *length, letters),
                TemplatePart::OneOf(all) => {
                    if let Some(one) = all.get(values.random.below(all.len())) {
                        one.write(out, values);
                    }
                }
            }
        }
    }
}

impl Random {
    pub(crate) fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A random number from 0 to below 1.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit")]
    pub(crate) fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A random number below `count`; 0 if `count` is 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let product = u128::from(self.next()) * count as u128;
        usize::try_from(product >> 64).unwrap_or_default()
    }

    /// Takes ten characters from each random number: six bits for each.
    fn fill(&mut self, out: &mut Vec<u8>, length: usize, letters: &[u8]) {
        let end = out.len() + length;
        while out.len() < end {
            let mut bits = self.next() >> 4;
            for _ in 0..(end - out.len()).min(10) {
                let at = usize::try_from(bits & 63).unwrap_or_default();
                out.extend(letters.get(at % letters.len()));
                bits >>= 6;
            }
        }
    }
}

const DIGITS: &[u8] = b"0123456789";
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// The maximum length of random text: longer values are not realistic.
const MAX_LENGTH: usize = 4096;
/// The maximum depth of lists within lists.
const DEPTH: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn lists() -> BTreeMap<String, Vec<String>> {
        let list = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        BTreeMap::from([
            ("agent".to_owned(), list(&["Firefox/{digits:3}", "Chrome"])),
            ("circle".to_owned(), list(&["{circle}"])),
            ("empty".to_owned(), Vec::new()),
        ])
    }

    fn written(text: &str, times: usize) -> Vec<String> {
        let template = Template::parse(text, &lists()).unwrap();
        let mut values = Values {
            count: 0,
            page: 6,
            random: Random::new(),
        };
        let one = |_| {
            values.count += 1;
            let mut out = Vec::new();
            template.write(&mut out, &mut values);
            String::from_utf8(out).unwrap()
        };
        (0..times).map(one).collect()
    }

    #[test]
    fn placeholders_are_replaced() {
        assert_eq!(written("a {page} {count} b", 1), ["a 7 0000000001 b"]);
        assert_eq!(written("", 1), [""]);
        let texts = written("{digits:30}/{token:61}", 100);
        for text in &texts {
            let (digits, token) = text.split_once('/').unwrap();
            assert!(digits.len() == 30 && digits.bytes().all(|byte| byte.is_ascii_digit()));
            assert_eq!(token.len(), 61);
        }
        let different: std::collections::BTreeSet<_> = texts.iter().collect();
        assert_eq!(different.len(), 100);
        assert_eq!(texts, written("{digits:30}/{token:61}", 100), "in each run");
    }

    #[test]
    fn every_text_of_a_list_is_used() {
        let texts = written("{agent}", 100);
        let chrome = texts.iter().filter(|text| *text == "Chrome").count();
        assert!((20..80).contains(&chrome), "{chrome}");
        assert!(texts.iter().any(|text| text.starts_with("Firefox/")));
    }

    #[test]
    fn unknown_placeholders_are_named() {
        for (text, part) in [
            ("{agnet}", "agnet"),
            ("{empty}", "empty"),
            ("{circle}", "too deep"),
            ("{digits:x}", "digits:x"),
            ("{token:99999}", "4096"),
            ("{count", "without"),
        ] {
            let error = Template::parse(text, &lists()).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
