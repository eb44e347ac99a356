//! What the views are made of: live events, reasons, purges, and texts from outside.

use std::io::{BufRead, BufReader};

use galley_testkit::client::{Connection, Request};
use galley_testkit::origin::Origin;
use galley_testkit::{Scratch, wait_for};
use serde_json::{Value, json};

use crate::stage::{Dashboard, MARKUP, Session, Stage, TIMEOUT, parsed};

/// The first sample of a page that listens.
fn sample(dashboard: &Dashboard, session: &Session) -> Value {
    let mut connection = Connection::open(dashboard.addr).unwrap();
    connection
        .send(&session.on(Request::get("/api/live")))
        .unwrap();
    let lines = BufReader::new(connection.stream()).lines();
    let mut data = lines.map_while(Result::ok);
    // In chunks, whose lengths stand between.
    let line = data.find(|line| line.starts_with("data: ")).unwrap();
    serde_json::from_str(line.trim_start_matches("data: ")).unwrap()
}

#[test]
fn live_figures_come_by_themselves_and_pages_are_bounded() {
    let stage = Stage::start();
    stage.store("a.test", "/");
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    let event = sample(&dashboard, &session);
    assert_eq!(event["ok"], true, "{event}");
    assert_eq!(event["status"]["sites"][0]["name"], "a.test");
    assert!(event["status"]["answers"]["hit"].as_u64() >= Some(1));
    let mut open = Vec::new();
    let refused = (0..40).find_map(|_| {
        let mut connection = Connection::open(dashboard.addr).unwrap();
        let request = session.on(Request::get("/api/live"));
        connection.send(&request).unwrap();
        let mut line = String::new();
        BufReader::new(connection.stream())
            .read_line(&mut line)
            .unwrap();
        open.push(connection);
        line.contains("503").then_some(open.len())
    });
    assert!(
        refused.is_some_and(|at| (10..=17).contains(&at)),
        "{refused:?}"
    );
    // Who leaves makes room.
    drop(open);
    assert_eq!(sample(&dashboard, &session)["ok"], true);
}

#[test]
fn all_pages_share_one_sampler() {
    let json = [("Content-Type", "application/json")];
    let admin = Origin::constant(&json, "{}").unwrap();
    let scratch = Scratch::new().unwrap();
    let token = scratch.write("token", "some-token-0123456789").unwrap();
    let mut dashboard = Dashboard::start(&admin.url(), &token);
    let session = dashboard.log_in();
    let before = admin.count("/status");
    std::thread::scope(|threads| {
        for _ in 0..10 {
            threads.spawn(|| {
                for _ in 0..2 {
                    assert_eq!(sample(&dashboard, &session)["ok"], true);
                }
            });
        }
    });
    // Each page has seen two samples, twenty in all; some began just after one.
    let asked = admin.count("/status") - before;
    assert!((2..10).contains(&asked), "{asked}");
}

#[test]
fn reasons_have_counts_sentences_and_pages() {
    let stage = Stage::start();
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    for _ in 0..3 {
        stage.get("a.test", "/cart/");
    }
    let login = Request::get("/").host("a.test");
    let login = login.cookie("wordpress_logged_in_x=1");
    login.send(stage.galley.addr()).unwrap();
    // A request is counted a moment after its response has been sent.
    let not_cached = || dashboard.json(&session, "/api/not-cached?site=a.test");
    wait_for("four requests", TIMEOUT, || {
        not_cached()["sites"][0]["requests"] == 4
    });
    let answer = not_cached();
    let reasons = answer["sites"][0]["reasons"].as_array().unwrap();
    let of = |word: &str| reasons.iter().find(|reason| reason["word"] == word);
    for word in ["remembered", "cookie", "no-store"] {
        let reason = of(word).unwrap_or_else(|| panic!("{word}: {answer}"));
        assert!(reason["requests"].as_u64() >= Some(1), "{reason}");
        assert!(reason["why"].as_str().unwrap().len() > 10, "{reason}");
    }
    let markers = dashboard.json(&session, "/api/cache?site=a.test&kind=hit-for-pass");
    let cart = &markers["entries"][0];
    assert!(
        cart["url"].as_str().unwrap().ends_with("a.test/cart/"),
        "{markers}"
    );
    assert_eq!(cart["not_stored"]["word"], "no-store");
    assert!(cart["not_stored"]["do"].is_string(), "{cart}");
    let pages = dashboard.json(&session, "/api/cache?kind=page");
    assert_eq!(pages["entries"].as_array().unwrap().len(), 0, "{pages}");
    let wrong = session.on(Request::get("/api/cache?kind=x"));
    dashboard.gets(wrong, 400);
}

