//! Early data (0-RTT): requests in the first datagram of a client that returns. Stored pages and files answer them at once; everything else
//! waits for the end of the handshake, because until then anybody may have repeated the datagram.

use std::fs;
use std::path::PathBuf;

use galley_testkit::wait_for;
use serde_json::{Value, json};

use super::client::{RunningClient, fields, get, run, start};
use crate::reload::{config, reload};
use crate::serving::{Serving, is_alive};
use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, random_bytes};

/// A frame that announces the end of a connection, and accepts all requests until then.
const GOAWAY: &str = "0708fffffffffffffffc";

/// PHP runs twice for the first request of a page that must not be stored: Galley asks for what it could store, and then for the client's own.
const RUNS_OF_FIRST: usize = 2;

/// The length of the datagram with which a client begins, in bytes (RFC 9000 section 14.1).
const LEAST_DATAGRAM: u64 = 1200;

const ON: &str = "early_data = true\n";

fn site(server: &str) -> TestSite {
    site_of(SiteBuilder::php().server(server))
}

fn site_of(builder: SiteBuilder) -> TestSite {
    let site = start(
        builder
            .file("page.html", "a page")
            .file("large.html", random_bytes(60_000)),
    );
    let storable = ["Content-Type: text/html", "Cache-Control: max-age=3600"];
    site.head("/stored/", &storable);
    for page in ["/generated/", "/form/"] {
        site.head(page, &["Cache-Control: no-store"]);
    }
    wait_for("the files to be in memory", TIMEOUT, || {
        for file in ["/page.html", "/large.html"] {
            site.get(file).assert_status(200);
        }
        site.status_small_files("entries") == 2
    });
    site
}

/// A request for the stored page as browsers send it: Galley may keep the compressed form alone in memory.
fn stored(method: &str) -> Value {
    let mut fields = fields(method, "/stored/");
    fields.push(("accept-encoding".to_owned(), "gzip".to_owned()));
    json!({ "fields": fields })
}

/// What a client gets that returns. It waits for `responses` before it completes the handshake.
fn returning(site: &TestSite, streams: &[Value], responses: usize) -> Value {
    let plan = json!({ "streams": streams, "resume": true, "early": responses });
    run(site, plan).result()
}

fn each(found: &Value, name: &str) -> Vec<Value> {
    let streams = found["streams"].as_array().unwrap().iter();
    streams.map(|one| one[name].clone()).collect()
}

/// The number of requests in the access log with this beginning.
fn logged(site: &TestSite, request: &str) -> usize {
    site.access()
        .matches(&format!("\"{request} HTTP/3.0"))
        .count()
}

#[test]
fn hits_alone_are_answered_before_the_handshake_is_complete() {
    let site = site(ON);
    let posted = json!({ "fields": fields("POST", "/form/"), "body": "a=1" });
    let streams = [
        stored("GET"),
        stored("HEAD"),
        get("/page.html"),
        get("/generated/"),
        posted,
    ];
    let found = returning(&site, &streams, 3);
    assert_eq!(found["early_data"], true, "{found}");
    assert_eq!(each(&found, "status"), [200; 5], "{found}");
    assert_eq!(each(&found, "early"), [true, true, true, false, false]);
    // Once on each of the first two connections. Whoever repeats the datagrams gets nothing: the ticket was valid once.
    assert_eq!(found["again"], false, "{found}");
    assert!(found["repeated"]["sent"].as_u64() > Some(0), "{found}");
    assert_eq!(site.runs("/generated/"), RUNS_OF_FIRST + 1);
    assert_eq!(site.runs("/form/"), 2);
    wait_for("the records", TIMEOUT, || {
        logged(&site, "GET /stored/") >= 3
    });
    let counts = ["GET /stored/", "GET /page.html", "GET /generated/"];
    assert_eq!(counts.map(|one| logged(&site, one)), [3, 2, 2]);
}

#[test]
fn early_responses_are_at_most_three_times_what_came() {
    let site = site(ON);
    // The response must have begun, also where it must not end.
    let least = 2 * LEAST_DATAGRAM + 1;
    let plan =
        json!({ "streams": [get("/large.html")], "resume": true, "early": 0, "least": least });
    let found = run(&site, plan).result();
    assert_eq!(each(&found, "early"), [false], "{found}");
    assert_eq!(each(&found, "bytes"), [60_000], "{found}");
    for part in ["before", "repeated"] {
        let bytes = |name: &str| found[part][name].as_u64().unwrap();
        let (sent, received) = (bytes("sent"), bytes("received"));
        assert_eq!(sent, LEAST_DATAGRAM, "{found}");
        assert!(received <= 3 * sent, "{part}: {found}");
    }
}

