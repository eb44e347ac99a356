//! The key of an entry, and the scopes that a purge can name.
//!
//! A key consists of parts, each preceded by its length, so that moving a delimiter cannot give two different requests the
//! same key (RFC 9111 section 2, with Galley's variants). It contains everything that [`crate::forward::trimmed`] puts into a
//! request. The ids of scopes are SipHash-1-3 with fixed keys: the same in every process.

mod format;
mod parts;

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::request_info::{Device, RequestInfo, Scheme};

pub use self::format::KEY_FORMAT;
use self::parts::BY_COUNTRY;
pub use self::parts::{KeyParts, read_key};

/// Writes the key to `out`, which is cleared first.
///
/// ```text
/// scheme u8 | accept u8 | device u8 | authority | path | query present u8 [| query] | vary cookies [| rule]
/// ```
/// where each of the last five is its length as LEB128, then its bytes. The last part exists if the rule that applies depends
/// on the country of the client: its number from 1, or 0 for none, in decimal. Then the highest bit of the device is set.
pub fn write_key(info: &RequestInfo, out: &mut Vec<u8>) {
    write(info, QueryKey::Is(info.query()), out);
}

/// Writes the key that a request would have with another query; `query` is normalized.
pub fn write_key_with(info: &RequestInfo, query: Option<&[u8]>, out: &mut Vec<u8>) {
    write(info, QueryKey::Is(query), out);
}

/// Writes the key of a fragment for this request's host, device and cookies: no path, and the fragment's id in place of a query.
pub fn write_fragment_key(info: &RequestInfo, fragment: u64, out: &mut Vec<u8>) {
    let query = fragment_query(fragment);
    write_path(info, b"", QueryKey::Is(Some(query.as_bytes())), out);
}

/// The name of a fragment, in the position of a page's query.
pub fn fragment_query(fragment: u64) -> String {
    format!("galley-fragment={fragment:016x}")
}

/// The id of the pages that may share fragments: scheme, `Accept` class, device, host, vary cookies and site. `None`: invalid key.
pub fn variant_id(key: &[u8]) -> Option<u64> {
    let parts = read_key(key)?;
    let mut hasher = scope(5);
    feed(&mut hasher, key.get(..3)?);
    feed(&mut hasher, parts.authority);
    feed(&mut hasher, parts.vary_cookies);
    if let Some(rule) = parts.rule {
        feed(&mut hasher, rule);
    }
    feed(&mut hasher, parts.rest);
    Some(hasher.finish())
}

/// The id of a fragment: of the data with which the plugin renders it, and of the variant of the pages that may contain it.
pub fn fragment_id(variant: u64, definition: &str) -> u64 {
    let mut hasher = scope(4);
    hasher.write(&variant.to_le_bytes());
    feed(&mut hasher, definition.as_bytes());
    hasher.finish()
}

/// The key of the page with another canonical path and no query, for the same client. `None`: invalid key.
pub fn key_of_path(key: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let parts = read_key(key)?;
    let mut out = key.get(..3)?.to_vec();
    push_part(parts.authority, &mut out);
    push_part(path, &mut out);
    out.push(0);
    push_part(parts.vary_cookies, &mut out);
    if let Some(rule) = parts.rule {
        push_part(rule, &mut out);
    }
    out.extend_from_slice(parts.rest);
    Some(out)
}

/// Writes the part that the keys of a path have in common for all queries. It is not a key, and [`read_key`] does not read it.
pub fn write_path_key(info: &RequestInfo, out: &mut Vec<u8>) {
    write(info, QueryKey::Any, out);
}

#[derive(Clone, Copy)]
enum QueryKey<'q> {
    Is(Option<&'q [u8]>),
    Any,
}

fn write(info: &RequestInfo, query: QueryKey<'_>, out: &mut Vec<u8>) {
    write_path(info, info.path(), query, out);
}

fn write_path(info: &RequestInfo, path: &[u8], query: QueryKey<'_>, out: &mut Vec<u8>) {
    out.clear();
    out.push(match info.scheme() {
        Scheme::Http => 0,
        Scheme::Https => 1,
    });
    out.push(info.accept().number());
    let rule = info.rule_by_country();
    let device = match info.device() {
        Device::Any => 0,
        Device::Desktop => 1,
        Device::Mobile => 2,
    };
    out.push(device | rule.map_or(0, |_| BY_COUNTRY));
    push_part(info.authority_bytes(), out);
    push_part(path, out);
    match query {
        QueryKey::Is(None) => out.push(0),
        QueryKey::Is(Some(query)) => {
            out.push(1);
            push_part(query, out);
        }
        QueryKey::Any => out.push(2),
    }
    push_part(info.vary_cookies(), out);
    if let Some(rule) = rule {
        let mut digits = [0; DIGITS];
        push_part(decimal(rule, &mut digits), out);
    }
}

