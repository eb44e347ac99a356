//! Splits a key into its parts, for listings of stored pages.
//!
//! The exact inverse of [`super::write_key`]. Accepts any bytes, and is not used for requests.

use crate::request_info::{AcceptClass, Device, Scheme};

/// The parts of a key, borrowed from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyParts<'a> {
    /// The scheme of the request.
    pub scheme: Scheme,
    /// The class of `Accept`.
    pub accept: AcceptClass,
    /// The class of device.
    pub device: Device,
    /// `host` or `host:port`.
    pub authority: &'a [u8],
    /// The canonical path.
    pub path: &'a [u8],
    /// The normalized query.
    pub query: Option<&'a [u8]>,
    /// The vary cookies with their values, which may be confidential.
    pub vary_cookies: &'a [u8],
    /// The number of the rule that applies, from 1, or 0 for none, if that depends on the country of the client.
    pub rule: Option<&'a [u8]>,
    /// The rest, which the caller has appended.
    pub rest: &'a [u8],
}

/// Splits a key; `None` if it is invalid.
pub fn read_key(key: &[u8]) -> Option<KeyParts<'_>> {
    let (&[scheme, accept, device], mut rest) = key.split_first_chunk()?;
    let scheme = match scheme {
        0 => Scheme::Http,
        1 => Scheme::Https,
        _ => return None,
    };
    let accept = AcceptClass::of_number(accept)?;
    let is_by_country = device & BY_COUNTRY != 0;
    let device = match device & !BY_COUNTRY {
        0 => Device::Any,
        1 => Device::Desktop,
        2 => Device::Mobile,
        _ => return None,
    };
    let authority = take(&mut rest)?;
    let path = take(&mut rest)?;
    let (&has_query, tail) = rest.split_first()?;
    rest = tail;
    let query = match has_query {
        0 => None,
        1 => Some(take(&mut rest)?),
        _ => return None,
    };
    let vary_cookies = take(&mut rest)?;
    let rule = if is_by_country {
        Some(take(&mut rest)?)
    } else {
        None
    };
    Some(KeyParts {
        scheme,
        accept,
        device,
        authority,
        path,
        query,
        vary_cookies,
        rule,
        rest,
    })
}

/// Set in the byte of the device if the rule follows the cookies.
pub(super) const BY_COUNTRY: u8 = 0x80;

/// Reads a part after its length as LEB128.
fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut length = 0_usize;
    for shift in (0..usize::BITS).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            let (part, tail) = rest.split_at_checked(length)?;
            *rest = tail;
            return Some(part);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::CountryCode;
    use crate::key::write_key;
    use crate::request_info::RequestLineInfo;
    use crate::site::{NamePattern, Policy, Rule, SiteFlags};
    use crate::testing::{LINE, parsed};
    use proptest::prelude::*;

    fn key_of(target: &str, fields: &[(&str, &str)]) -> Vec<u8> {
        let site = Policy {
            flags: SiteFlags {
                device_variants: true,
                ..SiteFlags::default()
            },
            vary_cookies: vec![NamePattern::parse("lang")],
            ..Policy::default()
        };
        let line = RequestLineInfo {
            target: target.as_bytes(),
            scheme: Scheme::Https,
            ..LINE
        };
        let info = parsed(&line, fields, &site);
        let mut key = Vec::new();
        write_key(&info, &mut key);
        key
    }

    #[test]
    fn written_keys_are_read() {
        let long = format!("/{}", "x".repeat(300));
        for (target, path, query) in [
            ("/a?b=1&utm_source=x", "/a", Some("b=1")),
            ("/a", "/a", None),
            (long.as_str(), long.as_str(), None),
        ] {
            let mut key = key_of(
                target,
                &[
                    ("host", "example.com:8443"),
                    ("accept", "application/json"),
                    ("cookie", "x=1; lang=de"),
                    ("sec-ch-ua-mobile", "?1"),
                ],
            );
            key.extend_from_slice(b"rest");
            let wanted = KeyParts {
                scheme: Scheme::Https,
                accept: AcceptClass::Json,
                device: Device::Mobile,
                authority: b"example.com:8443",
                path: path.as_bytes(),
                query: query.map(str::as_bytes),
                vary_cookies: b"lang=de",
                rule: None,
                rest: b"rest",
            };
            assert_eq!(read_key(&key), Some(wanted), "{target}");
        }
    }

    #[test]
    fn a_rule_by_country_is_in_the_key_where_it_may_apply() {
        let rule = |path: &str, countries: &[&str]| Rule {
            path: path.to_owned(),
            countries: countries
                .iter()
                .filter_map(|one| CountryCode::parse(one))
                .collect(),
            ..Rule::default()
        };
        let mut rules = vec![rule("/none", &[]); 10];
        rules.push(rule("/a*", &["DE", "AT"]));
        rules.push(rule("/ab", &[]));
        rules.push(rule("/ab", &["DE"]));
        let site = Policy {
            rules,
            ..Policy::default()
        };
        let key = |target: &str, country: Option<&str>| {
            let line = RequestLineInfo {
                target: target.as_bytes(),
                country: country.and_then(CountryCode::parse),
                ..LINE
            };
            let mut key = Vec::new();
            write_key(&parsed(&line, &[], &site), &mut key);
            key.extend_from_slice(b"rest");
            let parts = read_key(&key).unwrap();
            assert_eq!((parts.rest, parts.device), (&b"rest"[..], Device::Any));
            let rule = parts
                .rule
                .map(|rule| String::from_utf8(rule.to_vec()).unwrap());
            (key, rule)
        };
        for (target, country, rule) in [
            ("/a", Some("DE"), Some("11")),
            ("/a", Some("FR"), Some("0")),
            ("/a", None, Some("0")),
            ("/ab", Some("AT"), Some("11")),
            ("/ab", Some("FR"), Some("12")),
            ("/b", Some("DE"), None),
            ("/b", None, None),
        ] {
            assert_eq!(
                key(target, country).1.as_deref(),
                rule,
                "{target} {country:?}"
            );
        }
        // One entry for each rule, not for each country.
        assert_eq!(key("/a", Some("DE")), key("/a", Some("AT")));
        assert_eq!(key("/a", Some("FR")), key("/a", None));
    }

    #[test]
    fn truncated_keys_are_invalid() {
        let key = key_of("/a?b=1", &[]);
        for end in 0..key.len() {
            assert_eq!(read_key(&key[..end]), None, "{end}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(key in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = read_key(&key);
        }
    }
}
