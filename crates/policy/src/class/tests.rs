//! The class of requests, and what proof changes about it.

use super::*;
use crate::request_info::RequestLineInfo;
use crate::site::{NamePattern, Policy};
use crate::testing::{LINE, parsed};
use proptest::prelude::*;

fn class(method: &str, fields: &[(&str, &str)]) -> Class {
    class_of(method, "/a", fields, Proof::Visit)
}

fn class_of(method: &str, target: &str, fields: &[(&str, &str)], proof: Proof) -> Class {
    let site = Policy {
        bypass_cookies: vec![NamePattern::parse("member")],
        ..Policy::default()
    };
    let line = RequestLineInfo {
        method,
        target: target.as_bytes(),
        ..LINE
    };
    let info = parsed(&line, fields, &site);
    Class::of(&info, proof)
}

#[test]
fn requests_are_classified() {
    const GOOGLE: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
    const FIREFOX: &str = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0";
    type Fields = &'static [(&'static str, &'static str)];
    let table: &[(&str, Fields, Class)] = &[
        ("GET", &[], Class::Visitor),
        ("HEAD", &[("user-agent", FIREFOX)], Class::Visitor),
        (
            "GET",
            &[("cookie", "_ga=1; wordpress_test_cookie=1")],
            Class::Visitor,
        ),
        (
            "GET",
            &[("cookie", "_ga=1; wordpress_logged_in_0=a")],
            Class::Editor,
        ),
        (
            "POST",
            &[("cookie", "wordpress_logged_in_0=a")],
            Class::Editor,
        ),
        ("GET", &[("authorization", "Basic eA==")], Class::Editor),
        (
            "GET",
            &[
                ("cookie", "wordpress_logged_in_0=a"),
                ("user-agent", GOOGLE),
            ],
            Class::Editor,
        ),
        ("POST", &[], Class::Customer),
        ("DELETE", &[], Class::Customer),
        ("MADE-UP", &[], Class::Customer),
        ("POST", &[("user-agent", GOOGLE)], Class::Customer),
        (
            "GET",
            &[("cookie", "woocommerce_items_in_cart=1")],
            Class::Customer,
        ),
        ("GET", &[("cookie", "member=1")], Class::Customer),
        (
            "GET",
            &[("cookie", "wordpress_logged_in=a")],
            Class::Visitor,
        ),
        ("GET", &[("user-agent", GOOGLE)], Class::Unseen),
        ("GET", &[("user-agent", "Baiduspider/2.0")], Class::Unseen),
        ("GET", &[("user-agent", "SomeCrawler")], Class::Unseen),
        ("GET", &[("user-agent", "Wget/1.21")], Class::Unseen),
        ("OPTIONS", &[("user-agent", GOOGLE)], Class::Crawler),
        (
            "GET",
            &[("user-agent", "Linux; Android 12; CUBOT P60")],
            Class::Visitor,
        ),
        ("GET", &[("user-agent", "")], Class::Visitor),
    ];
    for (method, fields, wanted) in table {
        assert_eq!(class(method, fields), *wanted, "{method} {fields:?}");
    }
}

#[test]
fn a_rule_that_ignores_cookies_ignores_login_cookies() {
    use crate::site::{IgnoredParts, Rule};
    let site = Policy {
        rules: vec![Rule {
            path: "/page*".to_owned(),
            ignore: IgnoredParts {
                cookie: true,
                ..IgnoredParts::default()
            },
            ..Rule::default()
        }],
        ..Policy::default()
    };
    let line = RequestLineInfo {
        target: b"/page",
        ..LINE
    };
    let info = parsed(&line, &[("cookie", "wordpress_logged_in_0=a")], &site);
    assert_eq!(Class::of(&info, Proof::Visit), Class::Visitor);
}

const BOT: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
const CHROME: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/142.0.0.0";

#[test]
fn proof_decides_about_pages_with_a_query_and_names_of_bots() {
    use Proof::{NotRequired, Unproven, VerifiedBot, Visit};
    for (target, agent, proof, wanted) in [
        ("/shop/", CHROME, Unproven, Class::Visitor),
        ("/shop/?filter_color=red", CHROME, Unproven, Class::Unseen),
        ("/shop/?filter_color=red", CHROME, Visit, Class::Visitor),
        (
            "/shop/?filter_color=red",
            CHROME,
            NotRequired,
            Class::Visitor,
        ),
        // The key does not keep these, so that they are the same page.
        (
            "/shop/?utm_source=a&fbclid=b",
            CHROME,
            Unproven,
            Class::Visitor,
        ),
        ("/shop/?", CHROME, Unproven, Class::Visitor),
        ("/index.php?p=3", CHROME, Unproven, Class::Unseen),
        ("/shop/", BOT, Unproven, Class::Unseen),
        ("/shop/", BOT, Visit, Class::Unseen),
        ("/shop/?p=3", BOT, Unproven, Class::Unseen),
        ("/shop/?p=3", BOT, VerifiedBot, Class::Crawler),
        ("/shop/", CHROME, VerifiedBot, Class::Crawler),
        ("/shop/", BOT, NotRequired, Class::Crawler),
        ("/feed/", BOT, Unproven, Class::Crawler),
        ("/robots.txt", BOT, Unproven, Class::Crawler),
    ] {
        let fields = [("user-agent", agent)];
        let class = class_of("GET", target, &fields, proof);
        assert_eq!(class, wanted, "{target} {agent} {proof:?}");
    }
}

