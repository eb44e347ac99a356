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

use crate::access::{is_login, xmlrpc};
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
        } else if proof == Proof::Unproven && tries_password(info) {
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
fn tries_password(info: &RequestInfo) -> bool {
    info.method() == Method::Post && (is_login(info) || xmlrpc::is_meant(info))
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
mod tests;
