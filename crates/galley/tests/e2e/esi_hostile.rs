//! Hostile ESI tags: tags that visitors write, SSRF, private pages in includes, and tags that exceed limits.

use std::time::{Duration, Instant};

use galley_testkit::client::Request;
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};

use crate::esi_support::{EsiSite, esi_builder, include, optional_include, without_end_tag};
use crate::poison::{attempts, shows_a_canary};
use crate::support::{AssertStatus, HOST, SiteBuilder};

#[test]
fn includes_never_cause_requests_to_other_servers() {
    let other = Origin::start(|_: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
        writer.respond(200, &[("Content-Type", "text/html")], b"foreign");
    })
    .unwrap();
    let site = esi_builder().start();
    let addr = other.url().replace("http://", "");
    let port = addr.rsplit(':').next().unwrap().to_owned();
    let addresses = [
        format!("http://{addr}/x"),
        format!("//{addr}/x"),
        format!("https://{addr}/x"),
        format!("http://{HOST}:{port}/x"),
        format!("http://{HOST}@{addr}/x"),
        format!("http://{addr}\\@{HOST}/x"),
        format!("/\\{addr}/x"),
        format!("\\\\{addr}/x"),
        format!(" http://{addr}/x"),
        "http://localhost/x".to_owned(),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "file:///etc/passwd".to_owned(),
        "php://filter/resource=index.php".to_owned(),
        "unix:/run/php.sock".to_owned(),
        format!("gopher://{addr}/x"),
        format!("/x#http://{addr}/"),
    ];
    let tags: String = addresses
        .iter()
        .map(|address| optional_include(address))
        .collect();
    site.add_page("/page", &format!("<p>{tags}</p>"));
    assert_eq!(site.get_text("/page"), "<p></p>");
    assert!(other.requests().is_empty(), "{:?}", other.requests());
    // A redirect to another server is a failed part.
    site.set_response(
        "/away",
        &["Status: 302", &format!("Location: http://{addr}/x")],
        "",
    );
    site.add_page("/redirected", &optional_include("/away"));
    assert_eq!(site.get_text("/redirected"), "");
    assert!(other.requests().is_empty(), "{:?}", other.requests());
}

#[test]
fn includes_of_esi_hosts_are_requested_from_the_upstream_of_the_site() {
    let site = esi_builder()
        .site("hosts = [\"example.test\"]\nesi_hosts = [\"parts.test\", \"*.more.test\"]")
        .start();
    site.add_part("/part", "{host}");
    let hosts = [
        "parts.test",
        "a.more.test",
        "b.a.more.test",
        "more.test",
        "unlisted.test",
        HOST,
    ];
    let tags = hosts.map(|host| optional_include(&format!("https://{host}/part")));
    site.add_page("/page", &tags.join(" "));
    assert_eq!(
        site.get_text("/page"),
        format!("parts.test a.more.test b.a.more.test   {HOST}")
    );
    site.purge(&["--prefix", "/part"]);
    site.add_part("/part", "new");
    assert_eq!(site.get_text("/page"), "new new new   new");
}

