//! The JSON API behind the views: live events, reasons, purges, configuration, and untrusted text.

use std::io::{BufRead, BufReader};

use galley_testkit::client::{Connection, Request};
use galley_testkit::origin::Origin;
use galley_testkit::{Scratch, wait_for};
use serde_json::{Value, json};

use crate::support::{Dashboard, MARKUP, Session, TIMEOUT, TestServer, parse_json};

/// Opens the event stream and returns its first sample.
fn first_sample(dashboard: &Dashboard, session: &Session) -> Value {
    let mut connection = Connection::open(dashboard.addr).unwrap();
    connection
        .send(&session.authorize(Request::get("/api/live")))
        .unwrap();
    let lines = BufReader::new(connection.stream()).lines();
    let mut data = lines.map_while(Result::ok);
    // The body is chunked, so other lines contain chunk sizes.
    let line = data.find(|line| line.starts_with("data: ")).unwrap();
    serde_json::from_str(line.trim_start_matches("data: ")).unwrap()
}

#[test]
fn live_status_is_streamed_to_a_bounded_number_of_clients() {
    let server = TestServer::start();
    server.store("a.test", "/");
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    let event = first_sample(&dashboard, &session);
    assert_eq!(event["ok"], true, "{event}");
    assert_eq!(event["status"]["sites"][0]["name"], "a.test");
    assert!(event["status"]["responses"]["hit"].as_u64() >= Some(1));
    let mut open = Vec::new();
    let refused = (0..40).find_map(|_| {
        let mut connection = Connection::open(dashboard.addr).unwrap();
        let request = session.authorize(Request::get("/api/live"));
        connection.send(&request).unwrap();
        let mut line = String::new();
        BufReader::new(connection.stream())
            .read_line(&mut line)
            .unwrap();
        open.push(connection);
        line.contains("503").then_some(open.len())
    });
    assert!(
        refused.is_some_and(|streams| (10..=17).contains(&streams)),
        "{refused:?}"
    );
    // Closed streams do not count.
    drop(open);
    assert_eq!(first_sample(&dashboard, &session)["ok"], true);
}

#[test]
fn all_clients_share_one_sampler() {
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
                    assert_eq!(first_sample(&dashboard, &session)["ok"], true);
                }
            });
        }
    });
    // Ten clients received two samples each, twenty in total. Some of them connected just after a sample.
    let requests = admin.count("/status") - before;
    assert!((2..10).contains(&requests), "{requests}");
}

