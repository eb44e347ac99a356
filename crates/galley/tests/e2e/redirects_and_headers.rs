//! Redirects, header fields, error pages and timeouts, for a site and for its rules.

use galley_testkit::client::{Request, Response};
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use crate::support::{SiteBuilder, TIMEOUT, TestSite};

fn request_for_host(target: &str, host: &str) -> Request {
    Request::get(target).field("Host", host)
}

fn status_and_location(response: &Response) -> String {
    let location = response.all("location").concat();
    format!("{} {location}", response.status)
}

/// Without `canonical_host`, WordPress redirects one host to the other, and the cache has a separate entry for each host.
#[test]
fn canonical_host_redirects_before_the_cache_lookup() {
    let site = SiteBuilder::php()
        .site("hosts = [\"www.example.test\", \"example.test\"]\ncanonical_host = \"www.example.test\"")
        .start();
    assert_eq!(
        site.send(request_for_host("/page", "www.example.test"))
            .status,
        200
    );
    let redirect = site.send(request_for_host("/page?utm_source=x&b=%20", "example.test"));
    assert_eq!(
        status_and_location(&redirect),
        "301 http://www.example.test/page?utm_source=x&b=%20"
    );
    assert_eq!(redirect.cache_status(), "galley; detail=redirect");
    assert!(
        site.send(request_for_host("/page", "www.example.test"))
            .is_hit()
    );
    let post = Request::new("POST", "/page").field("Host", "example.test:81");
    assert_eq!(
        status_and_location(&site.send(post.body("a=b"))),
        "308 http://www.example.test:81/page"
    );
    assert_eq!(site.runs("/page"), 1, "PHP ran once");
    let challenge = request_for_host("/.well-known/acme-challenge/x", "example.test");
    assert_eq!(site.send(challenge).status, 200);
}

#[test]
fn https_redirect_applies_to_pages_and_not_to_purges() {
    let site = SiteBuilder::php()
        .site("https_redirect = true\nhttps_port = 8443\nhsts = \"1h\"\nhsts_subdomains = true")
        .site("purge_allow = [\"127.0.0.0/8\"]")
        .start();
    let page = site.get("/page?a");
    assert_eq!(
        status_and_location(&page),
        "301 https://example.test:8443/page?a"
    );
    assert!(
        !page.has("strict-transport-security"),
        "RFC 6797 section 7.2"
    );
    assert_eq!(site.runs("/page"), 0);
    let purge = site.send(Request::new("PURGE", "/page"));
    assert_eq!(purge.status, 200, "purges are accepted without TLS");
}

#[test]
fn rules_redirect_only_matching_requests() {
    let rules = "[[site.rule]]\npath = \"/old/*\"\nredirect = \"/new/$1\"\n\
        [[site.rule]]\npattern = '(?i)^/shop/(\\d+)-([^/]*)$'\nredirect = \"https://shop.example.org/$2?id=$1\"\nredirect_status = 302\nredirect_query = false\n\
        [[site.rule]]\npath = \"/api\"\nmethods = [\"GET\"]\nredirect = \"/api/\"\n";
    let site = SiteBuilder::php().more(rules).start();
    for (target, expected) in [
        ("/old/a%20b?x=1", "301 /new/a%20b?x=1"),
        ("/old//example.org/", "301 /new/example.org/"),
        ("/SHOP/7-tea?y", "302 https://shop.example.org/tea?id=7"),
        ("/shop/x-tea", "200 "),
        ("/api", "301 /api/"),
    ] {
        let first = site.get(target);
        assert_eq!(status_and_location(&first), expected, "{target}");
        assert_eq!(
            status_and_location(&site.get(target)),
            expected,
            "{target} again"
        );
    }
    let why = site
        .galley
        .cli(&["why", "http://example.test/old/a"])
        .unwrap();
    let why = String::from_utf8(why.stdout).unwrap();
    assert!(why.contains("redirected to /new/a"), "{why}");
    let post = Request::new("POST", "/api").body("a=b");
    assert_eq!(site.send(post).status, 200, "the rule is for GET");
}

fn origin() -> Origin {
    Origin::start(|request, writer| {
        let status = if request.path() == "/gone" { 404 } else { 200 };
        let fields = [
            ("Content-Type", "text/html"),
            ("Server", "Apache/2.4.1 (Unix)"),
            ("X-Powered-By", "PHP/8.4.1"),
            ("X-Pingback", "http://example.test/xmlrpc.php"),
            ("X-Frame-Options", "ALLOWALL"),
            ("X-Own", "1"),
        ];
        let body = format!("<html><body>{}</body></html>", "x".repeat(2_000));
        writer.respond(status, &fields, body.as_bytes());
    })
    .unwrap()
}

