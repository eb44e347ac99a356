//! Distributed tracing: the trace fields that PHP and upstreams get, and the spans that Galley exports to a collector.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;
use serde_json::Value;

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// Prints the trace fields that PHP gets.
const ECHO: &str = "<?php header('Content-Type: text/plain'); \
     echo $_SERVER['HTTP_TRACEPARENT'] ?? 'none', ' ', $_SERVER['HTTP_TRACESTATE'] ?? 'none';";

/// A collector that responds with the given statuses in order and then with 200. A 503 has `Retry-After: 1`.
fn collector(statuses: &'static [u16]) -> (Origin, Arc<AtomicUsize>) {
    let request_count = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&request_count);
    let origin = Origin::start(move |_, writer| {
        writer.body();
        let number = count.fetch_add(1, Ordering::SeqCst);
        let status = statuses.get(number).copied().unwrap_or(200);
        let retry_after: &[_] = &[("Retry-After", "1")];
        writer.respond(status, if status == 503 { retry_after } else { &[] }, b"{}");
    });
    (origin.unwrap(), request_count)
}

fn traced(builder: SiteBuilder, collector: &Origin, more: &str) -> SiteBuilder {
    builder.log(&format!(
        "format = \"json\"\nfields = [\"target\", \"outcome\", \"trace_id\"]\notlp = \"{}\"\n{more}",
        collector.url()
    ))
}

/// The spans that have arrived so far.
fn spans(collector: &Origin) -> Vec<Value> {
    let mut all = Vec::new();
    for request in collector.requests() {
        assert_eq!(
            (request.method.as_str(), request.target.as_str()),
            ("POST", "/v1/traces")
        );
        assert_eq!(request.field("content-type"), Some("application/json"));
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let group = &body["resourceSpans"][0];
        let service = &group["resource"]["attributes"][0];
        assert_eq!(service["value"]["stringValue"], "galley", "{body}");
        all.extend(
            group["scopeSpans"][0]["spans"]
                .as_array()
                .unwrap()
                .iter()
                .cloned(),
        );
    }
    all
}

fn wait_for_spans(collector: &Origin, count: usize) -> Vec<Value> {
    wait_for(&format!("{count} spans"), TIMEOUT, || {
        spans(collector).len() >= count
    });
    spans(collector)
}

fn attribute<'s>(span: &'s Value, name: &str) -> &'s Value {
    let all = span["attributes"].as_array().unwrap();
    let attribute = all.iter().find(|attribute| attribute["key"] == name);
    attribute.map_or(&Value::Null, |attribute| {
        attribute["value"]
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap()
    })
}

/// The only span of this kind and name.
fn span<'s>(spans: &'s [Value], kind: u64, name: &str) -> &'s Value {
    let mut found = spans
        .iter()
        .filter(|span| span["kind"] == kind && span["name"] == name);
    let one = found
        .next()
        .unwrap_or_else(|| panic!("no {name} in {spans:#?}"));
    assert!(found.next().is_none(), "two {name} in {spans:#?}");
    one
}

fn time(span: &Value, name: &str) -> u64 {
    span[name].as_str().unwrap().parse().unwrap()
}

/// `Traceparent` and `Tracestate` that PHP gets for a request.
fn trace_fields(site: &TestSite, request: Request) -> Vec<String> {
    let text = site.send(request).expect_status(200).text();
    text.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_miss_has_a_trace_and_a_hit_has_none() {
    let (collector, _) = collector(&[]);
    let site = traced(SiteBuilder::php().file("index.php", ECHO), &collector, "").start();
    let received = trace_fields(&site, Request::get("/page?a=secret"));
    site.get("/page?a=secret").assert_status(200);
    let spans = wait_for_spans(&collector, 5);
    let (server, client) = (span(&spans, 2, "GET"), span(&spans, 3, "GET"));
    let parent = format!(
        "00-{}-{}-01",
        server["traceId"].as_str().unwrap(),
        client["spanId"].as_str().unwrap()
    );
    assert_eq!(received, [parent.as_str(), "none"]);
    assert_eq!(server["parentSpanId"], Value::Null);
    for (name, parent_span) in [("queue", server), ("store", server), ("connect", client)] {
        let child = span(&spans, 1, name);
        assert_eq!(child["parentSpanId"], parent_span["spanId"], "{name}");
        assert_eq!(child["traceId"], server["traceId"]);
        assert!(time(child, "startTimeUnixNano") <= time(child, "endTimeUnixNano"));
    }
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/page"),
        ("url.scheme", "http"),
        ("server.address", "example.test"),
        ("http.response.status_code", "200"),
        ("network.protocol.version", "1.1"),
        ("galley.cache.status", "miss"),
    ] {
        assert_eq!(attribute(server, name), value, "{name}");
    }
    assert_eq!(attribute(client, "http.response.status_code"), "200");
    assert_eq!(attribute(client, "galley.upstream.protocol"), "fastcgi");
    let all = format!("{spans:?}");
    assert!(!all.contains("secret"), "{all}");
    // The hit was earlier. If Galley exported spans for it, they would be here.
    wait_for("two records", TIMEOUT, || {
        site.access().lines().count() >= 2
    });
    let records: Vec<Value> = site
        .access()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for record in &records {
        let is_miss = record["outcome"] == "miss";
        let trace = if is_miss {
            &server["traceId"]
        } else {
            &Value::Null
        };
        assert_eq!(record["trace_id"], *trace, "{record}");
    }
    assert!(site.metrics().contains("galley_spans_exported_total 5\n"));
}

