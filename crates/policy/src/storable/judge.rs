//! The judgement of a response: each check in its order.

use super::fields::cookies_set;
use super::lifetime::{from_arrival, live, missing_page, spread, unsaid};
use super::response::{ResponseHead, Storability, is_html};
use super::{litespeed, redirect, rfc9111};
use crate::cache_control::CacheControl;
use crate::freshness::{self, StaleWindows, Statement};
use crate::outcome::NotStored;
use crate::request_info::{Cacheability, Method, RequestInfo};
use crate::site::{Ignore, Preset, SiteRules};
use crate::vary::Vary;
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};

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
            Storability::Store(spread(answer, &statement, site, life, seed))
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
        return live(answer, brief, StaleWindows::default());
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
    if ignore.set_cookie || cookies_set(fields, site).all(|name| is_harmless(name, site)) {
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
