//! What a site's file changes about keeping pages.

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{Is, PATIENCE, Plan, Stage, said};

fn hits(stage: &Stage, page: &str) -> bool {
    stage.get(page);
    stage.get(page).is_hit()
}

#[test]
fn a_rule_can_forbid_and_can_lengthen() {
    let stage = Plan::php()
        .more("[[site.rule]]\npath = \"/never*\"\ncache = false\n")
        .more("[[site.rule]]\npath = \"/week*\"\nttl = \"7d\"\nignore = [\"cache-control\", \"expires\"]\n")
        .more("[[site.rule]]\npath = \"/fills\"\nttl = \"7d\"\n")
        .more("[site.ttl]\ndefault = \"1s\"\nstale_while_revalidate = \"0s\"\n")
        .start();
    for page in ["/never", "/never/x", "/neverland"] {
        assert!(!hits(&stage, page), "{page}");
        assert_eq!(
            stage.get(page).cache_status(),
            "galley; fwd=bypass; detail=rule"
        );
    }
    stage.head(
        "/week/a",
        &["Cache-Control: no-store, private", "Expires: 0"],
    );
    stage.head("/week/b", &["Cache-Control: max-age=0"]);
    stage.head("/week/c", &["Set-Cookie: a=b"]);
    stage.head("/fills", &[]);
    for page in ["/week/a", "/week/b", "/fills", "/plain"] {
        assert!(hits(&stage, page), "{page}");
    }
    assert!(
        !hits(&stage, "/week/c"),
        "a cookie is not among what is ignored"
    );
    wait_for("the plain page to be stale", PATIENCE, || {
        stage.runs("/plain") > 1 || !stage.get("/plain").is_hit()
    });
    for page in ["/week/a", "/week/b", "/fills"] {
        assert!(stage.get(page).is_hit(), "{page}");
    }
}

#[test]
fn a_rule_can_ignore_cookies_and_vary() {
    let stage = Plan::php()
        .more("[[site.rule]]\npath = \"/set\"\nignore = [\"set-cookie\"]\n")
        .more("[[site.rule]]\npath = \"/cookie\"\nignore = [\"cookie\"]\n")
        .more("[[site.rule]]\npath = \"/vary\"\nignore = [\"vary\"]\n")
        .start();
    stage.head("/set", &["Set-Cookie: session={run}"]);
    stage.get("/set");
    let hit = stage.get("/set");
    assert!(
        hit.is_hit() && !hit.has("set-cookie"),
        "kept without the cookie: {}",
        hit.beginning()
    );
    let first = stage.ask(Request::get("/cookie").cookie("wordpress_logged_in_x=canary"));
    assert!(
        !first.text().contains("canary"),
        "what does not matter is not seen: {}",
        first.text()
    );
    assert!(
        stage
            .ask(Request::get("/cookie").cookie("wordpress_logged_in_x=other"))
            .is_hit()
    );
    assert!(stage.get("/cookie").is_hit());
    stage.head("/vary", &["Vary: X-Tenant"]);
    assert!(hits(&stage, "/vary"));
    assert!(
        stage
            .get("/vary")
            .all("vary")
            .iter()
            .all(|vary| !vary.contains("X-Tenant"))
    );
}

#[test]
fn harmless_cookies_do_not_forbid() {
    let stage = Plan::php()
        .site("harmless_cookies = [\"consent\", \"ab_*\"]")
        .start();
    stage.head("/a", &["Set-Cookie: consent=1", "Set-Cookie: ab_test=2"]);
    stage.head("/b", &["Set-Cookie: consent=1", "Set-Cookie: session=2"]);
    assert!(hits(&stage, "/a"));
    assert!(
        !stage.get("/a").has("set-cookie"),
        "the copy goes without it"
    );
    assert!(!hits(&stage, "/b"));
}

