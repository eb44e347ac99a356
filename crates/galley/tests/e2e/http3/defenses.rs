//! What clients can make Galley spend: bytes before their address is known, connections, streams, and time.

use galley_testkit::wait_for;
use serde_json::{Value, json};

use super::client::{fields, get, quic_port, run, run_at, start, streams};
use crate::support::{SiteBuilder, TIMEOUT, TestSite, random_bytes};

const NO_ERROR: u64 = 0x100;
const EXCESSIVE_LOAD: u64 = 0x107;

/// The first byte of a Retry packet, without its unused bits (RFC 9000 section 17.2.5).
const RETRY: u64 = 0xf0;

/// More memory than the floods of a test can make Galley use, in bytes.
const MOST_MEMORY: u64 = 100 << 20;

fn site(server: &str) -> TestSite {
    start(
        SiteBuilder::files()
            .file("page.html", "a page")
            .file("large.bin", random_bytes(3_000_000))
            .server(server),
    )
}

/// The value of a metric; 0 without it.
pub(super) fn metric(site: &TestSite, name: &str) -> u64 {
    let metrics = site.metrics();
    let line = metrics.lines().find(|line| line.starts_with(name));
    let value = line.and_then(|line| line.rsplit(' ').next());
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[test]
fn an_unknown_address_gets_at_most_three_times_its_bytes() {
    let site = site("head_timeout = \"1s\"");
    // Also when Galley repeats what was not acknowledged, and when it gives up.
    let found = run(&site, json!({ "silent": 1, "streams": [] })).result();
    let one = &found["silent"][0];
    let (sent, received) = (one["sent"].as_u64(), one["received"].as_u64());
    let (sent, received) = (sent.unwrap(), received.unwrap());
    assert!(received > 0 && received <= 3 * sent, "{found}");
    wait_for("the end of the connection", TIMEOUT, || {
        metric(&site, "galley_http3_connections_total") == 1
    });
}

#[test]
fn many_handshakes_require_a_proof_of_the_address() {
    let site = site("workers = 1\nhead_timeout = \"1h\"\nidle_timeout = \"1h\"");
    let calm = run(&site, json!({ "streams": [get("/page.html")] })).result();
    assert_eq!(calm["retried"], false);
    let plan = json!({ "silent": 40, "streams": [get("/page.html")] });
    let busy = run(&site, plan).result();
    let silent = busy["silent"].as_array().unwrap();
    let retries: Vec<bool> = silent
        .iter()
        .map(|one| one["first"].as_u64().unwrap() & RETRY == RETRY)
        .collect();
    let expected: Vec<bool> = (0..40).map(|number| number >= 32).collect();
    assert_eq!(retries, expected, "{busy}");
    assert_eq!(busy["retried"], true);
    assert_eq!(busy["streams"][0]["status"], 200);
}

#[test]
fn one_address_has_a_limited_number_of_connections() {
    let site = start(SiteBuilder::php().server("connections_per_address = 2\nlimit_exempt = []"));
    let port = quic_port(&site);
    let pages = ["/one", "/two"];
    let held = pages.map(|page| {
        site.hold(page);
        run_at(port, &site, json!({ "streams": [get(page)] }))
    });
    for page in pages {
        site.wait_until_held(page);
    }
    let third = run_at(port, &site, json!({ "streams": [get("/three")] })).result();
    assert_eq!(third["closed"], EXCESSIVE_LOAD);
    for page in pages {
        site.release(page);
    }
    for one in held {
        assert_eq!(one.result()["streams"][0]["status"], 200);
    }
    // Many clients can share an address: this is no flood.
    wait_for("the end of the connections", TIMEOUT, || {
        metric(&site, "galley_http3_connections_total") == 3
    });
    assert_eq!(
        metric(&site, "galley_http3_ended_total{reason=\"flood\"}"),
        0
    );
}

#[test]
fn a_flood_of_resets_ends_the_connection() {
    let site = site("");
    let reset = json!({ "fields": fields("POST", "/page.html"), "body": 1, "reset": 0x10c });
    let plans = vec![reset; 400];
    let plan = json!({ "streams": plans, "wait": "close" });
    let found = run(&site, plan).result();
    assert_eq!(found["closed"], EXCESSIVE_LOAD);
    assert_eq!(
        found["most_streams"].as_u64().map(|most| most >= 100),
        Some(true)
    );
    assert_eq!(streams(&site, &[get("/page.html")])[0]["status"], 200);
    wait_for("the count", TIMEOUT, || {
        metric(&site, "galley_http3_ended_total{reason=\"flood\"}") == 1
    });
}

/// The memory of a process, in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    kilobytes.parse::<u64>().unwrap() * 1024
}

