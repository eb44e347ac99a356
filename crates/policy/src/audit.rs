//! The audit: what copies of a page that were generated again show about the stored one.
//!
//! A stored page that no purge has touched must equal a page that is generated now. If two generations in a row agree with each
//! other and differ from the stored page, WordPress changed something that no purge reported. If they differ from each other,
//! the page varies by itself, and nothing is known about the stored one. Both comparisons leave out nonces
//! ([`masked`]) and random identifiers of elements ([`private::compare`]).

use http::StatusCode;

use crate::private::{self, PageDifference};
use crate::wordpress::masked;

/// A copy of a page.
#[derive(Clone, Copy, Debug)]
pub struct PageCopy<'p> {
    /// The status.
    pub status: StatusCode,
    /// The plain body.
    pub body: &'p [u8],
}

/// Why a response shows nothing about the stored page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoVerdict {
    /// A purge has touched the page, or another copy has taken its place.
    Purged,
    /// A redirect came in place of the page.
    Redirected,
    /// The response may not be stored: it is private, sets a cookie, or is an error page.
    NotStored,
    /// The upstream failed, or there was no memory for the comparison.
    Failed,
}

/// The result of the audit of one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditResult {
    /// The stored page equals the generated one.
    Same,
    /// Two generations in a row differ.
    Varies(PageChange),
    /// The stored page is out of date: a missed dependency.
    Changed(PageChange),
    /// Nothing is known.
    None(NoVerdict),
}

impl AuditResult {
    /// The words of all results, which never change.
    pub const WORDS: [&str; 7] = [
        "same",
        "varies",
        "changed",
        "purged",
        "redirected",
        "not-stored",
        "failed",
    ];

    /// The index of the word of this result.
    pub const fn index(&self) -> usize {
        match self {
            Self::Same => 0,
            Self::Varies(_) => 1,
            Self::Changed(_) => 2,
            Self::None(NoVerdict::Purged) => 3,
            Self::None(NoVerdict::Redirected) => 4,
            Self::None(NoVerdict::NotStored) => 5,
            Self::None(NoVerdict::Failed) => 6,
        }
    }

    /// The word of this result.
    pub fn word(&self) -> &'static str {
        Self::WORDS.get(self.index()).copied().unwrap_or_default()
    }

    /// The part that differs.
    pub const fn change(&self) -> Option<&PageChange> {
        match self {
            Self::Varies(change) | Self::Changed(change) => Some(change),
            Self::Same | Self::None(_) => None,
        }
    }
}

/// The first part in which two copies differ, in a form that may be logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageChange {
    /// The first byte that differs, counted in the older copy after its nonces are masked.
    pub at: usize,
    /// The text of the older copy there.
    pub before: String,
    /// The text of the newer copy there.
    pub after: String,
}

/// The verdict about a stored page from two generations in a row.
pub fn verdict(
    stored: PageCopy<'_>,
    first: Result<PageCopy<'_>, NoVerdict>,
    second: Result<PageCopy<'_>, NoVerdict>,
) -> AuditResult {
    let (first, second) = match (first, second) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(why), _) | (_, Err(why)) => return AuditResult::None(why),
    };
    if let Some(change) = difference(first, second) {
        return AuditResult::Varies(change);
    }
    difference(stored, second).map_or(AuditResult::Same, AuditResult::Changed)
}

/// The first difference of two copies of a page; `None` if they are the same for a reader.
pub fn difference(older: PageCopy<'_>, newer: PageCopy<'_>) -> Option<PageChange> {
    if older.status != newer.status {
        let status = |copy: PageCopy<'_>| format!("status {}", copy.status.as_u16());
        return Some(PageChange {
            at: 0,
            before: status(older),
            after: status(newer),
        });
    }
    if older.body == newer.body {
        return None;
    }
    let text = |copy: PageCopy<'_>| std::str::from_utf8(copy.body).map(masked);
    let (Ok(before), Ok(after)) = (text(older), text(newer)) else {
        // No page, so it has no nonces.
        let same = older.body.iter().zip(newer.body);
        return Some(PageChange {
            at: same.take_while(|(a, b)| a == b).count(),
            before: format!("{} bytes", older.body.len()),
            after: format!("{} bytes", newer.body.len()),
        });
    };
    let compared = private::compare(before.as_bytes(), std::iter::empty(), after.as_bytes(), &[]);
    let at = match compared? {
        PageDifference::Content(at) => at,
        PageDifference::Fragments(_)
        | PageDifference::Status(_)
        | PageDifference::Cookie
        | PageDifference::Repeated(_) => 0,
    };
    Some(PageChange {
        at,
        before: excerpt(&before, at),
        after: excerpt(&after, at),
    })
}

