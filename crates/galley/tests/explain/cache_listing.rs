//! `GET /cache`: everything is listed, in pages, to whom it belongs.

use std::collections::BTreeSet;

use galley_testkit::client::{Connection, Request};
use galley_testkit::wait_for;
use serde_json::Value;

use crate::support::{A, SERVER, Stage, TIMEOUT};

/// The addresses that a question lists, and how many calls it took.
fn listed(stage: &Stage, question: &str, token: &str) -> (Vec<String>, usize) {
    let (mut urls, mut calls, mut after) = (Vec::new(), 0, String::new());
    loop {
        let page = stage.json(&format!("{question}{after}"), token);
        calls += 1;
        for entry in page["entries"].as_array().unwrap() {
            urls.push(entry["url"].as_str().unwrap().to_owned());
        }
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return (urls, calls),
        }
    }
}

fn fill(stage: &Stage, host: &str, pages: usize) {
    let mut connection = Connection::within(stage.galley.addr(), TIMEOUT).unwrap();
    for page in 0..pages {
        let request = Request::get(&format!("/shop/{page}/")).host(host);
        assert_eq!(connection.exchange(&request).unwrap().status, 200);
    }
}

#[test]
fn five_hundred_entries_are_listed_once_each() {
    let stage = Stage::start("");
    fill(&stage, "a.test", 490);
    fill(&stage, "x.b.test", 10);
    stage.get("/shopping/");
    wait_for("all pages in memory", TIMEOUT, || {
        stage.json("/status", SERVER)["memory"]["entries"] == 501
    });
    let (all, calls) = listed(&stage, "/cache?limit=60", SERVER);
    assert!(calls >= 501 / 60, "{calls} calls");
    assert_eq!(
        (all.len(), all.iter().collect::<BTreeSet<_>>().len()),
        (501, 501)
    );
    let (own, _) = listed(&stage, "/cache?limit=1000", A);
    assert_eq!(own.len(), 491);
    assert!(own.iter().all(|url| url.starts_with("http://a.test/")));
    let (other, _) = listed(&stage, "/cache?site=y.b.test", SERVER);
    assert_eq!(other.len(), 10);
    let (below, _) = listed(&stage, "/cache?site=a.test&limit=100&prefix=/shop", SERVER);
    assert_eq!(below.len(), 490, "/shopping/ is not below /shop");
    let (tagged, _) = listed(&stage, "/cache?site=a.test&tag=t1", SERVER);
    let wanted = own
        .iter()
        .filter(|url| (url.len() - "http://a.test".len()) % 7 == 1);
    assert_eq!(tagged.len(), wanted.count());
    let page = stage.json("/cache?site=a.test&prefix=/shop/7", SERVER);
    let row = &page["entries"][0];
    assert_eq!(row["url"], "http://a.test/shop/7/");
    let told = (
        &row["kind"],
        &row["status"],
        &row["lifetime_s"],
        &row["standing"],
    );
    let wanted = (&"page".into(), &200.into(), &600.into(), &"valid".into());
    assert_eq!(told, wanted, "{row}");
    assert_eq!(row["bytes"], "<html>/shop/7/</html>".len());
    assert!(page["next"].is_null());
}

#[test]
fn a_cursor_is_for_one_question() {
    let stage = Stage::start("");
    fill(&stage, "a.test", 6);
    wait_for("all pages in memory", TIMEOUT, || {
        stage.json("/status", SERVER)["memory"]["entries"] == 6
    });
    let page = stage.json("/cache?site=a.test&limit=2", SERVER);
    let next = page["next"].as_str().unwrap();
    let status = |question: String, token| stage.admin(Request::get(&question), token).status;
    assert_eq!(status(format!("/cache?limit=2&after={next}"), SERVER), 410);
    assert_eq!(
        status(format!("/cache?site=a.test&tag=t1&after={next}"), SERVER),
        410
    );
    assert_eq!(
        status(format!("/cache?after={next}"), A),
        200,
        "the same site by its token"
    );
    assert_eq!(
        status(format!("/cache?after={next}"), A),
        410,
        "it has gone on"
    );
    for bad in ["nonsense", "1-1", "-", "0000000000000000-1"] {
        assert_eq!(status(format!("/cache?after={bad}"), A), 410, "{bad}");
    }
    assert_eq!(status("/cache?site=x.b.test".to_owned(), A), 403);
    assert_eq!(status("/cache?site=nobody.test".to_owned(), A), 403);
    assert_eq!(status("/cache?site=nobody.test".to_owned(), SERVER), 404);
    assert_eq!(status("/cache?limit=0".to_owned(), SERVER), 400);
    assert_eq!(status("/cache?sites=a.test".to_owned(), SERVER), 400);
    assert_eq!(status("/cache".to_owned(), "another-token-0123456789"), 401);
}

#[test]
fn a_purged_entry_is_not_called_alive() {
    let stage = Stage::start("");
    fill(&stage, "a.test", 3);
    wait_for("all pages in memory", TIMEOUT, || {
        stage.json("/status", SERVER)["memory"]["entries"] == 3
    });
    stage.command(&["purge", "--url", "http://a.test/shop/1/"]);
    let page = stage.json("/cache?site=a.test", SERVER);
    let is_valid = |entry: &&Value| entry["standing"] == "valid";
    assert_eq!(
        page["entries"]
            .as_array()
            .unwrap()
            .iter()
            .filter(is_valid)
            .count(),
        2
    );
}
