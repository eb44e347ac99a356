//! Classes of `Accept` and of devices: the few variants that a page may have.
//!
//! Browsers send many different values. One class per kind of response keeps the number of entries small.

use super::kinds::{AcceptClass, Device};
use crate::fields;

/// Reads `Accept` lines until it is known whether the client accepts only JSON.
#[derive(Default)]
pub(super) struct AcceptLines {
    any: bool,
    other: bool,
}

impl AcceptLines {
    pub(super) fn read(&mut self, line: &[u8]) {
        // The `Accept` of a browser that requests a page, and of clients without preferences.
        if line.starts_with(b"text/html,") || line == b"*/*" {
            self.any = true;
            self.other = true;
            return;
        }
        for member in fields::members(line) {
            // The first media range of a browser decides.
            if self.other {
                return;
            }
            self.any = true;
            let range = fields::parts(member).next().unwrap_or_default();
            self.other = !is_json(range);
        }
    }

    pub(super) fn class(&self) -> AcceptClass {
        if self.any && !self.other {
            AcceptClass::Json
        } else {
            AcceptClass::Page
        }
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
    fn json_only_means_all_ranges() {
        for (lines, expected) in [
            (&[][..], AcceptClass::Page),
            (&[""], AcceptClass::Page),
            (&["application/json"], AcceptClass::Json),
            (
                &["application/activity+JSON; q=0.9, application/ld+json; profile=\"a,b\""],
                AcceptClass::Json,
            ),
            (&["application/json", "text/html"], AcceptClass::Page),
            (&["application/json, */*;q=0.1"], AcceptClass::Page),
            (&["text/html,*/*"], AcceptClass::Page),
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
