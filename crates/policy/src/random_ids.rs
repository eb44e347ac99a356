//! Random identifiers of elements, which differ whenever PHP generates a page: `quantity_6b0b2c0e63336` from `uniqid()`, hashes, UUIDs.
//!
//! Two generations of a page are equal but for them if one has other random digits wherever the other has certain ones, and nothing
//! else refers to these digits. So each pair of digits has to occur in an attribute `id`, otherwise only where a document
//! refers to identifiers of its own elements (`for`, `aria-*`, `#` of style sheets and scripts), and nowhere else in either page, also not
//! in private fragments. Digits in a value, a link or a field of a form are therefore never taken for an identifier: they may be a
//! nonce.

use std::ops::Range;

use memchr::memmem;

/// The pairs of random digits that two generations of a page have in the same places.
#[derive(Debug, Default)]
pub(crate) struct RandomIds<'p> {
    pairs: Vec<Pair<'p>>,
}

#[derive(Debug)]
struct Pair<'p> {
    digits: [&'p [u8]; 2],
    /// How often they have been found.
    times: usize,
    /// Whether an element has this identifier.
    is_id: bool,
}

/// Where a document names the identifier of an element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Id,
    Reference,
}

impl<'p> RandomIds<'p> {
    /// The first byte of `one` that differs from `other` otherwise than by a random identifier. The pieces are at the same place of
    /// two generations of a page.
    pub(crate) fn first_difference(&mut self, one: &'p [u8], other: &'p [u8]) -> Option<usize> {
        let (mut at, mut at_other) = (0, 0);
        while one[at..] != other[at_other..] {
            let pairs = one[at..].iter().zip(&other[at_other..]);
            let same = pairs.take_while(|(a, b)| a == b).count();
            (at, at_other) = (at + same, at_other + same);
            let (token, token_other) = (token_at(one, at), token_at(other, at_other));
            let is_known = place(&one[..token.start]).is_some_and(|place| {
                let pair = digits(&one[token.clone()], &other[token_other.clone()]);
                pair.is_some_and(|pair| self.note(pair, place))
            });
            if !is_known {
                return Some(at);
            }
            (at, at_other) = (token.end, token_other.end);
        }
        None
    }

    /// Where the first page has an identifier to which something else in one of the two pages refers.
    pub(crate) fn used_elsewhere(&self, pages: [&[u8]; 2]) -> Option<usize> {
        let used = self.pairs.iter().find(|pair| {
            let mut counts = pages
                .iter()
                .zip(pair.digits)
                .map(|(page, digits)| memmem::find_iter(page, digits).count());
            !pair.is_id || counts.any(|times| times != pair.times)
        })?;
        memmem::find(pages[0], used.digits[0])
    }

    /// Adds a pair of digits. Returns false if one of them has had another partner, or if there are too many.
    fn note(&mut self, digits: [&'p [u8]; 2], place: Place) -> bool {
        let pair_of_digits = self
            .pairs
            .iter_mut()
            .find(|pair| pair.digits[0] == digits[0] || pair.digits[1] == digits[1]);
        if let Some(pair) = pair_of_digits {
            pair.times += 1;
            pair.is_id |= place == Place::Id;
            return pair.digits == digits && pair.times <= MAX_TIMES;
        }
        self.pairs.push(Pair {
            digits,
            times: 1,
            is_id: place == Place::Id,
        });
        self.pairs.len() <= MAX_PAIRS
    }
}

/// The characters of an identifier round a byte.
fn token_at(text: &[u8], at: usize) -> Range<usize> {
    let before = text[..at].iter().rev().take_while(|byte| is_in_id(**byte));
    let after = text[at..].iter().take_while(|byte| is_in_id(**byte));
    at - before.count()..at + after.count()
}

fn is_in_id(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Where an identifier is that begins behind `text`; `None` if it is no identifier of an element.
fn place(text: &[u8]) -> Option<Place> {
    if text.ends_with(b"#") {
        return Some(Place::Reference);
    }
    let list = text
        .iter()
        .rev()
        .take(MAX_LIST)
        .take_while(|byte| is_in_id(**byte) || **byte == b' ');
    let text = &text[..text.len() - list.count()];
    let text = text
        .strip_suffix(b"\"")
        .or_else(|| text.strip_suffix(b"'"))?;
    let text = text.strip_suffix(b"=")?;
    let name = text.iter().rev().take(MAX_LIST);
    let name = name.take_while(|byte| is_in_id(**byte)).count();
    let (before, name) = text.split_at(text.len() - name);
    // Not `cart.id="..."` of a script, or `?id="..."`.
    if !before.last().is_some_and(u8::is_ascii_whitespace) {
        return None;
    }
    match name {
        b"id" => Some(Place::Id),
        b"for" | b"headers" | b"list" => Some(Place::Reference),
        _ if name.starts_with(b"aria-") => Some(Place::Reference),
        _ => None,
    }
}

/// The digits in which two identifiers differ; `None` if they do not look random.
fn digits<'p>(one: &'p [u8], other: &'p [u8]) -> Option<[&'p [u8]; 2]> {
    let same =
        |pairs: &mut dyn Iterator<Item = (&u8, &u8)>| pairs.take_while(|(a, b)| a == b).count();
    let before = same(&mut one.iter().zip(other));
    let after = same(&mut one[before..].iter().rev().zip(other[before..].iter().rev()));
    let hex = |byte: &&u8| byte.is_ascii_hexdigit();
    let start = before - one[..before].iter().rev().take_while(hex).count();
    let rest = one[one.len() - after..].iter().take_while(hex).count();
    let pair = [one, other].map(|id| &id[start..id.len() - after + rest]);
    let is_random = |digits: &[u8]| {
        digits.len() >= MIN_DIGITS
            && digits.iter().any(u8::is_ascii_digit)
            && digits
                .iter()
                .all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
    };
    pair.iter().all(|digits| is_random(digits)).then_some(pair)
}

/// Shorter identifiers could be the numbers of posts or users. Those of `uniqid()` have 13 digits.
const MIN_DIGITS: usize = 8;

/// The maximum number of identifiers in a page, each of which costs a search of both pages. A list of products has one for each.
const MAX_PAIRS: usize = 64;

/// The maximum number of places of one identifier: each is searched for at its own place.
const MAX_TIMES: usize = 256;

/// The maximum length of what is before an identifier in its attribute, in bytes. More would cost time for each identifier.
const MAX_LIST: usize = 512;

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether two generations are equal but for random identifiers.
    fn are_same(one: &str, other: &str) -> bool {
        let mut ids = RandomIds::default();
        ids.first_difference(one.as_bytes(), other.as_bytes())
            .is_none()
            && ids
                .used_elsewhere([one.as_bytes(), other.as_bytes()])
                .is_none()
    }

