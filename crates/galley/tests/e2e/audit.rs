//! The audit of stored pages: it finds every page that is out of date and no other, and delays nobody.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use galley_testkit::origin::{Origin, ReceivedRequest, ResponseWriter};
use galley_testkit::wait_for;
use serde_json::Value;

use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, output_text};

/// Pages that are stored for longer than any test.
const LONG: [(&str, &str); 2] = [
    ("Content-Type", "text/html"),
    ("Cache-Control", "max-age=6000"),
];

/// An origin that changes some of its pages without a purge.
struct Changing {
    origin: Origin,
    has_changed: Arc<AtomicBool>,
}

impl Changing {
    fn start() -> Self {
        let has_changed = Arc::new(AtomicBool::new(false));
        let changed = Arc::clone(&has_changed);
        let origin = Origin::start(
            move |request: &ReceivedRequest, writer: &mut ResponseWriter<'_>| {
                let is_changed = changed.load(Ordering::SeqCst);
                respond(request, is_changed, writer);
            },
        );
        Self {
            origin: origin.unwrap(),
            has_changed,
        }
    }
}

fn respond(request: &ReceivedRequest, is_changed: bool, writer: &mut ResponseWriter<'_>) {
    let state = if is_changed { "new" } else { "old" };
    let hours = match request.path() {
        path if path.starts_with("/planted") => state.to_owned(),
        "/random" => request.number.to_string(),
        _ => "same".to_owned(),
    };
    let nonce = 0x1_0000_0000_u64 + request.number as u64;
    let body = format!(
        "<html><body>hours: {hours} ann@example.com<input name=\"_wpnonce\" value=\"{nonce:010x}\"></body></html>"
    );
    match (request.path(), is_changed) {
        ("/private", true) => writer.respond(
            200,
            &[("Content-Type", "text/html"), ("Cache-Control", "private")],
            body.as_bytes(),
        ),
        ("/failing", true) => writer.respond(500, &LONG, body.as_bytes()),
        ("/moved", true) => writer.respond(302, &[("Location", "/elsewhere")], b""),
        _ => writer.respond(200, &LONG, body.as_bytes()),
    };
}

/// Runs `galley audit --json`, and returns its exit code and the report of the site.
fn audit(site: &TestSite) -> (i32, Value) {
    let output = site
        .galley
        .cli(&["audit", "--json", "--site", HOST])
        .unwrap();
    let code = output.status.code().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", output_text(&output)));
    (code, report["sites"][0].clone())
}

fn counts(report: &Value) -> Vec<u64> {
    let words = [
        "same",
        "varies",
        "changed",
        "purged",
        "redirected",
        "not-stored",
        "failed",
    ];
    let results = &report["pass"]["results"];
    words.map(|word| results[word].as_u64().unwrap()).to_vec()
}

#[test]
fn an_audit_finds_all_pages_that_are_out_of_date_and_no_others() {
    let changing = Changing::start();
    let site = SiteBuilder::origin(&changing.origin, "wordpress").start();
    let planted: Vec<String> = (0..50).map(|number| format!("/planted{number}")).collect();
    let others = (0..46).map(|number| format!("/page{number}"));
    let odd = ["/random", "/private", "/failing", "/moved"].map(str::to_owned);
    let others: Vec<String> = others.chain(odd).collect();
    for path in planted.iter().chain(&others) {
        site.get(path).assert_status(200);
        assert!(site.get(path).is_hit(), "{path}");
    }
    let (code, report) = audit(&site);
    assert_eq!(
        (code, counts(&report)),
        (0, vec![99, 1, 0, 0, 0, 0, 0]),
        "{report}"
    );
    changing.has_changed.store(true, Ordering::SeqCst);
    let (code, report) = audit(&site);
    assert_eq!(
        (code, counts(&report)),
        (1, vec![46, 1, 50, 0, 1, 1, 1]),
        "{report}"
    );
    let findings = report["findings"].as_array().unwrap();
    let of = |result: &str| {
        let found = findings.iter().filter(|one| one["result"] == result);
        let mut urls: Vec<&str> = found.filter_map(|one| one["url"].as_str()).collect();
        urls.sort_unstable();
        urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>()
    };
    let url = |path: &String| format!("http://{HOST}{path}");
    let mut wanted: Vec<String> = planted.iter().map(url).collect();
    wanted.sort_unstable();
    assert_eq!(of("changed"), wanted);
    assert_eq!(of("varies"), [format!("http://{HOST}/random")]);
    let text = report.to_string();
    assert!(
        text.contains("hours: old") && text.contains("hours: new"),
        "{text}"
    );
    assert!(
        !text.contains("ann@") && !text.contains("0100000"),
        "{text}"
    );
    for path in &others {
        assert!(site.get(path).is_hit(), "{path} was purged");
    }
    for path in &planted {
        let page = site.get(path);
        assert!(!page.is_hit() && page.text().contains("new"), "{path}");
    }
    let (code, report) = audit(&site);
    assert_eq!((code, counts(&report)[2]), (0, 0), "{report}");
    is_reported_everywhere(&site, planted.len() + others.len());
}

