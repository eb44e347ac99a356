//! What a site's file says about addresses, fields and errors: redirects, headers, pages, and rules by pattern.

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use crate::support::{SiteBuilder, TIMEOUT, TestSite};

fn host(target: &str, host: &str) -> Request {
    Request::get(target).field("Host", host)
}

fn location(answer: &Response) -> String {
    let to = answer.all("location").concat();
    format!("{} {to}", answer.status)
}

/// WordPress would redirect one of two hosts to the other: each answer is kept under its own.
#[test]
fn the_one_address_is_decided_before_anything_stored() {
    let stage = SiteBuilder::php()
        .site("hosts = [\"www.example.test\", \"example.test\"]\ncanonical_host = \"www.example.test\"")
        .start();
    assert_eq!(stage.send(host("/page", "www.example.test")).status, 200);
    let other = stage.send(host("/page?utm_source=x&b=%20", "example.test"));
    assert_eq!(
        location(&other),
        "301 http://www.example.test/page?utm_source=x&b=%20"
    );
    assert_eq!(other.cache_status(), "galley; detail=redirect");
    assert!(stage.send(host("/page", "www.example.test")).is_hit());
    let post = Request::new("POST", "/page").field("Host", "example.test:81");
    assert_eq!(
        location(&stage.send(post.body("a=b"))),
        "308 http://www.example.test:81/page"
    );
    assert_eq!(stage.runs("/page"), 1, "PHP is asked once");
    let challenge = host("/.well-known/acme-challenge/x", "example.test");
    assert_eq!(stage.send(challenge).status, 200);
}

#[test]
fn what_comes_in_the_clear_is_sent_to_tls() {
    let stage = SiteBuilder::php()
        .site("https_redirect = true\nhttps_port = 8443\nhsts = \"1h\"\nhsts_subdomains = true")
        .site("purge_allow = [\"127.0.0.0/8\"]")
        .start();
    let page = stage.get("/page?a");
    assert_eq!(location(&page), "301 https://example.test:8443/page?a");
    assert!(
        !page.has("strict-transport-security"),
        "RFC 6797 section 7.2"
    );
    assert_eq!(stage.runs("/page"), 0);
    let purge = stage.send(Request::new("PURGE", "/page"));
    assert_eq!(purge.status, 200, "orders come in the clear");
}

#[test]
fn rules_redirect_and_nothing_else_does() {
    let rules = "[[site.rule]]\npath = \"/old/*\"\nredirect = \"/new/$1\"\n\
        [[site.rule]]\npattern = '(?i)^/shop/(\\d+)-([^/]*)$'\nredirect = \"https://shop.example.org/$2?id=$1\"\nredirect_status = 302\nredirect_query = false\n\
        [[site.rule]]\npath = \"/api\"\nmethods = [\"GET\"]\nredirect = \"/api/\"\n";
    let stage = SiteBuilder::php().more(rules).start();
    for (target, expected) in [
        ("/old/a%20b?x=1", "301 /new/a%20b?x=1"),
        ("/old//example.org/", "301 /new/example.org/"),
        ("/SHOP/7-tea?y", "302 https://shop.example.org/tea?id=7"),
        ("/shop/x-tea", "200 "),
        ("/api", "301 /api/"),
    ] {
        let first = stage.get(target);
        assert_eq!(location(&first), expected, "{target}");
        assert_eq!(location(&stage.get(target)), expected, "{target} again");
    }
    let why = stage
        .galley
        .cli(&["why", "http://example.test/old/a"])
        .unwrap();
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("redirected to /new/a"), "{why}");
    let post = Request::new("POST", "/api").body("a=b");
    assert_eq!(stage.send(post).status, 200, "the rule is for GET");
}

fn noisy() -> Origin {
    Origin::start(|seen, writer| {
        let status = if seen.path() == "/gone" { 404 } else { 200 };
        let fields = [
            ("Content-Type", "text/html"),
            ("Server", "Apache/2.4.1 (Unix)"),
            ("X-Powered-By", "PHP/8.4.1"),
            ("X-Pingback", "http://example.test/xmlrpc.php"),
            ("X-Frame-Options", "ALLOWALL"),
            ("X-Own", "1"),
        ];
        let body = format!("<html><body>{}</body></html>", "x".repeat(2_000));
        writer.answer(status, &fields, body.as_bytes());
    })
    .unwrap()
}

/// Asks twice or more: the upstream's answer, and the copy.
fn both(stage: &TestSite, path: &str) -> [Response; 2] {
    let first = stage.get(path);
    wait_for("a copy", TIMEOUT, || stage.get(path).is_hit());
    [first, stage.get(path)]
}

