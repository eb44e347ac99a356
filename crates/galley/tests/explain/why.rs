//! `why` predicts the response, changes nothing, and reveals no secrets.

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{SERVER_TOKEN, SITE_TOKEN, TIMEOUT, TestServer, outcome};

#[test]
fn a_hit_is_explained_and_not_counted() {
    let server = TestServer::start("");
    server.get("/page/?utm_source=x&b=2&a=1");
    wait_for("the page in memory", TIMEOUT, || {
        outcome(&server.get("/page/?a=1&b=2")) == "hit"
    });
    let request_count = server.origin.requests().len();
    let before = server.why("https://a.test/page/?b=2&a=1&fbclid=z#part", &[]);
    let after = server.why("https://a.test/page/?b=2&a=1", &[]);
    assert_eq!(before["now"]["what"], "hit", "{before}");
    assert_eq!(before["now"]["upstream"], serde_json::Value::Null);
    assert_eq!(before["advice"], serde_json::Value::Null);
    assert_eq!(before["request"]["query"], "a=1&b=2");
    assert_eq!(before["request"]["dropped_query"], "fbclid=z");
    assert_eq!(before["site"]["host_pattern"], "a.test");
    assert_eq!(before["key"]["path"], "/page/");
    assert_eq!(before["gate"]["open"], true);
    let entry = &before["entry"];
    assert_eq!(entry["kind"], "page");
    assert_eq!(entry["validity"], "valid");
    assert_eq!(entry["lifetime_s"], 600);
    assert_eq!(entry["url"], "http://a.test/page/?a=1&b=2");
    assert_eq!(entry["tags"], serde_json::json!(["t6"]));
    assert_eq!(
        entry["hits"], after["entry"]["hits"],
        "`why` does not count as a hit"
    );
    assert_eq!(
        server.origin.requests().len(),
        request_count,
        "the upstream received no request"
    );
}