    #[test]
    fn random_identifiers_are_no_difference() {
        let pages = [
            r#"<label for="quantity_ID">Hat</label><input id="quantity_ID" name="quantity">"#,
            r#"<style>#box-ID{color:red}</style><div id="box-ID" class="box">"#,
            r#"<p id='a'></p><b id='accordionID-tab1' aria-controls="b accordionID"></b><i id="accordionID">"#,
            r##"<a href="#ID"></a><p id="ID"></p><script>jQuery('#ID').show()</script>"##,
        ];
        let ids = [
            ("6b0b2c0e63336", "6b0b2c104b563"),
            (
                "d41d8cd98f00b204e9800998ecf8427e",
                "0cc175b9c0f1b6a831c399e269772661",
            ),
            (
                "550e8400-e29b-41d4-a716-446655440000",
                "9b0b2c10-4b56-4c41-8b1c-1f0de3b47a01",
            ),
            ("1804289383", "846930886"),
        ];
        for page in pages {
            for (one, other) in ids {
                let (one, other) = (page.replace("ID", one), page.replace("ID", other));
                assert!(are_same(&one, &other), "{one}\n{other}");
                assert!(!are_same(&one, &(other + "more")), "{one}");
            }
        }
        assert!(are_same("", "") && are_same("<p>", "<p>"));
    }

    #[test]
    fn everything_else_is_a_difference() {
        let pages = [
            // Not an identifier of an element, or not only that.
            r#"<input name="nonce" value="ID">"#,
            r#"<p id="ID"></p><input value="ID">"#,
            r#"<p id="ID"></p><a href="/?key=ID">"#,
            r#"<p id="ID" data-id="ID">"#,
            r#"<p data-id="ID">"#,
            r#"<p style="color:#ID">"#,
            r#"<p id="ID"></p>ID"#,
            r#"<script>cart.id="ID"</script>"#,
            r#"<p title='?id="ID"'>"#,
            "<p>ID</p>",
        ];
        let (one, other) = ("6b0b2c0e63336", "6b0b2c104b563");
        for page in pages {
            assert!(
                !are_same(&page.replace("ID", one), &page.replace("ID", other)),
                "{page}"
            );
        }
        // Numbers of posts and users, words, dates.
        for (one, other) in [
            ("12", "13"),
            ("1234567", "1234568"),
            ("added", "faded"),
            ("deadbeefcafe", "cafedeadbeef"),
            ("2026-11-05", "2026-11-06"),
            ("a", "ab"),
        ] {
            let page = r#"<p id="x-ID">"#;
            assert!(
                !are_same(&page.replace("ID", one), &page.replace("ID", other)),
                "{one}"
            );
        }
        // One identifier for two, and two for one.
        let two = |a: &str, b: &str| format!(r#"<p id="{a}"><p id="{b}">"#);
        let third = "7b0b2c0e63336";
        assert!(are_same(&two(one, other), &two(other, third)));
        assert!(!are_same(&two(one, one), &two(other, third)));
        assert!(!are_same(&two(one, third), &two(other, other)));
        let many = |digit: char| {
            let ids = (10..=10 + MAX_PAIRS).map(|number| format!("{digit}00000{number}"));
            let elements: Vec<_> = ids.map(|id| format!(r#"<p id="{id}">"#)).collect();
            elements.concat()
        };
        assert!(!are_same(&many('1'), &many('2')));
    }

    proptest::proptest! {
        #[test]
        fn pages_are_never_indexed_out_of_bounds(one in "(<p id=\"|[0-9a-f]{7,9}|[\"'#= -]|é|x){0,12}", other in "(<p id=\"|[0-9a-f]{7,9}|[\"'#= -]|é|x){0,12}") {
            let mut ids = RandomIds::default();
            if let Some(at) = ids.first_difference(one.as_bytes(), other.as_bytes()) {
                proptest::prop_assert!(at <= one.len());
            }
            proptest::prop_assert!(are_same(&one, &one));
        }
    }
}