#[test]
fn trace_parent_selects_the_clients_whose_trace_is_continued() {
    let state = "vendor=1";
    let with_trace_fields = |request: Request, flags: &str| {
        request
            .field("Traceparent", format!("00-{TRACE}-{PARENT}-{flags}"))
            .field("Tracestate", state)
    };
    let proxies = "trusted_proxies = [\"127.0.0.1\"]";
    for (server, more, is_continued) in [
        ("", "", false),
        ("", "trace_parent = \"any\"", true),
        (proxies, "", true),
        (proxies, "otlp_sample = 0", true),
    ] {
        let (collector, _) = collector(&[]);
        let builder = SiteBuilder::php().file("index.php", ECHO).server(server);
        let site = traced(builder, &collector, more).start();
        let post = || Request::form("/page", &[("a", "b")]);
        // The flags of a trace that is not sampled.
        let received = trace_fields(&site, with_trace_fields(post(), "00"));
        let flags = if is_continued { "-00" } else { "-01" };
        assert!(received[0].ends_with(flags), "{more}: {received:?}");
        let received = trace_fields(&site, with_trace_fields(post(), "01"));
        assert_eq!(
            received[0].contains(TRACE),
            is_continued,
            "{more}: {received:?}"
        );
        assert!(!received[0].contains(PARENT), "{received:?}");
        assert_eq!(received[1], if is_continued { state } else { "none" });
        let page = trace_fields(&site, with_trace_fields(Request::get("/page"), "01"));
        assert_eq!(page[0].contains(TRACE), is_continued, "{more}: {page:?}");
        assert_eq!(
            page[1], "none",
            "a stored page must not depend on a field outside the key"
        );
        wait_for_spans(&collector, 8);
        let spans = spans(&collector);
        let servers: Vec<&Value> = spans.iter().filter(|span| span["kind"] == 2).collect();
        let of_parent = |span: &&&Value| span["parentSpanId"] == PARENT && span["traceId"] == TRACE;
        let continued = servers.iter().filter(of_parent).count();
        assert_eq!(continued, if is_continued { 2 } else { 0 }, "{servers:#?}");
        assert_eq!(servers.len(), if is_continued { 2 } else { 3 });
    }
}

#[test]
fn php_gets_no_invalid_trace_fields_and_none_for_a_cacheable_page() {
    let site = SiteBuilder::php().file("index.php", ECHO).start();
    let valid = format!("00-{TRACE}-{PARENT}-01");
    let post = || Request::form("/page", &[("a", "b")]).field("Tracestate", "vendor=1");
    let received = trace_fields(&site, post().field("Traceparent", &valid));
    assert_eq!(received, [valid.as_str(), "vendor=1"]);
    for invalid in [
        "junk",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "ff-x",
        "",
    ] {
        let received = trace_fields(&site, post().field("Traceparent", invalid));
        assert_eq!(received, ["none", "none"], "{invalid}");
    }
    let twice = post()
        .field("Traceparent", &valid)
        .field("Traceparent", &valid);
    assert_eq!(trace_fields(&site, twice), ["none", "none"]);
    let page = Request::get("/other").field("Traceparent", &valid);
    assert_eq!(trace_fields(&site, page), ["none", "none"]);
}

#[test]
fn an_upstream_gets_the_trace_and_each_attempt_is_a_span() {
    let (collector, _) = collector(&[]);
    let origin = Origin::start(|request, writer| {
        let status = if request.path() == "/broken" {
            500
        } else {
            200
        };
        let parent = request.field("traceparent").unwrap_or("none");
        writer.respond(status, &[], parent.as_bytes());
    })
    .unwrap();
    let site = traced(SiteBuilder::origin(&origin, "none"), &collector, "").start();
    let received = site.get("/broken").expect_status(500).text();
    let spans = wait_for_spans(&collector, 4);
    let (server, client) = (span(&spans, 2, "GET"), span(&spans, 3, "GET"));
    assert!(
        received.contains(client["spanId"].as_str().unwrap()),
        "{received}"
    );
    assert_eq!(client["status"]["code"], 2);
    assert_eq!(server["status"]["code"], 2);
    assert_eq!(attribute(server, "error.type"), "500");
    assert_eq!(attribute(client, "server.address"), "127.0.0.1");
    assert_eq!(
        attribute(client, "url.full"),
        "http://example.test/broken",
        "{client}"
    );
    drop(origin);
    site.get("/gone").assert_status(502);
    let spans = wait_for_spans(&collector, 7);
    let failed = spans
        .iter()
        .filter(|span| attribute(span, "error.type") == "connect");
    assert!(failed.count() >= 1, "{spans:#?}");
}

#[test]
fn a_busy_collector_gets_retries_and_a_missing_one_delays_no_request() {
    let (collector, request_count) = collector(&[503, 429, 400]);
    let site = traced(SiteBuilder::php().file("index.php", ECHO), &collector, "").start();
    trace_fields(&site, Request::get("/page"));
    wait_for("three attempts", TIMEOUT, || {
        request_count.load(Ordering::SeqCst) >= 3
    });
    let bodies = collector.requests();
    assert_eq!(bodies[0].body, bodies[1].body);
    assert_eq!(bodies[1].body, bodies[2].body);
    wait_for("the rejected batch to be counted", TIMEOUT, || {
        site.metrics().contains("galley_spans_dropped_total 5\n")
    });
    drop(collector);
    // More spans than the queue holds: requests are served, and the dropped spans are counted.
    for number in 0..600 {
        trace_fields(&site, Request::get(&format!("/page?n={number}")));
    }
    let text = site.metrics();
    let dropped = text.lines().find_map(|line| {
        let count = line.strip_prefix("galley_spans_dropped_total ")?;
        count.parse::<u64>().ok()
    });
    assert!(dropped.unwrap() > 5, "{dropped:?}");
}
