//! The class of a request in the queue of a busy upstream.
//!
//! A request belongs to a class, and within the class to a client. A class has a share of the upstream's slots, never absolute
//! priority, because any client can forge the properties of a class. A login cookie is not verified here (only WordPress can),
//! and a crawler may claim to be a browser. So forging gains the editors' share at most, and each class keeps its share
//! whatever the others send.
//!
//! A client can prove that it visits the site ([`Proof`]). Within a class, proven clients go first ([`Trust`]). Crawlers that
//! request each address once from another address prove nothing: their requests for pages with a query are [`Class::Unseen`],
//! which gets at most half of the slots and never waits.
//!
//! The queue decides which requests wait, and for how long.

use std::net::IpAddr;

use crate::excepted;
use crate::outcome::words;
use crate::request_info::{Method, RequestInfo};

words! {
    /// The class of a waiting request.
    Class {
        /// A person who works on the site: the request carries a login cookie or `Authorization`.
        Editor = "editor",
        /// An active user: the request has an unsafe method, or another session (a cart, a comment's author).
        Customer = "customer",
        /// A reader.
        Visitor = "visitor",
        /// A crawler that identifies itself in its `User-Agent`, and has proved it.
        Crawler = "crawler",
        /// A `POST` to `wp-login.php` or `xmlrpc.php` from a client that has not been seen on the site.
        Login = "login",
        /// A page with a query for a client that has not been seen on the site, or any page for an unproven name of a crawler.
        Unseen = "unseen",
        /// Galley itself: refreshes for which no client waits.
        Background = "background",
    }
}

/// What a client has proved besides what its request says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Nothing.
    Unproven,
    /// A visit: its address loaded a style sheet, script, image or font of this site a short time ago, or used the site's
    /// administration.
    Visit,
    /// That it is the crawler that it claims to be.
    VerifiedBot,
    /// The site asks for no proof.
    NotRequired,
}

/// How far a client goes before others of its class. The first goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Trust {
    /// The client has proved what the class requires.
    Proven,
    /// It has proved nothing.
    Plain,
    /// It has proved nothing, and its head is not one of the browser that it claims to be.
    Doubtful,
}

impl Trust {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::Proven, Self::Plain, Self::Doubtful];
}

/// The class of a request, and whether it goes before others of its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The class.
    pub class: Class,
    /// The order within the class.
    pub trust: Trust,
}

impl Standing {
    /// Galley's own requests.
    pub const BACKGROUND: Self = Self {
        class: Class::Background,
        trust: Trust::Proven,
    };

    /// The standing of a client's request. `is_doubtful`: whether its head contradicts itself. That is a weak sign, so it never
    /// refuses anybody: it counts for pages only, which people request with browsers, and only among clients without proof.
    pub fn of(info: &RequestInfo, proof: Proof, is_doubtful: impl FnOnce() -> bool) -> Self {
        let trust = match proof {
            Proof::Unproven if is_page(info) && is_doubtful() => Trust::Doubtful,
            Proof::Unproven => Trust::Plain,
            Proof::Visit | Proof::VerifiedBot | Proof::NotRequired => Trust::Proven,
        };
        Self {
            class: Class::of(info, proof),
            trust,
        }
    }
}

impl Class {
    /// The class of a client's request.
    pub fn of(info: &RequestInfo, proof: Proof) -> Self {
        let is_bot = || info.user_agent().is_some_and(is_crawler);
        if info.has_login() || info.has_authorization() {
            Self::Editor
        } else if proof == Proof::Unproven && is_login(info) {
            Self::Login
        } else if info.has_session() || !info.method().is_safe() {
            Self::Customer
        } else if proof == Proof::VerifiedBot {
            Self::Crawler
        } else if proof == Proof::NotRequired {
            if is_bot() {
                Self::Crawler
            } else {
                Self::Visitor
            }
        } else if is_bot() {
            if is_page(info) {
                Self::Unseen
            } else {
                Self::Crawler
            }
        } else if proof == Proof::Unproven && info.query().is_some() && is_page(info) {
            Self::Unseen
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
            Self::Crawler | Self::Login | Self::Background => 2,
            Self::Unseen => 1,
        }
    }