#[test]
fn vary_cookies_make_copies_of_their_own() {
    let stage = Plan::php().site("vary_cookies = [\"currency\"]").start();
    let ask = |cookies: &str| stage.ask(Request::get("/page").cookie(cookies));
    let euro = ask("currency=eur; _ga=1").text();
    assert_eq!(said(&euro, "HTTP_COOKIE"), "currency=eur");
    let dollar = ask("_ga=2; currency=usd").text();
    assert_eq!(said(&dollar, "HTTP_COOKIE"), "currency=usd");
    assert_eq!(ask("currency=eur").text(), euro);
    assert!(ask("x=y; currency=usd").is_hit());
    assert!(
        !stage.get("/page").is_hit(),
        "without the cookie it is a third page"
    );
    assert!(
        !ask("currency=usd; currency=eur").is_hit()
            || ask("currency=usd; currency=eur").text() != euro
    );
    stage.purge(&["--url", "http://example.test/page"]);
    for cookies in ["currency=eur", "currency=usd"] {
        assert!(
            !ask(cookies).is_hit(),
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
        let stage = Plan::php()
            .site(&format!("device_variants = {varies}"))
            .start();
        let ask = |agent: &str| stage.ask(Request::get("/page").field("User-Agent", agent));
        let phone = ask(PHONE);
        assert!(
            !phone.text().contains("canary"),
            "one agent per class: {}",
            phone.text()
        );
        assert_eq!(ask(DESK).is_hit(), !varies);
        assert!(ask(PHONE).is_hit() && ask(DESK).is_hit());
        if varies {
            assert!(phone.text().contains("Mobile") && !ask(DESK).text().contains("Mobile"));
            assert_ne!(ask(DESK).body, phone.body);
        }
    }
}

#[test]
fn without_a_preset_the_rfc_alone_decides() {
    let stage = Plan::php().site("preset = \"none\"").start();
    stage.head("/explicit", &["Cache-Control: max-age=600"]);
    stage.head(
        "/found",
        &["Location: /x", "Cache-Control: max-age=600", "Status: 302"],
    );
    stage.head("/empty", &["Cache-Control: max-age=600", "Status: 204"]);
    stage.head(
        "/personal",
        &["Cache-Control: max-age=600", "Set-Cookie: a=b"],
    );
    stage.head(
        "/agent",
        &["Cache-Control: max-age=600", "Vary: User-Agent"],
    );
    for (page, kept) in [
        ("/explicit", true),
        ("/found", true),
        ("/personal", false),
        ("/agent", false),
    ] {
        assert_eq!(hits(&stage, page), kept, "{page}");
    }
    // A page without a body is one too, and its framing has none.
    let mut connection = stage.connect();
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
        stage
            .ask(Request::get("/explicit").cookie("any=1"))
            .cache_status(),
        "galley; fwd=bypass; detail=cookie"
    );
    assert!(!stage.get("/explicit?utm_source=x").is_hit());
    stage.head("/wp-admin/", &["Cache-Control: max-age=600"]);
    assert!(hits(&stage, "/wp-admin/"));
    assert!(
        !stage.get("/silent").has("cache-control"),
        "nothing is added"
    );
}

#[test]
fn names_of_the_site_add_to_the_preset() {
    let stage = Plan::php()
        .site("bypass_cookies = [\"member*\"]\nignore_query = [\"ref\", \"x_*\"]")
        .start();
    stage.get("/page");
    assert_eq!(
        stage
            .ask(Request::get("/page").cookie("member_7=1"))
            .cache_status(),
        "galley; fwd=bypass; detail=cookie"
    );
    assert!(stage.get("/page?ref=me&x_y=z&utm_source=q").is_hit());
    assert!(!stage.get("/page?reference=me").is_hit());
}

#[test]
fn two_sites_share_nothing() {
    let plan = Plan::php().more("[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}\"\nphp = \"{php}\"\n[site.ttl]\ndefault = \"1h\"\n");
    let stage = plan.start();
    let other = |target: &str| stage.ask(Request::get(target).host("other.test"));
    stage.get("/page").is(200);
    let theirs = other("/page").expect_status(200);
    assert!(!theirs.is_hit() && said(&theirs.text(), "HTTP_HOST") == "other.test");
    assert!(stage.get("/page").is_hit() && other("/page").is_hit());
    stage.purge(&["--site", "other.test", "--all"]);
    assert!(stage.get("/page").is_hit(), "the other site's purge");
    assert!(!other("/page").is_hit());
    // The port that was asked for is part of the page, since PHP makes addresses of it.
    let with_port = stage.ask(Request::get("/page").host("example.test:8080"));
    assert!(
        !with_port.is_hit() || said(&with_port.text(), "HTTP_HOST") == "example.test:8080",
        "{}",
        with_port.text()
    );
}

#[test]
fn json_and_pages_have_separate_entries() {
    let stage = Plan::php().start();
    let page = stage
        .ask(Request::get("/x").field("Accept", "text/html"))
        .text();
    let json = stage.ask(Request::get("/x").field("Accept", "application/json"));
    assert!(!json.is_hit());
    assert_eq!(said(&json.text(), "HTTP_ACCEPT"), "application/json");
    assert!(said(&page, "HTTP_ACCEPT").starts_with("text/html"));
    assert!(
        stage
            .ask(Request::get("/x").field("Accept", "application/ld+json, application/json;q=0.5"))
            .is_hit()
    );
    assert!(stage.get("/x").is_hit());
    stage.get("/x").is(200);
}
