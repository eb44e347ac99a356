//! Classes of `Accept` and of devices: the few variants that a page may have.
//!
//! Browsers send many different values. One class per kind of response keeps the number of entries small.

use super::kinds::{AcceptClass, Device};
use crate::fields;

/// Reads `Accept` lines, and finds the class with the highest weight. Of equal ones the first that is named wins.
#[derive(Default)]
pub(super) struct AcceptLines {
    preferred: Preferred,
    weight: u16,
}

/// What a client prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Preferred {
    pub(super) class: AcceptClass,
    /// Whether the preferred type is not in [`AcceptClass::sent`], so that a page with `Vary: Accept` may have another form for it.
    pub(super) is_unsent: bool,
}

impl AcceptLines {
    pub(super) fn read(&mut self, line: &[u8]) {
        // The `Accept` of a browser that requests a page, and of clients without preferences.
        if self.weight == 0 && (line.starts_with(b"text/html,") || line == b"*/*") {
            self.weight = MAX_WEIGHT;
            return;
        }
        for member in fields::members(line) {
            // Nothing has a higher weight.
            if self.weight == MAX_WEIGHT {
                return;
            }
            let mut parts = fields::parts(member);
            let range = parts.next().unwrap_or_default();
            let weight = parts.find_map(|part| match fields::name_value(part) {
                (b"q" | b"Q", value) => Some(value.and_then(fields::thousandths).unwrap_or(0)),
                _ => None,
            });
            let weight = weight.unwrap_or(MAX_WEIGHT);
            if weight > self.weight {
                (self.preferred, self.weight) = (Preferred::by(range), weight);
            }
        }
    }

    pub(super) fn preferred(&self) -> Preferred {
        self.preferred
    }
}

/// The weight of a range without one, in thousandths.
const MAX_WEIGHT: u16 = 1000;

impl Preferred {
    fn by(range: &[u8]) -> Self {
        let is = |name: &str| range.eq_ignore_ascii_case(name.as_bytes());
        let (class, is_unsent) = if is("text/markdown") {
            (AcceptClass::Markdown, false)
        } else if is("application/activity+json") || is("application/ld+json") {
            (AcceptClass::Activity, false)
        } else if is_json(range) {
            (AcceptClass::Json, !is("application/json"))
        } else {
            (
                AcceptClass::Page,
                is_document(range) && !SENT.iter().any(|name| is(name)),
            )
        };
        Self { class, is_unsent }
    }
}

/// Whether a range is of a type that a page may have. Images, fonts and media are not: browsers prefer them for what a page contains.
fn is_document(range: &[u8]) -> bool {
    let begins = |with: &[u8]| {
        let start = range.get(..with.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(with))
    };
    begins(b"text/") || begins(b"application/")
}

/// The types that the `Accept` of a page covers, and those that browsers prefer for style sheets and scripts.
const SENT: &[&str] = &[
    "text/html",
    "application/xhtml+xml",
    "text/*",
    "application/*",
    "text/css",
    "text/javascript",
    "application/javascript",
];

/// `*/json` or `*+json`, with any type before it.
fn is_json(range: &[u8]) -> bool {
    let end = range.len().saturating_sub(5);
    let has_type = memchr::memchr(b'/', range).is_some_and(|slash| slash > 0 && slash <= end);
    has_type
        && range
            .get(end..)
            .is_some_and(|e| e.eq_ignore_ascii_case(b"/json") || e.eq_ignore_ascii_case(b"+json"))
}

/// The result of `wp_is_mobile()`: the client hint if there is one, otherwise words in `User-Agent`.
pub(super) fn device(client_hint: Option<&[u8]>, user_agent: Option<&[u8]>) -> Device {
    let is_mobile = match client_hint {
        Some(hint) => hint.trim_ascii() == b"?1",
        None => user_agent.is_some_and(|agent| MOBILE.iter().any(|word| contains(agent, word))),
    };
    if is_mobile {
        Device::Mobile
    } else {
        Device::Desktop
    }
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    memchr::memmem::find(text, word).is_some()
}