/// The text round a byte, at most [`MAX_EXCERPT`] bytes, without addresses of persons and secrets. Each word is judged as a whole before
/// anything is cut off.
fn excerpt(text: &str, at: usize) -> String {
    let (start, end) = (at.saturating_sub(MAX_WORD), at.saturating_add(MAX_WORD));
    let from = at.saturating_sub(LEAD);
    let mut shown = String::new();
    let mut offset = 0;
    for word in text.split_inclusive(is_between_words) {
        let word_start = offset;
        offset += word.len();
        if offset <= from {
            continue;
        }
        if shown.len() >= MAX_EXCERPT || word_start >= end {
            break;
        }
        let delimiter = word.chars().next_back().filter(|c| is_between_words(*c));
        let bare = delimiter.map_or(word, |c| word.strip_suffix(c).unwrap_or(word));
        // What is too long to be judged is not shown, either.
        if word_start < start || offset > end || is_confidential(bare) {
            shown.push('…');
            shown.extend(delimiter);
        } else {
            let visible = word
                .char_indices()
                .filter(|(index, _)| word_start + index >= from);
            shown.extend(visible.map(|(_, c)| if c.is_control() { ' ' } else { c }));
        }
    }
    let mut length = shown.len().min(MAX_EXCERPT);
    while !shown.is_char_boundary(length) {
        length -= 1;
    }
    shown.truncate(length);
    shown
}

fn is_between_words(c: char) -> bool {
    c.is_whitespace() || "<>\"'=,()[]{}|`".contains(c)
}

/// Whether a word contains an e-mail address, or something that looks like a key, a token or a nonce.
fn is_confidential(word: &str) -> bool {
    let lower = word.to_ascii_lowercase();
    let is_digit = |c: char| c.is_ascii_digit();
    let mut runs = word.split(|c: char| !c.is_ascii_alphanumeric());
    AT_SIGNS.iter().any(|sign| lower.contains(sign))
        || runs.any(|run| {
            let is_hex = run.len() >= MIN_HEX && run.chars().all(|c| c.is_ascii_hexdigit());
            (is_hex || run.len() >= MIN_RANDOM) && run.contains(is_digit)
        })
}

/// The `@` of an address, also as WordPress's `antispambot()` writes it.
const AT_SIGNS: &[&str] = &[
    "@", "%40", "&#64;", "&#064;", "&#x40;", "&commat;", "\\u0040",
];

/// The length of a nonce of WordPress.
const MIN_HEX: usize = 10;

/// The length from which letters and digits without a pause are taken for a key.
const MIN_RANDOM: usize = 20;

/// The maximum length of an excerpt, in bytes.
const MAX_EXCERPT: usize = 80;

/// The bytes that an excerpt shows before the difference.
const LEAD: usize = 24;

/// The maximum distance of the ends of a shown word from the difference, in bytes.
const MAX_WORD: usize = 400;

#[cfg(test)]
mod tests {
    use super::*;

