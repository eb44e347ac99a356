//! Whether a response may be kept, for how long, and what of its head.
//!
//! RFC 9111 §3, narrowed by the promise that nothing personal is ever shared: only answers to trimmed requests, never
//! with a cookie that the site's file does not call harmless, never with `private`, `no-store` or `no-cache`, never
//! partial, never a redirect to itself. The WordPress preset keeps fewer statuses than the RFC permits; without a preset
//! any final status with an explicit lifetime is kept. Truth is in the response: no decision looks at a URL's ending.
//! Whether a body came whole is known by who received it; [`judge_body`] judges what it then looks like.

mod error_page;
mod fields;
mod litespeed;
mod redirect;
mod rfc9111;
mod spread;

use std::time::{Duration, SystemTime};

use http::header::{CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, EXPIRES, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

pub use self::fields::{
    add_confined, browser_fields, forwarded_fields, passed_fields, stored_fields,
};
pub use self::redirect::{ReferenceUrl, resolve};
pub use self::rfc9111::{SharedWith, judge_part, judge_taught, updated_fields};
use crate::cache_control::CacheControl;
use crate::freshness::{self, Statement, Voice};
use crate::outcome::NotStored;
use crate::request_info::{Cacheability, Method, RequestInfo};
use crate::site::{Ignore, Preset, Rule, SiteRules};
use crate::vary::Vary;

/// What to do with a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storability {
    /// Keep it, this long.
    Store(Lifetime),
    /// Do not, and why.
    Skip(NotStored),
}

/// How long an entry lives. Lifetimes count from composition, so the age that it came with is part of its age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// As long as its age is below, it is fresh.
    pub fresh: Duration,
    /// From the end of freshness: how long it may answer while one refresh runs.
    pub stale_while_revalidate: Duration,
    /// From the end of freshness: how long it may answer when the upstream fails.
    pub stale_if_error: Duration,
    /// Its age when it was received (RFC 9111 §4.2.3, `corrected_initial_age`).
    pub initial_age: Duration,
}

/// A response's head, as the upstream sent it.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// Its status.
    pub status: StatusCode,
    /// Its fields, none removed.
    pub fields: &'a HeaderMap,
    /// From the first byte of the request to the head of the response.
    pub response_delay: Duration,
    /// When the head was received.
    pub now: SystemTime,
}

/// Judges a response to the trimmed form of the request behind `facts`.
pub fn judge(facts: &RequestInfo, answer: &ResponseHead<'_>, site: &SiteRules) -> Storability {
    judge_stated(facts, answer, site, &statement(facts, answer, site))
}

/// The same; a lifetime that the response leaves to us is up to a tenth shorter, so that what was stored together does not
/// expire together. `seed`: any number that belongs to the entry; equal seeds give equal lifetimes.
pub fn judge_spread(
    facts: &RequestInfo,
    answer: &ResponseHead<'_>,
    site: &SiteRules,
    seed: u64,
) -> Storability {
    let statement = statement(facts, answer, site);
    match judge_stated(facts, answer, site, &statement) {
        Storability::Store(life) => {
            Storability::Store(spread::spread(answer, &statement, site, life, seed))
        }
        skip @ Storability::Skip(_) => skip,
    }
}

fn statement(facts: &RequestInfo, answer: &ResponseHead<'_>, site: &SiteRules) -> Statement {
    let rule = facts.rule().and_then(|index| site.rules.get(index));
    let ignore = rule.map_or(Ignore::default(), |rule| rule.ignore);
    freshness::statement(answer.fields, site.preset, ignore, answer.now)
}

fn judge_stated(
    facts: &RequestInfo,
    answer: &ResponseHead<'_>,
    site: &SiteRules,
    statement: &Statement,
) -> Storability {
    let rule = facts.rule().and_then(|index| site.rules.get(index));
    let ignore = rule.map_or(Ignore::default(), |rule| rule.ignore);
    let forbidden = check_request(facts, statement, site)
        .and_then(|()| check_status(answer, statement, site))
        .and_then(|()| check_cookies(answer.fields, site, ignore))
        .and_then(|()| check_vary(answer.fields, site, ignore))
        .and_then(|()| check_content(facts, answer, site));
    if let Err(why) = forbidden {
        return Storability::Skip(why);
    }
    if let Some(brief) = missing_page(answer, statement, site) {
        let brief = from_arrival(answer, brief);
        return live(answer, brief, (Duration::ZERO, Duration::ZERO));
    }
    if site.preset == Preset::None {
        return rfc9111::judge(answer, statement, rule, site);
    }
    if let Err(why) = check_directives(&statement.control) {
        return Storability::Skip(why);
    }
    let windows = freshness::windows(statement, answer.status, &site.ttl);
    let own = || unsaid(answer, statement, rule, site).map(|own| from_arrival(answer, own));
    let fresh = statement.lifetime.or_else(own);
    fresh.map_or(Storability::Skip(NotStored::NoLifetime), |fresh| {
        live(answer, fresh, windows)
    })
}

