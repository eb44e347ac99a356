//! The permitted targets of includes: public pages of the site that contains the include.
//!
//! A visitor's text can contain a tag if an application prints it without escaping. So an include never requests another
//! server: it is requested from the site's own upstream, with a host of the site or one that the configuration lists, and
//! without cookies of the visitor other than those that select a variant. [`is_for_everybody`] keeps restricted content out of
//! pages for other visitors.

use std::net::{IpAddr, Ipv4Addr};

use crate::access::{self, Audience, xmlrpc};
use crate::outcome::words;
use crate::request_info::{Cacheability, Device, RequestInfo};
use crate::route::{self, HostPattern};
use crate::site::Policy;

/// The maximum length of an include's URL, in bytes.
const MAX_ADDRESS: usize = 4096;

words! {
    /// Why an include is not requested.
    IncludeRefused {
        /// The URL is invalid.
        Address = "address",
        /// The URL names another host.
        Host = "host",
        /// Access is restricted, or the response cannot be shared.
        Personal = "personal",
        /// The configuration redirects it.
        Redirect = "redirect",
        /// The URL names a file below the root, or does not exist.
        File = "file",
    }
}

/// The target of an include.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncludeTarget {
    /// The value of `Host`: `host`, or `host:port`.
    pub authority: String,
    /// Path and query.
    pub target: Vec<u8>,
}

impl IncludeTarget {
    /// Resolves a URL in a page. `hosts`: those of the site and those that the configuration lists.
    pub fn resolve(
        address: &str,
        page: &RequestInfo,
        hosts: &[HostPattern],
    ) -> Result<Self, IncludeRefused> {
        let address = address.trim();
        let is_bad = |byte: u8| byte <= b' ' || byte == 0x7f || byte == b'\\';
        if address.is_empty() || address.len() > MAX_ADDRESS || address.bytes().any(is_bad) {
            return Err(IncludeRefused::Address);
        }
        let address = address.split('#').next().unwrap_or_default();
        if let Some(rest) = after_scheme(address) {
            return absolute(rest, page, hosts);
        }
        let first = address.split(['/', '?']).next().unwrap_or_default();
        if first.contains(':') {
            return Err(IncludeRefused::Address);
        }
        let mut target = match address.as_bytes().first() {
            Some(b'/') => Vec::new(),
            Some(b'?') | None => page.path().to_vec(),
            Some(_) => {
                let path = page.path();
                let folder = memchr::memrchr(b'/', path).map_or(0, |slash| slash + 1);
                path.get(..folder).unwrap_or_default().to_vec()
            }
        };
        target.extend_from_slice(address.as_bytes());
        Ok(Self {
            authority: page.authority().to_owned(),
            target,
        })
    }

