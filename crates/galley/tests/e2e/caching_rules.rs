//! Options that change which responses are stored: `[[site.rule]]`, `[site.ttl]`, cookies, device variants, presets, and separate sites.

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, page_value};

fn is_stored(site: &TestSite, page: &str) -> bool {
    site.get(page);
    site.get(page).is_hit()
}

#[test]
fn rules_disable_caching_or_extend_the_ttl() {
    let site = SiteBuilder::php()
        .more("[[site.rule]]\npath = \"/never*\"\ncache = false\n")
        .more("[[site.rule]]\npath = \"/week*\"\nttl = \"7d\"\nignore = [\"cache-control\", \"expires\"]\n")
        .more("[[site.rule]]\npath = \"/fills\"\nttl = \"7d\"\n")
        .more("[site.ttl]\ndefault = \"1s\"\nstale_while_revalidate = \"0s\"\n")
        .start();
    for page in ["/never", "/never/x", "/neverland"] {
        assert!(!is_stored(&site, page), "{page}");
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
        assert!(is_stored(&site, page), "{page}");
    }
    assert!(
        !is_stored(&site, "/week/c"),
        "the rule does not ignore `Set-Cookie`"
    );
    wait_for("the plain page to be stale", TIMEOUT, || {
        site.runs("/plain") > 1 || !site.get("/plain").is_hit()
    });
    for page in ["/week/a", "/week/b", "/fills"] {
        assert!(site.get(page).is_hit(), "{page}");
    }
}

#[test]
fn rules_can_ignore_cookies_and_vary() {
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
        "stored without the cookie: {}",
        hit.excerpt()
    );
    let first = site.send(Request::get("/cookie").cookie("wordpress_logged_in_x=canary"));
    assert!(
        !first.text().contains("canary"),
        "ignored cookies are not forwarded: {}",
        first.text()
    );
    assert!(
        site.send(Request::get("/cookie").cookie("wordpress_logged_in_x=other"))
            .is_hit()
    );
    assert!(site.get("/cookie").is_hit());
    site.head("/vary", &["Vary: X-Tenant"]);
    assert!(is_stored(&site, "/vary"));
    assert!(
        site.get("/vary")
            .all("vary")
            .iter()
            .all(|vary| !vary.contains("X-Tenant"))
    );
}

#[test]
fn harmless_cookies_do_not_prevent_caching() {
    let site = SiteBuilder::php()
        .site("harmless_cookies = [\"consent\", \"ab_*\"]")
        .start();
    site.head("/a", &["Set-Cookie: consent=1", "Set-Cookie: ab_test=2"]);
    site.head("/b", &["Set-Cookie: consent=1", "Set-Cookie: session=2"]);
    assert!(is_stored(&site, "/a"));
    assert!(
        !site.get("/a").has("set-cookie"),
        "the stored page has no `Set-Cookie`"
    );
    assert!(!is_stored(&site, "/b"));
}

#[test]
fn vary_cookies_create_separate_variants() {
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
        "without the cookie it is a third variant"
    );
    assert!(
        !send("currency=usd; currency=eur").is_hit()
            || send("currency=usd; currency=eur").text() != euro
    );
    site.purge(&["--url", "http://example.test/page"]);
    for cookies in ["currency=eur", "currency=usd"] {
        assert!(
            !send(cookies).is_hit(),
            "a purge removes all variants: {cookies}"
        );
    }
}

#[test]
fn device_variants_separates_phones_from_desktops() {
    const PHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148 canary";
    const DESKTOP: &str =
        "Mozilla/5.0 (X11; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0 canary";
    for varies in [true, false] {
        let site = SiteBuilder::php()
            .site(&format!("device_variants = {varies}"))
            .start();
        let send = |agent: &str| site.send(Request::get("/page").field("User-Agent", agent));
        let phone = send(PHONE);
        assert!(
            !phone.text().contains("canary"),
            "PHP gets one agent per device class: {}",
            phone.text()
        );
        assert_eq!(send(DESKTOP).is_hit(), !varies);
        assert!(send(PHONE).is_hit() && send(DESKTOP).is_hit());
        if varies {
            assert!(phone.text().contains("Mobile") && !send(DESKTOP).text().contains("Mobile"));
            assert_ne!(send(DESKTOP).body, phone.body);
        }
    }
}

#[test]
fn preset_none_follows_rfc_9111() {
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
    for (page, expected) in [
        ("/explicit", true),
        ("/found", true),
        ("/personal", false),
        ("/agent", false),
    ] {
        assert_eq!(is_stored(&site, page), expected, "{page}");
    }
    // A response with status 204 has no body and no framing fields.
    let mut connection = site.connect();
    for _ in 0..3 {
        let response = connection
            .exchange(&Request::get("/empty").host("example.test"))
            .unwrap()
            .expect_status(204);
        assert!(
            !response.has("transfer-encoding") && !response.has("content-length"),
            "{}",
            response.excerpt()
        );
    }
    // Without a preset every cookie may identify a user, tracking parameters are part of the key, and no path bypasses the cache.
    assert_eq!(
        site.send(Request::get("/explicit").cookie("any=1"))
            .cache_status(),
        "galley; fwd=bypass; detail=cookie"
    );
    assert!(!site.get("/explicit?utm_source=x").is_hit());
    site.head("/wp-admin/", &["Cache-Control: max-age=600"]);
    assert!(is_stored(&site, "/wp-admin/"));
    assert!(
        !site.get("/silent").has("cache-control"),
        "Galley adds no `Cache-Control`"
    );
}

