//! Orders that an upstream's answer carries: `Galley-Purge` of our plugin, `X-LiteSpeed-Purge` of the `LiteSpeed` plugin.

use http::HeaderMap;

use super::{MAX_ORDERS, Order, Scope, Strength, url_scope};
use crate::site::SiteRules;
use crate::tags;

/// The fields of an upstream's answer that carry orders; they never travel on.
pub const PURGE_FIELDS: &[&str] = &["galley-purge", "x-litespeed-purge", "x-litespeed-purge2"];

/// The orders in an upstream's answer to a request of this site, strongest reading. Malformed ones are left out.
///
/// `X-LiteSpeed-Purge: [public,][stale,]tag,tag2[;private,..]`, `*`, `tag=x`, `/path`; `Galley-Purge` is read alike.
pub fn from_answer(fields: &HeaderMap, site: &SiteRules) -> Vec<Order> {
    let mut orders = Vec::new();
    for value in PURGE_FIELDS.iter().flat_map(|name| fields.get_all(*name)) {
        for group in value.as_bytes().split(|&byte| byte == b';') {
            let mut strength = Strength::Hard;
            for word in tags::split(group) {
                match word {
                    b"public" => continue,
                    // Private copies are never stored here.
                    b"private" => break,
                    b"stale" => strength = Strength::Soft,
                    _ => orders.extend(answered(word, site).map(|scope| Order { scope, strength })),
                }
                if orders.len() > MAX_ORDERS {
                    return vec![Order {
                        scope: Scope::Site,
                        strength: Strength::Hard,
                    }];
                }
            }
        }
    }
    orders
}

fn answered(word: &[u8], site: &SiteRules) -> Option<Scope> {
    let text = std::str::from_utf8(word).ok()?;
    if text == tags::EVERYTHING {
        Some(Scope::Site)
    } else if text.starts_with('/') {
        url_scope(text, site).ok()
    } else {
        let tag = text.strip_prefix("tag=").unwrap_or(text);
        (!tag.is_empty()).then(|| Scope::Tag(tag.to_owned()))
    }
}