#[test]
fn doubt_counts_for_pages_of_unproven_clients_only() {
    for (target, proof, wanted) in [
        ("/shop/", Proof::Unproven, Trust::Doubtful),
        ("/shop/", Proof::Visit, Trust::Proven),
        ("/shop/", Proof::NotRequired, Trust::Proven),
        ("/feed/", Proof::Unproven, Trust::Plain),
        ("/wp-json/wp/v2/posts", Proof::Unproven, Trust::Plain),
    ] {
        let line = RequestLineInfo {
            target: target.as_bytes(),
            ..LINE
        };
        let info = parsed(&line, &[], &Policy::default());
        let seen = Standing::of(&info, proof, || true).trust;
        assert_eq!(seen, wanted, "{target} {proof:?}");
        assert_ne!(Standing::of(&info, proof, || false).trust, Trust::Doubtful);
    }
}

#[test]
fn logins_without_proof_have_a_class_of_their_own() {
    let session = [("cookie", "member=1")];
    for (method, target, fields, proof, wanted) in [
        (
            "POST",
            "/wp-login.php",
            &[][..],
            Proof::Unproven,
            Class::Login,
        ),
        (
            "POST",
            "/blog/xmlrpc.php",
            &[],
            Proof::Unproven,
            Class::Login,
        ),
        // The scripts run for these, too.
        (
            "POST",
            "/wp-login.php/x",
            &[],
            Proof::Unproven,
            Class::Login,
        ),
        (
            "POST",
            "/blog/xmlrpc.php/x/y?rsd",
            &[],
            Proof::Unproven,
            Class::Login,
        ),
        // A cookie is no proof.
        (
            "POST",
            "/wp-login.php",
            &session,
            Proof::Unproven,
            Class::Login,
        ),
        ("POST", "/wp-login.php", &[], Proof::Visit, Class::Customer),
        (
            "POST",
            "/wp-login.php",
            &[],
            Proof::NotRequired,
            Class::Customer,
        ),
        ("GET", "/wp-login.php", &[], Proof::Unproven, Class::Visitor),
        (
            "POST",
            "/wp-comments-post.php",
            &[],
            Proof::Unproven,
            Class::Customer,
        ),
    ] {
        let class = class_of(method, target, fields, proof);
        assert_eq!(class, wanted, "{method} {target} {proof:?}");
    }
}

#[test]
fn clients_are_distinguished_by_their_network() {
    let of = |text: &str| Network::of(text.parse().unwrap());
    for (one, other, is_same) in [
        ("192.0.2.1", "192.0.2.1", true),
        ("192.0.2.1", "192.0.2.2", false),
        ("192.0.2.1", "::ffff:192.0.2.1", true),
        ("2001:db8::1", "2001:db8::ffff:ffff:ffff:ffff", true),
        ("2001:db8::1", "2001:db8:0:1::1", false),
        ("::1", "127.0.0.1", false),
    ] {
        assert_eq!(of(one) == of(other), is_same, "{one} {other}");
    }
}

/// The query of a crawl.
const QUERY: &str = "[a-z_]{1,8}=[a-z0-9]{0,6}(&[a-z_]{1,8}=[a-z0-9]{0,6}){0,3}";

proptest! {
    /// Feeds, REST, scripts, files and requests of other methods are never refused as a crawl, whatever else they carry.
    #[test]
    fn excepted_requests_are_never_unseen(
        folder in "(/[a-z]{1,6}){0,3}",
        name in "[a-z0-9-]{1,8}",
        query in QUERY,
        kind in 0_usize..11,
        is_bot in any::<bool>(),
        proof in prop::sample::select(vec![Proof::Unproven, Proof::Visit]),
    ) {
        let target = match kind {
            0 => format!("{folder}/feed/?{query}"),
            1 => format!("{folder}/feed/rss2?{query}"),
            2 => format!("{folder}/wp-json/{name}?{query}"),
            3 => format!("{folder}/?{query}&rest_route=/{name}"),
            4 => format!("{folder}/wp-admin/admin-ajax.php?{query}"),
            5 => format!("{folder}/{name}.css?{query}"),
            6 => format!("{folder}/?feed={name}&{query}"),
            7 => format!("{folder}/{name}.jpg?{query}"),
            8 => format!("{folder}/wp-login.php?{query}"),
            _ => format!("{folder}/{name}/?{query}"),
        };
        let method = match kind { 9 => "POST", 10 => "OPTIONS", _ => "GET" };
        let fields = [("user-agent", if is_bot { BOT } else { CHROME })];
        prop_assert_ne!(class_of(method, &target, &fields, proof), Class::Unseen, "{}", target);
    }

    /// Any other page with a query is, unless the client has been seen.
    #[test]
    fn pages_with_a_query_are_unseen_without_proof(name in "[a-z]{1,8}", value in "[a-z0-9]{1,6}") {
        let target = format!("/{name}/?filter_{name}={value}");
        let class = |proof| class_of("GET", &target, &[("user-agent", CHROME)], proof);
        prop_assert_eq!(class(Proof::Unproven), Class::Unseen);
        prop_assert_eq!(class(Proof::Visit), Class::Visitor);
    }

    #[test]
    fn any_agent_is_accepted(agent in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = is_crawler(&agent);
    }

    #[test]
    fn words_are_found_at_any_position(
        text in "[aBcEg/t-]{0,12}",
        words in proptest::collection::vec("[abceg/t-]{1,3}", 1..4),
    ) {
        let lower = text.to_ascii_lowercase();
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let has = |word: &[u8]| lower.contains(std::str::from_utf8(word).unwrap());
        prop_assert_eq!(has_any(text.as_bytes(), &words), words.iter().any(|word| has(word)));
    }
}