#[test]
fn not_cached_reasons_have_counts_and_explanations() {
    let server = TestServer::start();
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    for _ in 0..3 {
        server.get("a.test", "/cart/");
    }
    let login = Request::get("/").host("a.test");
    let login = login.cookie("wordpress_logged_in_x=1");
    login.send(server.galley.addr()).unwrap();
    // A request is counted a moment after its response has been sent.
    let not_cached = || dashboard.json(&session, "/api/not-cached?site=a.test");
    wait_for("four requests", TIMEOUT, || {
        not_cached()["sites"][0]["requests"] == 4
    });
    let response = not_cached();
    let reasons = response["sites"][0]["reasons"].as_array().unwrap();
    let find = |word: &str| reasons.iter().find(|reason| reason["word"] == word);
    for word in ["remembered", "cookie", "no-store"] {
        let reason = find(word).unwrap_or_else(|| panic!("{word}: {response}"));
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
    let wrong = session.authorize(Request::get("/api/cache?kind=x"));
    dashboard.assert_status(wrong, 400);
}

#[test]
fn purges_are_listed_with_their_source() {
    let server = TestServer::start();
    server.store("a.test", "/one/");
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    let url = "http://a.test/one/";
    let purge = json!({ "urls": [url], "site": "a.test" });
    let purge = session.authorize(dashboard.post("/api/purge", &purge));
    dashboard.assert_status(purge, 200);
    assert!(!server.get("a.test", "/one/").is_hit());
    let response = dashboard.json(&session, "/api/purges?site=a.test");
    let newest = &response["sites"][0]["purges"][0];
    assert_eq!(newest["source"], "admin", "{response}");
    assert_eq!(newest["strength"], "hard");
    assert!(newest["scope"].as_str().unwrap().contains("a.test/one/"));
    let purge = Request::new("PURGE", "/one/").host("a.test");
    let response = purge.send(server.galley.addr()).unwrap();
    assert_eq!(response.status, 200, "{}", response.excerpt());
    let response = dashboard.json(&session, "/api/purges?site=a.test");
    let sources = response["sites"][0]["purges"].as_array().unwrap().iter();
    let sources: Vec<&str> = sources
        .filter_map(|purge| purge["source"].as_str())
        .collect();
    assert_eq!(sources, ["request", "admin"]);
    assert_eq!(response["sites"][0]["published"], 2, "{response}");
    let others = dashboard.json(&session, "/api/purges?site=b.test");
    assert_eq!(others["sites"][0]["purges"], json!([]));
}

#[test]
fn each_purge_reports_the_number_of_purged_pages() {
    let server = TestServer::start();
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    let counts = |purges: usize| {
        let mut counts = Vec::new();
        wait_for("all purges to be counted", TIMEOUT, || {
            let response = dashboard.json(&session, "/api/purges?site=a.test");
            let all = response["sites"][0]["purges"].as_array().unwrap().clone();
            counts = all
                .iter()
                .map(|purge| (purge["pages"].clone(), purge["complete"].clone()))
                .collect();
            counts.len() == purges && all.iter().all(|purge| purge["pages"].is_u64())
        });
        counts
    };
    let purge = |body: Value| {
        let request = session.authorize(dashboard.post("/api/purge", &body));
        dashboard.assert_status(request, 200);
    };
    let exactly = |pages: u64| (json!(pages), json!(true));
    for path in ["/one/", "/two/", "/three/?a=b"] {
        server.store("a.test", path);
    }
    server.store("b.test", "/other/");
    purge(json!({ "site": "a.test", "prefixes": ["/one/"] }));
    assert_eq!(counts(1), [exactly(1)]);
    // A soft purge of the other two pages, then a hard purge of the same pages.
    purge(json!({ "site": "a.test", "tags": ["t1"], "soft": true }));
    assert_eq!(counts(2), [exactly(2), exactly(1)]);
    purge(json!({ "site": "a.test", "all": true }));
    assert_eq!(counts(3), [exactly(2), exactly(2), exactly(1)]);
    // A second purge counts no pages, and the page of the other site is still stored.
    purge(json!({ "site": "a.test", "all": true }));
    assert_eq!(counts(4)[0], exactly(0));
    assert!(server.get("b.test", "/other/").is_hit());
    // Each purge of a request has a separate count. The first one purged the page.
    server.store("a.test", "/one/");
    let tags: Vec<String> = (0..40).map(|number| format!("none{number}")).collect();
    purge(json!({ "site": "a.test", "urls": ["http://a.test/one/"], "tags": tags }));
    let all = counts(45);
    assert_eq!(all.iter().filter(|count| **count == exactly(1)).count(), 2);
}

#[test]
fn why_returns_sentences_and_compare_changes_nothing() {
    let server = TestServer::start();
    server.store("a.test", "/page/");
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    let why = json!({ "url": "http://a.test/page/" });
    let response = dashboard.send(session.authorize(dashboard.post("/api/why", &why)));
    let response = parse_json(&response.expect_status(200));
    assert_eq!(response["now"]["what"], "hit");
    assert!(response["now"]["sentence"].as_str().unwrap().len() > 10);
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
    // The request cannot switch off `compare`.
    let body = json!({ "compare": false });
    let response = dashboard.send(session.authorize(dashboard.post("/api/compare", &body)));
    assert_eq!(
        parse_json(&response.expect_status(200))["changes"],
        json!([])
    );
    let status = dashboard.json(&session, "/api/status");
    assert!(status["last_reload"].is_null(), "{status}");
}

#[test]
fn untrusted_markup_is_returned_as_json_strings() {
    let server = TestServer::start();
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    for path in ["/%3Cscript%3Ealert(1)%3C/script%3E/", "/%22onload=%22x/"] {
        server.store("a.test", path);
    }
    let response = dashboard.send(session.authorize(Request::get("/api/cache?site=a.test")));
    let response = response.expect_status(200);
    assert_eq!(response.field("content-type"), Some("application/json"));
    let entries = parse_json(&response)["entries"].clone();
    assert_eq!(entries.as_array().unwrap().len(), 2, "{entries}");
    let tags = entries[0]["tags"].as_array().unwrap();
    assert!(tags.contains(&json!(MARKUP)), "{entries}");
}

#[test]
fn the_dashboard_keeps_running_while_the_server_is_down() {
    let mut server = TestServer::start();
    let mut dashboard = server.dashboard();
    let session = dashboard.log_in();
    server.galley.stop();
    let response = dashboard.send(session.authorize(Request::get("/api/status")));
    let response = response.expect_status(502);
    let error = parse_json(&response)["error"].as_str().unwrap().to_owned();
    assert!(error.contains("is it running?"), "{error}");
    assert_eq!(first_sample(&dashboard, &session)["ok"], false);
}
