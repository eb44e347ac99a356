//! What a site's file changes about keeping pages.

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, page_value};

fn hits(site: &TestSite, page: &str) -> bool {
    site.get(page);
    site.get(page).is_hit()
}

#[test]
fn a_rule_can_forbid_and_can_lengthen() {
    let site = SiteBuilder::php()
        .more("[[site.rule]]\npath = \"/never*\"\ncache = false\n")
        .more("[[site.rule]]\npath = \"/week*\"\nttl = \"7d\"\nignore = [\"cache-control\", \"expires\"]\n")
        .more("[[site.rule]]\npath = \"/fills\"\nttl = \"7d\"\n")
        .more("[site.ttl]\ndefault = \"1s\"\nstale_while_revalidate = \"0s\"\n")
        .start();
    for page in ["/never", "/never/x", "/neverland"] {
        assert!(!hits(&site, page), "{page}");
        assert_eq!(
            site.get(page).cache_status(),
            "galley; fwd=bypass; detail=rule"
        );
    }
    site.head(
        "/week/a",
        &["Cache-Control: no-store, private", "Expires: 0"],
    );
    site.head("/week/b", &["Cache-Control: max-age=0"]);
    site.head("/week/c", &["Set-Cookie: a=b"]);
    site.head("/fills", &[]);
    for page in ["/week/a", "/week/b", "/fills", "/plain"] {
        assert!(hits(&site, page), "{page}");
    }
    assert!(
        !hits(&site, "/week/c"),
        "a cookie is not among what is ignored"
    );
    wait_for("the plain page to be stale", TIMEOUT, || {
        site.runs("/plain") > 1 || !site.get("/plain").is_hit()
    });
    for page in ["/week/a", "/week/b", "/fills"] {
        assert!(site.get(page).is_hit(), "{page}");
    }
}

#[test]
fn a_rule_can_ignore_cookies_and_vary() {
    let site = SiteBuilder::php()
        .more("[[site.rule]]\npath = \"/set\"\nignore = [\"set-cookie\"]\n")
        .more("[[site.rule]]\npath = \"/cookie\"\nignore = [\"cookie\"]\n")
        .more("[[site.rule]]\npath = \"/vary\"\nignore = [\"vary\"]\n")
        .start();
    site.head("/set", &["Set-Cookie: session={run}"]);
    site.get("/set");
    let hit = site.get("/set");
    assert!(
        hit.is_hit() && !hit.has("set-cookie"),
        "kept without the cookie: {}",
        hit.beginning()
    );
    let first = site.send(Request::get("/cookie").cookie("wordpress_logged_in_x=canary"));
    assert!(
        !first.text().contains("canary"),
        "what does not matter is not seen: {}",
        first.text()
    );
    assert!(
        site.send(Request::get("/cookie").cookie("wordpress_logged_in_x=other"))
            .is_hit()
    );
    assert!(site.get("/cookie").is_hit());
    site.head("/vary", &["Vary: X-Tenant"]);
    assert!(hits(&site, "/vary"));
    assert!(
        site.get("/vary")
            .all("vary")
            .iter()
            .all(|vary| !vary.contains("X-Tenant"))
    );
}

#[test]
fn harmless_cookies_do_not_forbid() {
    let site = SiteBuilder::php()
        .site("harmless_cookies = [\"consent\", \"ab_*\"]")
        .start();
    site.head("/a", &["Set-Cookie: consent=1", "Set-Cookie: ab_test=2"]);
    site.head("/b", &["Set-Cookie: consent=1", "Set-Cookie: session=2"]);
    assert!(hits(&site, "/a"));
    assert!(
        !site.get("/a").has("set-cookie"),
        "the copy goes without it"
    );
    assert!(!hits(&site, "/b"));
}

#[test]
fn vary_cookies_make_copies_of_their_own() {
    let site = SiteBuilder::php()
        .site("vary_cookies = [\"currency\"]")
        .start();
    let send = |cookies: &str| site.send(Request::get("/page").cookie(cookies));
    let euro = send("currency=eur; _ga=1").text();
    assert_eq!(page_value(&euro, "HTTP_COOKIE"), "currency=eur");
    let dollar = send("_ga=2; currency=usd").text();
    assert_eq!(page_value(&dollar, "HTTP_COOKIE"), "currency=usd");
    assert_eq!(send("currency=eur").text(), euro);
    assert!(send("x=y; currency=usd").is_hit());
    assert!(
        !site.get("/page").is_hit(),
        "without the cookie it is a third page"
    );
    assert!(
        !send("currency=usd; currency=eur").is_hit()
            || send("currency=usd; currency=eur").text() != euro
    );
    site.purge(&["--url", "http://example.test/page"]);
    for cookies in ["currency=eur", "currency=usd"] {
        assert!(
            !send(cookies).is_hit(),
            "a purge of a page is one of all its copies: {cookies}"
        );
    }
}