    /// Whether the class never has more than half of the slots, however few others want them.
    pub const fn is_bounded(self) -> bool {
        match self {
            Self::Login | Self::Unseen => true,
            Self::Editor | Self::Customer | Self::Visitor | Self::Crawler | Self::Background => {
                false
            }
        }
    }
}

/// Whether a request asks for a page, which people request after or with its files.
pub fn is_page(info: &RequestInfo) -> bool {
    matches!(info.method(), Method::Get | Method::Head) && !excepted::is_excepted(info)
}

/// Whether a request tries a password.
fn is_login(info: &RequestInfo) -> bool {
    let path = info.decoded_path();
    info.method() == Method::Post
        && (path.ends_with(b"/wp-login.php") || path.ends_with(b"/xmlrpc.php"))
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

impl Network {
    /// The /24 or /48 around it, which one owner of addresses usually has as a whole.
    #[must_use]
    pub const fn widened(self) -> Self {
        match self {
            Self::V4(bits) => Self::V4(bits & !0xff),
            Self::V6(bits) => Self::V6(bits & !0xffff),
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
        class_of(method, "/a", fields, Proof::Visit)
    }

    fn class_of(method: &str, target: &str, fields: &[(&str, &str)], proof: Proof) -> Class {
        let site = Policy {
            bypass_cookies: vec![NamePattern::parse("member")],
            ..Policy::default()
        };
        let line = RequestLineInfo {
            method,
            target: target.as_bytes(),
            ..LINE
        };
        let info = parsed(&line, fields, &site);
        Class::of(&info, proof)
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
            ("GET", &[("user-agent", GOOGLE)], Class::Unseen),
            ("GET", &[("user-agent", "Baiduspider/2.0")], Class::Unseen),
            ("GET", &[("user-agent", "SomeCrawler")], Class::Unseen),
            ("GET", &[("user-agent", "Wget/1.21")], Class::Unseen),
            ("OPTIONS", &[("user-agent", GOOGLE)], Class::Crawler),
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
        assert_eq!(Class::of(&info, Proof::Visit), Class::Visitor);
    }

    const BOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    const CHROME: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/142.0.0.0";

    #[test]
    fn proof_decides_about_pages_with_a_query_and_names_of_bots() {
        use Proof::{NotRequired, Unproven, VerifiedBot, Visit};
        for (target, agent, proof, wanted) in [
            ("/shop/", CHROME, Unproven, Class::Visitor),
            ("/shop/?filter_color=red", CHROME, Unproven, Class::Unseen),
            ("/shop/?filter_color=red", CHROME, Visit, Class::Visitor),
            (
                "/shop/?filter_color=red",
                CHROME,
                NotRequired,
                Class::Visitor,
            ),
            // The key does not keep these, so that they are the same page.
            (
                "/shop/?utm_source=a&fbclid=b",
                CHROME,
                Unproven,
                Class::Visitor,
            ),
            ("/shop/?", CHROME, Unproven, Class::Visitor),
            ("/index.php?p=3", CHROME, Unproven, Class::Unseen),
            ("/shop/", BOT, Unproven, Class::Unseen),
            ("/shop/", BOT, Visit, Class::Unseen),
            ("/shop/?p=3", BOT, Unproven, Class::Unseen),
            ("/shop/?p=3", BOT, VerifiedBot, Class::Crawler),
            ("/shop/", CHROME, VerifiedBot, Class::Crawler),
            ("/shop/", BOT, NotRequired, Class::Crawler),
            ("/feed/", BOT, Unproven, Class::Crawler),
            ("/robots.txt", BOT, Unproven, Class::Crawler),
        ] {
            let fields = [("user-agent", agent)];
            let class = class_of("GET", target, &fields, proof);
            assert_eq!(class, wanted, "{target} {agent} {proof:?}");
        }
    }

    #[test]
    fn doubt_counts_for_pages_of_unproven_clients_only() {
        for (target, proof, wanted) in [
            ("/shop/", Proof::Unproven, Trust::Doubtful),
            ("/shop/", Proof::Visit, Trust::Proven),
            ("/shop/", Proof::NotRequired, Trust::Proven),
            ("/feed/", Proof::Unproven, Trust::Plain),
            ("/wp-json/wp/v2/posts", Proof::Unproven, Trust::Plain),
        ] {
            let line = RequestLineInfo {
                target: target.as_bytes(),
                ..LINE
            };
            let info = parsed(&line, &[], &Policy::default());
            let seen = Standing::of(&info, proof, || true).trust;
            assert_eq!(seen, wanted, "{target} {proof:?}");
            assert_ne!(Standing::of(&info, proof, || false).trust, Trust::Doubtful);
        }
    }

    #[test]
    fn logins_without_proof_have_a_class_of_their_own() {
        let session = [("cookie", "member=1")];
        for (method, target, fields, proof, wanted) in [
            (
                "POST",
                "/wp-login.php",
                &[][..],
                Proof::Unproven,
                Class::Login,
            ),
            (
                "POST",
                "/blog/xmlrpc.php",
                &[],
                Proof::Unproven,
                Class::Login,
            ),
            // A cookie is no proof.
            (
                "POST",
                "/wp-login.php",
                &session,
                Proof::Unproven,
                Class::Login,
            ),
            ("POST", "/wp-login.php", &[], Proof::Visit, Class::Customer),
            (
                "POST",
                "/wp-login.php",
                &[],
                Proof::NotRequired,
                Class::Customer,
            ),
            ("GET", "/wp-login.php", &[], Proof::Unproven, Class::Visitor),
            (
                "POST",
                "/wp-comments-post.php",
                &[],
                Proof::Unproven,
                Class::Customer,
            ),
        ] {
            let class = class_of(method, target, fields, proof);
            assert_eq!(class, wanted, "{method} {target} {proof:?}");
        }
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

    /// The query of a crawl.
    const QUERY: &str = "[a-z_]{1,8}=[a-z0-9]{0,6}(&[a-z_]{1,8}=[a-z0-9]{0,6}){0,3}";

    proptest! {
        /// Feeds, REST, scripts, files and requests of other methods are never refused as a crawl, whatever else they carry.
        #[test]
        fn excepted_requests_are_never_unseen(
            folder in "(/[a-z]{1,6}){0,3}",
            name in "[a-z0-9-]{1,8}",
            query in QUERY,
            kind in 0_usize..11,
            is_bot in any::<bool>(),
            proof in prop::sample::select(vec![Proof::Unproven, Proof::Visit]),
        ) {
            let target = match kind {
                0 => format!("{folder}/feed/?{query}"),
                1 => format!("{folder}/feed/rss2?{query}"),
                2 => format!("{folder}/wp-json/{name}?{query}"),
                3 => format!("{folder}/?{query}&rest_route=/{name}"),
                4 => format!("{folder}/wp-admin/admin-ajax.php?{query}"),
                5 => format!("{folder}/{name}.css?{query}"),
                6 => format!("{folder}/?feed={name}&{query}"),
                7 => format!("{folder}/{name}.jpg?{query}"),
                8 => format!("{folder}/wp-login.php?{query}"),
                _ => format!("{folder}/{name}/?{query}"),
            };
            let method = match kind { 9 => "POST", 10 => "OPTIONS", _ => "GET" };
            let fields = [("user-agent", if is_bot { BOT } else { CHROME })];
            prop_assert_ne!(class_of(method, &target, &fields, proof), Class::Unseen, "{}", target);
        }

        /// Any other page with a query is, unless the client has been seen.
        #[test]
        fn pages_with_a_query_are_unseen_without_proof(name in "[a-z]{1,8}", value in "[a-z0-9]{1,6}") {
            let target = format!("/{name}/?filter_{name}={value}");
            let class = |proof| class_of("GET", &target, &[("user-agent", CHROME)], proof);
            prop_assert_eq!(class(Proof::Unproven), Class::Unseen);
            prop_assert_eq!(class(Proof::Visit), Class::Visitor);
        }

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