/// Log, status, metrics, purges and `galley why` show the audit, and it is no visit.
fn is_reported_everywhere(site: &TestSite, pages: usize) {
    let metrics = site.metrics();
    let line = format!("galley_audit_pages_total{{site=\"{HOST}\",result=\"changed\"}} 50\n");
    assert!(metrics.contains(&line), "{metrics}");
    let output = site.galley.cli(&["status"]).unwrap();
    let status = output_text(&output);
    assert!(status.contains("50 were out of date"), "{status}");
    let purges = site.admin("GET /purges", None, "");
    assert!(purges.contains("\"source\":\"audit\""), "{purges}");
    let log = site.galley.log();
    assert!(
        log.contains("out of date") && log.contains("hours: old"),
        "{log}"
    );
    assert!(!log.contains("ann@"), "{log}");
    let why: Value = serde_json::from_str(&site.why("/page0")).unwrap();
    assert!(why["entry"]["audited_ago_s"].is_number(), "{why}");
    // Two requests for each page at the start, one of each at the end.
    let visits = 3 * pages;
    wait_for("the access log", TIMEOUT, || {
        site.access().lines().count() >= visits
    });
    assert_eq!(site.access().lines().count(), visits);
    assert_eq!(site.status_number("requests"), visits as u64);
}

#[test]
fn counts_survive_a_restart() {
    let origin = Origin::start(|_, writer| {
        writer.respond(200, &LONG, b"<html><body>page</body></html>");
    })
    .unwrap();
    let mut site = SiteBuilder::origin(&origin, "wordpress").disk().start();
    for audited in 1..=3 {
        site.get("/page").assert_status(200);
        let (code, report) = audit(&site);
        assert_eq!(code, 0, "{report}");
        assert_eq!(counts(&report)[0], 1, "{report}");
        let response = site.admin("GET /audit", None, "");
        let body = response
            .find('{')
            .and_then(|at| response.get(at..))
            .unwrap();
        let report: Value = serde_json::from_str(body).unwrap();
        for since in ["total", "week"] {
            let same = &report["sites"][0][since]["same"];
            assert_eq!(same.as_u64(), Some(audited), "{report}");
        }
        assert!(site.galley.stop().success());
        site.restart();
    }
}

#[test]
fn an_audit_gives_way_to_visitors() {
    let (origin, gate) = Origin::gated(|gate, request, writer| {
        if request.path() == "/busy" {
            gate.pass();
        }
        writer.respond(200, &LONG, b"<html><body>page</body></html>");
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "wordpress")
        .site("in_flight = 2")
        .start();
    for number in 0..20 {
        site.get(&format!("/{number}")).assert_status(200);
    }
    let mut busy = site.start_request("/busy");
    gate.wait_for_arrivals(1);
    let generated = origin.requests().len();
    std::thread::scope(|scope| {
        let audited = scope.spawn(|| audit(&site));
        wait_for("the audit to give way", TIMEOUT, || {
            site.admin("GET /audit", None, "")
                .contains("\"gives_way\":true")
        });
        std::thread::sleep(Duration::from_millis(500));
        assert_eq!(origin.requests().len(), generated, "it took a slot");
        assert!(site.get("/1").is_hit());
        gate.open();
        busy.receive("GET").unwrap();
        let (code, report) = audited.join().unwrap();
        // Also the page that was busy, if it was stored before the walk.
        assert_eq!(code, 0, "{report}");
        assert!(counts(&report)[0] >= 20, "{report}");
    });
}

#[test]
fn a_purge_that_follows_its_edit_is_no_missed_dependency() {
    let changing = Changing::start();
    let site = SiteBuilder::origin(&changing.origin, "wordpress").start();
    site.get("/planted").assert_status(200);
    changing.has_changed.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let audited = scope.spawn(|| audit(&site));
        wait_for("the first look", TIMEOUT, || {
            changing.origin.count("/planted") == 2
        });
        site.purge(&["--url", &format!("http://{HOST}/planted")]);
        let (code, report) = audited.join().unwrap();
        assert_eq!(
            (code, counts(&report)),
            (0, vec![0, 0, 0, 1, 0, 0, 0]),
            "{report}"
        );
    });
}

#[test]
fn an_error_has_its_own_exit_code() {
    let origin = Origin::start(|_, writer| {
        writer.respond(200, &LONG, b"page");
    })
    .unwrap();
    let site = SiteBuilder::origin(&origin, "none").start();
    for arguments in [&["audit"][..], &["audit", "--site", "unknown.test"]] {
        let output = site.galley.cli(arguments).unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
    }
}
