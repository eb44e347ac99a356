//! `why`: what it says is what happens, it changes nothing, and it keeps secrets.

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{A, SERVER, Stage, TIMEOUT, word};

#[test]
fn a_hit_is_explained_and_not_counted() {
    let stage = Stage::start("");
    stage.get("/page/?utm_source=x&b=2&a=1");
    wait_for("the page in memory", TIMEOUT, || {
        word(&stage.get("/page/?a=1&b=2")) == "hit"
    });
    let asked = stage.origin.requests().len();
    let before = stage.why("https://a.test/page/?b=2&a=1&fbclid=z#part", &[]);
    let after = stage.why("https://a.test/page/?b=2&a=1", &[]);
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
    assert_eq!(entry["standing"], "valid");
    assert_eq!(entry["lifetime_s"], 600);
    assert_eq!(entry["url"], "http://a.test/page/?a=1&b=2");
    assert_eq!(entry["tags"], serde_json::json!(["t6"]));
    assert_eq!(entry["hits"], after["entry"]["hits"], "looking is no hit");
    assert_eq!(stage.origin.requests().len(), asked, "nothing was composed");
}

#[test]
fn a_miss_shows_the_request_that_would_go_up() {
    let stage = Stage::start("vary_cookies = [\"currency\"]");
    let cookies = ("Cookie", "currency=EURSECRET; _ga=GASECRET");
    let why = stage.why("http://a.test/new/?z=1&utm_medium=m", &[cookies]);
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
    assert!(stage.origin.requests().is_empty());
    // What it said would go up is what goes up.
    stage.ask(Request::get("/new/?z=1&utm_medium=m").cookie("currency=EUR; _ga=1"));
    let seen = stage.origin.requests();
    assert_eq!(seen[0].target, "/new/?z=1");
    let shown: Vec<String> = upstream["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|field| field[0].as_str().unwrap().to_owned())
        .collect();
    for name in &shown {
        assert!(
            seen[0].field(name).is_some(),
            "`{name}` was shown and not sent"
        );
    }
}

#[test]
fn a_pass_by_cookie_names_it_and_keeps_its_value() {
    let stage = Stage::start("");
    let headers = [
        ("Cookie", "_ga=1; wordpress_logged_in_x=VALUESECRET"),
        ("Authorization", "Basic VALUESECRET"),
        ("X-Api-Key", "VALUESECRET"),
    ];
    for count in [1, 2, 3] {
        let why = stage.why("http://a.test/page/", &headers[..count]);
        let text = why.to_string();
        assert!(!text.contains("VALUESECRET"), "{text}");
        assert_eq!(why["now"]["what"], "pass");
        assert_eq!(why["now"]["upstream"]["form"], "whole");
        let word = if count == 1 {
            "cookie"
        } else {
            "authorization"
        };
        assert_eq!(why["gate"]["why"], word);
        assert_eq!(why["entry"], serde_json::Value::Null);
    }
    let why = stage.why("http://a.test/page/", &headers[..1]);
    let advice = why["advice"]["why"].as_str().unwrap();
    assert!(advice.contains("`wordpress_logged_in_x`"), "{advice}");
    for json in [&["--json"][..], &[]] {
        let arguments = [
            &["why", "http://a.test/page/"][..],
            &["-H", "Cookie: wordpress_logged_in_x=VALUESECRET"],
            &["-H", "Authorization: Basic VALUESECRET"],
            json,
        ];
        let printed = stage.command(&arguments.concat());
        assert!(!printed.contains("VALUESECRET"), "{printed}");
        assert!(printed.contains("wordpress_logged_in_x"), "{printed}");
    }
}

#[test]
fn an_unstorable_page_names_its_cookie() {
    let stage = Stage::start("");
    let before = stage.why("http://a.test/session/", &[]);
    assert_eq!(before["now"]["what"], "miss");
    assert_eq!(word(&stage.get("/session/")), "miss");
    wait_for("the marker", TIMEOUT, || {
        word(&stage.get("/session/")) == "pass"
    });
    let why = stage.why("http://a.test/session/", &[]);
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
    let printed = stage.command(&["why", "http://a.test/session/"]);
    assert!(
        printed.contains("the page sets the cookie `PHPSESSID`"),
        "{printed}"
    );
    assert!(!printed.contains("topsecret"), "{printed}");
}

#[test]
fn the_fields_of_the_response_are_quoted() {
    let stage = Stage::start("");
    stage.get("/private/");
    wait_for("the marker", TIMEOUT, || {
        word(&stage.get("/private/")) == "pass"
    });
    let why = stage.why("http://a.test/private/", &[]);
    assert_eq!(why["not_stored"]["why"], "private");
    let advice = why["advice"]["why"].as_str().unwrap();
    assert_eq!(
        advice,
        "its response has `cache-control: private, max-age=600`"
    );
}

/// Advice that changes nothing costs its reader an hour: what is advised is done, and the page is stored then.
#[test]
fn what_is_advised_against_an_unstored_page_helps() {
    let advised = |lines: &str, path: &str| {
        let stage = Stage::start(lines);
        stage.get(path);
        let url = format!("http://a.test{path}");
        wait_for("what became of the page", TIMEOUT, || {
            stage.why(&url, &[])["advice"]["why"] != "nothing is stored for this address"
        });
        let why = stage.why(&url, &[]);
        let second = word(&stage.get(path)) == "hit";
        let advice = why["advice"]["do"].as_str().unwrap_or("nothing");
        (advice.to_owned(), second)
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
        // Nothing helps, so nothing is advised.
        ("/moved/", "nothing", ""),
    ] {
        let (advice, is_stored) = advised("", path);
        assert!(!is_stored && advice.contains(words), "{path}: {advice}");
        if !lines.is_empty() {
            let (advice, is_stored) = advised(lines, path);
            assert!(is_stored, "{path}: advised `{words}`, then {advice}");
        }
    }
}

#[test]
fn a_page_that_left_no_marker_is_explained_too() {
    let stage = Stage::start("");
    stage.get("/empty/");
    let mut why = serde_json::Value::Null;
    wait_for("the note", TIMEOUT, || {
        why = stage.why("http://a.test/empty/", &[]);
        !why["not_stored_lately"].is_null()
    });
    assert_eq!(why["not_stored_lately"]["why"], "error-page");
    assert_eq!(why["now"]["what"], "miss");
    let advice = why["advice"]["why"].as_str().unwrap();
    assert!(advice.contains("error"), "{advice}");
}

#[test]
fn files_folders_and_closed_names() {
    let stage = Stage::start("");
    for (target, what, kind) in [
        ("/style.css", "file", "file"),
        ("/.env", "refused", "denied"),
        ("/nothing", "miss", "missing"),
    ] {
        let why = stage.why(&format!("http://a.test{target}"), &[]);
        assert_eq!(why["now"]["what"], what, "{target}: {why}");
        assert_eq!(why["file"]["kind"], kind, "{target}");
    }
    let why = stage.why("http://a.test/style.css", &[]);
    assert_eq!(why["file"]["bytes"], 6);
    let why = stage.why("http://x.b.test/style.css", &[]);
    assert_eq!(why["file"]["kind"], "no-root");
    assert_eq!(why["site"]["host_pattern"], "*.b.test");
}

#[test]
fn an_unknown_host_is_reported_and_bad_requests_are_rejected() {
    let stage = Stage::start("");
    let why = stage.why("https://nobody.test/", &[]);
    assert_eq!(why["now"]["why"], "unknown-host");
    assert_eq!(why["now"]["status"], 421);
    assert_eq!(why["site"], serde_json::Value::Null);
    assert!(why["advice"]["do"].as_str().unwrap().contains("`hosts`"));
    assert!(
        stage
            .command(&["why", "nobody.test/"])
            .contains("no site has this host")
    );
    let why = stage.why("http://a.test/a%00b", &[]);
    assert_eq!(why["now"]["why"], "bad-request");
    for (url, header) in [
        ("/page", ("X", "y")),
        ("http://a.test/", ("X: y", "z")),
        ("http://a.test/", ("X", "y\r\nZ: z")),
        ("http://a.test/\r\nX: y", ("X", "y")),
    ] {
        let answer = stage.why_as(SERVER, "GET", url, &[header]);
        assert_eq!(answer.status, 400, "{url} {header:?}: {}", answer.text());
    }
}

#[test]
fn a_purged_page_names_the_order() {
    let stage = Stage::start("");
    let is_hit = || word(&stage.get("/page/")) == "hit";
    wait_for("the page in memory", TIMEOUT, is_hit);
    stage.command(&["purge", "--url", "http://a.test/other/"]);
    let why = stage.why("http://a.test/page/", &[]);
    assert_eq!(why["now"]["what"], "hit");
    assert_eq!(why["purges"]["published"], 1);
    assert_eq!(why["purges"]["touching"], serde_json::Value::Null);
    stage.command(&["purge", "--url", "http://a.test/page/"]);
    let why = stage.why("http://a.test/page/", &[]);
    assert_eq!(why["now"]["what"], "miss", "{why}");
    let order = serde_json::json!({ "number": 2, "kind": "url", "strength": "hard" });
    assert_eq!(why["purges"]["touching"], order);
    // Whether it is still there depends on the sweeper; it is never called valid.
    assert_ne!(why["entry"]["standing"], "valid");
    let advice = why["advice"]["why"].as_str().unwrap();
    assert!(advice.contains("purge number 2 (by url)"), "{advice}");
}

#[test]
fn a_softly_purged_page_is_stale_and_refreshed() {
    let stage = Stage::start("");
    wait_for("the page in memory", TIMEOUT, || {
        word(&stage.get("/brief/")) == "hit"
    });
    stage.command(&["purge", "--soft", "--tag", "t0"]);
    let why = stage.why("http://a.test/brief/", &[]);
    assert_eq!(why["entry"]["tags"], serde_json::json!(["t0"]));
    assert_eq!(why["now"]["what"], "stale", "{why}");
    assert_eq!(why["entry"]["standing"], "soft-purged");
    assert_eq!(why["purges"]["touching"]["kind"], "tag");
    assert_eq!(why["now"]["upstream"]["form"], "trimmed");
}

#[test]
fn what_it_says_is_what_happens() {
    let stage = Stage::start(
        "bypass_cookies = [\"member*\"]\n[[site.rule]]\npath = \"/never*\"\ncache = false\n\
         [[site.rule]]\npath = \"/free*\"\nignore = [\"cookie\"]",
    );
    let cookie = ("Cookie", "member_1=x");
    /// Method, target, headers.
    type Row<'t> = (&'t str, &'t str, &'t [(&'t str, &'t str)]);
    let table: &[Row<'_>] = &[
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
            let why = stage.why_of(method, &format!("http://a.test{target}"), headers);
            let mut request = Request::new(method, target);
            for (name, value) in *headers {
                request = request.field(name, value);
            }
            let answer = stage.ask(request);
            let said = why["now"]["what"].as_str().unwrap();
            assert_eq!(said, word(&answer), "{method} {target} {headers:?}: {why}");
            if let Some(status) = why["now"]["status"].as_u64() {
                assert_eq!(status, u64::from(answer.status), "{method} {target}");
            }
            // A page is stored a moment after it was sent.
            if said == "miss" {
                wait_for("what was composed to be kept or not", TIMEOUT, || {
                    let again = stage.why_of(method, &format!("http://a.test{target}"), headers);
                    again["now"]["what"] != "miss"
                });
            }
        }
    }
}

#[test]
fn a_site_token_explains_its_own_site_only() {
    let stage = Stage::start("");
    let status = |url: &str, headers: &[(&str, &str)]| stage.why_as(A, "GET", url, headers).status;
    assert_eq!(status("http://a.test/", &[]), 200);
    assert_eq!(status("http://x.b.test/", &[]), 403);
    assert_eq!(status("http://nobody.test/", &[]), 403);
    assert_eq!(status("http://a.test/", &[("Host", "x.b.test")]), 403);
    let answer = stage.why_as("another-token-0123456789", "GET", "http://a.test/", &[]);
    assert_eq!(answer.status, 401);
}

#[test]
fn variants_of_a_page_are_explained_as_they_are_served() {
    let stage = Stage::start("preset = \"none\"");
    let german = || Request::get("/languages/").field("Accept-Language", "de");
    wait_for("the variant in memory", TIMEOUT, || {
        word(&stage.ask(german())) == "hit"
    });
    let why = stage.why("http://a.test/languages/", &[("Accept-Language", "de")]);
    assert_eq!(why["now"]["what"], "hit", "{why}");
    assert_eq!(why["entry"]["kind"], "page", "{why}");
}