/// The page prints a visitor's comment without escaping it.
#[test]
fn tags_in_a_comment_reveal_no_private_content() {
    let rules = "[[site.rule]]\npath = \"/closed/*\"\nallow = [\"127.0.0.0/8\"]\n\
                  [[site.rule]]\npath = \"/mine/*\"\ncache = false\n\
                  [[site.rule]]\npath = \"/old\"\nredirect = \"/new\"\n";
    let site = esi_builder().more(rules).start();
    for path in [
        "/closed/part",
        "/mine/part",
        "/old",
        "/wp-admin/profile.php",
        "/account",
    ] {
        site.add_part(path, "secret");
    }
    site.add_part("/who", "[{cookie} {login}]");
    let addresses = [
        "/closed/part",
        "/closed/../closed/part",
        "/%63losed/part",
        "/mine/part",
        "/old",
        "/wp-admin/profile.php",
        "/wp-admin/",
        "/wp-login.php",
        "/xmlrpc.php",
        "/wp-cron.php?doing_wp_cron",
        "/?preview=true",
        "/?author=1",
        "/purge/all",
    ];
    let tags: String = addresses
        .iter()
        .map(|address| optional_include(address))
        .collect();
    site.add_page(
        "/post",
        &format!("<p>{tags}{}</p>", optional_include("/who")),
    );
    let with_login = Request::get("/post").field("Authorization", "Basic eDp5");
    let anonymous = "<p>[none none]</p>";
    // The member's request is first: the parts must not be fetched with the member's cookie, and not stored for others.
    assert_eq!(
        without_end_tag(&site.get_logged_in("/post").expect_status(200)),
        anonymous
    );
    assert_eq!(
        without_end_tag(&site.send(with_login).expect_status(200)),
        anonymous
    );
    assert_eq!(site.get_text("/post"), anonymous);
    for path in [
        "/closed/part",
        "/mine/part",
        "/old",
        "/wp-admin/profile.php",
        "/xmlrpc.php",
        "/wp-login.php",
    ] {
        assert_eq!(site.runs(path), 0, "{path}");
    }
    // A page may include parts that require the same access as the page.
    site.add_page("/closed/page", &include("/closed/part"));
    assert_eq!(site.get_text("/closed/page"), "secret");
}

#[test]
fn escaped_tags_and_tags_on_pages_without_surrogate_control_are_text() {
    let site = esi_builder().start();
    site.add_part("/part", "part");
    let escaped = "&lt;esi:include src=&quot;/part&quot;/&gt;";
    site.add_page("/escaped", escaped);
    site.add_part("/plain", &include("/part"));
    assert_eq!(site.get_text("/escaped"), escaped);
    assert_eq!(site.get_text("/plain"), include("/part"));
    // Tags in a part are text unless the part has `Surrogate-Control` itself.
    site.add_page("/page", &include("/plain"));
    assert_eq!(site.get_text("/page"), include("/part"));
    assert_eq!(site.runs("/part"), 0);
}

#[test]
fn includes_are_limited_in_depth_and_number() {
    let site = esi_builder().workers(4).start();
    for (page, next) in [
        ("/0", "/1"),
        ("/1", "/2"),
        ("/2", "/3"),
        ("/3", "/4"),
        ("/4", "/5"),
    ] {
        site.add_page(page, &format!("{page}{}", optional_include(next)));
    }
    site.add_part("/5", "/5");
    assert_eq!(site.get_text("/0"), "/0/1/2/3");
    // A part whose includes were cut off at the depth limit is complete when a client requests it.
    assert_eq!(site.get_text("/3"), "/3/4/5");
    assert_eq!(site.get_text("/2"), "/2/3/4/5");
    site.add_page("/strict", &include("/2"));
    site.get("/strict").assert_status(502);

    let tags = |count: usize| {
        (0..count)
            .map(|number| optional_include(&format!("/n?{number}")))
            .collect::<String>()
    };
    site.add_part("/n", "n");
    site.add_page("/many", &tags(40));
    assert_eq!(site.get_text("/many"), "n".repeat(32));
    assert!(site.runs("/n") <= 32);
    site.add_page("/too-many", &(tags(32) + &include("/n?last")));
    site.get("/too-many").assert_status(502);
}

