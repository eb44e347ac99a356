//! Tables of allowed and denied requests, and properties of the scanners.

use std::net::IpAddr;

use proptest::prelude::*;

use super::xmlrpc::{Call, XmlRpcScanner};
use super::*;
use crate::request_info::RequestInfo;
use crate::request_info::RequestLineInfo;
use crate::site::{Policy, Rule, SiteFlags};
use crate::testing::{LINE, parsed};
use ipnet::IpNet;

fn info_of(method: &str, target: &str, fields: &[(&str, &str)], policy: &Policy) -> RequestInfo {
    let line = RequestLineInfo {
        method,
        target: target.as_bytes(),
        host: "example.test",
        has_body: method == "POST",
        ..LINE
    };
    parsed(&line, fields, policy)
}

fn hiding_authors() -> SiteFlags {
    SiteFlags {
        hide_authors: true,
        ..SiteFlags::default()
    }
}

fn networks_of(list: &[&str]) -> Vec<IpNet> {
    list.iter()
        .map(|text| {
            text.parse()
                .unwrap_or_else(|_| IpNet::from(text.parse::<IpAddr>().unwrap()))
        })
        .collect()
}

fn judged<'s>(
    policy: &'s Policy,
    method: &str,
    target: &str,
    client: &str,
) -> Result<AccessConditions<'s>, DenialReason> {
    let info = info_of(method, target, &[], policy);
    judge(policy, &info, client.parse::<IpAddr>().unwrap().into())
}

#[test]
fn lists_of_networks_deny_clients() {
    let rule = |path: &str, access: AccessRules| Rule {
        path: path.to_owned(),
        access,
        ..Rule::default()
    };
    let site = Policy {
        access: SiteAccess {
            common: AccessRules {
                allow: AccessSetting::Is(networks_of(&["10.0.0.0/8", "2001:db8::/32"])),
                deny: AccessSetting::Is(networks_of(&["10.9.0.0/16"])),
                ..AccessRules::default()
            },
            ..SiteAccess::default()
        },
        rules: vec![
            rule(
                "/open*",
                AccessRules {
                    allow: AccessSetting::Off,
                    ..AccessRules::default()
                },
            ),
            rule(
                "/inner*",
                AccessRules {
                    allow: AccessSetting::Is(networks_of(&["127.0.0.1"])),
                    deny: AccessSetting::Off,
                    ..AccessRules::default()
                },
            ),
        ],
        ..Policy::default()
    };
    let deny_site = Err(DenialReason::Denied(By::Site));
    for (target, client, wanted) in [
        ("/", "10.1.2.3", Ok(())),
        ("/", "::ffff:10.1.2.3", Ok(())),
        ("/", "2001:db8::5", Ok(())),
        ("/", "10.9.1.1", deny_site),
        ("/", "192.0.2.1", Err(DenialReason::NotAllowed(By::Site))),
        ("/open", "192.0.2.1", Ok(())),
        ("/open", "10.9.1.1", deny_site),
        ("//open", "192.0.2.1", Ok(())),
        (
            "/inner/x",
            "10.1.2.3",
            Err(DenialReason::NotAllowed(By::Rule(1))),
        ),
        (
            "/%69nner/x",
            "10.1.2.3",
            Err(DenialReason::NotAllowed(By::Rule(1))),
        ),
        (
            "//inner/x",
            "10.1.2.3",
            Err(DenialReason::NotAllowed(By::Rule(1))),
        ),
        (
            "/a/../inner/x",
            "10.1.2.3",
            Err(DenialReason::NotAllowed(By::Rule(1))),
        ),
        ("/inner/x", "127.0.0.1", Ok(())),
    ] {
        let got = judged(&site, "GET", target, client).map(|_| ());
        assert_eq!(got, wanted, "{target} from {client}");
    }
    assert!(!site.is_open() && Policy::default().is_open());
}