/// A number as text, without allocation.
fn decimal(mut number: usize, digits: &mut [u8; DIGITS]) -> &[u8] {
    let mut start = DIGITS;
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or_default();
        number /= 10;
        start = at;
        if number == 0 {
            break;
        }
    }
    digits.get(start..).unwrap_or_default()
}

fn push_part(part: &[u8], out: &mut Vec<u8>) {
    let mut rest = part.len();
    loop {
        let low = u8::try_from(rest & 0x7f).unwrap_or_default();
        rest >>= 7;
        if rest == 0 {
            out.push(low);
            break;
        }
        out.push(low | 0x80);
    }
    out.extend_from_slice(part);
}

/// The scope of a URL purge: all variants of a page, under both schemes and every port. Expects the canonical host and
/// path and the normalized query.
pub fn url_id(host: &str, path: &[u8], query: Option<&[u8]>) -> u64 {
    let mut hasher = scope(1);
    feed(&mut hasher, host.as_bytes());
    feed(&mut hasher, path);
    if let Some(query) = query {
        feed(&mut hasher, query);
    }
    hasher.finish()
}

/// The scope of a host purge. Expects the canonical host.
pub fn host_id(host: &str) -> u64 {
    let mut hasher = scope(2);
    feed(&mut hasher, host.as_bytes());
    hasher.finish()
}

/// The scope of a tag purge.
pub fn tag_id(tag: &str) -> u64 {
    let mut hasher = scope(3);
    feed(&mut hasher, tag.as_bytes());
    hasher.finish()
}

/// A hasher for one kind of scope. Equal texts of different kinds give different ids.
fn scope(kind: u64) -> SipHasher13 {
    SipHasher13::new_with_keys(SCOPE_KEY, kind)
}

fn feed(hasher: &mut SipHasher13, part: &[u8]) {
    hasher.write(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
    hasher.write(part);
}

/// The decimal digits of the largest `usize`.
const DIGITS: usize = 20;

/// Never changes: ids are written to disk and exchanged between nodes.
const SCOPE_KEY: u64 = 0x6761_6c6c_6579_0001;

impl RequestInfo {
    /// [`url_id()`] of this request.
    pub fn url_id(&self) -> u64 {
        url_id(self.host(), self.path(), self.query())
    }

    /// [`host_id()`] of this request.
    pub fn host_id(&self) -> u64 {
        host_id(self.host())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_do_not_change_between_versions() {
        assert_eq!(url_id("example.com", b"/a", Some(b"b=1")), URL_ID);
        assert_eq!(host_id("example.com"), HOST_ID);
        assert_eq!(tag_id("post-1"), TAG_ID);
    }

    #[test]
    fn scopes_have_different_ids() {
        let ids = [
            url_id("ab", b"/c", None),
            url_id("a", b"b/c", None),
            url_id("ab", b"/c", Some(b"")),
            url_id("ab", b"/", Some(b"c")),
            host_id("ab"),
            tag_id("ab"),
            host_id(""),
            tag_id(""),
        ];
        for (at, id) in ids.iter().enumerate() {
            assert!(!ids[at + 1..].contains(id), "{at}");
        }
    }

    #[test]
    fn only_pages_of_one_host_device_and_cookie_share_fragments() {
        let key = |device: u8, host: &str, path: &str, cookies: &str, site: u8| {
            let mut key = vec![1, 0, device];
            push_part(host.as_bytes(), &mut key);
            push_part(path.as_bytes(), &mut key);
            key.push(0);
            push_part(cookies.as_bytes(), &mut key);
            key.extend([0, 0, 0, site]);
            variant_id(&key).unwrap()
        };
        let page = key(1, "a.test", "/", "currency=eur", 7);
        assert_eq!(page, key(1, "a.test", "/about/", "currency=eur", 7));
        let others = [
            key(2, "a.test", "/", "currency=eur", 7),
            key(1, "b.test", "/", "currency=eur", 7),
            key(1, "a.test", "/", "currency=usd", 7),
            key(1, "a.test", "/", "currency=eur", 8),
        ];
        assert!(!others.contains(&page));
        assert_ne!(fragment_id(page, "d.m"), fragment_id(others[0], "d.m"));
        assert_eq!(variant_id(b"no key"), None);
    }

    #[test]
    fn parts_are_preceded_by_their_length() {
        let mut out = Vec::new();
        push_part(&[b'x'; 300], &mut out);
        assert_eq!(out[..2], [0xac, 0x02]);
        out.clear();
        push_part(b"", &mut out);
        assert_eq!(out, [0]);
    }

    const URL_ID: u64 = 3_849_485_179_279_217_926;
    const HOST_ID: u64 = 17_626_788_163_779_851_061;
    const TAG_ID: u64 = 12_644_504_021_961_960_882;
}
