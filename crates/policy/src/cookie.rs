//! Cookies of a request: parsed as PHP parses them, and classified.
//!
//! A *bypass* cookie identifies a person: the request bypasses the cache, and its response is never shared. A *vary* cookie
//! selects a variant: its value is in the key and is sent upstream. An *ignored* cookie is neither, so the upstream never
//! gets it on a cacheable fetch. A cookie with an invalid name is ignored. `Set-Cookie` is handled elsewhere.

use crate::query::split_pair;
use crate::site::{NamePattern, Policy, UnnamedCookies};
use crate::wordpress;

/// The meaning of a request's cookie to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The cookie identifies a person, so the request passes.
    Bypass,
    /// The cookie is part of the key, and sent upstream.
    Vary,
    /// The cookie has no effect.
    Ignored,
}

/// One `name=value` of a `Cookie` line, without surrounding whitespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CookiePair<'a> {
    /// The text before the first `=`; never empty.
    pub name: &'a [u8],
    /// The value; empty if there is no `=`.
    pub value: &'a [u8],
}

/// The pairs of a `Cookie` line. Only `;` separates: to PHP, neither quotes nor commas have a meaning here.
pub fn pairs(line: &[u8]) -> impl Iterator<Item = CookiePair<'_>> {
    let mut rest = Some(line);
    let parts = std::iter::from_fn(move || {
        let line = rest?;
        let end = memchr::memchr(b';', line);
        rest = end.and_then(|end| line.get(end + 1..));
        line.get(..end.unwrap_or(line.len()))
    });
    parts.filter_map(|part| {
        let (name, value) = split_pair(part);
        let name = name.trim_ascii();
        (!name.is_empty()).then_some(CookiePair {
            name,
            value: value.trim_ascii(),
        })
    })
}

/// The class of a cookie. A reason to pass overrides a reason to vary, since the first protects people and the second speed.
pub fn classify(name: &[u8], policy: &Policy) -> Class {
    let is_listed = |list: &[NamePattern]| is_named(name, list);
    if is_listed(&policy.bypass_cookies) {
        return Class::Bypass;
    }
    match policy.unnamed_cookies {
        UnnamedCookies::WordPress => {
            if wordpress::is_bypass_cookie(name) {
                Class::Bypass
            } else if is_listed(&policy.vary_cookies)
                || wordpress::is_vary_cookie(name)
                || (policy.flags.litespeed && name.starts_with(LITESPEED_VARY))
            {
                Class::Vary
            } else {
                Class::Ignored
            }
        }
        // Without knowledge of the application each unknown cookie may identify a person.
        UnnamedCookies::Bypass if is_listed(&policy.vary_cookies) => Class::Vary,
        UnnamedCookies::Bypass if is_listed(&policy.harmless_cookies) => Class::Ignored,
        UnnamedCookies::Bypass => Class::Bypass,
    }
}

/// Whether a list of the configuration names a cookie.
pub(crate) fn is_named(name: &[u8], list: &[NamePattern]) -> bool {
    list.iter().any(|pattern| pattern.matches(name))
}

/// The prefix of the cookies with which the plugin of `LiteSpeed` selects a visitor's variant.
const LITESPEED_VARY: &[u8] = b"_lscache_vary";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(line: &str) -> Vec<(String, String)> {
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        pairs(line.as_bytes())
            .map(|p| (text(p.name), text(p.value)))
            .collect()
    }

    #[test]
    fn lines_are_parsed_as_php_parses_them() {
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            names("a=1; b=2;c = 3 "),
            [pair("a", "1"), pair("b", "2"), pair("c", "3")]
        );
        assert_eq!(
            names("a=b=c; flag;; =x;  "),
            [pair("a", "b=c"), pair("flag", "")]
        );
        assert_eq!(names("a=\"x; b=y\""), [pair("a", "\"x"), pair("b", "y\"")]);
        assert_eq!(names("a=1, b=2"), [pair("a", "1, b=2")]);
        assert_eq!(names("a=1; a=2"), [pair("a", "1"), pair("a", "2")]);
    }

    #[test]
    fn the_configuration_adds_to_the_preset() {
        let one = |text: &str| vec![NamePattern::parse(text)];
        let site = Policy {
            vary_cookies: one("lang*"),
            bypass_cookies: one("member"),
            harmless_cookies: one("consent"),
            ..Policy::default()
        };
        for (name, wordpress, none) in [
            ("member", Class::Bypass, Class::Bypass),
            ("language", Class::Vary, Class::Vary),
            ("consent", Class::Ignored, Class::Ignored),
            ("other", Class::Ignored, Class::Bypass),
            ("Member", Class::Ignored, Class::Bypass),
            ("wordpress_logged_in_x", Class::Bypass, Class::Bypass),
            ("akm_mobile", Class::Vary, Class::Bypass),
        ] {
            assert_eq!(classify(name.as_bytes(), &site), wordpress, "{name}");
            let site = Policy {
                unnamed_cookies: UnnamedCookies::Bypass,
                ..site.clone()
            };
            assert_eq!(classify(name.as_bytes(), &site), none, "{name}");
        }
    }

    #[test]
    fn bypass_overrides_vary() {
        let site = Policy {
            vary_cookies: vec![
                NamePattern::parse("wordpress_*"),
                NamePattern::parse("both"),
            ],
            bypass_cookies: vec![NamePattern::parse("both")],
            ..Policy::default()
        };
        assert_eq!(classify(b"wordpress_logged_in_x", &site), Class::Bypass);
        assert_eq!(classify(b"both", &site), Class::Bypass);
        assert_eq!(classify(b"wordpress_theme", &site), Class::Vary);
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            for pair in pairs(&line) {
                prop_assert!(!pair.name.is_empty());
                let _ = classify(pair.name, &Policy::default());
            }
        }
    }
}
