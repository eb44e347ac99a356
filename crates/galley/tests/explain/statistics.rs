//! Metrics, history and status match the requests sent, and each token sees only its sites.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{SERVER_TOKEN, SITE_TOKEN, TIMEOUT, TestServer, outcome};

/// Samples by name with labels. Checks the exposition format.
fn metrics(server: &TestServer, token: &str) -> BTreeMap<String, f64> {
    let response = server.admin(Request::get("/metrics"), token);
    assert_eq!(response.status, 200);
    assert!(
        response
            .field("content-type")
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
    let text = response.text();
    let (mut samples, mut family) = (BTreeMap::new(), String::new());
    let mut families = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.split(' ');
            let kind = words.next().unwrap();
            words.next().unwrap().clone_into(&mut family);
            if kind == "TYPE" {
                assert!(!families.contains(&family), "`{family}` twice");
                families.push(family.clone());
            }
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        assert!(
            name.starts_with(&family),
            "`{line}` is in family `{family}`"
        );
        let value = if value == "+Inf" {
            f64::INFINITY
        } else {
            value.parse().unwrap()
        };
        assert!(
            samples.insert(name.to_owned(), value).is_none(),
            "`{name}` twice"
        );
    }
    samples
}

fn sample(samples: &BTreeMap<String, f64>, name: &str) -> u64 {
    let value = samples.get(name).copied().unwrap_or(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small counts"
    )]
    let value = value as u64;
    value
}

/// Requests pages of `a.test` (a hit, a pass because of a cookie, a page that is not stored), a file, and two other hosts.
fn visit(server: &TestServer) {
    assert_eq!(outcome(&server.get("/page/")), "miss");
    wait_for("the page in memory", TIMEOUT, || {
        server.why("http://a.test/page/", &[])["now"]["what"] == "hit"
    });
    for _ in 0..7 {
        assert_eq!(outcome(&server.get("/page/")), "hit");
    }
    let visitor = Request::get("/page/").cookie("wordpress_logged_in_x=1");
    assert_eq!(outcome(&server.send(visitor)), "pass");
    assert_eq!(outcome(&server.get("/session/")), "miss");
    assert_eq!(outcome(&server.get("/style.css")), "file");
    assert_eq!(
        server.send(Request::get("/").host("nobody.test")).status,
        421
    );
    assert_eq!(
        outcome(&server.send(Request::get("/page/").host("x.b.test"))),
        "miss"
    );
    // A request is counted after its response was sent, shortly after the client has received it.
    wait_for("all requests to be counted", TIMEOUT, || {
        server.json("/status", SERVER_TOKEN)["responses"]["requests"] == 13
    });
}

#[test]
fn metrics_count_requests_by_site_and_outcome() {
    let server = TestServer::start("");
    visit(&server);
    server.command(&["purge", "--url", "http://a.test/none/"]);
    let mut samples = BTreeMap::new();
    wait_for("the counts", TIMEOUT, || {
        samples = metrics(&server, SERVER_TOKEN);
        let fills = sample(&samples, "galley_fills_stored_total{site=\"any.b.test\"}");
        let refused = sample(
            &samples,
            "galley_requests_total{site=\"-\",outcome=\"refused\"}",
        );
        (fills, refused) == (1, 1)
    });
    for (name, expected) in [
        ("galley_requests_total{site=\"a.test\",outcome=\"hit\"}", 7),
        ("galley_requests_total{site=\"a.test\",outcome=\"miss\"}", 2),
        ("galley_requests_total{site=\"a.test\",outcome=\"pass\"}", 1),
        ("galley_requests_total{site=\"a.test\",outcome=\"file\"}", 1),
        (
            "galley_requests_total{site=\"any.b.test\",outcome=\"miss\"}",
            1,
        ),
        (
            "galley_refused_total{site=\"-\",reason=\"unknown-host\"}",
            1,
        ),
        ("galley_passes_total{site=\"a.test\",reason=\"cookie\"}", 1),
        (
            "galley_misses_total{site=\"a.test\",reason=\"uri-miss\"}",
            2,
        ),
        (
            "galley_not_stored_total{site=\"a.test\",reason=\"set-cookie\"}",
            1,
        ),
        ("galley_fills_total{site=\"a.test\"}", 2),
        ("galley_fills_stored_total{site=\"a.test\"}", 1),
        ("galley_fills_failed_total{site=\"a.test\"}", 0),
        ("galley_purges_total{site=\"a.test\"}", 1),
        ("galley_request_duration_seconds_count{site=\"a.test\"}", 11),
        (
            "galley_request_duration_seconds_bucket{site=\"a.test\",le=\"+Inf\"}",
            11,
        ),
        ("galley_upstream_duration_seconds_count{site=\"a.test\"}", 3),
        ("galley_store_entries", 3),
        ("galley_store_limit_bytes", 64 << 20),
        ("galley_log_lines_dropped_total", 0),
    ] {
        assert_eq!(sample(&samples, name), expected, "{name}");
    }
    let hits = "galley_body_bytes_total{site=\"a.test\",outcome=\"hit\"}";
    assert_eq!(
        sample(&samples, hits),
        7 * "<html>/page/</html>".len() as u64
    );
    assert!(sample(&samples, "galley_descriptors") > 5);
    assert!(sample(&samples, "galley_descriptors_limit") >= sample(&samples, "galley_descriptors"));
    assert!(
        samples
            .keys()
            .any(|name| name.starts_with("galley_info{version=\""))
    );
}