#[test]
fn visitors_reach_the_parts_of_the_administration_that_they_need() {
    let site = site_with_admin_networks();
    let open = [
        ("GET", "/"),
        ("GET", "/about-wp-admin/"),
        ("POST", "/wp-admin/admin-ajax.php"),
        ("GET", "/wp-admin/admin-ajax.php?action=x&key=y"),
        ("POST", "/blog/wp-admin/admin-post.php"),
        ("GET", "/wp-admin/css/login.min.css?ver=6"),
        ("GET", "/wp-admin/js/password-strength-meter.min.js"),
        ("GET", "/wp-admin/images/spinner.gif"),
        ("GET", "/wp-admin/load-styles.php?load=dashicons"),
        ("POST", "/wp-login.php?action=postpass"),
        ("POST", "/wp-login.php?action=postpass&redirect_to=%2Fx"),
        ("GET", "/wp-login.php?action=logout&_wpnonce=0123"),
        (
            "GET",
            "/wp-login.php?action=confirmaction&request_id=1&confirm_key=x",
        ),
    ];
    for (method, target) in open {
        assert!(
            judged(&site, method, target, "192.0.2.1").is_ok(),
            "{method} {target}"
        );
    }
    let conditions = judged(&site, "POST", "/wp-login.php?action=postpass", "192.0.2.1").unwrap();
    assert_eq!(conditions.body, Some(BodyCheck::VisitorsForm));
    let conditions = judged(&site, "POST", "/wp-login.php?action=postpass", "10.0.0.1").unwrap();
    assert_eq!(conditions.body, None);
}

#[test]
fn only_admin_networks_reach_the_administration() {
    let site = site_with_admin_networks();
    let closed = [
        ("GET", "/wp-admin"),
        ("GET", "/wp-admin/"),
        ("GET", "/WP-Admin/"),
        ("GET", "//wp-admin/index.php"),
        ("GET", "/x/..//wp%2dadmin/index.php"),
        ("GET", "/blog/wp-admin/users.php"),
        ("GET", "/wp-admin/users.php/x.css"),
        ("GET", "/wp-admin/css/../users.php"),
        ("GET", "/wp-admin/css/x.PHP/x.css"),
        ("GET", "/wp-admin/css"),
        ("GET", "/wp-admin/admin-ajax.php/x"),
        ("GET", "/wp-admin/load-scripts.php"),
        ("GET", "/wp-login.php"),
        ("GET", "/wp-login.php/"),
        ("GET", "/index.php/wp-login.php"),
        ("POST", "/wp-login.php"),
        ("POST", "/wp-login.php?action=login"),
        ("POST", "/wp-login.php?action=logout"),
        ("GET", "/wp-login.php?action=lostpassword"),
        ("GET", "/wp-login.php?action=rp&key=x&login=y"),
        ("GET", "/wp-login.php?action=register"),
        // PHP uses the last of equal parameters, and WordPress evaluates other parameters before the action.
        ("POST", "/wp-login.php?action=postpass&action=login"),
        ("POST", "/wp-login.php?action=postpass&%61ction=login"),
        ("POST", "/wp-login.php?action=postpass&key=x"),
        ("POST", "/wp-login.php?action=postpass&+key=x"),
        ("POST", "/wp-login.php?action=postpass&key[]=x"),
        ("POST", "/wp-login.php?action=postpass&checkemail=confirm"),
        ("POST", "/wp-login.php?action[]=postpass"),
        ("POST", "/wp-login.php?action[]=x&action=postpass"),
        ("GET", "/wp-login.php?action=postpass%00"),
    ];
    for (method, target) in closed {
        assert_eq!(
            judged(&site, method, target, "192.0.2.1").map(|_| ()),
            Err(DenialReason::NotAdmin),
            "{method} {target}"
        );
        assert!(
            judged(&site, method, target, "10.0.0.1").is_ok(),
            "{method} {target}"
        );
    }
}

fn site_with_admin_networks() -> Policy {
    Policy {
        access: SiteAccess {
            admin_allow: networks_of(&["10.0.0.0/8"]),
            ..SiteAccess::default()
        },
        ..Policy::default()
    }
}