#[test]
fn a_miss_shows_the_request_that_is_sent_upstream() {
    let server = TestServer::start("vary_cookies = [\"currency\"]");
    let cookies = ("Cookie", "currency=EURSECRET; _ga=GASECRET");
    let why = server.why("http://a.test/new/?z=1&utm_medium=m", &[cookies]);
    assert_eq!(why["now"]["what"], "miss", "{why}");
    assert_eq!(why["entry"], serde_json::Value::Null);
    let upstream = &why["now"]["upstream"];
    assert_eq!(upstream["form"], "trimmed");
    assert_eq!(upstream["kind"], "http");
    assert_eq!(upstream["line"], "GET /new/?z=1 HTTP/1.1");
    let fields = upstream["fields"].to_string();
    assert!(
        fields.contains("currency=…") && !fields.contains("_ga"),
        "{fields}"
    );
    let classes: Vec<_> = why["cookies"].as_array().unwrap().iter().collect();
    assert_eq!(classes[0]["class"], "vary");
    assert_eq!(classes[0]["by"], "vary_cookies `currency`");
    assert_eq!(classes[1]["class"], "ignored");
    assert_eq!(why["key"]["vary_cookies"], serde_json::json!(["currency"]));
    assert!(!why.to_string().contains("SECRET"), "{why}");
    assert!(server.origin.requests().is_empty());
    // The upstream receives the request that `why` has shown.
    server.send(Request::get("/new/?z=1&utm_medium=m").cookie("currency=EUR; _ga=1"));
    let requests = server.origin.requests();
    assert_eq!(requests[0].target, "/new/?z=1");
    let shown: Vec<String> = upstream["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field[0].as_str().unwrap().to_owned())
        .collect();
    for name in &shown {
        assert!(
            requests[0].field(name).is_some(),
            "`{name}` was shown but not sent"
        );
    }
}

#[test]
fn a_pass_names_the_cookie_without_its_value() {
    let server = TestServer::start("");
    let headers = [
        ("Cookie", "_ga=1; wordpress_logged_in_x=VALUESECRET"),
        ("Authorization", "Basic VALUESECRET"),
        ("X-Api-Key", "VALUESECRET"),
    ];
    for count in [1, 2, 3] {
        let why = server.why("http://a.test/page/", &headers[..count]);
        let text = why.to_string();
        assert!(!text.contains("VALUESECRET"), "{text}");
        assert_eq!(why["now"]["what"], "pass");
        assert_eq!(why["now"]["upstream"]["form"], "full");
        let reason = if count == 1 {
            "cookie"
        } else {
            "authorization"
        };
        assert_eq!(why["gate"]["why"], reason);
        assert_eq!(why["entry"], serde_json::Value::Null);
    }
    let why = server.why("http://a.test/page/", &headers[..1]);
    let advice = why["advice"]["why"].as_str().unwrap();
    assert!(advice.contains("`wordpress_logged_in_x`"), "{advice}");
    for json in [&["--json"][..], &[]] {
        let arguments = [
            &["why", "http://a.test/page/"][..],
            &["-H", "Cookie: wordpress_logged_in_x=VALUESECRET"],
            &["-H", "Authorization: Basic VALUESECRET"],
            json,
        ];
        let printed = server.command(&arguments.concat());
        assert!(!printed.contains("VALUESECRET"), "{printed}");
        assert!(printed.contains("wordpress_logged_in_x"), "{printed}");
    }
}

#[test]
fn an_unstorable_page_names_its_cookie() {
    let server = TestServer::start("");
    let before = server.why("http://a.test/session/", &[]);
    assert_eq!(before["now"]["what"], "miss");
    assert_eq!(outcome(&server.get("/session/")), "miss");
    wait_for("the hit-for-pass object", TIMEOUT, || {
        outcome(&server.get("/session/")) == "pass"
    });
    let why = server.why("http://a.test/session/", &[]);
    assert_eq!(why["now"]["what"], "pass");
    assert_eq!(why["now"]["why"], "remembered");
    assert_eq!(why["entry"]["kind"], "hit-for-pass");
    assert_eq!(why["not_stored"]["why"], "set-cookie");
    assert_eq!(
        why["not_stored"]["cookies"],
        serde_json::json!(["PHPSESSID"])
    );
    assert_eq!(why["advice"]["why"], "the page sets the cookie `PHPSESSID`");
    let advice = why["advice"]["do"].as_str().unwrap();
    assert!(advice.contains("`harmless_cookies`"), "{advice}");
    assert!(!why.to_string().contains("topsecret"), "{why}");
    let printed = server.command(&["why", "http://a.test/session/"]);
    assert!(
        printed.contains("the page sets the cookie `PHPSESSID`"),
        "{printed}"
    );
    assert!(!printed.contains("topsecret"), "{printed}");
}

#[test]
fn advice_quotes_the_response_field_that_prevents_storing() {
    let server = TestServer::start("");
    server.get("/private/");
    wait_for("the hit-for-pass object", TIMEOUT, || {
        outcome(&server.get("/private/")) == "pass"
    });
    let why = server.why("http://a.test/private/", &[]);
    assert_eq!(why["not_stored"]["why"], "private");
    let advice = why["advice"]["why"].as_str().unwrap();
    assert_eq!(
        advice,
        "its response has `cache-control: private, max-age=600`"
    );
}

/// Follows the advice of `why` and checks that the page is stored then.
#[test]
fn advice_for_an_unstored_page_makes_it_storable() {
    let advice_and_result = |lines: &str, path: &str| {
        let server = TestServer::start(lines);
        server.get(path);
        let url = format!("http://a.test{path}");
        wait_for("a stored page or a reason", TIMEOUT, || {
            server.why(&url, &[])["advice"]["why"] != "nothing is stored for this address"
        });
        let why = server.why(&url, &[]);
        let is_stored = outcome(&server.get(path)) == "hit";
        let advice = why["advice"]["do"].as_str().unwrap_or("nothing");
        (advice.to_owned(), is_stored)
    };
    let rule =
        "[[site.rule]]\npath = \"/*\"\nttl = \"1h\"\nignore = [\"cache-control\", \"expires\"]";
    let status = "[site.ttl]\n\"418\" = \"1h\"";
    for (path, words, lines) in [
        (
            "/nocache/",
            "`ignore = [\"cache-control\", \"expires\"]` and a `ttl`",
            rule,
        ),
        (
            "/expired/",
            "`ignore = [\"cache-control\", \"expires\"]` and a `ttl`",
            rule,
        ),
        ("/teapot/", "name the status in `[site.ttl]`", status),
        // No configuration helps, so there is no advice.
        ("/moved/", "nothing", ""),
    ] {
        let (advice, is_stored) = advice_and_result("", path);
        assert!(!is_stored && advice.contains(words), "{path}: {advice}");
        if !lines.is_empty() {
            let (advice, is_stored) = advice_and_result(lines, path);
            assert!(is_stored, "{path}: followed `{words}`, then {advice}");
        }
    }
}

#[test]
fn an_unstored_page_without_a_hit_for_pass_object_is_explained() {
    let server = TestServer::start("");
    server.get("/empty/");
    let mut why = serde_json::Value::Null;
    wait_for("the recorded reason", TIMEOUT, || {
        why = server.why("http://a.test/empty/", &[]);
        !why["last_not_stored"].is_null()
    });
    assert_eq!(why["last_not_stored"]["why"], "error-page");
    assert_eq!(why["now"]["what"], "miss");
    let advice = why["advice"]["why"].as_str().unwrap();
    assert!(advice.contains("error"), "{advice}");
}

#[test]
fn static_files_and_denied_names_are_explained() {
    let server = TestServer::start("");
    for (target, what, kind) in [
        ("/style.css", "file", "file"),
        ("/.env", "refused", "denied"),
        ("/nothing", "miss", "missing"),
    ] {
        let why = server.why(&format!("http://a.test{target}"), &[]);
        assert_eq!(why["now"]["what"], what, "{target}: {why}");
        assert_eq!(why["file"]["kind"], kind, "{target}");
    }
    let why = server.why("http://a.test/style.css", &[]);
    assert_eq!(why["file"]["bytes"], 6);
    let why = server.why("http://x.b.test/style.css", &[]);
    assert_eq!(why["file"]["kind"], "no-root");
    assert_eq!(why["site"]["host_pattern"], "*.b.test");
}

#[test]
fn an_unknown_host_is_reported_and_bad_requests_are_rejected() {
    let server = TestServer::start("");
    let why = server.why("https://nobody.test/", &[]);
    assert_eq!(why["now"]["why"], "unknown-host");
    assert_eq!(why["now"]["status"], 421);
    assert_eq!(why["site"], serde_json::Value::Null);
    assert!(why["advice"]["do"].as_str().unwrap().contains("`hosts`"));
    assert!(
        server
            .command(&["why", "nobody.test/"])
            .contains("no site has this host")
    );
    let why = server.why("http://a.test/a%00b", &[]);
    assert_eq!(why["now"]["why"], "bad-request");
    for (url, header) in [
        ("/page", ("X", "y")),
        ("http://a.test/", ("X: y", "z")),
        ("http://a.test/", ("X", "y\r\nZ: z")),
        ("http://a.test/\r\nX: y", ("X", "y")),
    ] {
        let response = server.why_with_token(SERVER_TOKEN, "GET", url, &[header]);
        assert_eq!(
            response.status,
            400,
            "{url} {header:?}: {}",
            response.text()
        );
    }
}

#[test]
fn a_purged_page_names_the_purge() {
    let server = TestServer::start("");
    let is_hit = || outcome(&server.get("/page/")) == "hit";
    wait_for("the page in memory", TIMEOUT, is_hit);
    server.command(&["purge", "--url", "http://a.test/other/"]);
    let why = server.why("http://a.test/page/", &[]);
    assert_eq!(why["now"]["what"], "hit");
    assert_eq!(why["purges"]["published"], 1);
    assert_eq!(why["purges"]["touching"], serde_json::Value::Null);
    server.command(&["purge", "--url", "http://a.test/page/"]);
    let why = server.why("http://a.test/page/", &[]);
    assert_eq!(why["now"]["what"], "miss", "{why}");
    let purge = serde_json::json!({ "number": 2, "kind": "url", "strength": "hard" });
    assert_eq!(why["purges"]["touching"], purge);
    // The entry may have been removed already. It is never valid.
    assert_ne!(why["entry"]["validity"], "valid");
    let advice = why["advice"]["why"].as_str().unwrap();
    assert!(advice.contains("purge number 2 (by url)"), "{advice}");
}

#[test]
fn a_soft_purged_page_is_stale_and_refreshed() {
    let server = TestServer::start("");
    wait_for("the page in memory", TIMEOUT, || {
        outcome(&server.get("/brief/")) == "hit"
    });
    server.command(&["purge", "--soft", "--tag", "t0"]);
    let why = server.why("http://a.test/brief/", &[]);
    assert_eq!(why["entry"]["tags"], serde_json::json!(["t0"]));
    assert_eq!(why["now"]["what"], "stale", "{why}");
    assert_eq!(why["entry"]["validity"], "soft-purged");
    assert_eq!(why["purges"]["touching"]["kind"], "tag");
    assert_eq!(why["now"]["upstream"]["form"], "trimmed");
}

#[test]
fn why_predicts_outcome_and_status_of_each_kind_of_request() {
    let server = TestServer::start(
        "bypass_cookies = [\"member*\"]\n[[site.rule]]\npath = \"/never*\"\ncache = false\n\
         [[site.rule]]\npath = \"/free*\"\nignore = [\"cookie\"]",
    );
    let cookie = ("Cookie", "member_1=x");
    /// Method, target, headers.
    type RequestParts<'t> = (&'t str, &'t str, &'t [(&'t str, &'t str)]);
    let table: &[RequestParts<'_>] = &[
        ("GET", "/one/", &[]),
        ("GET", "/one/", &[("Cookie", "_ga=2")]),
        ("HEAD", "/one/", &[]),
        ("POST", "/one/", &[("Content-Length", "0")]),
        ("GET", "/one/", &[cookie]),
        ("GET", "/free/", &[cookie]),
        ("GET", "/free/", &[]),
        ("GET", "/never/", &[]),
        ("GET", "/one/?preview=true", &[]),
        ("GET", "/one/", &[("X-Requested-With", "XMLHttpRequest")]),
        ("GET", "/one/", &[("Origin", "https://other.test")]),
        ("GET", "/one/", &[("Accept", "application/json")]),
        ("GET", "/wp-admin/", &[]),
        ("GET", "/style.css", &[]),
        ("GET", "/.env", &[]),
        ("GET", "/folder/.git/config", &[]),
        ("GET", "/not-yet/", &[("Cache-Control", "only-if-cached")]),
        ("GET", "/session/", &[]),
        ("GET", "/a%5cb", &[]),
        ("TRACE", "/one/", &[]),
        ("PURGE", "/else/", &[]),
        ("GET", "/one/", &[("Host", "x.b.test")]),
        ("GET", "/one/", &[("Host", "nobody.test")]),
    ];
    for (method, target, headers) in table {
        for _ in 0..2 {
            let why = server.why_for_method(method, &format!("http://a.test{target}"), headers);
            let mut request = Request::new(method, target);
            for (name, value) in *headers {
                request = request.field(name, value);
            }
            let response = server.send(request);
            let predicted = why["now"]["what"].as_str().unwrap();
            assert_eq!(
                predicted,
                outcome(&response),
                "{method} {target} {headers:?}: {why}"
            );
            if let Some(status) = why["now"]["status"].as_u64() {
                assert_eq!(status, u64::from(response.status), "{method} {target}");
            }
            // A page is stored shortly after it was sent.
            if predicted == "miss" {
                wait_for("the page to be stored or not", TIMEOUT, || {
                    let again =
                        server.why_for_method(method, &format!("http://a.test{target}"), headers);
                    again["now"]["what"] != "miss"
                });
            }
        }
    }
}