#[test]
fn purges_are_listed_with_their_source() {
    let stage = Stage::start();
    stage.store("a.test", "/one/");
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    let url = "http://a.test/one/";
    let order = json!({ "urls": [url], "site": "a.test" });
    let order = session.on(dashboard.order("/api/purge", &order));
    dashboard.gets(order, 200);
    assert!(!stage.get("a.test", "/one/").is_hit());
    let answer = dashboard.json(&session, "/api/purges?site=a.test");
    let newest = &answer["sites"][0]["purges"][0];
    assert_eq!(newest["source"], "admin", "{answer}");
    assert_eq!(newest["strength"], "hard");
    assert!(newest["scope"].as_str().unwrap().contains("a.test/one/"));
    let purge = Request::new("PURGE", "/one/").host("a.test");
    let answer = purge.send(stage.galley.addr()).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.beginning());
    let answer = dashboard.json(&session, "/api/purges?site=a.test");
    let sources = answer["sites"][0]["purges"].as_array().unwrap().iter();
    let sources: Vec<&str> = sources
        .filter_map(|purge| purge["source"].as_str())
        .collect();
    assert_eq!(sources, ["request", "admin"]);
    let others = dashboard.json(&session, "/api/purges?site=b.test");
    assert_eq!(others["sites"][0]["purges"], json!([]));
}

#[test]
fn each_purge_says_how_many_pages_it_took() {
    let stage = Stage::start();
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    let counts = |purges: usize| {
        let mut found = Vec::new();
        wait_for("all purges to be counted", TIMEOUT, || {
            let answer = dashboard.json(&session, "/api/purges?site=a.test");
            let all = answer["sites"][0]["purges"].as_array().unwrap().clone();
            found = all
                .iter()
                .map(|one| (one["pages"].clone(), one["complete"].clone()))
                .collect();
            found.len() == purges && all.iter().all(|one| one["pages"].is_u64())
        });
        found
    };
    let purge = |body: Value| {
        let order = session.on(dashboard.order("/api/purge", &body));
        dashboard.gets(order, 200);
    };
    let sure = |pages: u64| (json!(pages), json!(true));
    for path in ["/one/", "/two/", "/three/?a=b"] {
        stage.store("a.test", path);
    }
    stage.store("b.test", "/other/");
    purge(json!({ "site": "a.test", "prefixes": ["/one/"] }));
    assert_eq!(counts(1), [sure(1)]);
    // Soft, then hard: what the first had left.
    purge(json!({ "site": "a.test", "tags": ["t1"], "soft": true }));
    assert_eq!(counts(2), [sure(2), sure(1)]);
    purge(json!({ "site": "a.test", "all": true }));
    assert_eq!(counts(3), [sure(2), sure(2), sure(1)]);
    // Twice takes nothing, and the other site has its page.
    purge(json!({ "site": "a.test", "all": true }));
    assert_eq!(counts(4)[0], sure(0));
    assert!(stage.get("b.test", "/other/").is_hit());
    // Of many at once each has its own: the first took the page.
    stage.store("a.test", "/one/");
    let tags: Vec<String> = (0..40).map(|number| format!("none{number}")).collect();
    purge(json!({ "site": "a.test", "urls": ["http://a.test/one/"], "tags": tags }));
    let found = counts(45);
    assert_eq!(found.iter().filter(|one| **one == sure(1)).count(), 2);
}

#[test]
fn why_speaks_in_sentences_and_a_comparison_changes_nothing() {
    let stage = Stage::start();
    stage.store("a.test", "/page/");
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    let why = json!({ "url": "http://a.test/page/" });
    let answer = dashboard.send(session.on(dashboard.order("/api/why", &why)));
    let answer = parsed(&answer.expect_status(200));
    assert_eq!(answer["now"]["what"], "hit");
    assert!(answer["now"]["sentence"].as_str().unwrap().len() > 10);
    let config = dashboard.json(&session, "/api/config").to_string();
    for part in ["[cache]", "\\\"64MiB\\\"", "galley.toml:"] {
        assert!(config.contains(part), "{config}");
    }
    let site = dashboard
        .json(&session, "/api/config?site=b.test")
        .to_string();
    assert!(
        site.contains("b.test") && !site.contains("a.test"),
        "{site}"
    );
    // Whatever the page sends, it compares.
    let order = json!({ "compare": false });
    let answer = dashboard.send(session.on(dashboard.order("/api/compare", &order)));
    assert_eq!(parsed(&answer.expect_status(200))["changes"], json!([]));
    let status = dashboard.json(&session, "/api/status");
    assert!(status["last_reload"].is_null(), "{status}");
}

#[test]
fn markup_from_outside_stays_text_in_json() {
    let stage = Stage::start();
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    for path in ["/%3Cscript%3Ealert(1)%3C/script%3E/", "/%22onload=%22x/"] {
        stage.store("a.test", path);
    }
    let answer = dashboard.send(session.on(Request::get("/api/cache?site=a.test")));
    let answer = answer.expect_status(200);
    assert_eq!(answer.field("content-type"), Some("application/json"));
    let entries = parsed(&answer)["entries"].clone();
    assert_eq!(entries.as_array().unwrap().len(), 2, "{entries}");
    let tags = entries[0]["tags"].as_array().unwrap();
    assert!(tags.contains(&json!(MARKUP)), "{entries}");
}

#[test]
fn a_dashboard_outlives_a_server_that_is_away() {
    let mut stage = Stage::start();
    let mut dashboard = stage.dashboard();
    let session = dashboard.log_in();
    stage.galley.stop();
    let answer = dashboard.send(session.on(Request::get("/api/status")));
    let answer = answer.expect_status(502);
    let error = parsed(&answer)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("is it running?"), "{error}");
    assert_eq!(sample(&dashboard, &session)["ok"], false);
}