#[test]
fn the_form_of_a_protected_post_has_no_other_fields() {
    let form = b"application/x-www-form-urlencoded; charset=utf-8".as_slice();
    for (body, wanted) in [
        ("post_password=x&Submit=Enter", true),
        ("post_password=a%26action%3Dlogin", true),
        ("redirect_to=%2Fx&post_password=x&Submit=Enter", true),
        ("", true),
        ("post_password=x&action=login&log=a&pwd=b", false),
        ("post_password=x&%61ction=login", false),
        ("post_password=x&+action=login", false),
        ("post_password=x&action[]=login", false),
        ("post_password=x&action%00z=login", false),
        ("log=a&pwd=b", false),
    ] {
        assert_eq!(is_visitors_form(form, body.as_bytes()), wanted, "{body}");
    }
    assert!(!is_visitors_form(
        b"multipart/form-data; boundary=x",
        b"post_password=x"
    ));
    assert!(!is_visitors_form(b"", b"post_password=x"));
}

#[test]
fn each_request_needs_tokens_of_its_buckets() {
    let limit = |count| RateLimit::new(count, 60, 1).unwrap();
    let site = Policy {
        access: SiteAccess {
            common: AccessRules {
                limit: AccessSetting::Is(limit(1)),
                password: AccessSetting::Is("/p".into()),
                ..AccessRules::default()
            },
            login_limit: Some(limit(2)),
            xmlrpc_limit: Some(limit(3)),
            xmlrpc: XmlRpc::Limited,
            ..SiteAccess::default()
        },
        rules: vec![Rule {
            path: "/free*".to_owned(),
            access: AccessRules {
                limit: AccessSetting::Off,
                password: AccessSetting::Off,
                ..AccessRules::default()
            },
            ..Rule::default()
        }],
        ..Policy::default()
    };
    let buckets = |method: &str, target: &str| {
        let conditions = judged(&site, method, target, "192.0.2.1").unwrap();
        conditions
            .limits
            .into_iter()
            .map(|(bucket, limit)| (bucket, limit.rate()))
            .collect::<Vec<_>>()
    };
    let own = (Bucket::Of(By::Site), "1/m".to_owned());
    assert_eq!(buckets("GET", "/"), std::slice::from_ref(&own));
    assert_eq!(buckets("GET", "/wp-login.php"), std::slice::from_ref(&own));
    let login = (Bucket::Login, "2/m".to_owned());
    assert_eq!(buckets("POST", "/blog/wp-login.php"), [own.clone(), login]);
    let xmlrpc = (Bucket::XmlRpc, "3/m".to_owned());
    assert_eq!(
        buckets("GET", "/xmlrpc.php?rsd"),
        [own.clone(), xmlrpc.clone()]
    );
    assert_eq!(buckets("POST", "/xmlrpc.php"), [own, xmlrpc]);
    let free = judged(&site, "GET", "/free", "192.0.2.1").unwrap();
    assert!(free.are_none());
    let asked = judged(&site, "POST", "/xmlrpc.php", "192.0.2.1").unwrap();
    assert_eq!(asked.passwords, [By::Site]);
    assert_eq!(asked.body, Some(BodyCheck::XmlRpc));
}