const MOBILE: &[&[u8]] = &[
    b"Mobile",
    b"Android",
    b"Silk/",
    b"Kindle",
    b"BlackBerry",
    b"Opera Mini",
    b"Opera Mobi",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_weight_wins_and_then_the_first() {
        for (lines, expected) in [
            (&[][..], AcceptClass::Page),
            (&[""], AcceptClass::Page),
            (&["application/json"], AcceptClass::Json),
            // A server of the Fediverse.
            (
                &["application/activity+JSON; q=0.9, application/ld+json; profile=\"a,b\""],
                AcceptClass::Activity,
            ),
            (
                &["application/activity+json, application/ld+json, text/html;q=0.1"],
                AcceptClass::Activity,
            ),
            // An agent.
            (&["text/markdown, text/html, */*"], AcceptClass::Markdown),
            (&["text/html, text/markdown"], AcceptClass::Page),
            (&["text/html;q=0.9, text/markdown"], AcceptClass::Markdown),
            (
                &["text/html;q=0.9", "text/markdown;Q=0.91"],
                AcceptClass::Markdown,
            ),
            (&["text/markdown;q=0, */*;q=0.1"], AcceptClass::Page),
            // jQuery and axios.
            (
                &["application/json, text/javascript, */*; q=0.01"],
                AcceptClass::Json,
            ),
            (&["application/json, text/plain, */*"], AcceptClass::Json),
            (&["text/html", "application/json"], AcceptClass::Page),
            (&["text/html,*/*"], AcceptClass::Page),
            (&["text/html;q=0.5,application/json"], AcceptClass::Json),
            (&["image/avif,image/webp,*/*;q=0.8"], AcceptClass::Page),
            (&["application/json;q=2, */*"], AcceptClass::Page),
            (&["json"], AcceptClass::Page),
            (&["/json"], AcceptClass::Page),
            (&["application/jsonx"], AcceptClass::Page),
            (&["text/html;x=/json"], AcceptClass::Page),
        ] {
            let mut accept = AcceptLines::default();
            for line in lines {
                accept.read(line.as_bytes());
            }
            assert_eq!(accept.preferred().class, expected, "{lines:?}");
        }
    }

    #[test]
    fn a_preferred_type_that_is_not_sent_upstream_is_told() {
        for (line, expected) in [
            ("", false),
            ("text/html;q=0.9", false),
            ("*/*;q=0.5", false),
            ("application/xhtml+xml, text/html", false),
            ("image/avif,image/webp,*/*;q=0.8", false),
            ("text/css,*/*;q=0.1", false),
            ("text/*", false),
            ("application/json", false),
            ("application/ld+json", false),
            ("text/markdown", false),
            ("nonsense", false),
            ("application/geo+JSON", true),
            ("text/html;q=0.1, application/vnd.api+json", true),
            ("text/turtle, text/html;q=0.9", true),
            ("Text/Turtle", true),
            ("text/html, text/turtle", false),
            ("text/turtle;q=0.5, text/html;q=0.4", true),
            (
                "application/rss+xml, application/xml;q=0.9, */*;q=0.8",
                true,
            ),
        ] {
            let mut accept = AcceptLines::default();
            accept.read(line.as_bytes());
            assert_eq!(accept.preferred().is_unsent, expected, "{line}");
        }
    }

    proptest::proptest! {
        /// Whatever a client sends, a page has at most one copy for each class, and what upstreams receive is one of four values.
        #[test]
        fn generated_values_have_one_of_the_classes(
            ranges in proptest::collection::vec(
                (
                    "(text|application|image|\\*)/(html|json|markdown|activity\\+json|ld\\+json|x\\+json|turtle|\\*)",
                    0_u16..=1000,
                ),
                0..12,
            ),
            lines in 1_usize..4,
        ) {
            let mut accept = AcceptLines::default();
            for chunk in ranges.chunks(ranges.len().div_ceil(lines).max(1)) {
                let members = chunk.iter().map(|(range, weight)| {
                    format!("{range};q={}.{:03}", weight / 1000, weight % 1000)
                });
                accept.read(members.collect::<Vec<_>>().join(", ").as_bytes());
            }
            // The first of those with the highest weight; nothing if all are refused.
            let best = ranges.iter().map(|(_, weight)| *weight).max().filter(|best| *best > 0);
            let first = ranges.iter().find(|(_, weight)| Some(*weight) == best);
            let expected = first.map_or(Preferred::default(), |(range, _)| Preferred::by(range.as_bytes()));
            proptest::prop_assert_eq!(accept.preferred(), expected);
        }

        #[test]
        fn any_bytes_are_read(line in proptest::collection::vec(proptest::num::u8::ANY, 0..80)) {
            let mut accept = AcceptLines::default();
            accept.read(&line);
            proptest::prop_assert!(AcceptClass::ALL.contains(&accept.preferred().class));
        }
    }

    #[test]
    fn what_is_sent_upstream_has_its_own_class() {
        for &class in AcceptClass::ALL {
            let mut accept = AcceptLines::default();
            accept.read(class.sent().as_bytes());
            let is_unsent = false;
            assert_eq!(accept.preferred(), Preferred { class, is_unsent });
            assert_eq!(AcceptClass::of_number(class.number()), Some(class));
        }
    }

    #[test]
    fn devices_are_classified_as_wordpress_does() {
        let phone: &[u8] = b"Mozilla/5.0 (Linux; Android 14) Mobile Safari";
        assert_eq!(device(None, Some(phone)), Device::Mobile);
        assert_eq!(device(Some(b"?0"), Some(phone)), Device::Desktop);
        assert_eq!(device(Some(b"?1"), None), Device::Mobile);
        assert_eq!(
            device(None, Some(b"Mozilla/5.0 (X11; Linux x86_64)")),
            Device::Desktop
        );
        assert_eq!(device(None, None), Device::Desktop);
    }
}
