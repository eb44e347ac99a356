//! Tests of redirect targets, and that no client can choose the host.

use super::*;
use crate::pattern::PathPattern;
use crate::request_info::Scheme;
use crate::request_info::{RequestInfo, RequestLineInfo};
use crate::site::{Policy, Rule};
use crate::testing::{LINE, parsed};
use proptest::prelude::*;

fn info(method: &str, url: &str, scheme: Scheme, policy: &Policy) -> RequestInfo {
    let (host, target) = url.split_at(url.find('/').unwrap());
    let line = RequestLineInfo {
        method,
        target: target.as_bytes(),
        scheme,
        host: host.split(':').next().unwrap(),
        ..LINE
    };
    parsed(&line, &[("host", host)], policy)
}

fn redirect_of(method: &str, url: &str, scheme: Scheme, policy: &Policy) -> String {
    let info = info(method, url, scheme, policy);
    let found = of(&info, policy, true);
    assert!(may_apply(&info, policy) || found.is_none(), "{url}");
    found.map_or_else(String::new, |found| {
        format!(
            "{} {}",
            found.status,
            String::from_utf8(found.location).unwrap()
        )
    })
}

fn home(https: Option<u16>, host: Option<&str>, secure_first: bool) -> Policy {
    Policy {
        home: CanonicalAddress {
            https,
            host: host.map(str::to_owned),
            secure_first,
        },
        ..Policy::default()
    }
}

#[test]
fn requests_are_redirected_to_the_canonical_address() {
    use Scheme::{Http, Https};
    let tls = home(Some(443), None, false);
    let odd = home(Some(8443), None, false);
    let www = home(None, Some("www.a.org"), false);
    let both = home(Some(443), Some("www.a.org"), false);
    let steps = home(Some(443), Some("www.a.org"), true);
    for (site, method, scheme, url, expected) in [
        (
            &tls,
            "GET",
            Http,
            "a.org/x?y=%20&z",
            "301 https://a.org/x?y=%20&z",
        ),
        (&tls, "GET", Http, "a.org:8080/", "301 https://a.org/"),
        (&tls, "GET", Https, "a.org/x", ""),
        (&tls, "POST", Http, "a.org/x", "308 https://a.org/x"),
        (&tls, "PURGE", Http, "a.org/x", ""),
        (&tls, "GET", Http, "/x", ""),
        (&tls, "GET", Http, "a.org/.well-known/acme-challenge/t", ""),
        (&odd, "HEAD", Http, "a.org/?", "301 https://a.org:8443/?"),
        (
            &www,
            "GET",
            Http,
            "a.org:8080/x",
            "301 http://www.a.org:8080/x",
        ),
        (&www, "GET", Https, "a.org/x", "301 https://www.a.org/x"),
        (&www, "GET", Https, "www.a.org/x", ""),
        (&www, "GET", Http, "/x", "301 http://www.a.org/x"),
        (&both, "GET", Http, "a.org/x", "301 https://www.a.org/x"),
        (&steps, "GET", Http, "a.org/x", "301 https://a.org/x"),
        (&steps, "GET", Https, "a.org/x", "301 https://www.a.org/x"),
    ] {
        assert_eq!(
            redirect_of(method, url, scheme, site),
            expected,
            "{method} {url}"
        );
    }
}

#[test]
fn requests_are_not_redirected_to_tls_without_a_certificate() {
    let both = home(Some(443), Some("www.a.org"), false);
    for (url, expected) in [
        ("www.a.org/x", None),
        ("a.org/x", Some("http://www.a.org/x")),
    ] {
        let found = of(&info("GET", url, Scheme::Http, &both), &both, false);
        let location = found.map(|found| String::from_utf8(found.location).unwrap());
        assert_eq!(location.as_deref(), expected, "{url}");
    }
}

fn rule(path: &str, target: &str, redirect: fn(&mut Redirect)) -> Policy {
    let pattern = path
        .starts_with('^')
        .then(|| PathPattern::compile(path).unwrap());
    let groups = pattern
        .as_ref()
        .map_or_else(|| usize::from(path.ends_with('*')), PathPattern::groups);
    let mut made = Redirect {
        target: RedirectTarget::parse(target, groups).unwrap(),
        status: None,
        keeps_query: true,
    };
    redirect(&mut made);
    Policy {
        rules: vec![Rule {
            path: path.to_owned(),
            pattern,
            redirect: Some(made),
            ..Rule::default()
        }],
        ..Policy::default()
    }
}