#[test]
fn names_of_authors_are_not_disclosed() {
    let site = Policy {
        flags: hiding_authors(),
        ..Policy::default()
    };
    for target in [
        "/?author=1",
        "/?x&author=-1",
        "/?%61uthor=1",
        "/?+author=1",
        "/?author[]=1",
        "/?author%00=1",
        "/index.php?author=2",
        "/wp-json/wp/v2/users",
        "/wp-json/wp/v2/users/1",
        "/wp-json/WP/v2/Users/1",
        "/blog/wp-json//wp/v2/users?per_page=100",
        "/?rest_route=/wp/v2/users",
        "/?rest.route=%2Fwp%2Fv2%2Fusers%2F1",
        "/wp-sitemap-users-1.xml",
        "/?sitemap=users",
        "/index.php?sitemap=users&paged=1",
        "/?sitemap=us%3Cb%3Eers",
        "/wp-admin/zzz.php?author=1",
        "/x/wp-json/y?author=1",
        "/x.php?author=1",
        "/wp-json/wp/v2/posts?_embed",
        "/wp-json/wp/v2/posts?_embed=1&per_page=2",
        "/wp-json/wp/v2/posts?_embed=wp:term,author",
        "/wp-json/wp/v2/posts?_embed[]=author",
        "/?rest_route=/wp/v2/posts&_embed=%61uthor",
        "/wp-json/oembed/1.0/embed?url=http://example.test/x/",
        "/?rest_route=/oEmbed/1.0/embed&url=x",
        "/wp-json/x/wp-json/wp/v2/users",
    ] {
        let info = info_of("GET", target, &[], &site);
        assert!(requests_user_names(&info), "{target}");
    }
    for target in [
        "/",
        "/author/jane/",
        "/?authors=1",
        "/?s=author",
        "/wp-admin/edit.php?author=1",
        "/wp-json/wp/v2/posts?author=1",
        "/wp-json/wp/v2/usersettings",
        "/wp-sitemap-posts-1.xml",
        "/?rest_route=/wp/v2/posts",
        "/?sitemap=posts",
        "/?sitemap=index",
        "/wp-json/wp/v2/posts?_embed=wp:featuredmedia",
        "/?_embed",
    ] {
        let info = info_of("GET", target, &[], &site);
        assert!(!requests_user_names(&info), "{target}");
    }
    let cookie = [("Cookie", "wordpress_logged_in_0123=x")];
    let info = info_of("GET", "/wp-json/wp/v2/users?who=authors", &cookie, &site);
    assert!(!requests_user_names(&info), "an editor's own");
}

#[test]
fn names_of_authors_are_not_disclosed_to_forms() {
    let site = Policy {
        flags: hiding_authors(),
        ..Policy::default()
    };
    let form = b"application/x-www-form-urlencoded".as_slice();
    let parts = b"multipart/form-data; boundary=b".as_slice();
    let asks_in_body = |media_type: &[u8], body: &[u8]| {
        let mut reader = super::form(media_type);
        reader.push(body);
        reader.finish()
    };
    assert!(asks_in_body(form, b"a=1&author=1") && !asks_in_body(form, b"a=author"));
    assert!(asks_in_body(form, b"rest_route=/wp/v2/users") && asks_in_body(form, b"sitemap=users"));
    let part = |head: &str| format!("--b\r\nContent-Disposition: form-data; {head}\r\n\r\n1");
    assert!(asks_in_body(parts, part("name=\"author\"").as_bytes()));
    assert!(asks_in_body(parts, part("NAME= author").as_bytes()));
    assert!(!asks_in_body(
        parts,
        part("name=\"author_name\"").as_bytes()
    ));
    assert!(!asks_in_body(b"application/json", b"author=1"));
    let comment = info_of("POST", "/wp-comments-post.php", &[], &site);
    assert!(
        judge(
            &site,
            &comment,
            "192.0.2.1".parse::<IpAddr>().unwrap().into()
        )
        .unwrap()
        .body
        .is_none()
    );
}

fn called(body: &[u8], piece: usize) -> Call {
    let mut scanner = XmlRpcScanner::default();
    body.chunks(piece.max(1))
        .for_each(|piece| scanner.push(piece));
    scanner.finish()
}

fn call(name: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<methodCall><methodName>{name}</methodName><params></params></methodCall>"
    )
}

