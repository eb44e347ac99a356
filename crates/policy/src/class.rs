//! The class of a request in the queue of a busy upstream.
//!
//! A request belongs to a class, and within the class to a client. A class has a share of the upstream's slots, never absolute
//! priority, because any client can forge the properties of a class. A login cookie is not verified here (only WordPress can),
//! and a crawler may claim to be a browser. So forging gains the editors' share at most, and each class keeps its share
//! whatever the others send.
//!
//! The queue decides which requests wait, and for how long.

use std::net::IpAddr;

use crate::outcome::words;
use crate::request_info::RequestInfo;

words! {
    /// The class of a waiting request.
    Class {
        /// A person who works on the site: the request carries a login cookie or `Authorization`.
        Editor = "editor",
        /// An active user: the request has an unsafe method, or another session (a cart, a comment's author).
        Customer = "customer",
        /// A reader.
        Visitor = "visitor",
        /// A crawler that identifies itself in its `User-Agent`, and sends safe requests.
        Crawler = "crawler",
        /// Galley itself: refreshes for which no client waits.
        Background = "background",
    }
}

impl Class {
    /// The class of a client's request.
    pub fn of(info: &RequestInfo) -> Self {
        if info.has_login() || info.has_authorization() {
            Self::Editor
        } else if info.has_session() || !info.method().is_safe() {
            Self::Customer
        } else if info.user_agent().is_some_and(is_crawler) {
            Self::Crawler
        } else {
            Self::Visitor
        }
    }

    /// The class's share of the slots, relative to the other waiting classes. People have twice the share of programs. A larger
    /// share for editors would also be available to a client that forges their cookie, and editors are few: a quarter gives each
    /// of them one of the next two slots.
    pub const fn share(self) -> u64 {
        match self {
            Self::Editor | Self::Customer | Self::Visitor => 4,
            Self::Crawler | Self::Background => 2,
        }
    }
}

/// One client among those of its class: an IPv4 address, or the /64 of an IPv6 address, within which a host may choose
/// addresses freely (RFC 4291 §2.5.1, RFC 8981).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Network {
    /// An address.
    V4(u32),
    /// The first half of an address.
    V6(u64),
}

impl Network {
    /// The network of an address; an IPv4-mapped address counts as IPv4.
    pub fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => {
                let [a, b, c, d, ..] = address.segments();
                let half = [a, b, c, d].into_iter();
                Self::V6(half.fold(0, |bits, part| (bits << 16) | u64::from(part)))
            }
        }
    }
}

/// Whether a `User-Agent` names a crawler. Only honest crawlers are recognized; the others are visitors with many requests.
fn is_crawler(agent: &[u8]) -> bool {
    // A brand of phones, which is part of the `User-Agent` of their browsers.
    const PHONE: &[u8] = b"cubot";
    has_any(agent, CRAWLERS) && !has_any(agent, &[PHONE])
}

/// Whether a text contains one of `words`, which are in lower case. One pass: nearly all agents are those of browsers, which
/// contain none, and few of their letters begin one.
fn has_any(text: &[u8], words: &[&[u8]]) -> bool {
    // These bits are the same for both cases of a letter.
    let bit = |letter: u8| 1_u32 << (letter & 31);
    let firsts = words.iter().filter_map(|word| word.first());
    let firsts = firsts.fold(0, |all, letter| all | bit(*letter));
    let mut rest = text;
    while let Some((letter, after)) = rest.split_first() {
        let lower = letter.to_ascii_lowercase();
        let begins = |word: &&[u8]| {
            word.first() == Some(&lower)
                && (rest.get(..word.len())).is_some_and(|part| part.eq_ignore_ascii_case(word))
        };
        if firsts & bit(*letter) != 0 && words.iter().any(begins) {
            return true;
        }
        rest = after;
    }
    false
}

