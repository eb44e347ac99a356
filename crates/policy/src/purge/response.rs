//! Purges in a response of the upstream: `Galley-Purge` of Galley's plugin, `X-LiteSpeed-Purge` of the `LiteSpeed` plugin.

use http::HeaderMap;

use super::error::{MAX_PURGES, PurgeError};
use super::label::{GALLEY_PURGE, label_in};
use super::scope::{Purge, Scope, Strength, tag_scope, url_scope};
use crate::fields::has_any;
use crate::site::Policy;
use crate::tags;

/// The response fields of an upstream that carry purges; they are never forwarded.
pub const PURGE_FIELDS: &[&str] = &["galley-purge", "x-litespeed-purge", "x-litespeed-purge2"];

/// Parses the purges in an upstream's response, in their widest meaning. Malformed ones are dropped.
///
/// `X-LiteSpeed-Purge: [public,][stale,]tag,tag2[;private,..]`, `*`, `tag=x`, `/path`; `Galley-Purge` has the same syntax.
pub fn from_response(fields: &HeaderMap, policy: &Policy) -> Vec<Purge> {
    let mut purges = Vec::new();
    if !has_any(fields, PURGE_FIELDS) {
        return purges;
    }
    for value in PURGE_FIELDS.iter().flat_map(|name| fields.get_all(*name)) {
        for group in value.as_bytes().split(|&byte| byte == b';') {
            let mut strength = Strength::Hard;
            for word in tags::split(group) {
                match word {
                    b"public" => continue,
                    // Private copies are never stored here.
                    b"private" => break,
                    b"stale" => strength = Strength::Soft,
                    _ if receipt(word).is_some() || label_in(word).is_some() => {}
                    _ => {
                        purges
                            .extend(scope_of(word, policy).map(|scope| Purge { scope, strength }));
                    }
                }
                if purges.len() > MAX_PURGES {
                    return vec![Purge {
                        scope: Scope::Site,
                        strength: Strength::Hard,
                    }];
                }
            }
        }
    }
    purges
}

/// The ids under which the plugin records the purges of a response: `Galley-Purge: id=k3f9,p12`. They purge nothing.
pub fn receipts(fields: &HeaderMap) -> impl Iterator<Item = &str> {
    fields
        .get_all(GALLEY_PURGE)
        .into_iter()
        .flat_map(|value| tags::split(value.as_bytes()))
        .filter_map(receipt)
        .take(MAX_RECEIPTS)
}

/// The id in `id=k3f9`: short, letters and digits.
fn receipt(word: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(word.strip_prefix(b"id=")?).ok()?;
    let is_name = (1..=MAX_RECEIPT_BYTES).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_name.then_some(name)
}

fn scope_of(word: &[u8], policy: &Policy) -> Option<Scope> {
    let text = std::str::from_utf8(word).ok()?;
    let scope = if text == tags::EVERYTHING {
        Ok(Scope::Site)
    } else if text.starts_with('/') {
        url_scope(text, policy)
    } else {
        match text.strip_prefix("tag=").unwrap_or(text) {
            "" => Err(PurgeError::NoTags),
            tag => tag_scope(tag),
        }
    };
    match scope {
        Ok(scope) => Some(scope),
        Err(why) => why.is_limit().then_some(Scope::Site),
    }
}

/// A response carries its own id and those of lost responses.
const MAX_RECEIPTS: usize = 16;
const MAX_RECEIPT_BYTES: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_labels_of_purges_purge_nothing() {
        let mut fields = HeaderMap::new();
        for line in [
            "id=k3f9,label=Edit%20of%20a,p12",
            "stale,id=B2 f;id=",
            "id=a-b",
        ] {
            fields.append("galley-purge", http::HeaderValue::from_static(line));
        }
        fields.append(
            "x-litespeed-purge",
            http::HeaderValue::from_static("id=other"),
        );
        assert_eq!(receipts(&fields).collect::<Vec<_>>(), ["k3f9", "B2"]);
        let scopes: Vec<Scope> = from_response(&fields, &Policy::default())
            .into_iter()
            .map(|purge| purge.scope)
            .collect();
        let tag = |name: &str| Scope::Tag(name.to_owned());
        assert_eq!(scopes, [tag("p12"), tag("f"), tag("id="), tag("id=a-b")]);
    }
}
