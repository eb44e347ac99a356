//! ESI tags that a visitor wrote, or that ask for too much: nothing of another server or of another person gets into a page.

use std::time::{Duration, Instant};

use galley_testkit::client::Request;
use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};

use crate::esi_stage::{Esi, include, inner, optional, plan};
use crate::poison::{attempts, shows_a_canary};
use crate::support::{AssertStatus, HOST, SiteBuilder};

#[test]
fn no_tag_leads_to_another_server() {
    let other = Origin::start(|_: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
        writer.answer(200, &[("Content-Type", "text/html")], b"foreign");
    })
    .unwrap();
    let stage = plan().start();
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
    let tags: String = addresses.iter().map(|address| optional(address)).collect();
    stage.page("/page", &format!("<p>{tags}</p>"));
    assert_eq!(stage.text("/page"), "<p></p>");
    assert!(other.requests().is_empty(), "{:?}", other.requests());
    // A part that names another place stays a part that failed.
    stage.print(
        "/away",
        &["Status: 302", &format!("Location: http://{addr}/x")],
        "",
    );
    stage.page("/redirected", &optional("/away"));
    assert_eq!(stage.text("/redirected"), "");
    assert!(other.requests().is_empty(), "{:?}", other.requests());
}

#[test]
fn listed_hosts_are_requested_from_the_site_itself() {
    let stage = plan()
        .site("hosts = [\"example.test\"]\nesi_hosts = [\"parts.test\", \"*.more.test\"]")
        .start();
    stage.part("/part", "{host}");
    let hosts = [
        "parts.test",
        "a.more.test",
        "b.a.more.test",
        "more.test",
        "unlisted.test",
        HOST,
    ];
    let tags = hosts.map(|host| optional(&format!("https://{host}/part")));
    stage.page("/page", &tags.join(" "));
    assert_eq!(
        stage.text("/page"),
        format!("parts.test a.more.test b.a.more.test   {HOST}")
    );
    stage.purge(&["--prefix", "/part"]);
    stage.part("/part", "new");
    assert_eq!(stage.text("/page"), "new new new   new");
}

/// A visitor's comment that a page prints without escaping it.
#[test]
fn a_comment_of_a_visitor_shows_nothing_of_another_person() {
    let closed = "[[site.rule]]\npath = \"/closed/*\"\nallow = [\"127.0.0.0/8\"]\n\
                  [[site.rule]]\npath = \"/mine/*\"\ncache = false\n\
                  [[site.rule]]\npath = \"/old\"\nredirect = \"/new\"\n";
    let stage = plan().more(closed).start();
    for path in [
        "/closed/part",
        "/mine/part",
        "/old",
        "/wp-admin/profile.php",
        "/account",
    ] {
        stage.part(path, "secret");
    }
    stage.part("/who", "[{cookie} {login}]");
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
    let tags: String = addresses.iter().map(|address| optional(address)).collect();
    stage.page("/post", &format!("<p>{tags}{}</p>", optional("/who")));
    let visitor = Request::get("/post").field("Authorization", "Basic eDp5");
    let nobody = "<p>[none none]</p>";
    // A member first: what they see must not be theirs by way of an include, and not stay for others.
    assert_eq!(inner(&stage.as_member("/post").expect_status(200)), nobody);
    assert_eq!(inner(&stage.send(visitor).expect_status(200)), nobody);
    assert_eq!(stage.text("/post"), nobody);
    for path in [
        "/closed/part",
        "/mine/part",
        "/old",
        "/wp-admin/profile.php",
        "/xmlrpc.php",
        "/wp-login.php",
    ] {
        assert_eq!(stage.runs(path), 0, "{path}");
    }
    // Who may see the page may see the part.
    stage.page("/closed/page", &include("/closed/part"));
    assert_eq!(stage.text("/closed/page"), "secret");
}

#[test]
fn a_comment_that_is_escaped_or_on_a_page_without_tags_is_text() {
    let stage = plan().start();
    stage.part("/part", "part");
    let escaped = "&lt;esi:include src=&quot;/part&quot;/&gt;";
    stage.page("/escaped", escaped);
    stage.part("/plain", &include("/part"));
    assert_eq!(stage.text("/escaped"), escaped);
    assert_eq!(stage.text("/plain"), include("/part"));
    // A part is no page with tags unless it says so itself.
    stage.page("/page", &include("/plain"));
    assert_eq!(stage.text("/page"), include("/part"));
    assert_eq!(stage.runs("/part"), 0);
}

