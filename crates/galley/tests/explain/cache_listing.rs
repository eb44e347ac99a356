//! `GET /cache` lists all entries that a token gives access to, in pages.

use std::collections::BTreeSet;

use galley_testkit::client::{Connection, Request};
use galley_testkit::wait_for;
use serde_json::Value;

use crate::support::{SERVER_TOKEN, SITE_TOKEN, TIMEOUT, TestServer};

/// The URLs that a query lists, and the number of requests needed.
fn list_urls(server: &TestServer, query: &str, token: &str) -> (Vec<String>, usize) {
    let (mut urls, mut calls, mut after) = (Vec::new(), 0, String::new());
    loop {
        let page = server.json(&format!("{query}{after}"), token);
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

fn fill(server: &TestServer, host: &str, pages: usize) {
    let mut connection = Connection::within(server.galley.addr(), TIMEOUT).unwrap();
    for page in 0..pages {
        let request = Request::get(&format!("/shop/{page}/")).host(host);
        assert_eq!(connection.exchange(&request).unwrap().status, 200);
    }
}

#[test]
fn five_hundred_entries_are_listed_once_each() {
    let server = TestServer::start("");
    fill(&server, "a.test", 490);
    fill(&server, "x.b.test", 10);
    server.get("/shopping/");
    wait_for("all pages in memory", TIMEOUT, || {
        server.json("/status", SERVER_TOKEN)["memory"]["entries"] == 501
    });
    let (all, calls) = list_urls(&server, "/cache?limit=60", SERVER_TOKEN);
    assert!(calls >= 501 / 60, "{calls} calls");
    assert_eq!(
        (all.len(), all.iter().collect::<BTreeSet<_>>().len()),
        (501, 501)
    );
    let (of_site, _) = list_urls(&server, "/cache?limit=1000", SITE_TOKEN);
    assert_eq!(of_site.len(), 491);
    assert!(of_site.iter().all(|url| url.starts_with("http://a.test/")));
    let (other, _) = list_urls(&server, "/cache?site=y.b.test", SERVER_TOKEN);
    assert_eq!(other.len(), 10);
    let (below, _) = list_urls(
        &server,
        "/cache?site=a.test&limit=100&prefix=/shop",
        SERVER_TOKEN,
    );
    assert_eq!(below.len(), 490, "/shopping/ is not below /shop");
    let (tagged, _) = list_urls(&server, "/cache?site=a.test&tag=t1", SERVER_TOKEN);
    let expected = of_site
        .iter()
        .filter(|url| (url.len() - "http://a.test".len()) % 7 == 1);
    assert_eq!(tagged.len(), expected.count());
    let page = server.json("/cache?site=a.test&prefix=/shop/7", SERVER_TOKEN);
    let row = &page["entries"][0];
    assert_eq!(row["url"], "http://a.test/shop/7/");
    let actual = (
        &row["kind"],
        &row["status"],
        &row["lifetime_s"],
        &row["validity"],
    );
    let expected = (&"page".into(), &200.into(), &600.into(), &"valid".into());
    assert_eq!(actual, expected, "{row}");
    assert_eq!(row["bytes"], "<html>/shop/7/</html>".len());
    assert!(page["next"].is_null());
}

#[test]
fn a_cursor_is_valid_for_one_query() {
    let server = TestServer::start("");
    fill(&server, "a.test", 6);
    wait_for("all pages in memory", TIMEOUT, || {
        server.json("/status", SERVER_TOKEN)["memory"]["entries"] == 6
    });
    let page = server.json("/cache?site=a.test&limit=2", SERVER_TOKEN);
    let next = page["next"].as_str().unwrap();
    let status = |query: String, token| server.admin(Request::get(&query), token).status;
    assert_eq!(
        status(format!("/cache?limit=2&after={next}"), SERVER_TOKEN),
        410
    );
    assert_eq!(
        status(
            format!("/cache?site=a.test&tag=t1&after={next}"),
            SERVER_TOKEN
        ),
        410
    );
    assert_eq!(
        status(format!("/cache?after={next}"), SITE_TOKEN),
        200,
        "the same site by its token"
    );
    assert_eq!(
        status(format!("/cache?after={next}"), SITE_TOKEN),
        410,
        "the cursor has been used"
    );
    for bad in ["nonsense", "1-1", "-", "0000000000000000-1"] {
        assert_eq!(
            status(format!("/cache?after={bad}"), SITE_TOKEN),
            410,
            "{bad}"
        );
    }
    assert_eq!(status("/cache?site=x.b.test".to_owned(), SITE_TOKEN), 403);
    assert_eq!(
        status("/cache?site=nobody.test".to_owned(), SITE_TOKEN),
        403
    );
    assert_eq!(
        status("/cache?site=nobody.test".to_owned(), SERVER_TOKEN),
        404
    );
    assert_eq!(status("/cache?limit=0".to_owned(), SERVER_TOKEN), 400);
    assert_eq!(status("/cache?sites=a.test".to_owned(), SERVER_TOKEN), 400);
    assert_eq!(status("/cache".to_owned(), "another-token-0123456789"), 401);
}

#[test]
fn a_purged_entry_is_not_listed_as_valid() {
    let server = TestServer::start("");
    fill(&server, "a.test", 3);
    wait_for("all pages in memory", TIMEOUT, || {
        server.json("/status", SERVER_TOKEN)["memory"]["entries"] == 3
    });
    server.command(&["purge", "--url", "http://a.test/shop/1/"]);
    let page = server.json("/cache?site=a.test", SERVER_TOKEN);
    let is_valid = |entry: &&Value| entry["validity"] == "valid";
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
