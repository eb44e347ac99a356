//! Metrics, history and status: they add up to what was asked, and each token sees its own.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use galley_testkit::client::Request;
use galley_testkit::wait_for;

use crate::support::{A, SERVER, Stage, TIMEOUT, word};

/// Samples by name with labels; checks the form as it reads.
fn metrics(stage: &Stage, token: &str) -> BTreeMap<String, f64> {
    let answer = stage.admin(Request::get("/metrics"), token);
    assert_eq!(answer.status, 200);
    assert!(
        answer
            .field("content-type")
            .unwrap()
            .starts_with("text/plain; version=0.0.4")
    );
    let text = answer.text();
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
            "`{line}` stands below `{family}`"
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

fn of(samples: &BTreeMap<String, f64>, name: &str) -> u64 {
    let value = samples.get(name).copied().unwrap_or(0.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small counts"
    )]
    let value = value as u64;
    value
}

/// Three pages of `a.test`: one that is hit, one that passes by a cookie, one that is not stored; and a file.
fn visit(stage: &Stage) {
    assert_eq!(word(&stage.get("/page/")), "miss");
    wait_for("the page in memory", TIMEOUT, || {
        stage.why("http://a.test/page/", &[])["now"]["what"] == "hit"
    });
    for _ in 0..7 {
        assert_eq!(word(&stage.get("/page/")), "hit");
    }
    let visitor = Request::get("/page/").cookie("wordpress_logged_in_x=1");
    assert_eq!(word(&stage.ask(visitor)), "pass");
    assert_eq!(word(&stage.get("/session/")), "miss");
    assert_eq!(word(&stage.get("/style.css")), "file");
    assert_eq!(stage.ask(Request::get("/").host("nobody.test")).status, 421);
    assert_eq!(
        word(&stage.ask(Request::get("/page/").host("x.b.test"))),
        "miss"
    );
    // A request is counted when its answer has left, a moment after the client has it.
    wait_for("all of them counted", TIMEOUT, || {
        stage.json("/status", SERVER)["answers"]["requests"] == 13
    });
}

#[test]
fn metrics_add_up_to_what_was_asked() {
    let stage = Stage::start("");
    visit(&stage);
    stage.command(&["purge", "--url", "http://a.test/none/"]);
    let mut samples = BTreeMap::new();
    wait_for("the counts", TIMEOUT, || {
        samples = metrics(&stage, SERVER);
        let fills = of(&samples, "galley_fills_stored_total{site=\"*.b.test\"}");
        let refused = of(
            &samples,
            "galley_requests_total{site=\"-\",outcome=\"refused\"}",
        );
        (fills, refused) == (1, 1)
    });
    for (name, wanted) in [
        ("galley_requests_total{site=\"a.test\",outcome=\"hit\"}", 7),
        ("galley_requests_total{site=\"a.test\",outcome=\"miss\"}", 2),
        ("galley_requests_total{site=\"a.test\",outcome=\"pass\"}", 1),
        ("galley_requests_total{site=\"a.test\",outcome=\"file\"}", 1),
        (
            "galley_requests_total{site=\"*.b.test\",outcome=\"miss\"}",
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
        assert_eq!(of(&samples, name), wanted, "{name}");
    }
    let hits = "galley_body_bytes_total{site=\"a.test\",outcome=\"hit\"}";
    assert_eq!(of(&samples, hits), 7 * "<html>/page/</html>".len() as u64);
    assert!(of(&samples, "galley_descriptors") > 5);
    assert!(of(&samples, "galley_descriptors_limit") >= of(&samples, "galley_descriptors"));
    assert!(
        samples
            .keys()
            .any(|name| name.starts_with("galley_info{version=\""))
    );
}

#[test]
fn open_connections_are_counted() {
    let stage = Stage::start("");
    let open = || of(&metrics(&stage, SERVER), "galley_connections");
    let held: Vec<_> = (0..5)
        .map(|_| galley_testkit::client::Connection::within(stage.galley.addr(), TIMEOUT).unwrap())
        .collect();
    wait_for("five connections", TIMEOUT, || open() == 5);
    drop(held);
    wait_for("no connection", TIMEOUT, || open() == 0);
}

#[test]
fn a_site_token_sees_its_own_numbers_only() {
    let stage = Stage::start("");
    visit(&stage);
    let samples = metrics(&stage, A);
    assert!(
        samples.keys().all(|name| name.contains("site=\"a.test\"")),
        "{samples:?}"
    );
    let status = stage.json("/status", A);
    assert_eq!(status["sites"].as_array().unwrap().len(), 1);
    assert!(status.get("memory").is_none() && status.get("upstream").is_none());
    assert_eq!(
        status["answers"]["requests"],
        status["sites"][0]["requests"]
    );
    let history = stage.json("/history", A);
    assert_eq!(history["sites"].as_array().unwrap().len(), 1);
    for path in ["/history?site=x.b.test", "/history?site=nobody.test"] {
        assert_eq!(stage.admin(Request::get(path), A).status, 403, "{path}");
    }
    for path in ["/metrics", "/status", "/history"] {
        let answer = stage.admin(Request::get(path), "another-token-0123456789");
        assert_eq!(answer.status, 401, "{path}");
    }
}

#[test]
fn history_has_the_current_minute() {
    let stage = Stage::start("");
    visit(&stage);
    let history = stage.json("/history?site=a.test&minutes=5", SERVER);
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
    // A minute may have turned while the visitors came.
    let sum = |name: &str| -> u64 { minutes.iter().map(|m| m[name].as_u64().unwrap()).sum() };
    let all = ["requests", "hits", "misses", "passes", "stale", "refused"].map(sum);
    assert_eq!(all, [11, 7, 2, 1, 0, 0]);
    assert!(sum("bytes") > 7 * 19);
    let both = stage.json("/history", SERVER);
    assert_eq!(both["sites"].as_array().unwrap().len(), 2);
    assert_eq!(
        stage
            .admin(Request::get("/history?minutes=1441"), SERVER)
            .status,
        400
    );
}

#[test]
fn status_shows_each_site() {
    let stage = Stage::start("");
    visit(&stage);
    let status = stage.json("/status", SERVER);
    let site = &status["sites"][0];
    assert_eq!(
        (&site["name"], &site["requests"]),
        (&"a.test".into(), &11.into())
    );
    // Seven hits; two misses and a pass beside them. The file and the refusal are no matter of the cache.
    assert_eq!(site["hit_ratio"], 0.7);
    assert_eq!(site["last_10_minutes"]["hit_ratio"], 0.7);
    assert_eq!(site["answers"]["hit"], 7);
    assert_eq!(status["answers"]["requests"], 13);
    let table = stage.command(&["status"]);
    let row = table
        .lines()
        .find(|line| line.starts_with("a.test"))
        .unwrap();
    assert!(row.contains("70.0%") && row.contains("11"), "{table}");
    let other = table
        .lines()
        .find(|line| line.starts_with("*.b.test"))
        .unwrap();
    assert!(other.contains("0.0%"), "{table}");
}