#[test]
fn a_site_token_explains_only_its_site() {
    let server = TestServer::start("");
    let status = |url: &str, headers: &[(&str, &str)]| {
        server
            .why_with_token(SITE_TOKEN, "GET", url, headers)
            .status
    };
    assert_eq!(status("http://a.test/", &[]), 200);
    assert_eq!(status("http://x.b.test/", &[]), 403);
    assert_eq!(status("http://nobody.test/", &[]), 403);
    assert_eq!(status("http://a.test/", &[("Host", "x.b.test")]), 403);
    let response = server.why_with_token("another-token-0123456789", "GET", "http://a.test/", &[]);
    assert_eq!(response.status, 401);
}

#[test]
fn variants_of_a_page_are_explained() {
    let server = TestServer::start("preset = \"none\"");
    let german = || Request::get("/languages/").field("Accept-Language", "de");
    wait_for("the variant in memory", TIMEOUT, || {
        outcome(&server.send(german())) == "hit"
    });
    let why = server.why("http://a.test/languages/", &[("Accept-Language", "de")]);
    assert_eq!(why["now"]["what"], "hit", "{why}");
    assert_eq!(why["entry"]["kind"], "page", "{why}");
}

#[test]
fn a_purge_is_not_said_to_have_removed_a_page_that_never_was() {
    let server = TestServer::start("");
    let never = || server.why("http://a.test/never/", &[])["advice"].clone();
    assert_eq!(never()["id"], "missed-nothing");
    server.command(&["purge", "--all"]);
    let advice = never();
    assert_eq!(advice["id"], "missed-or-purged", "{advice}");
    let why = advice["why"].as_str().unwrap();
    assert!(
        why.starts_with("nothing is stored for this address; if a page was, purge number"),
        "{why}"
    );
    assert!(!advice["do"].is_null(), "{advice}");
}