/// Judges a body that came to its end.
///
/// For the WordPress preset. PHP that dies late leaves a status of 200 and nothing, or a short message, or the first part of a
/// page; neither PHP-FPM nor Apache tells. Fragments that are short by intent, and pages whose theme leaves their end
/// out, are not stored either: that costs speed, and half a page would cost every visitor.
pub fn judge_body(
    answer: &ResponseHead<'_>,
    site: &SiteRules,
    body: &[u8],
) -> Result<(), NotStored> {
    if !is_judged_whole(answer.status, answer.fields, site) {
        return Ok(());
    }
    if body.is_empty() {
        return Err(NotStored::Empty);
    }
    if error_page::is_one(answer.fields, body) {
        return Err(NotStored::ErrorPage);
    }
    let beginning = body.get(..LONGEST_PROLOGUE).unwrap_or(body);
    let is_suspect = body.len() < SHORTEST_PAGE || has_tag(beginning, BEGIN_OF_PAGE);
    if is_suspect && !has_tag(body, END_OF_PAGE) {
        Err(NotStored::ErrorPage)
    } else {
        Ok(())
    }
}

/// Whether [`judge_body`] has to see the whole body of such an answer.
pub fn is_judged_whole(status: StatusCode, fields: &HeaderMap, site: &SiteRules) -> bool {
    site.preset != Preset::None && status == StatusCode::OK && is_html(fields)
}

/// Looked for from behind, where the end of a page is.
fn has_tag(body: &[u8], tag: &[u8]) -> bool {
    body.windows(tag.len())
        .rev()
        .any(|place| place.eq_ignore_ascii_case(tag))
}

fn check_request(
    facts: &RequestInfo,
    statement: &Statement,
    site: &SiteRules,
) -> Result<(), NotStored> {
    if !matches!(facts.method(), Method::Get | Method::Head) {
        return Err(NotStored::Method);
    }
    // A visitor's `no-store` is judged at the gate, and only without a preset: judged here it would mark the page as not
    // storable for everybody.
    let may_share = match site.preset {
        Preset::WordPress => !facts.has_session(),
        // With an open gate the session is `Authorization` alone.
        Preset::None => rfc9111::may_share_authorized(facts, &statement.control),
    };
    match facts.gate() {
        Cacheability::Open if may_share => Ok(()),
        // A request that passed went up whole, so its answer may be anybody's.
        Cacheability::Open | Cacheability::Pass(_) => Err(NotStored::Private),
    }
}

fn check_status(
    answer: &ResponseHead<'_>,
    statement: &Statement,
    site: &SiteRules,
) -> Result<(), NotStored> {
    let status = answer.status.as_u16();
    // RFC 9110 §14.4: without a preset the field means nothing but in a 206.
    let names_part = site.preset == Preset::WordPress && answer.fields.contains_key(CONTENT_RANGE);
    if status == 206 || names_part {
        return Err(NotStored::Partial);
    }
    if status == 503 && answer.fields.contains_key(RETRY_AFTER) {
        return Err(NotStored::Maintenance);
    }
    let named = freshness::named_lifetime(answer.status, &site.ttl).is_some();
    let may_store = match site.preset {
        Preset::WordPress => match status {
            200 | 203 | 301 | 308 | 404 | 410 => true,
            // Temporary redirects of WordPress depend on who asks and when; 204 and 304 are no pages; the rest
            // challenges, or asks to come later.
            204 | 302..=304 | 307 | 401 | 407 | 429 => false,
            200..=499 => named,
            _ => false,
        },
        Preset::None => match status {
            304 | 0..=199 => false,
            _ if statement.control.must_understand && !rfc9111::is_understood(status) => false,
            _ => {
                named
                    || statement.lifetime.is_some()
                    || statement.control.public
                    || freshness::is_heuristically_cacheable(answer.status)
            }
        },
    };
    if may_store {
        Ok(())
    } else {
        Err(NotStored::Status)
    }
}

fn check_cookies(fields: &HeaderMap, site: &SiteRules, ignore: Ignore) -> Result<(), NotStored> {
    if ignore.set_cookie
        || self::fields::cookies_set(fields, site).all(|name| is_harmless(name, site))
    {
        Ok(())
    } else {
        Err(NotStored::SetCookie)
    }
}

/// Only what the site's file names: no preset may decide that a cookie identifies nobody.
fn is_harmless(name: &[u8], site: &SiteRules) -> bool {
    site.harmless_cookies
        .iter()
        .any(|pattern| pattern.matches(name))
}

fn check_vary(fields: &HeaderMap, site: &SiteRules, ignore: Ignore) -> Result<(), NotStored> {
    let vary = Vary::of(fields);
    let is_served = match site.preset {
        Preset::WordPress => vary.is_covered_by_key(site.preset),
        // Each variant gets an entry of its own.
        Preset::None => vary.is_selectable(),
    };
    if site.preset == Preset::WordPress {
        litespeed::check(fields, site)?;
    }
    if ignore.vary || is_served {
        Ok(())
    } else {
        Err(NotStored::Vary)
    }
}