#[test]
fn devices_make_copies_where_the_site_says_so() {
    const PHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 canary";
    const DESK: &str =
        "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0 canary";
    for varies in [true, false] {
        let site = SiteBuilder::php()
            .site(&format!("device_variants = {varies}"))
            .start();
        let send = |agent: &str| site.send(Request::get("/page").field("User-Agent", agent));
        let phone = send(PHONE);
        assert!(
            !phone.text().contains("canary"),
            "one agent per class: {}",
            phone.text()
        );
        assert_eq!(send(DESK).is_hit(), !varies);
        assert!(send(PHONE).is_hit() && send(DESK).is_hit());
        if varies {
            assert!(phone.text().contains("Mobile") && !send(DESK).text().contains("Mobile"));
            assert_ne!(send(DESK).body, phone.body);
        }
    }
}

#[test]
fn without_a_preset_the_rfc_alone_decides() {
    let site = SiteBuilder::php().site("preset = \"none\"").start();
    site.head("/explicit", &["Cache-Control: max-age=600"]);
    site.head(
        "/found",
        &["Location: /x", "Cache-Control: max-age=600", "Status: 302"],
    );
    site.head("/empty", &["Cache-Control: max-age=600", "Status: 204"]);
    site.head(
        "/personal",
        &["Cache-Control: max-age=600", "Set-Cookie: a=b"],
    );
    site.head(
        "/agent",
        &["Cache-Control: max-age=600", "Vary: User-Agent"],
    );
    for (page, kept) in [
        ("/explicit", true),
        ("/found", true),
        ("/personal", false),
        ("/agent", false),
    ] {
        assert_eq!(hits(&site, page), kept, "{page}");
    }
    // A page without a body is one too, and its framing has none.
    let mut connection = site.connect();
    for _ in 0..3 {
        let answer = connection
            .exchange(&Request::get("/empty").host("example.test"))
            .unwrap()
            .expect_status(204);
        assert!(
            !answer.has("transfer-encoding") && !answer.has("content-length"),
            "{}",
            answer.beginning()
        );
    }
    // Every unknown cookie may mean a person, tracking parameters are parameters, and paths mean nothing.
    assert_eq!(
        site.send(Request::get("/explicit").cookie("any=1"))
            .cache_status(),
        "galley; fwd=bypass; detail=cookie"
    );
    assert!(!site.get("/explicit?utm_source=x").is_hit());
    site.head("/wp-admin/", &["Cache-Control: max-age=600"]);
    assert!(hits(&site, "/wp-admin/"));
    assert!(
        !site.get("/silent").has("cache-control"),
        "nothing is added"
    );
}

#[test]
fn names_of_the_site_add_to_the_preset() {
    let site = SiteBuilder::php()
        .site("bypass_cookies = [\"member*\"]\nignore_query = [\"ref\", \"x_*\"]")
        .start();
    site.get("/page");
    assert_eq!(
        site.send(Request::get("/page").cookie("member_7=1"))
            .cache_status(),
        "galley; fwd=bypass; detail=cookie"
    );
    assert!(site.get("/page?ref=me&x_y=z&utm_source=q").is_hit());
    assert!(!site.get("/page?reference=me").is_hit());
}

#[test]
fn two_sites_share_nothing() {
    let plan = SiteBuilder::php().more("[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}\"\nphp = \"{php}\"\n[site.ttl]\ndefault = \"1h\"\n");
    let site = plan.start();
    let other = |target: &str| site.send(Request::get(target).host("other.test"));
    site.get("/page").assert_status(200);
    let theirs = other("/page").expect_status(200);
    assert!(!theirs.is_hit() && page_value(&theirs.text(), "HTTP_HOST") == "other.test");
    assert!(site.get("/page").is_hit() && other("/page").is_hit());
    site.purge(&["--site", "other.test", "--all"]);
    assert!(site.get("/page").is_hit(), "the other site's purge");
    assert!(!other("/page").is_hit());
    // The port that was asked for is part of the page, since PHP makes addresses of it.
    let with_port = site.send(Request::get("/page").host("example.test:8080"));
    assert!(
        !with_port.is_hit() || page_value(&with_port.text(), "HTTP_HOST") == "example.test:8080",
        "{}",
        with_port.text()
    );
}

#[test]
fn json_and_pages_have_separate_entries() {
    let site = SiteBuilder::php().start();
    let page = site
        .send(Request::get("/x").field("Accept", "text/html"))
        .text();
    let json = site.send(Request::get("/x").field("Accept", "application/json"));
    assert!(!json.is_hit());
    assert_eq!(page_value(&json.text(), "HTTP_ACCEPT"), "application/json");
    assert!(page_value(&page, "HTTP_ACCEPT").starts_with("text/html"));
    assert!(
        site.send(
            Request::get("/x").field("Accept", "application/ld+json, application/json;q=0.5")
        )
        .is_hit()
    );
    assert!(site.get("/x").is_hit());
    site.get("/x").assert_status(200);
}