    fn page(body: &str) -> PageCopy<'_> {
        PageCopy {
            status: StatusCode::OK,
            body: body.as_bytes(),
        }
    }

    #[test]
    fn verdicts() {
        let gone = PageCopy {
            status: StatusCode::NOT_FOUND,
            body: b"<p>old</p>",
        };
        let nonce = |text: &str| format!(r#"<script>{{"nonce":"{text}"}}</script><p>old</p>"#);
        let (one, other) = (nonce("0123456789"), nonce("abcdef0123"));
        let table = [
            (
                "<p>old</p>",
                Ok(page("<p>old</p>")),
                Ok(page("<p>old</p>")),
                "same",
            ),
            (one.as_str(), Ok(page(&other)), Ok(page(&one)), "same"),
            (
                "<p>old</p>",
                Ok(page("<p>new</p>")),
                Ok(page("<p>new</p>")),
                "changed",
            ),
            ("<p>old</p>", Ok(gone), Ok(gone), "changed"),
            (
                "<p>1</p>",
                Ok(page("<p>2</p>")),
                Ok(page("<p>3</p>")),
                "varies",
            ),
            // The stored page is one of the copies.
            (
                "<p>2</p>",
                Ok(page("<p>2</p>")),
                Ok(page("<p>3</p>")),
                "varies",
            ),
            // A change between the two generations may be an edit whose purge follows: no missed dependency.
            (
                "<p>old</p>",
                Ok(page("<p>old</p>")),
                Ok(page("<p>new</p>")),
                "varies",
            ),
            (
                "<p>old</p>",
                Err(NoVerdict::Purged),
                Ok(page("<p>new</p>")),
                "purged",
            ),
            (
                "<p>old</p>",
                Ok(page("<p>new</p>")),
                Err(NoVerdict::Purged),
                "purged",
            ),
            (
                "<p>old</p>",
                Err(NoVerdict::Redirected),
                Err(NoVerdict::Redirected),
                "redirected",
            ),
            (
                "<p>old</p>",
                Ok(page("<p>new</p>")),
                Err(NoVerdict::NotStored),
                "not-stored",
            ),
            (
                "<p>old</p>",
                Err(NoVerdict::Failed),
                Ok(page("<p>new</p>")),
                "failed",
            ),
        ];
        for (stored, first, second, wanted) in table {
            let result = verdict(page(stored), first, second);
            assert_eq!(result.word(), wanted, "{stored} {first:?} {second:?}");
        }
    }

    #[test]
    fn the_difference_is_named_by_its_place_and_a_short_text() {
        let change = difference(
            page("<footer>Opening hours: 9 to 5</footer>"),
            page("<footer>Opening hours: 10 to 6</footer>"),
        );
        let change = change.unwrap();
        assert_eq!(change.at, 23);
        assert_eq!(change.before, "<footer>Opening hours: 9 to 5</footer>");
        assert_eq!(change.after, "<footer>Opening hours: 10 to 6</footer>");
        let long = "x ".repeat(500);
        let (before, after) = (format!("{long}1{long}"), format!("{long}2{long}"));
        let change = difference(page(&before), page(&after)).unwrap();
        assert!(change.before.contains('1') && change.before.len() <= MAX_EXCERPT);
        let binary = difference(
            PageCopy {
                body: b"\xff1",
                ..page("")
            },
            PageCopy {
                body: b"\xff22",
                ..page("")
            },
        );
        let binary = binary.unwrap();
        assert_eq!(
            (binary.at, &*binary.before, &*binary.after),
            (1, "2 bytes", "3 bytes")
        );
    }

    #[test]
    fn excerpts_show_no_addresses_and_no_secrets() {
        let long = "a".repeat(1000);
        let rows = [
            ("mail to ann.lee@example.com now", "ann"),
            ("<a href=\"mailto:ann%40example.com\">", "ann"),
            ("<a href=\"mailto:&#97;nn&#64;ex&#97;mple.com\">", "&#97;nn"),
            ("{\"mail\":\"ann\\u0040example.com\"}", "ann"),
            ("<input value=\"0a1b2c3d4e\">", "0a1b"),
            ("?key=ck_9f8e7d6c5b4a39281706f5e4", "9f8e"),
            ("token=Zm9vYmFyYmF6cXV4MTIzNDU2", "Zm9v"),
            (&*format!("{long}@example.com"), "aaa"),
        ];
        for (text, secret) in rows {
            for at in 0..=text.len() {
                let shown = excerpt(text, at);
                assert!(!shown.contains(secret), "{text} at {at}: {shown}");
                assert!(shown.len() <= MAX_EXCERPT);
            }
        }
        assert_eq!(excerpt("Only 3 left in stock", 5), "Only 3 left in stock");
    }

    proptest::proptest! {
        #[test]
        fn any_copies_are_compared(
            one in "[<>é@ a-c0-9\"=]{0,120}", other in "[<>é@ a-c0-9\"=]{0,120}",
        ) {
            let change = difference(page(&one), page(&other));
            for text in change.iter().flat_map(|change| [&change.before, &change.after]) {
                proptest::prop_assert!(text.len() <= MAX_EXCERPT && !text.contains('@'));
            }
            proptest::prop_assert_eq!(difference(page(&one), page(&one)), None);
        }
    }
}