fn check_content(
    facts: &RequestInfo,
    answer: &ResponseHead<'_>,
    site: &SiteRules,
) -> Result<(), NotStored> {
    if site.preset == Preset::WordPress && answer.status == StatusCode::OK {
        let says_empty = answer
            .fields
            .get(CONTENT_LENGTH)
            .is_some_and(|length| length.as_bytes() == b"0");
        if says_empty && is_html(answer.fields) {
            return Err(NotStored::Empty);
        }
    }
    if answer.status.is_redirection() && redirect::leads_back(facts, answer.fields, site) {
        return Err(NotStored::Loop);
    }
    Ok(())
}

fn check_directives(control: &CacheControl) -> Result<(), NotStored> {
    if control.no_store {
        Err(NotStored::NoStore)
    } else if control.private {
        Err(NotStored::Private)
    } else if control.no_cache {
        Err(NotStored::NoCache)
    } else {
        Ok(())
    }
}

/// The lifetime of a 404 that says no more than WordPress always says about one, if the site's file gives it any.
///
/// Departs: RFC 9111 §5.2.2.5 forbids to store it, but WordPress sends its no-cache head with every page that it does
/// not find, and a scan for missing pages would occupy all of PHP. Such a head counts as silence; there is no grace, and
/// nothing of it is personal because the request was trimmed. Pinned by `missing_pages_live_briefly`.
fn missing_page(
    answer: &ResponseHead<'_>,
    statement: &Statement,
    site: &SiteRules,
) -> Option<Duration> {
    let is_word_press_head = site.preset == Preset::WordPress
        && answer.status == StatusCode::NOT_FOUND
        && statement.voice == Voice::CacheControl
        && answer
            .fields
            .get(EXPIRES)
            .is_some_and(|value| value.as_bytes() == WORDPRESS_EXPIRES)
        && self::fields::cookies_set(answer.fields, site)
            .next()
            .is_none();
    let control = &statement.control;
    let before_6_8 = CacheControl {
        no_cache: true,
        must_revalidate: true,
        max_age: Some(Duration::ZERO),
        ..CacheControl::default()
    };
    let since_6_8 = CacheControl {
        no_store: true,
        private: true,
        ..before_6_8.clone()
    };
    let says_only_that = *control == before_6_8 || *control == since_6_8;
    (is_word_press_head && says_only_that)
        .then(|| freshness::named_lifetime(answer.status, &site.ttl))?
}

/// What holds where the response is silent: the rule's lifetime for what succeeded, else the site's.
fn unsaid(
    answer: &ResponseHead<'_>,
    statement: &Statement,
    rule: Option<&Rule>,
    site: &SiteRules,
) -> Option<Duration> {
    let of_rule = rule
        .and_then(|rule| rule.ttl)
        .filter(|_| answer.status.as_u16() < 400);
    of_rule.or_else(|| freshness::unsaid(answer, &statement.control, site))
}

/// A lifetime of ours counts from the arrival of the answer, unless its `Age` says that it lay in another cache.
///
/// Age counts from before the composition (RFC 9111 §4.2.3), and `Date` is cut to seconds. A lifetime shorter than PHP takes
/// would thus never begin, and the pages that most need to be composed once would travel whole. How long a silent answer
/// lives is the cache's own choice (§4.2.2).
fn from_arrival(answer: &ResponseHead<'_>, lifetime: Duration) -> Duration {
    if lifetime.is_zero() || freshness::stated_age(answer.fields).is_some() {
        return lifetime;
    }
    let age = freshness::initial_age(answer.fields, answer.response_delay, answer.now);
    lifetime.saturating_add(age)
}

/// An entry that is stale on arrival is not worth its memory.
fn live(answer: &ResponseHead<'_>, fresh: Duration, windows: (Duration, Duration)) -> Storability {
    let initial_age = freshness::initial_age(answer.fields, answer.response_delay, answer.now);
    if fresh <= initial_age {
        return Storability::Skip(NotStored::NoLifetime);
    }
    let (stale_while_revalidate, stale_if_error) = windows;
    Storability::Store(Lifetime {
        fresh,
        stale_while_revalidate,
        stale_if_error,
        initial_age,
    })
}

fn is_html(fields: &HeaderMap) -> bool {
    let media_type = media_type(fields);
    media_type.eq_ignore_ascii_case(b"text/html")
        || media_type.eq_ignore_ascii_case(b"application/xhtml+xml")
}

/// `Content-Type` without its parameters; empty where there is none.
fn media_type(fields: &HeaderMap) -> &[u8] {
    let value = fields
        .get(CONTENT_TYPE)
        .map_or(&b""[..], |value| value.as_bytes());
    value
        .split(|&byte| byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii()
}

/// The birthday of a WordPress developer; nothing else sends it.
const WORDPRESS_EXPIRES: &[u8] = b"Wed, 11 Jan 1984 05:00:00 GMT";

const BEGIN_OF_PAGE: &[u8] = b"<html";
const END_OF_PAGE: &[u8] = b"</html";

/// Where a whole page says that it is one: behind a doctype and a comment or two.
const LONGEST_PROLOGUE: usize = 1024;

/// HTML that is shorter and has no end is a message about an error.
const SHORTEST_PAGE: usize = 255;
