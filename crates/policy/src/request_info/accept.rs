//! Classes of `Accept` and of devices: the few variants that a page may have.
//!
//! Browsers send many different values. One class per kind of response keeps the number of entries small.

use super::kinds::{AcceptClass, Device};
use crate::fields;

/// Reads `Accept` lines, and finds the class with the highest weight. Of equal ones the first that is named wins.
#[derive(Default)]
pub(super) struct AcceptLines {
    class: AcceptClass,
    weight: u16,
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
                (self.class, self.weight) = (class_of(range), weight);
            }
        }
    }

    pub(super) fn class(&self) -> AcceptClass {
        self.class
    }
}

/// The weight of a range without one, in thousandths.
const MAX_WEIGHT: u16 = 1000;

fn class_of(range: &[u8]) -> AcceptClass {
    let is = |name: &str| range.eq_ignore_ascii_case(name.as_bytes());
    if is("text/markdown") {
        AcceptClass::Markdown
    } else if is("application/activity+json") || is("application/ld+json") {
        AcceptClass::Activity
    } else if is_json(range) {
        AcceptClass::Json
    } else {
        AcceptClass::Page
    }
}

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
            assert_eq!(accept.class(), expected, "{lines:?}");
        }
    }

    #[test]
    fn what_is_sent_upstream_has_its_own_class() {
        for class in AcceptClass::ALL {
            let mut accept = AcceptLines::default();
            accept.read(class.sent().as_bytes());
            assert_eq!(accept.class(), class);
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