#[test]
fn floods_fail_no_visitor() {
    let site = start(
        SiteBuilder::php()
            .file("page.html", "a page ".repeat(1500))
            .server("limit_exempt = [\"127.0.0.1\"]"),
    );
    let port = quic_port(&site);
    let until = site.scratch.join("over");
    let requests = ["/page.html", "/stored/", "/generated"].map(|path| fields("GET", path));
    let visitors = run_at(
        port,
        &site,
        json!({ "load": requests, "until": until.to_str() }),
    );
    let served = || site.status_number("requests");
    wait_for("visitors", TIMEOUT, || served() > 20);
    let before = resident(site.galley.pid());
    let floods = ["garbage", "initials", "pings", "resets", "frames"].map(|kind| {
        let plan = json!({ "flood": kind, "fields": fields("POST", "/page.html"), "until": until.to_str() });
        run_at(port, &site, plan)
    });
    let (flooded, ended) = (served(), "galley_http3_ended_total{reason=\"flood\"}");
    wait_for("the floods", TIMEOUT, || metric(&site, ended) >= 10);
    wait_for("more visitors", TIMEOUT, || served() > flooded + 100);
    let most = resident(site.galley.pid()).saturating_sub(before);
    std::fs::write(&until, "").unwrap();
    for flood in floods {
        let found = flood.result();
        assert!(found["sent"].as_u64().unwrap() > 0, "{found}");
    }
    let found = visitors.result();
    assert_eq!(found["failures"], json!([]), "{found}");
    assert!(most < MOST_MEMORY, "{most} bytes more");
}

#[test]
fn a_client_that_opens_no_window_is_disconnected() {
    let site = site("write_timeout = \"1s\"");
    let large: Vec<Value> = (0..4).map(|_| get("/large.bin")).collect();
    let plan = json!({ "window": 40_000, "stalled": true, "streams": large });
    let found = run(&site, plan).result();
    let all = found["streams"].as_array().unwrap();
    assert!(all.iter().all(|one| one["ended"] == false), "{found}");
    let received: u64 = all.iter().filter_map(|one| one["bytes"].as_u64()).sum();
    assert!(received <= 40_000, "{found}");
    assert_eq!(streams(&site, &[get("/page.html")])[0]["status"], 200);
}

#[test]
fn the_window_for_received_bytes_is_small_until_a_body_arrives() {
    let site = start(SiteBuilder::php());
    let pages = vec![get("/page"); 20];
    let found = run(&site, json!({ "streams": pages })).result();
    let permitted = found["most_bytes"].as_u64().unwrap();
    assert!((64 << 10..128 << 10).contains(&permitted), "{found}");
    let upload = json!({ "fields": fields("POST", "/form"), "body": 1_000_000 });
    let found = run(&site, json!({ "streams": [upload] })).result();
    assert_eq!(found["streams"][0]["status"], 200);
    let permitted = found["most_bytes"].as_u64().unwrap();
    assert!(
        (1_000_000..1_010_000 + (256 << 10)).contains(&permitted),
        "{found}"
    );
}

#[test]
fn an_idle_connection_gets_goaway_and_ends() {
    let site = site("idle_timeout = \"300ms\"");
    let plan = json!({ "streams": [get("/page.html")], "wait": "close" });
    let found = run(&site, plan).result();
    assert_eq!(found["streams"][0]["status"], 200);
    assert_eq!(found["closed"], NO_ERROR);
    let control = found["control"].to_string();
    assert!(control.contains("0708fffffffffffffffc"), "{control}");
}