#[test]
fn denied_calls_are_found() {
    let long = format!(
        "{}{}",
        call("wp.newPost"),
        "<value>text</value>".repeat(500)
    );
    let two = format!("{}<methodName>system.multicall</methodName>", call("wp.x"));
    let far = format!("{long}<methodName>\n system.multicall </methodName>");
    let instruction = "<methodCall><method<?xml ?>Name>system.multicall</methodName><a><methodName>wp.x</methodName></a></methodCall>";
    let doctype = format!(
        "<!DOCTYPE x [<!ENTITY m \"system.multicall\">]>{}",
        call("&m;")
    );
    let utf16 = call("system.multicall").replace('s', "s\0");
    let fine = [
        call("wp.getUsersBlogs"),
        call(" jetpack.verifyRegistration "),
        "<methodCall><methodName>x</methodName></methodCall>".to_owned(),
        " \n<methodCall><methodName >x</methodName ></methodCall>".to_owned(),
        "<methodCall><methodNames/><methodName>x</methodName></methodCall>".to_owned(),
        long,
    ];
    let forbidden = [
        call("system.multicall"),
        call("\tpingback.ping\n"),
        call("System.MultiCall"),
        two,
        far,
        format!("{}\0", call("system.multicall")),
    ];
    let unreadable = [
        call("system.multic&#97;ll"),
        call("<![CDATA[system.multicall]]>"),
        call("system.<!-- -->multicall"),
        "<methodCall><methodName a='>'>system.multicall</methodName></methodCall>".to_owned(),
        instruction.to_owned(),
        doctype,
        utf16,
        format!("<?xml {}?>{}", " ".repeat(1_010), call("wp.x")),
        format!("<methodCall>\0{}", call("system.multicall")),
        "<methodCall></methodCall>".to_owned(),
        String::new(),
    ];
    let table = [
        (&fine[..], Call::Fine),
        (&forbidden, Call::Forbidden),
        (&unreadable, Call::Unreadable),
    ];
    let table = table
        .into_iter()
        .flat_map(|(bodies, wanted)| bodies.iter().map(move |body| (body.as_bytes(), wanted)));
    for (body, wanted) in table {
        for piece in [1, 7, 64, 1_000, usize::MAX] {
            assert_eq!(
                called(body, piece),
                wanted,
                "in pieces of {piece}: {}",
                String::from_utf8_lossy(body)
            );
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_accepted(
        body in proptest::collection::vec(any::<u8>(), 0..600),
        piece in 1..200_usize,
        target in "/[ -~]{0,40}",
    ) {
        let mut begun = b"<methodCall><methodName>".to_vec();
        begun.extend_from_slice(&body);
        let _ = called(&begun, piece);
        let _ = is_visitors_form(b"application/x-www-form-urlencoded", &body);
        for media_type in [b"multipart/x".as_slice(), b"application/x-www-form-urlencoded"] {
            let mut reader = super::form(media_type);
            body.chunks(piece).for_each(|piece| {
                reader.push(piece);
            });
            let _ = reader.finish();
        }
        let site = Policy {
            access: SiteAccess {
                admin_allow: networks_of(&["10.0.0.0/8"]),
                ..SiteAccess::default()
            },
            flags: hiding_authors(),
            ..Policy::default()
        };
        let mut info = RequestInfo::default();
        let line = RequestLineInfo {
            target: target.as_bytes(),
            ..LINE
        };
        if info.parse(&line, std::iter::empty::<(&str, &[u8])>(), &site).is_ok() {
            let _ = judge(&site, &info, "192.0.2.1".parse::<IpAddr>().unwrap().into());
        }
    }

    // The way in which the body is split makes no difference.
    #[test]
    fn splitting_makes_no_difference(
        opening in "(|<\\?xml( ){0,1100}\\?>)( ){0,1100}",
        parts in proptest::collection::vec("(<methodName>|</methodName>|<methodName|wp.x|system.multicall|\0|<\\?|[ a<>/]{0,3}|( ){500})", 0..30),
        piece in 1..60_usize,
    ) {
        let body = format!("{opening}<methodCall>{}", parts.concat());
        prop_assert_eq!(called(body.as_bytes(), piece), called(body.as_bytes(), usize::MAX));
    }
}

#[test]
fn lists_of_countries_deny_clients() {
    let codes = |list: &[&str]| {
        let codes = list.iter().map(|code| CountryCode::parse(code).unwrap());
        AccessSetting::Is(codes.collect())
    };
    let site = Policy {
        access: SiteAccess {
            common: AccessRules {
                deny_countries: codes(&["FR"]),
                ..AccessRules::default()
            },
            ..SiteAccess::default()
        },
        rules: vec![
            Rule {
                path: "/shop*".to_owned(),
                access: AccessRules {
                    allow_countries: codes(&["DE", "AT"]),
                    ..AccessRules::default()
                },
                ..Rule::default()
            },
            Rule {
                path: "/open".to_owned(),
                access: AccessRules {
                    deny_countries: AccessSetting::Off,
                    ..AccessRules::default()
                },
                ..Rule::default()
            },
        ],
        ..Policy::default()
    };
    assert!(site.names_countries() && !site.is_open());
    let (denied, not_allowed) = (
        DenialReason::CountryDenied(By::Site),
        DenialReason::CountryNotAllowed(By::Rule(0)),
    );
    for (target, country, reason) in [
        ("/", Some("DE"), None),
        ("/", Some("FR"), Some(denied)),
        ("/", None, None),
        ("/shop", Some("AT"), None),
        ("/shop/a", Some("IT"), Some(not_allowed)),
        ("/shop/a", Some("FR"), Some(denied)),
        ("/shop/a", None, Some(not_allowed)),
        ("/open", Some("FR"), None),
    ] {
        let info = info_of("GET", target, &[], &site);
        let client = AccessClient {
            address: "192.0.2.1".parse().unwrap(),
            country: country.and_then(CountryCode::parse),
        };
        let seen = judge(&site, &info, client).err();
        assert_eq!(seen, reason, "{target} from {country:?}");
    }
}

#[test]
fn a_rule_for_some_countries_restricts_other_spellings_for_them_only() {
    let site = Policy {
        rules: vec![Rule {
            path: "/internal*".to_owned(),
            countries: vec![CountryCode::parse("AT").unwrap()],
            access: AccessRules {
                deny: AccessSetting::Is(networks_of(&["0.0.0.0/0"])),
                ..AccessRules::default()
            },
            ..Rule::default()
        }],
        ..Policy::default()
    }
    .guarded();
    assert!(site.names_countries() && !site.is_open() && site.hides_by_country());
    let client: IpAddr = "192.0.2.1".parse().unwrap();
    for target in ["/internal/", "/?pagename=internal", "/?p=12"] {
        for (country, reason) in [
            (Some("AT"), Some(DenialReason::Denied(By::Rule(0)))),
            (Some("DE"), None),
            (None, None),
        ] {
            let line = RequestLineInfo {
                target: target.as_bytes(),
                country: country.and_then(CountryCode::parse),
                ..LINE
            };
            let info = parsed(&line, &[], &site);
            let seen = judge(&site, &info, client.into()).err();
            assert_eq!(seen, reason, "{target} from {country:?}");
        }
    }
}

#[test]
fn a_script_is_closed_for_paths_that_continue_after_it() {
    let closed = |path: &str, is_exact| Rule {
        path: path.to_owned(),
        exact_access: is_exact,
        access: AccessRules {
            deny: AccessSetting::Is(networks_of(&["0.0.0.0/0"])),
            ..AccessRules::default()
        },
        ..Rule::default()
    };
    let open = Rule {
        path: "/tools/open.php".to_owned(),
        ..Rule::default()
    };
    for is_exact in [false, true] {
        let site = Policy {
            rules: vec![
                closed("/adminer.php", is_exact),
                open.clone(),
                closed("/tools/*", is_exact),
            ],
            ..Policy::default()
        }
        .guarded();
        for (target, is_closed) in [
            ("/adminer.php", true),
            ("/adminer.php/x", true),
            ("/adminer.php/x.php/y", true),
            ("/adminer%2ephp//x", true),
            ("/other.php/x", false),
            ("/adminer.phpx/y", false),
            ("/a/adminer.php/x", false),
            ("/tools/x.php/y", true),
        ] {
            let seen = judged(&site, "GET", target, "192.0.2.1").is_err();
            assert_eq!(seen, is_closed, "{target} {is_exact}");
        }
    }
}