#[test]
fn rules_redirect() {
    let plain: fn(&mut Redirect) = |_| {};
    let drops: fn(&mut Redirect) = |redirect| redirect.keeps_query = false;
    let temporary: fn(&mut Redirect) = |redirect| redirect.status = Some(302);
    for (path, target, how, url, expected) in [
        ("/old", "/new", plain, "a/old?x=1", "301 /new?x=1"),
        ("/old", "/new", plain, "a/older", ""),
        ("/old", "/new?a=1", plain, "a/old?x=1", "301 /new?a=1&x=1"),
        ("/old", "/new", drops, "a/old?x=1", "301 /new"),
        ("/old", "/new", temporary, "a/old", "302 /new"),
        ("/old/*", "/new/$1", plain, "a/old/b/c", "301 /new/b/c"),
        ("/old/*", "/new/$1", plain, "a/old/", "301 /new/"),
        (
            "/o*",
            "https://b.org/$1/x",
            plain,
            "a/ok",
            "301 https://b.org/k/x",
        ),
        (
            "^/(\\d+)/(.*)$",
            "/$2/$1",
            plain,
            "a/12/b%20c",
            "301 /b%20c/12",
        ),
        // Inserted text cannot form another host, another line or another parameter.
        ("/to*", "/$1", plain, "a/to/evil.org/", "301 /evil.org/"),
        ("/to/*", "/$1", plain, "a/to/%C3%A9%22x", "301 /%C3%A9%22x"),
        ("/to/*", "/?q=$1", plain, "a/to/a&b=c", "301 /?q=a%26b%3Dc"),
        // A redirect to the requested URL is not applied.
        ("/*", "/soon", plain, "a/soon", ""),
        ("/*", "http://a/soon", drops, "a/soon", ""),
        (
            "/*",
            "https://a/soon",
            drops,
            "a/soon",
            "301 https://a/soon",
        ),
        ("/*", "/soon", plain, "a/x", "301 /soon"),
    ] {
        let site = rule(path, target, how);
        assert_eq!(
            redirect_of("GET", url, Scheme::Http, &site),
            expected,
            "{path} {target} {url}"
        );
    }
    let site = rule("/old", "/new", plain);
    assert_eq!(
        redirect_of("POST", "a/old", Scheme::Http, &site),
        "308 /new"
    );
}

#[test]
fn redirects_to_tls_precede_rules() {
    let site = Policy {
        home: CanonicalAddress {
            https: Some(443),
            ..CanonicalAddress::default()
        },
        ..rule("/old", "/new", |_| {})
    };
    assert_eq!(
        redirect_of("GET", "a/old", Scheme::Http, &site),
        "301 https://a/old"
    );
    assert_eq!(
        redirect_of("GET", "a/old", Scheme::Https, &site),
        "301 /new"
    );
}

#[test]
fn targets_with_a_host_from_the_client_are_rejected() {
    for (text, groups, why) in [
        ("https://$1/", 1, "not named in full"),
        ("https://example.org$1", 1, "not named in full"),
        ("https://user@example.org/", 0, "not named in full"),
        ("https:///x", 0, "not named in full"),
        ("https://a/\u{e9}", 0, "percent-encoded"),
        ("/a b", 0, "percent-encoded"),
        ("//example.org/", 0, "neither a path"),
        ("/\\example.org/", 0, "neither a path"),
        ("javascript:alert(1)", 0, "neither a path"),
        ("ftp://example.org/", 0, "neither a path"),
        ("$1", 1, "neither a path"),
        ("/$1", 0, "does not have"),
        ("/$2", 1, "does not have"),
        ("/$0", 1, "does not have"),
        ("/$host", 1, "not followed"),
        ("/$", 1, "not followed"),
    ] {
        let error = RedirectTarget::parse(text, groups).unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

proptest! {
    #[test]
    fn no_path_forms_another_host_or_line(
        path in "/[a-z/\\\\%@:.0-9A-F]{0,30}",
        target in proptest::sample::select(vec!["/$1", "/x/$1", "/?q=$1", "https://b.org/$1", "/$1/$1"]),
        query in "(\\?[a-z%/&=@:\\\\]{0,10})?",
    ) {
        let site = rule("/*", target, |_| {});
        let mut info = RequestInfo::default();
        let whole = format!("{path}{query}");
        let line = RequestLineInfo {
            target: whole.as_bytes(),
            host: "a.org",
            ..LINE
        };
        if info.parse(&line, std::iter::empty::<(&str, &[u8])>(), &site).is_ok()
            && let Some(found) = of(&info, &site, true)
        {
            let location = String::from_utf8(found.location).unwrap();
            prop_assert!(location.bytes().all(|byte| byte.is_ascii_graphic()), "{}", location);
            let of_target = location.strip_prefix("https://b.org").unwrap_or(&location);
            let path = of_target.split('?').next().unwrap();
            prop_assert!(of_target.starts_with('/') && !path.contains('\\'), "{}", location);
            prop_assert!(target.starts_with("https") || !location.starts_with("//"), "{}", location);
        }
    }

    #[test]
    fn any_target_is_accepted(text in "\\PC{0,30}", groups in 0_usize..4) {
        let _ = RedirectTarget::parse(&text, groups);
    }
}
