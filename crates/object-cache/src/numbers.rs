//! Keys that differ only in a number: those of a post, a term, a product in all their groups.
//!
//! Who reads one of them and has none of it reads the others next, so they are sent together, also those of a number that nobody has read.

use std::collections::HashMap;

/// The texts around the numbers.
#[derive(Debug, Default)]
pub(crate) struct KeyNumbers {
    /// With the number that was seen first; none: there are several.
    texts: HashMap<Vec<u8>, Option<Vec<u8>>>,
}

impl KeyNumbers {
    /// The keys with a number that probably exist.
    pub(crate) fn keys_with<'a>(&'a self, number: &'a [u8]) -> impl Iterator<Item = Vec<u8>> + 'a {
        let several = self.texts.iter().filter(|(_, only)| only.is_none());
        several.map(|(text, _)| with_number(text, number))
    }

    /// Learns a key and its [`number`].
    pub(crate) fn learn(&mut self, key: &[u8], number: &[u8]) {
        let text = without_number(key, number);
        if let Some(only) = self.texts.get_mut(&text) {
            if only.as_deref().is_some_and(|only| only != number) {
                *only = None;
            }
            return;
        }
        if self.texts.len() >= MAX_TEXTS {
            // Most texts have one number only.
            self.texts.retain(|_, only| only.is_none());
        }
        if self.texts.len() < MAX_TEXTS {
            self.texts.insert(text, Some(number.to_vec()));
        }
    }
}

/// The digits in a key, if all are the same number: that of a post, a term or a user. In a network a name begins with the site and a colon.
pub(crate) fn number(key: &[u8]) -> Option<&[u8]> {
    let key = key.get(1..)?;
    let is_site = |at: usize| key.get(at) == Some(&b':');
    let mut found = None;
    let mut at = 0;
    while at < key.len() {
        let digits = key[at..].iter().take_while(|byte| byte.is_ascii_digit());
        let end = at + digits.count();
        if end > at && !is_site(end) {
            if found.is_some_and(|number| number != &key[at..end]) {
                return None;
            }
            found = Some(&key[at..end]);
        }
        at = end + 1;
    }
    found.filter(|number| number.len() <= MAX_DIGITS)
}

/// The key with a byte that no text has in place of its number, and without its first byte, which depends on the number.
fn without_number(key: &[u8], number: &[u8]) -> Vec<u8> {
    let group = usize::from(key[0]).min(key.len() - 1);
    let mask = |part: &[u8]| {
        let mut text = Vec::new();
        let mut at = 0;
        while at < part.len() {
            let digits = part[at..].iter().take_while(|byte| byte.is_ascii_digit());
            let end = at + digits.count();
            if &part[at..end] == number && part.get(end) != Some(&b':') {
                text.push(NUMBER_HERE);
            } else {
                text.extend(&part[at..end]);
            }
            text.extend(part.get(end));
            at = end + 1;
        }
        text
    };
    let (group, name) = key[1..].split_at(group);
    [mask(group), vec![END_OF_GROUP], mask(name)].concat()
}

/// The key of a text with a number.
fn with_number(text: &[u8], number: &[u8]) -> Vec<u8> {
    let mut key = vec![0];
    for byte in text {
        match *byte {
            NUMBER_HERE => key.extend(number),
            END_OF_GROUP => key[0] = u8::try_from(key.len() - 1).unwrap_or(u8::MAX),
            byte => key.push(byte),
        }
    }
    key
}

/// Texts of keys with numbers. WordPress has about ten, each taxonomy and each plugin some more.
pub(crate) const MAX_TEXTS: usize = 96;

/// Longer ones are times or hashes.
const MAX_DIGITS: usize = 9;

/// No group and no key of WordPress contains these bytes; one that does is foreseen wrongly.
const NUMBER_HERE: u8 = 0xFE;
const END_OF_GROUP: u8 = 0xFF;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_key_is_that_after_its_group() {
        assert_eq!(number(b"\x05posts12"), Some(&b"12"[..]));
        assert_eq!(number(b"\x05posts3:12"), Some(&b"12"[..]));
        assert_eq!(number(b"\x09product_8wc_product_8_prefix"), Some(&b"8"[..]));
        assert_eq!(number(b"\x05posts"), None);
        assert_eq!(number(b"\x0atransients1x2"), None);
        assert_eq!(number(b""), None);
        for key in [
            &b"\x05posts3:12"[..],
            b"\x0aproduct_12wc_product_12_prefix",
            b"\x0512_1212:12",
            b"\xff12",
        ] {
            let text = without_number(key, b"12");
            assert!(key[0] == 255 || with_number(&text, b"12") == key);
        }
        let text = without_number(b"\x09product_8wc_product_8_prefix", b"8");
        assert_eq!(
            with_number(&text, b"512"),
            b"\x0bproduct_512wc_product_512_prefix"
        );
    }

    #[test]
    fn texts_with_several_numbers_are_kept_and_bounded() {
        let mut numbers = KeyNumbers::default();
        numbers.learn(b"\x05posts1", b"1");
        assert_eq!(numbers.keys_with(b"3").count(), 0);
        numbers.learn(b"\x05posts2", b"2");
        for other in 0..999 {
            numbers.learn(format!("\u{1}g{}_1", "x".repeat(other)).as_bytes(), b"1");
        }
        assert!(numbers.texts.len() <= MAX_TEXTS);
        let keys: Vec<_> = numbers.keys_with(b"3").collect();
        assert_eq!(keys, [b"\x05posts3".to_vec()]);
    }
}