    /// The head of the request: that of an anonymous client, with the fields that select the variant of the page.
    pub fn head(&self, page: &RequestInfo) -> Vec<u8> {
        let mut out = b"GET ".to_vec();
        out.extend_from_slice(&self.target);
        out.extend_from_slice(b" HTTP/1.1\r\nhost: ");
        out.extend_from_slice(self.authority.as_bytes());
        out.extend_from_slice(b"\r\naccept: text/html\r\n");
        if page.device() == Device::Mobile {
            out.extend_from_slice(b"sec-ch-ua-mobile: ?1\r\n");
        }
        if !page.vary_cookies().is_empty() {
            out.extend_from_slice(b"cookie: ");
            out.extend_from_slice(page.vary_cookies());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(b"\r\n");
        out
    }
}

/// The text after `http://`, `https://` or `//`.
fn after_scheme(address: &str) -> Option<&str> {
    ["http://", "https://", "//"].iter().find_map(|scheme| {
        let start = address.get(..scheme.len())?;
        start
            .eq_ignore_ascii_case(scheme)
            .then(|| address.get(scheme.len()..))?
    })
}

/// The target of a URL with a host. A port must be that of the page. The scheme is always that of the page.
fn absolute(
    rest: &str,
    page: &RequestInfo,
    hosts: &[HostPattern],
) -> Result<IncludeTarget, IncludeRefused> {
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = route::canonical_host(authority.as_bytes()).map_err(|_| IncludeRefused::Address)?;
    let of_page = page.port().unwrap_or(page.scheme().default_port());
    let is_other_port = route::port(authority.as_bytes()).is_some_and(|port| port != of_page);
    let is_known = host == page.host() || hosts.iter().any(|known| is_named(known, &host));
    if is_other_port || !is_known {
        return Err(IncludeRefused::Host);
    }
    let authority = match page.port() {
        Some(port) => format!("{host}:{port}"),
        None => host,
    };
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok(IncludeTarget {
        authority,
        target: [slash, path].concat().into_bytes(),
    })
}

/// Whether a pattern permits a host. A site for every host does not permit every host here.
fn is_named(known: &HostPattern, host: &str) -> bool {
    match known {
        HostPattern::Exact(name) => name == host,
        HostPattern::Wildcard(end) => host.len() > end.len() && host.ends_with(end.as_str()),
        HostPattern::Any => false,
    }
}

/// Whether an include may become part of a page: it can be shared, it is outside the administration, and access control permits
/// everybody to request it, or the same visitors as the page.
pub fn is_for_everybody(policy: &Policy, page: &RequestInfo, include: &RequestInfo) -> bool {
    let is_special = access::area(include) != Audience::Outside
        || xmlrpc::is_meant(include)
        || access::requests_user_names(include);
    // An include is requested without a country, so that rules for countries would not apply to it.
    let is_hidden = policy.hides_by_country();
    if is_special || is_hidden || include.cacheability() != Cacheability::Cacheable {
        return false;
    }
    let guards = |info: &RequestInfo| {
        let mut guards: Vec<_> = info.guarding().collect();
        guards.sort_unstable();
        guards.dedup();
        guards
    };
    if guards(page) == guards(include) {
        return true;
    }
    let anonymous = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
    !access::depends_on_client(policy, include)
        && access::judge(policy, include, anonymous.into())
            .is_ok_and(|conditions| conditions.passwords.is_empty())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::access::{AccessRules, AccessSetting, CountryCode};
    use crate::request_info::{RequestLineInfo, Scheme};
    use crate::site::Rule;

    fn info(policy: &Policy, host: &str, target: &str, fields: &[(&str, &[u8])]) -> RequestInfo {
        let line = RequestLineInfo {
            method: "GET",
            target: target.as_bytes(),
            scheme: Scheme::Http,
            host,
            has_body: false,
            upgrade: false,
            country: None,
        };
        let mut info = RequestInfo::default();
        info.parse(&line, fields.iter().copied(), policy).unwrap();
        info
    }

    fn hosts() -> Vec<HostPattern> {
        ["www.a.test", "*.parts.test", "*"]
            .iter()
            .map(|text| HostPattern::parse(text).unwrap())
            .collect()
    }

    #[test]
    fn only_hosts_of_the_site_are_permitted() {
        let site = Policy::wordpress();
        let page = info(&site, "a.test", "/blog/post/", &[("host", b"a.test:8080")]);
        type Found = Result<(&'static str, &'static str), IncludeRefused>;
        let table: &[(&str, Found)] = &[
            ("/x", Ok(("a.test:8080", "/x"))),
            (" /x?b=1#c ", Ok(("a.test:8080", "/x?b=1"))),
            ("x/y", Ok(("a.test:8080", "/blog/post/x/y"))),
            ("../x", Ok(("a.test:8080", "/blog/post/../x"))),
            ("?x=1", Ok(("a.test:8080", "/blog/post/?x=1"))),
            (
                "x?u=http://b",
                Ok(("a.test:8080", "/blog/post/x?u=http://b")),
            ),
            ("http://a.test/x", Ok(("a.test:8080", "/x"))),
            ("HTTPS://A.TEST:8080/x", Ok(("a.test:8080", "/x"))),
            ("//a.test?x", Ok(("a.test:8080", "/?x"))),
            ("//a.test", Ok(("a.test:8080", "/"))),
            ("http://www.a.test/x", Ok(("www.a.test:8080", "/x"))),
            ("http://one.parts.test/x", Ok(("one.parts.test:8080", "/x"))),
            ("http://parts.test/x", Err(IncludeRefused::Host)),
            ("http://evilparts.test/x", Err(IncludeRefused::Host)),
            ("http://a.test:22/x", Err(IncludeRefused::Host)),
            ("http://evil.test/x", Err(IncludeRefused::Host)),
            ("//evil.test/x", Err(IncludeRefused::Host)),
            ("http://a.test.evil.test/", Err(IncludeRefused::Host)),
            ("http://127.0.0.1/x", Err(IncludeRefused::Host)),
            ("http://[::1]/x", Err(IncludeRefused::Host)),
            ("http://a.test@evil.test/", Err(IncludeRefused::Address)),
            ("http://evil.test\\@a.test/", Err(IncludeRefused::Address)),
            ("/\\evil.test/", Err(IncludeRefused::Address)),
            ("file:///etc/passwd", Err(IncludeRefused::Address)),
            ("unix:/run/php", Err(IncludeRefused::Address)),
            ("http:x", Err(IncludeRefused::Address)),
            ("", Err(IncludeRefused::Address)),
            ("/a b", Err(IncludeRefused::Address)),
            ("/a\r\nx: y", Err(IncludeRefused::Address)),
        ];
        for (address, expected) in table {
            let found = IncludeTarget::resolve(address, &page, &hosts());
            let expected = expected.map(|(authority, target)| IncludeTarget {
                authority: authority.to_owned(),
                target: target.as_bytes().to_vec(),
            });
            assert_eq!(found, expected, "{address}");
        }
        let long = format!("/{}", "x".repeat(MAX_ADDRESS));
        let found = IncludeTarget::resolve(&long, &page, &hosts());
        assert_eq!(found, Err(IncludeRefused::Address));
    }

    #[test]
    fn the_head_has_only_fields_that_select_the_variant() {
        let site = Policy {
            flags: crate::site::SiteFlags {
                device_variants: true,
                ..crate::site::SiteFlags::default()
            },
            vary_cookies: vec![crate::site::NamePattern::parse("currency")],
            ..Policy::wordpress()
        };
        let fields: &[(&str, &[u8])] = &[
            (
                "cookie",
                b"wordpress_logged_in_1=secret; currency=eur; other=1",
            ),
            ("authorization", b"Basic secret"),
            ("sec-ch-ua-mobile", b"?1"),
        ];
        let page = info(&site, "a.test", "/", fields);
        let target = IncludeTarget::resolve("/x", &page, &[]).unwrap();
        let head = String::from_utf8(target.head(&page)).unwrap();
        assert_eq!(
            head,
            "GET /x HTTP/1.1\r\nhost: a.test\r\naccept: text/html\r\nsec-ch-ua-mobile: ?1\r\ncookie: currency=eur\r\n\r\n"
        );
    }

    #[test]
    fn restricted_includes_are_not_part_of_public_pages() {
        let closed = |path: &str| Rule {
            path: path.to_owned(),
            access: AccessRules {
                allow: AccessSetting::Is(vec!["10.0.0.0/8".parse().unwrap()]),
                ..AccessRules::default()
            },
            ..Rule::default()
        };
        let denied = Rule {
            path: "/not-for-all/*".to_owned(),
            access: AccessRules {
                deny: AccessSetting::Is(vec!["10.0.0.0/8".parse().unwrap()]),
                ..AccessRules::default()
            },
            ..Rule::default()
        };
        let abroad = Rule {
            path: "/home-only/*".to_owned(),
            access: AccessRules {
                deny_countries: AccessSetting::Is(vec![CountryCode::parse("FR").unwrap()]),
                ..AccessRules::default()
            },
            ..Rule::default()
        };
        for preset in [Policy::wordpress(), Policy::rfc9111()] {
            let has_preset = preset.urls.has_wordpress_paths;
            let site = Policy {
                rules: vec![closed("/closed/*"), denied.clone(), abroad.clone()],
                ..preset
            }
            .guarded();
            let is_open = |page: &str, include: &str| {
                let page = info(&site, "a.test", page, &[]);
                is_for_everybody(&site, &page, &info(&site, "a.test", include, &[]))
            };
            assert!(is_open("/", "/part"));
            assert!(!is_open("/", "/closed/part"));
            assert!(is_open("/closed/", "/closed/part"), "the same visitors");
            assert!(is_open("/closed/", "/part"));
            for include in ["/home-only/part", "/not-for-all/part"] {
                assert!(!is_open("/", include), "to most, not to all");
            }
            for admin in [
                "/wp-admin/",
                "/wp-login.php",
                "/sub/wp-admin/admin-ajax.php?action=x",
            ] {
                assert!(!is_open("/", admin), "{admin}");
            }
            assert_eq!(is_open("/", "/?preview=true"), !has_preset);
        }
    }

    proptest! {
        #[test]
        fn any_url_is_accepted(address in "\\PC{0,40}") {
            let site = Policy::wordpress();
            let page = info(&site, "a.test", "/blog/", &[]);
            if let Ok(target) = IncludeTarget::resolve(&address, &page, &hosts()) {
                let head = String::from_utf8_lossy(&target.head(&page)).into_owned();
                prop_assert_eq!(head.matches("\r\n").count(), 4, "{}", head);
            }
        }

        #[test]
        fn urls_of_other_hosts_are_refused(
            scheme in "(http:|https:|HTTP:)?//", user in "(a\\.test[@:.]|@)?", host in "(evil|127)\\.(test|0\\.0\\.1)", path in "(/|/a\\.test|\\?|#)?",
        ) {
            let site = Policy::wordpress();
            let page = info(&site, "a.test", "/blog/", &[]);
            let address = [scheme, user, host, path].concat();
            prop_assert!(IncludeTarget::resolve(&address, &page, &hosts()).is_err(), "{}", address);
        }
    }
}