/// Returns the response of the upstream and the stored one.
fn miss_and_hit(site: &TestSite, path: &str) -> [Response; 2] {
    let first = site.get(path);
    wait_for("the stored page", TIMEOUT, || site.get(path).is_hit());
    [first, site.get(path)]
}

#[test]
fn header_options_apply_to_every_response() {
    let origin = origin();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("set_headers = [\"X-Frame-Options: SAMEORIGIN\", \"X-Content-Type-Options: nosniff\"]")
        .site("add_headers = [\"Link: </a>; rel=preload\"]\ncompress = []")
        .file("style.css", "a{}")
        .more("[[site.rule]]\npath = \"/api*\"\nremove_headers = [\"X-Own\"]\nset_headers = [\"X-Frame-Options: DENY\", \"Cache-Control: max-age=5\"]\n")
        .start();
    for response in miss_and_hit(&site, "/page") {
        let text = response.excerpt();
        assert_eq!(response.all("x-frame-options"), ["SAMEORIGIN"], "{text}");
        assert_eq!(response.all("link"), ["</a>; rel=preload"], "{text}");
        assert_eq!(response.all("x-own"), ["1"], "{text}");
        for name in ["server", "x-powered-by", "x-pingback"] {
            assert!(!response.has(name), "{name} in {text}");
        }
    }
    for response in miss_and_hit(&site, "/api/x") {
        let text = response.excerpt();
        assert_eq!(response.all("x-frame-options"), ["DENY"], "{text}");
        assert_eq!(response.all("cache-control"), ["max-age=5"], "{text}");
        assert_eq!(
            response.all("x-content-type-options"),
            ["nosniff"],
            "{text}"
        );
        assert!(!response.has("x-own"), "{text}");
    }
    // Also to files, to responses that bypass the cache, and to errors.
    let bypassed = Request::get("/page").cookie("wordpress_logged_in_x=1");
    let trace = Request::new("TRACE", "/page");
    for response in [
        site.get("/style.css"),
        site.send(bypassed),
        site.send(trace),
    ] {
        let text = response.excerpt();
        assert_eq!(response.all("x-frame-options"), ["SAMEORIGIN"], "{text}");
        assert!(!response.has("x-powered-by"), "{text}");
    }
}

#[test]
fn remove_headers_replaces_the_default_list() {
    let origin = origin();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("remove_headers = [\"X-Pingback\"]")
        .start();
    for response in miss_and_hit(&site, "/page") {
        assert_eq!(response.all("x-powered-by"), ["PHP/8.4.1"]);
        assert!(!response.has("x-pingback"));
    }
}

#[test]
fn error_pages_replace_error_responses_of_galley() {
    let origin = origin();
    let builder = SiteBuilder::origin(&origin, "wordpress").site("request_body = \"1KiB\"");
    let dir = builder.scratch.path().to_owned();
    for name in ["403", "413"] {
        std::fs::write(
            dir.join(format!("{name}.html")),
            format!("own {name} {{status}}"),
        )
        .unwrap();
    }
    let site = builder
        .more("[[site.rule]]\npath = \"/upload\"\nrequest_body = \"4KiB\"\n")
        .more("[site.error_pages]\n\"403\" = \"{dir}/403.html\"\n\"413\" = \"{dir}/413.html\"\n")
        .file(".env", "secret")
        .start();
    let denied = site.get("/.env");
    assert_eq!(
        (denied.status, denied.text().as_str()),
        (403, "own 403 403")
    );
    let post =
        |path: &str, bytes: usize| site.send(Request::new("POST", path).body("x".repeat(bytes)));
    let large = post("/page", 2_000);
    assert_eq!((large.status, large.text().as_str()), (413, "own 413 413"));
    assert_eq!(post("/upload", 2_000).status, 200, "a rule allows more");
    assert_eq!(post("/upload", 5_000).status, 413);
    let gone = site.get("/gone");
    assert!(
        gone.status == 404 && gone.text().contains("xxx"),
        "error pages of the upstream are not replaced"
    );
}

#[test]
fn a_rule_overrides_the_first_byte_timeout() {
    let site = SiteBuilder::php()
        .workers(3)
        .site("first_byte_timeout = \"300ms\"")
        .more("[[site.rule]]\npath = \"/report\"\nfirst_byte_timeout = \"1m\"\n")
        .start();
    for page in ["/report", "/page"] {
        site.hold(page);
    }
    let mut slow = site.start_request("/report");
    site.wait_until_held("/report");
    assert_eq!(
        site.get("/page").status,
        504,
        "the timeout of the site applies"
    );
    site.release("/report");
    assert_eq!(slow.receive("GET").unwrap().status, 200);
    site.release("/page");
}