/// Common words in the names of crawlers, and crawlers that use none of the first four.
const CRAWLERS: &[&[u8]] = &[
    b"bot",
    b"crawl",
    b"spider",
    b"slurp",
    b"facebookexternalhit",
    b"mediapartners-google",
    b"python-requests",
    b"scrapy",
    b"wget/",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request_info::RequestLineInfo;
    use crate::site::{NamePattern, Policy};
    use crate::testing::{LINE, parsed};
    use proptest::prelude::*;

    fn class(method: &str, fields: &[(&str, &str)]) -> Class {
        let site = Policy {
            bypass_cookies: vec![NamePattern::parse("member")],
            ..Policy::default()
        };
        let line = RequestLineInfo { method, ..LINE };
        let info = parsed(&line, fields, &site);
        Class::of(&info)
    }

    #[test]
    fn requests_are_classified() {
        const GOOGLE: &str =
            "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
        const FIREFOX: &str =
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
        type Fields = &'static [(&'static str, &'static str)];
        let table: &[(&str, Fields, Class)] = &[
            ("GET", &[], Class::Visitor),
            ("HEAD", &[("user-agent", FIREFOX)], Class::Visitor),
            (
                "GET",
                &[("cookie", "_ga=1; wordpress_test_cookie=1")],
                Class::Visitor,
            ),
            (
                "GET",
                &[("cookie", "_ga=1; wordpress_logged_in_0=a")],
                Class::Editor,
            ),
            (
                "POST",
                &[("cookie", "wordpress_logged_in_0=a")],
                Class::Editor,
            ),
            ("GET", &[("authorization", "Basic eA==")], Class::Editor),
            (
                "GET",
                &[
                    ("cookie", "wordpress_logged_in_0=a"),
                    ("user-agent", GOOGLE),
                ],
                Class::Editor,
            ),
            ("POST", &[], Class::Customer),
            ("DELETE", &[], Class::Customer),
            ("MADE-UP", &[], Class::Customer),
            ("POST", &[("user-agent", GOOGLE)], Class::Customer),
            (
                "GET",
                &[("cookie", "woocommerce_items_in_cart=1")],
                Class::Customer,
            ),
            ("GET", &[("cookie", "member=1")], Class::Customer),
            (
                "GET",
                &[("cookie", "wordpress_logged_in=a")],
                Class::Visitor,
            ),
            ("GET", &[("user-agent", GOOGLE)], Class::Crawler),
            ("GET", &[("user-agent", "Baiduspider/2.0")], Class::Crawler),
            ("GET", &[("user-agent", "SomeCrawler")], Class::Crawler),
            ("GET", &[("user-agent", "Wget/1.21")], Class::Crawler),
            (
                "GET",
                &[("user-agent", "Linux; Android 12; CUBOT P60")],
                Class::Visitor,
            ),
            ("GET", &[("user-agent", "")], Class::Visitor),
        ];
        for (method, fields, wanted) in table {
            assert_eq!(class(method, fields), *wanted, "{method} {fields:?}");
        }
    }

    #[test]
    fn a_rule_that_ignores_cookies_ignores_login_cookies() {
        use crate::site::{IgnoredParts, Rule};
        let site = Policy {
            rules: vec![Rule {
                path: "/page*".to_owned(),
                ignore: IgnoredParts {
                    cookie: true,
                    ..IgnoredParts::default()
                },
                ..Rule::default()
            }],
            ..Policy::default()
        };
        let line = RequestLineInfo {
            target: b"/page",
            ..LINE
        };
        let info = parsed(&line, &[("cookie", "wordpress_logged_in_0=a")], &site);
        assert_eq!(Class::of(&info), Class::Visitor);
    }

    #[test]
    fn clients_are_distinguished_by_their_network() {
        let of = |text: &str| Network::of(text.parse().unwrap());
        for (one, other, is_same) in [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.1", "::ffff:192.0.2.1", true),
            ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::1", "127.0.0.1", false),
        ] {
            assert_eq!(of(one) == of(other), is_same, "{one} {other}");
        }
    }

    proptest! {
        #[test]
        fn any_agent_is_accepted(agent in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = is_crawler(&agent);
        }

        #[test]
        fn words_are_found_at_any_position(
            text in "[aBcEg/t-]{0,12}",
            words in proptest::collection::vec("[abceg/t-]{1,3}", 1..4),
        ) {
            let lower = text.to_ascii_lowercase();
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            let has = |word: &[u8]| lower.contains(std::str::from_utf8(word).unwrap());
            prop_assert_eq!(has_any(text.as_bytes(), &words), words.iter().any(|word| has(word)));
        }
    }
}