#[test]
fn recursive_includes_end_at_the_depth_limit() {
    let site = esi_builder().workers(4).start();
    site.add_page("/self", &format!("s{}", optional_include("/self")));
    site.add_page("/one", &format!("1{}", optional_include("/two")));
    site.add_page("/two", &format!("2{}", optional_include("/one")));
    site.add_page("/strict", &include("/strict"));
    let began = Instant::now();
    assert_eq!(site.get_text("/self"), "ssss");
    let texts =
        crate::support::run_concurrently(4, |index| site.get_text(["/one", "/two"][index % 2]));
    for text in texts {
        assert!(text.len() <= 4 && "1212 2121".contains(&text), "{text}");
    }
    site.get("/strict").assert_status(502);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn pages_with_includes_are_limited_to_max_object() {
    let site = esi_builder()
        .cache("memory = \"64MiB\"\nmax_object = \"64KiB\"")
        .start();
    site.add_part("/large", &"x".repeat(60 * 1024));
    site.add_page("/once", &optional_include("/large"));
    site.add_page("/twice", &(include("/large") + &include("/large?2")));
    assert_eq!(site.get_text("/once").len(), 60 * 1024);
    site.get("/twice").assert_status(502);
    site.set_response(
        "/too-large",
        &[crate::esi_support::SURROGATE_CONTROL],
        &"x".repeat(70 * 1024),
    );
    assert_eq!(site.get("/too-large").status, 502);
}

/// A page and its part, which print all values of the request. The page includes the part of the same number and prints the file
/// `say-NUMBER`, which contains a visitor's text, unescaped.
const ECHO: &str = r#"<?php
header('Content-Type: text/html');
$path = explode('?', $_SERVER['REQUEST_URI'])[0];
echo '<html><body>';
if (strncmp($path, '/page', 5) === 0) {
    header('Surrogate-Control: content="ESI/1.0"');
    echo '<esi:include src="/part', substr($path, 5), '"/>', @file_get_contents(__DIR__ . '/../notes/say' . substr($path, 5));
}
foreach ([$_SERVER, $_GET, $_POST, $_COOKIE] as $all) {
    print_r($all);
}
echo '</body></html>';
"#;

#[test]
fn request_values_reach_neither_stored_pages_nor_stored_parts() {
    let site = SiteBuilder::php()
        .file("index.php", ECHO)
        .site("esi = true")
        .start();
    let (mut total, mut hits) = (0, 0);
    for (number, attempt) in attempts().iter().enumerate().step_by(4) {
        let page = format!("/page-{number}");
        // As a request for the page, which fetches the part, and for the part itself.
        site.send(attempt.request(&page));
        site.send(attempt.request(&format!("/part-{number}")));
        for target in [page, format!("/part-{number}")] {
            let response = site.get(&target).expect_status(200);
            total += 1;
            hits += usize::from(response.is_hit());
            let attempt = (attempt.kind, attempt.text);
            assert!(
                !shows_a_canary(&response),
                "{attempt:?}: {}",
                response.excerpt()
            );
        }
    }
    assert!(hits > total * 3 / 4, "{hits} hits in {total} requests");
}

/// Separators between the path of a page and a file name, as in `wordpress::deception`.
const SEPARATORS: &[&str] = &[
    "/",
    ";",
    "%3b",
    "%2f",
    "%00",
    "%0a",
    "%23",
    "%3f",
    "?",
    "..",
    "/./",
    "//",
    "/%2e/",
    "/..%2f",
    "/..;/",
    "%5c",
    "!",
    "&amp;",
    "$",
    ",",
    ":",
    "@",
    "%252f",
    "/x/%2e%2e/",
];

#[test]
fn tags_written_by_visitors_never_include_private_pages_of_members() {
    let site = SiteBuilder::php()
        .file("index.php", ECHO)
        .site("esi = true")
        .start();
    let mut included = 0;
    for (number, separator) in SEPARATORS.iter().enumerate() {
        let page = format!("/page-{number}");
        let tags = ["x.css", "x.js", "index.html"]
            .map(|file| optional_include(&format!("/account{separator}{file}")));
        site.note(&format!("say-{number}"), &tags.concat());
        let page_of_member = site.get_logged_in(&page).expect_status(200).text();
        // The page shows the member's cookie; its parts do not.
        let own = page_of_member.matches("wordpress_logged_in_1").count();
        let parts = page_of_member.matches("[REQUEST_URI] => /account").count();
        let page_without_parts = site.get_logged_in("/alone").expect_status(200).text();
        assert_eq!(
            own,
            page_without_parts.matches("wordpress_logged_in_1").count(),
            "{separator}"
        );
        included += parts;
        for target in [
            page,
            format!("/account{separator}x.css").replace("&amp;", "&"),
        ] {
            let response = site.get(&target);
            assert!(
                !response.text().contains("secret"),
                "{target}: {}",
                response.excerpt()
            );
        }
    }
    assert!(
        included >= SEPARATORS.len(),
        "{included} parts were included"
    );
}