#[test]
fn early_requests_of_a_client_that_vanishes_count_against_no_limit() {
    let limit = "[[site.rule]]\npath = \"/limited/\"\nlimit = { rate = \"1/h\", burst = 7 }";
    let site = site_of(
        SiteBuilder::php()
            .server(&format!("{ON}limit_exempt = []"))
            .more(limit),
    );
    site.head("/limited/", &["Cache-Control: max-age=3600"]);
    // The first connection has three of them, too. Its address is validated.
    let limited = get("/limited/");
    let plans = [stored("GET"), limited.clone(), limited.clone(), limited];
    let before = site.status_number("requests");
    let (client, _) = begin(&site, "hold", &plans);
    wait_for("the early hit", TIMEOUT, || {
        logged(&site, "GET /stored/") == 2
    });
    // Its datagrams may have had any address, since it never answers.
    client.vanish();
    assert_eq!(logged(&site, "GET /limited/"), 3);
    assert!(site.status_number("requests") >= before + 5);
    for _ in 0..4 {
        site.get("/limited/").assert_status(200);
    }
    site.get("/limited/").assert_status(429);
}

#[test]
fn without_the_option_there_is_no_early_data() {
    let site = site("");
    let plans = [stored("GET"), get("/generated/")];
    let found = returning(&site, &plans, 0);
    assert_eq!(found["early_data"], false, "{found}");
    assert_eq!(found["resumed"], true, "{found}");
    assert_eq!(each(&found, "status"), [200; 2], "{found}");
    assert_eq!(each(&found, "early"), [false; 2]);
    let on = config(&site).replace("[server]\n", &format!("[server]\n{ON}"));
    reload(&site, &on);
    let found = returning(&site, &plans, 1);
    assert_eq!(found["early_data"], true, "{found}");
    assert_eq!(each(&found, "early"), [true, false], "{found}");
}

fn reload_changed(site: &TestSite) {
    let timeout = "head_timeout = \"10m\"";
    reload(
        site,
        &config(site).replace(timeout, "head_timeout = \"9m\""),
    );
}

/// A client that has begun, and the file that lets it continue.
fn begin(site: &TestSite, key: &str, streams: &[Value]) -> (RunningClient, PathBuf) {
    let file = site.scratch.join(key);
    let mut plan = json!({ "streams": streams, "resume": true, "early": 0 });
    plan[key] = file.to_str().into();
    (run(site, plan), file)
}

#[test]
fn tickets_of_an_earlier_configuration_or_process_give_no_early_data() {
    let site = site(ON);
    let plans = [stored("GET"), get("/generated/")];
    let serving = Serving::new(&site);
    let reloads = || reload_changed(&site);
    let upgrades = || {
        let old = serving.pid.get();
        serving.upgrade();
        wait_for("the old process to exit", TIMEOUT, || !is_alive(old));
    };
    for change in [&reloads as &dyn Fn(), &upgrades] {
        let before = logged(&site, "GET /generated/");
        let (client, then) = begin(&site, "then", &plans);
        let first = || logged(&site, "GET /generated/") > before;
        wait_for("the first connection", TIMEOUT, first);
        change();
        fs::write(&then, "").unwrap();
        let found = client.result();
        fs::remove_file(&then).unwrap();
        assert_eq!(found["early_data"], false, "{found}");
        assert_eq!(found["resumed"], false, "{found}");
        assert_eq!(each(&found, "status"), [200; 2], "{found}");
    }
}

#[test]
fn a_reload_during_a_handshake_ends_the_connection_after_its_requests() {
    let site = site(ON);
    let plans = [stored("GET"), get("/generated/")];
    let (client, hold) = begin(&site, "hold", &plans);
    wait_for("the early response", TIMEOUT, || {
        logged(&site, "GET /stored/") == 2
    });
    assert_eq!(site.runs("/generated/"), RUNS_OF_FIRST);
    reload_changed(&site);
    fs::write(&hold, "").unwrap();
    let found = client.result();
    assert_eq!(each(&found, "status"), [200; 2], "{found}");
    assert_eq!(each(&found, "early"), [true, false], "{found}");
    assert_eq!(site.runs("/generated/"), RUNS_OF_FIRST + 1);
    let control = found["control"]["3"].as_str().unwrap_or_default();
    assert!(control.ends_with(GOAWAY), "{found}");
}