#[test]
fn site_options_extend_the_lists_of_the_preset() {
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
fn two_sites_have_separate_caches() {
    let builder = SiteBuilder::php().more("[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}\"\nphp = \"{php}\"\n[site.ttl]\ndefault = \"1h\"\n");
    let site = builder.start();
    let other = |target: &str| site.send(Request::get(target).host("other.test"));
    site.get("/page").assert_status(200);
    let response = other("/page").expect_status(200);
    assert!(!response.is_hit() && page_value(&response.text(), "HTTP_HOST") == "other.test");
    assert!(site.get("/page").is_hit() && other("/page").is_hit());
    site.purge(&["--site", "other.test", "--all"]);
    assert!(
        site.get("/page").is_hit(),
        "the purge is limited to the other site"
    );
    assert!(!other("/page").is_hit());
    // The port is part of the key, because PHP creates links from it.
    let with_port = site.send(Request::get("/page").host("example.test:8080"));
    assert!(
        !with_port.is_hit() || page_value(&with_port.text(), "HTTP_HOST") == "example.test:8080",
        "{}",
        with_port.text()
    );
}

#[test]
fn clients_that_prefer_other_types_have_copies_of_their_own() {
    let site = SiteBuilder::php().start();
    let get = |accept: &str| site.send(Request::get("/x").field("Accept", accept));
    for (first, begins, others) in [
        (
            "text/html",
            "text/html",
            &["*/*", "text/html;q=0.9, text/markdown;q=0.8"][..],
        ),
        (
            "application/json",
            "application/json",
            &["text/html;q=0.1, application/vnd.api+json"],
        ),
        (
            "application/activity+json",
            "application/activity+json",
            &["application/ld+json, application/json, text/html;q=0.1"],
        ),
        (
            "text/markdown, text/html, */*",
            "text/markdown",
            &["text/markdown"],
        ),
    ] {
        let page = get(first);
        assert!(!page.is_hit(), "{first}");
        let sent = page_value(&page.text(), "HTTP_ACCEPT").to_owned();
        assert!(sent.starts_with(begins), "{first}: {sent}");
        for other in others {
            let hit = get(other);
            assert!(hit.is_hit(), "{other}");
            assert_eq!(page_value(&hit.text(), "HTTP_ACCEPT"), sent, "{other}");
        }
    }
    // One purge removes all.
    site.send(Request::new("PURGE", "/x")).assert_status(200);
    for accept in [
        "text/html",
        "application/json",
        "application/ld+json",
        "text/markdown",
    ] {
        assert!(!get(accept).is_hit(), "{accept}");
    }
}

#[test]
fn a_type_without_a_copy_is_passed_where_the_page_varies_by_type() {
    let site = SiteBuilder::php().start();
    site.head("/data", &["Vary: Accept"]);
    let get = |page: &str, accept: &str| {
        let request = Request::get(page).field("Accept", accept);
        site.send(request).expect_status(200)
    };
    let turtle = "text/turtle, text/html;q=0.9, */*;q=0.1";
    // The first request as well, from which Galley learns that the page varies. Its page is stored for others.
    for _ in 0..3 {
        let passed = get("/data", turtle);
        assert_eq!(
            passed.cache_status(),
            "galley; fwd=vary-miss; detail=accept"
        );
        assert_eq!(page_value(&passed.text(), "HTTP_ACCEPT"), turtle);
    }
    wait_for("the page to be stored", TIMEOUT, || {
        get("/data", "text/html").is_hit()
    });
    let geo = "application/geo+json, text/html;q=0.1";
    let passed = get("/data", geo);
    assert_eq!(
        passed.cache_status(),
        "galley; fwd=vary-miss; detail=accept"
    );
    assert_eq!(page_value(&passed.text(), "HTTP_ACCEPT"), geo);
    // JSON itself has a copy, which the passed response has not replaced.
    get("/data", "application/json");
    let json = get("/data", "application/json;q=0.9, text/html;q=0.1");
    assert!(json.is_hit());
    assert_eq!(page_value(&json.text(), "HTTP_ACCEPT"), "application/json");
    // Without `Vary`, a page serves all types, and however many values clients send, a page has at most four copies.
    let before = site.runs("/x");
    for n in 0..40 {
        let unknown = format!("text/x-{n}, application/x-{n};q=0.5");
        let json = format!("application/vnd.{n}+json, text/html;q=0.{n}");
        for accept in [
            unknown.as_str(),
            &json,
            "text/markdown",
            "application/ld+json",
        ] {
            get("/x", accept);
        }
    }
    assert_eq!(site.runs("/x"), before + 4);
}