#[test]
fn open_connections_are_counted() {
    let server = TestServer::start("");
    let open = || sample(&metrics(&server, SERVER_TOKEN), "galley_connections");
    let connections: Vec<_> = (0..5)
        .map(|_| galley_testkit::client::Connection::within(server.galley.addr(), TIMEOUT).unwrap())
        .collect();
    wait_for("five connections", TIMEOUT, || open() == 5);
    drop(connections);
    wait_for("no connection", TIMEOUT, || open() == 0);
}

#[test]
fn a_site_token_sees_only_the_statistics_of_its_site() {
    let server = TestServer::start("");
    visit(&server);
    let samples = metrics(&server, SITE_TOKEN);
    assert!(
        samples.keys().all(|name| name.contains("site=\"a.test\"")),
        "{samples:?}"
    );
    let status = server.json("/status", SITE_TOKEN);
    assert_eq!(status["sites"].as_array().unwrap().len(), 1);
    assert!(status.get("memory").is_none() && status.get("upstream").is_none());
    assert_eq!(
        status["responses"]["requests"],
        status["sites"][0]["requests"]
    );
    let history = server.json("/history", SITE_TOKEN);
    assert_eq!(history["sites"].as_array().unwrap().len(), 1);
    for path in ["/history?site=x.b.test", "/history?site=nobody.test"] {
        assert_eq!(
            server.admin(Request::get(path), SITE_TOKEN).status,
            403,
            "{path}"
        );
    }
    for path in ["/metrics", "/status", "/history"] {
        let response = server.admin(Request::get(path), "another-token-0123456789");
        assert_eq!(response.status, 401, "{path}");
    }
}

#[test]
fn history_has_the_current_minute() {
    let server = TestServer::start("");
    visit(&server);
    let history = server.json("/history?site=a.test&minutes=5", SERVER_TOKEN);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let minutes = history["sites"][0]["minutes"].as_array().unwrap().clone();
    let last = minutes.last().unwrap()["time"].as_u64().unwrap();
    assert!(
        last <= now && now - last < 120 && last.is_multiple_of(60),
        "{last} {now}"
    );
    // The requests may span two minutes.
    let sum = |name: &str| -> u64 { minutes.iter().map(|m| m[name].as_u64().unwrap()).sum() };
    let all = ["requests", "hits", "misses", "passes", "stale", "refused"].map(sum);
    assert_eq!(all, [11, 7, 2, 1, 0, 0]);
    assert!(sum("bytes") > 7 * 19);
    let both = server.json("/history", SERVER_TOKEN);
    assert_eq!(both["sites"].as_array().unwrap().len(), 2);
    assert_eq!(
        server
            .admin(Request::get("/history?minutes=1441"), SERVER_TOKEN)
            .status,
        400
    );
}

#[test]
fn status_shows_each_site() {
    let server = TestServer::start("");
    visit(&server);
    let status = server.json("/status", SERVER_TOKEN);
    let site = &status["sites"][0];
    assert_eq!(
        (&site["name"], &site["requests"]),
        (&"a.test".into(), &11.into())
    );
    // Seven hits, two misses and a pass. The file and the rejected request do not count.
    assert_eq!(site["hit_ratio"], 0.7);
    assert_eq!(site["last_10_minutes"]["hit_ratio"], 0.7);
    assert_eq!(site["responses"]["hit"], 7);
    assert_eq!(status["responses"]["requests"], 13);
    let table = server.command(&["status"]);
    let row = table
        .lines()
        .find(|line| line.starts_with("a.test"))
        .unwrap();
    assert!(row.contains("70.0%") && row.contains("11"), "{table}");
    let other = table
        .lines()
        .find(|line| line.starts_with("any.b.test"))
        .unwrap();
    assert!(other.contains("0.0%"), "{table}");
}
