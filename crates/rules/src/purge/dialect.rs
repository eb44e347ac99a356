//! How plugins say it: which method, path and fields mean which scope.
//!
//! Known: Proxy Cache Purge, WP Rocket, W3 Total Cache, `VCaching` and its fork, nginx-helper, the `BAN` of
//! `GoDaddy`, xkey,
//! Fastly's soft purge, and the tag fields of the CDNs.

use super::path::{looks_wide, named, pattern, pattern_path, text, wide};
use super::tag_list::tag_scopes;
use super::{BadOrder, MAX_ORDERS, Order, Scope, Strength};
use crate::facts::{Facts, Method};
use crate::route::canonical_host;
use crate::site::SiteRules;
use crate::tags;

/// The one order of a request. Several tags at once become an order for the whole site, since they touch more than any
/// one of them: use [`orders_from_request`] to obey each.
pub fn from_request<'a>(
    facts: &Facts,
    fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    site: &SiteRules,
) -> Result<Order, BadOrder> {
    let mut orders = orders_from_request(facts, fields, site)?;
    match (orders.pop(), orders.first()) {
        (Some(only), None) => Ok(only),
        (Some(last), Some(_)) => Ok(Order {
            scope: Scope::Site,
            strength: last.strength,
        }),
        (None, _) => Err(BadOrder::NoOrder),
    }
}

/// The orders of a request, at least one. More than one only for a list of tags.
///
/// `PURGE` of a path is that URL; with `.*` or `*` at its end, all below; with tag fields, whatever depends on them.
/// `BAN` of a path is all that begins with it. `GET /purge/path` is that path. The caller has checked who asks.
pub fn orders_from_request<'a>(
    facts: &Facts,
    fields: impl Iterator<Item = (&'a str, &'a [u8])> + Clone,
    site: &SiteRules,
) -> Result<Vec<Order>, BadOrder> {
    let said = Said::read(fields)?;
    let strength = if said.is_soft {
        Strength::Soft
    } else {
        Strength::Hard
    };
    let scopes = match facts.method() {
        Method::Get => vec![below_purge(facts, site)?],
        Method::Purge | Method::Ban if said.by_tags => tag_scopes(said.tags)?,
        Method::Purge | Method::Ban => vec![path_scope(facts, &said, site)?],
        _ => return Err(BadOrder::NoOrder),
    };
    Ok(scopes
        .into_iter()
        .map(|scope| Order { scope, strength })
        .collect())
}

/// How a path is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// By its looks.
    Unsaid,
    /// One URL with its query.
    Exact,
    /// One path with any query.
    AnyQuery,
    /// A pattern.
    Regex,
}

/// What the fields of an order say.
struct Said<'a> {
    reading: Reading,
    by_tags: bool,
    tags: Vec<&'a [u8]>,
    is_soft: bool,
    /// The pattern of `X-Purge-Regex`, which stands for the end of the path.
    ending: Option<&'a [u8]>,
    host: Option<&'a [u8]>,
}

impl<'a> Said<'a> {
    fn read(fields: impl Iterator<Item = (&'a str, &'a [u8])>) -> Result<Self, BadOrder> {
        let mut said = Self {
            reading: Reading::Unsaid,
            by_tags: false,
            tags: Vec::new(),
            is_soft: false,
            ending: None,
            host: None,
        };
        for (name, value) in fields {
            let is = |known: &str| name.eq_ignore_ascii_case(known);
            let value = value.trim_ascii();
            if is("x-purge-method") || is("x-vc-purge-method") {
                said.method(value, is("x-vc-purge-method"));
            } else if is("x-purge-regex") {
                said.reading = Reading::Regex;
                said.ending = Some(value);
            } else if is("x-vc-purge-host") {
                said.host = Some(value);
            } else if is("fastly-soft-purge") || is("x-purge-soft") || is("galley-soft-purge") {
                said.is_soft = value == b"1" || value.eq_ignore_ascii_case(b"true");
            } else if ORDER_TAG_FIELDS
                .iter()
                .chain(tags::TAG_FIELDS)
                .any(|known| is(known))
            {
                said.by_tags = true;
                said.is_soft |= is("xkey-softpurge");
                said.tags.push(value);
                if said.tags.len() > MAX_ORDERS {
                    return Err(BadOrder::TooMany);
                }
            }
        }
        Ok(said)
    }

    fn method(&mut self, value: &[u8], is_vc: bool) {
        let is = |known: &str| value.eq_ignore_ascii_case(known.as_bytes());
        if is("tags") {
            self.by_tags = true;
        } else if is("regex") {
            self.reading = Reading::Regex;
        } else if is("exact") {
            self.reading = Reading::Exact;
        } else if is("default") && is_vc && self.reading == Reading::Unsaid {
            // In VCaching's dialect the default leaves the query out of account; elsewhere it means nothing.
            self.reading = Reading::AnyQuery;
        }
    }
}

/// Beyond the fields that carry tags in answers.
const ORDER_TAG_FIELDS: &[&str] = &["x-cache-tags-pattern", "xkey-purge", "xkey-softpurge"];

/// nginx-helper: `GET /purge/a/b?q` is `/a/b?q`, `/purge` is `/`, `/purgeall` is all of the host.
fn below_purge(facts: &Facts, site: &SiteRules) -> Result<Scope, BadOrder> {
    match facts.path().strip_prefix(b"/purge") {
        Some(b"all") => Ok(Scope::Host(facts.host().to_owned())),
        Some(b"") => named(facts.host(), b"/", facts.raw_query(), site),
        Some(rest) if rest.starts_with(b"/") => named(facts.host(), rest, facts.raw_query(), site),
        _ => Err(BadOrder::NoOrder),
    }
}

fn path_scope(facts: &Facts, said: &Said<'_>, site: &SiteRules) -> Result<Scope, BadOrder> {
    let host = said
        .host
        .map_or_else(|| Ok(facts.host().to_owned()), canonical_host)?;
    let (path, query) = (facts.path(), facts.raw_query());
    if path == b"/purgeall" && facts.method() == Method::Purge {
        return Ok(Scope::Host(host));
    }
    let as_pattern = pattern_path(text(path)?);
    match said.reading {
        Reading::AnyQuery => pattern(format!("^{}(?:\\?|$)", regex::escape(text(path)?))),
        Reading::Regex => wide(host, &as_pattern, query, said.ending),
        Reading::Unsaid if facts.method() == Method::Ban || looks_wide(&as_pattern, query) => {
            wide(host, &as_pattern, query, None)
        }
        Reading::Exact | Reading::Unsaid => named(&host, path, query, site),
    }
}
