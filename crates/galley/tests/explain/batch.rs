//! `POST /why/batch` and the dry run of `POST /purge`: both report on many pages and change nothing.

use galley_testkit::client::Request;
use galley_testkit::wait_for;
use serde_json::{Value, json};

use crate::support::{SERVER_TOKEN, SITE_TOKEN, TIMEOUT, TestServer};

fn post(server: &TestServer, path: &str, body: &Value, token: &str) -> Value {
    let request = Request::post(path, "application/json", body.to_string());
    let response = server.admin(request, token);
    serde_json::from_slice(&response.body).unwrap()
}

fn fill(server: &TestServer, path: &str) {
    wait_for(path, TIMEOUT, || server.get(path).is_hit());
}

#[test]
fn a_batch_explains_many_pages() {
    let server = TestServer::start("");
    fill(&server, "/page/");
    server.get("/session/");
    let urls = [
        "http://a.test/page/",
        "http://a.test/other/",
        "http://a.test/session/",
        "http://x.b.test/",
    ];
    let response = post(&server, "/why/batch", &json!({ "urls": urls }), SITE_TOKEN);
    let pages = response["pages"].as_array().unwrap();
    let decisions: Vec<_> = pages.iter().map(|page| page["what"].as_str()).collect();
    assert_eq!(decisions[..3], [Some("hit"), Some("miss"), Some("pass")]);
    assert!(pages[0]["age_s"].is_u64(), "{response}");
    let why = pages[2]["why"].as_str().unwrap();
    assert!(
        why.contains("PHPSESSID") && !why.contains("topsecret"),
        "{why}"
    );
    assert!(
        pages[3]["what"].is_null() && pages[3]["error"].is_string(),
        "the token is not valid for this site: {response}"
    );
    let too_many: Vec<_> = (0..201).map(|n| format!("http://a.test/{n}")).collect();
    let rejected = post(
        &server,
        "/why/batch",
        &json!({ "urls": too_many }),
        SITE_TOKEN,
    );
    assert_eq!(rejected["ok"], false);
    let unauthorized = post(&server, "/why/batch", &json!({ "urls": urls }), "wrong");
    assert_eq!(unauthorized["ok"], false);
}

#[test]
fn a_dry_run_counts_the_pages_that_the_purge_then_removes() {
    let server = TestServer::start("");
    // Each page has one of seven tags, depending on the length of its path.
    let pages = ["/a/", "/b/", "/a/b/", "/a/b/?x=1", "/aa/", "/a/b/c/d/e/"];
    for (body, expected) in [
        (json!({ "all": true }), 6),
        (json!({ "tags": ["t3"] }), 2),
        (json!({ "tags": ["t3", "t5"] }), 4),
        (json!({ "tags": ["none"] }), 0),
        (json!({ "urls": ["http://a.test/a/b/"] }), 1),
        (json!({ "urls": ["/a/b/?x=1", "/a/"] }), 2),
        (json!({ "prefixes": ["/a"] }), 4),
        (json!({ "patterns": ["^/[ab]/$"] }), 2),
    ] {
        for page in pages {
            fill(&server, page);
        }
        let mut dry = body.clone();
        dry["dry_run"] = json!(true);
        let response = post(&server, "/purge", &dry, SITE_TOKEN);
        assert_eq!(response["pages"], expected, "{body}: {response}");
        assert_eq!(response["complete"], true);
        assert!(pages.iter().all(|page| server.get(page).is_hit()), "{body}");
        post(&server, "/purge", &body, SITE_TOKEN);
        assert_eq!(
            post(&server, "/purge", &dry, SITE_TOKEN)["pages"],
            0,
            "{body}: purged pages are not counted"
        );
        let misses = pages.iter().filter(|page| !server.get(page).is_hit());
        assert_eq!(misses.count(), expected, "{body}");
    }
    let foreign = json!({ "site": "x.b.test", "all": true, "dry_run": true });
    assert_eq!(post(&server, "/purge", &foreign, SITE_TOKEN)["ok"], false);
    assert_eq!(post(&server, "/purge", &foreign, SERVER_TOKEN)["pages"], 0);
}