#[test]
fn includes_are_bounded_in_depth_and_number() {
    let stage = plan().workers(4).start();
    for (page, next) in [
        ("/0", "/1"),
        ("/1", "/2"),
        ("/2", "/3"),
        ("/3", "/4"),
        ("/4", "/5"),
    ] {
        stage.page(page, &format!("{page}{}", optional(next)));
    }
    stage.part("/5", "/5");
    assert_eq!(stage.text("/0"), "/0/1/2/3");
    // What was cut off there is not cut off for who requests it.
    assert_eq!(stage.text("/3"), "/3/4/5");
    assert_eq!(stage.text("/2"), "/2/3/4/5");
    stage.page("/strict", &include("/2"));
    stage.get("/strict").assert_status(502);

    let tags = |count: usize| {
        (0..count)
            .map(|number| optional(&format!("/n?{number}")))
            .collect::<String>()
    };
    stage.part("/n", "n");
    stage.page("/many", &tags(40));
    assert_eq!(stage.text("/many"), "n".repeat(32));
    assert!(stage.runs("/n") <= 32);
    stage.page("/too-many", &(tags(32) + &include("/n?last")));
    stage.get("/too-many").assert_status(502);
}

#[test]
fn pages_that_include_each_other_end() {
    let stage = plan().workers(4).start();
    stage.page("/self", &format!("s{}", optional("/self")));
    stage.page("/one", &format!("1{}", optional("/two")));
    stage.page("/two", &format!("2{}", optional("/one")));
    stage.page("/strict", &include("/strict"));
    let began = Instant::now();
    assert_eq!(stage.text("/self"), "ssss");
    let texts =
        crate::support::run_concurrently(4, |index| stage.text(["/one", "/two"][index % 2]));
    for text in texts {
        assert!(text.len() <= 4 && "1212 2121".contains(&text), "{text}");
    }
    stage.get("/strict").assert_status(502);
    assert!(
        began.elapsed() < Duration::from_secs(20),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn a_part_that_is_larger_than_a_page_may_be_is_not_included() {
    let stage = plan()
        .cache("memory = \"64MiB\"\nmax_object = \"64KiB\"")
        .start();
    stage.part("/large", &"x".repeat(60 * 1024));
    stage.page("/once", &optional("/large"));
    stage.page("/twice", &(include("/large") + &include("/large?2")));
    assert_eq!(stage.text("/once").len(), 60 * 1024);
    stage.get("/twice").assert_status(502);
    stage.print(
        "/too-large",
        &[crate::esi_stage::TAGS],
        &"x".repeat(70 * 1024),
    );
    assert_eq!(stage.get("/too-large").status, 502);
}

/// A page with a part, which both show all that they get. The page has the part of the same number, and what a visitor wrote in `say`.
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
fn a_page_and_a_part_that_show_all_they_get_show_the_next_visitor_no_canary() {
    let stage = SiteBuilder::php()
        .file("index.php", ECHO)
        .site("esi = true")
        .start();
    let (mut tried, mut hits) = (0, 0);
    for (number, attempt) in attempts().iter().enumerate().step_by(4) {
        let page = format!("/page-{number}");
        // At once and behind a part that is stored already.
        stage.send(attempt.request(&page));
        stage.send(attempt.request(&format!("/part-{number}")));
        for target in [page, format!("/part-{number}")] {
            let clean = stage.get(&target).expect_status(200);
            tried += 1;
            hits += usize::from(clean.is_hit());
            let said = (attempt.kind, attempt.text);
            assert!(!shows_a_canary(&clean), "{said:?}: {}", clean.beginning());
        }
    }
    assert!(hits > tried * 3 / 4, "{hits} hits of {tried}");
}

/// What stands between a page and what looks like a file, as in `wordpress::deception`.
const BETWEEN: &[&str] = &[
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
fn a_tag_that_a_visitor_wrote_brings_nobody_the_page_of_a_member() {
    let stage = SiteBuilder::php()
        .file("index.php", ECHO)
        .site("esi = true")
        .start();
    let mut included = 0;
    for (number, between) in BETWEEN.iter().enumerate() {
        let page = format!("/page-{number}");
        let tags = ["x.css", "x.js", "index.html"]
            .map(|file| optional(&format!("/account{between}{file}")));
        stage.note(&format!("say-{number}"), &tags.concat());
        let member = stage.as_member(&page).expect_status(200).text();
        // The page itself is theirs; no part is.
        let own = member.matches("wordpress_logged_in_1").count();
        let parts = member.matches("[REQUEST_URI] => /account").count();
        let alone = stage.as_member("/alone").expect_status(200).text();
        assert_eq!(
            own,
            alone.matches("wordpress_logged_in_1").count(),
            "{between}"
        );
        included += parts;
        for target in [
            page,
            format!("/account{between}x.css").replace("&amp;", "&"),
        ] {
            let stranger = stage.get(&target);
            assert!(
                !stranger.text().contains("secret"),
                "{target}: {}",
                stranger.beginning()
            );
        }
    }
    assert!(included >= BETWEEN.len(), "{included} parts were included");
}