#[test]
fn fields_are_changed_on_every_answer() {
    let origin = noisy();
    let stage = SiteBuilder::origin(&origin, "wordpress")
        .site("set_headers = [\"X-Frame-Options: SAMEORIGIN\", \"X-Content-Type-Options: nosniff\"]")
        .site("add_headers = [\"Link: </a>; rel=preload\"]\ncompress = []")
        .file("style.css", "a{}")
        .more("[[site.rule]]\npath = \"/api*\"\nremove_headers = [\"X-Own\"]\nset_headers = [\"X-Frame-Options: DENY\", \"Cache-Control: max-age=5\"]\n")
        .start();
    for answer in both(&stage, "/page") {
        let text = answer.beginning();
        assert_eq!(answer.all("x-frame-options"), ["SAMEORIGIN"], "{text}");
        assert_eq!(answer.all("link"), ["</a>; rel=preload"], "{text}");
        assert_eq!(answer.all("x-own"), ["1"], "{text}");
        for name in ["server", "x-powered-by", "x-pingback"] {
            assert!(!answer.has(name), "{name} in {text}");
        }
    }
    for answer in both(&stage, "/api/x") {
        let text = answer.beginning();
        assert_eq!(answer.all("x-frame-options"), ["DENY"], "{text}");
        assert_eq!(answer.all("cache-control"), ["max-age=5"], "{text}");
        assert_eq!(answer.all("x-content-type-options"), ["nosniff"], "{text}");
        assert!(!answer.has("x-own"), "{text}");
    }
    // Files, refusals and what passes have them too.
    let passed = Request::get("/page").cookie("wordpress_logged_in_x=1");
    let trace = Request::new("TRACE", "/page");
    for answer in [
        stage.get("/style.css"),
        stage.send(passed),
        stage.send(trace),
    ] {
        let text = answer.beginning();
        assert_eq!(answer.all("x-frame-options"), ["SAMEORIGIN"], "{text}");
        assert!(!answer.has("x-powered-by"), "{text}");
    }
}

#[test]
fn what_is_hidden_may_be_shown() {
    let origin = noisy();
    let stage = SiteBuilder::origin(&origin, "wordpress")
        .site("remove_headers = [\"X-Pingback\"]")
        .start();
    for answer in both(&stage, "/page") {
        assert_eq!(answer.all("x-powered-by"), ["PHP/8.4.1"]);
        assert!(!answer.has("x-pingback"));
    }
}

#[test]
fn errors_of_galley_have_the_sites_pages() {
    let origin = noisy();
    let plan = SiteBuilder::origin(&origin, "wordpress").site("request_body = \"1KiB\"");
    let dir = plan.scratch.path().to_owned();
    for name in ["403", "413"] {
        std::fs::write(
            dir.join(format!("{name}.html")),
            format!("own {name} {{status}}"),
        )
        .unwrap();
    }
    let stage = plan
        .more("[[site.rule]]\npath = \"/upload\"\nrequest_body = \"4KiB\"\n")
        .more("[site.error_pages]\n\"403\" = \"{dir}/403.html\"\n\"413\" = \"{dir}/413.html\"\n")
        .file(".env", "secret")
        .start();
    let denied = stage.get("/.env");
    assert_eq!(
        (denied.status, denied.text().as_str()),
        (403, "own 403 403")
    );
    let post =
        |path: &str, bytes: usize| stage.send(Request::new("POST", path).body("x".repeat(bytes)));
    let large = post("/page", 2_000);
    assert_eq!((large.status, large.text().as_str()), (413, "own 413 413"));
    assert_eq!(post("/upload", 2_000).status, 200, "a rule allows more");
    assert_eq!(post("/upload", 5_000).status, 413);
    let gone = stage.get("/gone");
    assert!(
        gone.status == 404 && gone.text().contains("xxx"),
        "the upstream's own passes"
    );
}

/// One path has more timeout than the site, another less.
#[test]
fn a_rule_has_patience_of_its_own() {
    let stage = SiteBuilder::php()
        .workers(3)
        .site("first_byte_timeout = \"300ms\"")
        .more("[[site.rule]]\npath = \"/report\"\nfirst_byte_timeout = \"1m\"\n")
        .start();
    for page in ["/report", "/page"] {
        stage.hold(page);
    }
    let patient = stage.start_request("/report");
    stage.wait_until_held("/report");
    assert_eq!(stage.get("/page").status, 504, "the site's timeout ends");
    stage.release("/report");
    let mut patient = patient;
    assert_eq!(patient.receive("GET").unwrap().status, 200);
    stage.release("/page");
}
