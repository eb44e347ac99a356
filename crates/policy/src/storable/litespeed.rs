//! The fields of the `LiteSpeed` plugin besides the lifetime: the cookies by which a response varies, whether it has ESI holes,
//! and cookies that every visitor gets with it.

use http::header::SET_COOKIE;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::cookie::{self, Class};
use crate::fields;
use crate::outcome::NotStored;
use crate::site::Policy;

/// Whether all requests with the same key may get this response. A variant by `cookie=` needs a cookie that is in the key
/// or that makes the request bypass the cache; `value=` depends on the key alone, since PHP got nothing else. A page with
/// `esi=on` has holes for private parts, which Galley does not fill in.
pub(super) fn check(head: &HeaderMap, policy: &Policy) -> Result<(), NotStored> {
    if members(head, "x-litespeed-cache-control").any(|word| word.eq_ignore_ascii_case(b"esi=on")) {
        return Err(NotStored::Private);
    }
    let is_covered = |member: &[u8]| match fields::name_value(member) {
        (b"value", _) => true,
        (b"cookie", Some(name)) => cookie::classify(name, policy) != Class::Ignored,
        _ => false,
    };
    if members(head, "x-litespeed-vary").all(is_covered) {
        Ok(())
    } else {
        Err(NotStored::Vary)
    }
}

/// Whether `Lsc-Cookie` declares a `Set-Cookie` line to be for every visitor.
pub(super) fn is_for_everybody(line: &HeaderValue, head: &HeaderMap, policy: &Policy) -> bool {
    policy.flags.litespeed && head.get_all(LSC_COOKIE).iter().any(|own| own == line)
}

/// Adds a `Set-Cookie` for each cookie that every visitor gets.
pub(super) fn add_cookies(head: &HeaderMap, kept: &mut HeaderMap) {
    for line in head.get_all(LSC_COOKIE) {
        let is_there = kept.get_all(SET_COOKIE).iter().any(|known| known == line);
        if !is_there {
            kept.append(SET_COOKIE, line.clone());
        }
    }
}

fn members<'a>(head: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
    head.get_all(name)
        .into_iter()
        .flat_map(|line| fields::members(line.as_bytes()))
}

/// A cookie that every visitor gets with a page, also from the cache.
pub(super) const LSC_COOKIE: HeaderName = HeaderName::from_static("lsc-cookie");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{NamePattern, SiteFlags};

    #[test]
    fn variants_need_cookies_of_the_key_and_esi_pages_are_not_stored() {
        let site = Policy {
            flags: SiteFlags {
                litespeed: true,
                ..SiteFlags::default()
            },
            vary_cookies: vec![NamePattern::parse("currency")],
            ..Policy::default()
        };
        let table: &[(&'static str, &str, Result<(), NotStored>)] = &[
            ("x-litespeed-vary", "cookie=_lscache_vary", Ok(())),
            (
                "x-litespeed-vary",
                "cookie=_lscache_vary_x,cookie=currency",
                Ok(()),
            ),
            ("x-litespeed-vary", "cookie=wp-postpass_abc", Ok(())),
            (
                "x-litespeed-vary",
                "value=ismobile, cookie=currency",
                Ok(()),
            ),
            ("x-litespeed-vary", "cookie=other", Err(NotStored::Vary)),
            ("x-litespeed-vary", "cookie", Err(NotStored::Vary)),
            ("x-litespeed-vary", "", Ok(())),
            ("x-litespeed-cache-control", "public,max-age=60", Ok(())),
            (
                "x-litespeed-cache-control",
                "public,max-age=60,esi=on",
                Err(NotStored::Private),
            ),
            (
                "x-litespeed-cache-control",
                "no-cache, ESI=on",
                Err(NotStored::Private),
            ),
        ];
        for (name, value, wanted) in table {
            let mut head = HeaderMap::new();
            head.insert(*name, HeaderValue::from_str(value).unwrap());
            assert_eq!(check(&head, &site), *wanted, "{name}: {value}");
        }
        let mut head = HeaderMap::new();
        head.insert(
            "x-litespeed-vary",
            HeaderValue::from_static("cookie=_lscache_vary"),
        );
        assert_eq!(check(&head, &Policy::default()), Err(NotStored::Vary));
    }
}
