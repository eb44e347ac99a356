//! `galley load` against Galley and against scripted servers: measurements, rejected arguments, reports.

use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use galley_testkit::origin::Origin;
use galley_testkit::{Scratch, wait_for};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::{HOST, SiteBuilder, binary, output_text};
use crate::tls_support::{Authority, over_tls, tls_addr};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.arg("load").args(arguments);
    command
}

pub fn load(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", output_text(output)))
}

fn p99(report: &Value) -> f64 {
    let percentiles = report["latency"].as_array().unwrap();
    let p99 = percentiles.iter().find(|entry| entry["percent"] == 99.0);
    p99.unwrap()["ms"].as_f64().unwrap()
}

/// Starts a server that serves one request at a time and takes a second for request `number`, counted from 1.
fn stalling_origin(number: u64) -> Origin {
    let (count, exclusive) = (AtomicU64::new(0), Mutex::new(()));
    Origin::start(move |_, writer| {
        let _exclusive = exclusive.lock().unwrap();
        if count.fetch_add(1, Ordering::SeqCst) + 1 == number {
            thread::sleep(Duration::from_secs(1));
        }
        writer.respond(200, &[], b"hello");
    })
    .unwrap()
}

#[test]
fn a_run_against_galley_writes_all_reports() {
    let site = SiteBuilder::files().file("index.html", "hello").start();
    let dir = Scratch::new().unwrap();
    let file = |name: &str| dir.join(name).display().to_string();
    let (csv, html, json) = (file("run.csv"), file("run.html"), file("run.json"));
    let (url, address) = (format!("http://{HOST}/"), site.addr().to_string());
    let output = load(&[
        &url,
        "--connect-to",
        &address,
        "--rate",
        "100",
        "--duration",
        "2s",
        "--json",
        "--csv",
        &csv,
        "--html",
        &html,
        "--tracking",
        "50%",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let run = report(&output);
    assert_eq!(run["responses"], 200, "{run}");
    assert_eq!(
        (&run["failures"], &run["statuses"]["200"]),
        (&0.into(), &200.into())
    );
    assert!(
        run["machine"].as_array().is_some_and(|all| !all.is_empty()),
        "{run}"
    );
    assert_eq!(fs::read_to_string(&csv).unwrap().lines().count(), 3);
    assert!(fs::read_to_string(&html).unwrap().contains("</svg>"));
    // The second run is compared with the first.
    fs::write(&json, &output.stdout).unwrap();
    let output = load(&[
        &url,
        "--connect-to",
        &address,
        "--rate",
        "50",
        "--duration",
        "1s",
        "--compare",
        &json,
        "--html",
        &html,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let comparison = String::from_utf8(output.stdout).unwrap();
    assert!(comparison.contains("200  ->          50"), "{comparison}");
    let page = fs::read_to_string(&html).unwrap();
    assert!(page.contains("<h2>Before</h2>") && page.contains("<h2>After</h2>"));
}

#[test]
fn a_stall_appears_in_the_percentiles_of_a_constant_rate_only() {
    let origin = stalling_origin(150);
    let url = format!("http://{}/", origin.addr());
    let output = load(&[
        &url,
        "--rate",
        "100",
        "--duration",
        "3s",
        "--connections",
        "20",
        "--json",
    ]);
    let constant_rate = p99(&report(&output));
    assert!(
        constant_rate >= 800.0,
        "{constant_rate} ms at a constant rate"
    );
    let origin = stalling_origin(150);
    let url = format!("http://{}/", origin.addr());
    let output = load(&[&url, "-n", "300", "-c", "1", "-k", "--json"]);
    let closed_loop = p99(&report(&output));
    assert!(closed_loop < 500.0, "{closed_loop} ms in a closed loop");
}

#[test]
fn a_closed_loop_prints_the_lines_of_ab() {
    let origin = Origin::start(|_, writer| {
        writer.respond(200, &[("Connection", "keep-alive")], b"hello");
    })
    .unwrap();
    let url = format!("http://{}/", origin.addr());
    let output = load(&[&url, "-n", "100", "-c", "4", "-k"]);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "Concurrency Level:      4\n",
        "Complete requests:      100\n",
        "Failed requests:        0\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_ramp_finds_the_highest_sustainable_rate() {
    // One request at a time, 10 ms each: 100 a second at most.
    let exclusive = Mutex::new(());
    let origin = Origin::start(move |_, writer| {
        let _exclusive = exclusive.lock().unwrap();
        thread::sleep(Duration::from_millis(10));
        writer.respond(200, &[], b"hello");
    })
    .unwrap();
    let url = format!("http://{}/", origin.addr());
    let output = load(&[
        &url,
        "--ramp",
        "10:400",
        "--duration",
        "6s",
        "--connections",
        "30",
        "--json",
    ]);
    let run = report(&output);
    let rate = run["knee"]["rate"]
        .as_f64()
        .unwrap_or_else(|| panic!("{run}"));
    assert!((20.0..250.0).contains(&rate), "{}", run["knee"]);
    assert!(run["cause"].is_string(), "{run}");
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
}

#[test]
fn a_remote_host_needs_a_proof_of_ownership() {
    let output = load(&["http://192.0.2.1/", "--rate", "1"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        output_text(&output).contains("--i-own 192.0.2.1"),
        "{}",
        output_text(&output)
    );
    let proof: Arc<Mutex<String>> = Arc::default();
    let origin_proof = Arc::clone(&proof);
    let origin = Origin::start(move |request, writer| {
        let text = match request.path() {
            "/.well-known/galley-load.txt" => origin_proof.lock().unwrap().clone(),
            _ => "hello".to_owned(),
        };
        writer.respond(200, &[], text.as_bytes());
    })
    .unwrap();
    // The check does not treat this address as loopback, but it reaches this machine.
    let url = format!("http://0.0.0.0:{}/", origin.addr().port());
    let arguments = [
        &*url,
        "--rate",
        "20",
        "--duration",
        "1s",
        "--i-own",
        "0.0.0.0",
    ];
    let output = load(&arguments);
    assert_eq!(output.status.code(), Some(2), "{}", output_text(&output));
    assert_eq!(
        origin.requests().len(),
        1,
        "more than the proof was requested"
    );
    let text = output_text(&output);
    let token = text
        .lines()
        .map(str::trim)
        .find(|line| line.len() == 32)
        .unwrap_or_else(|| panic!("{text}"));
    *proof.lock().unwrap() = format!("{token}\n");
    let output = load(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    assert_eq!(origin.requests().len(), 22);
}

#[test]
fn pages_come_from_a_sitemap_or_an_access_log() {
    let address: Arc<Mutex<String>> = Arc::default();
    let origin_address = Arc::clone(&address);
    let received: Arc<Mutex<Vec<String>>> = Arc::default();
    let origin_received = Arc::clone(&received);
    let origin = Origin::start(move |request, writer| {
        let address = origin_address.lock().unwrap().clone();
        let loc = |path: &str| format!("<loc>http://{address}{path}</loc>");
        let index = format!("<sitemapindex>{}</sitemapindex>", loc("/posts.xml.gz"));
        let (a, b) = (loc("/a/"), loc("/b/"));
        let posts = format!("<urlset>{a}{b}<loc>http://other/</loc></urlset>");
        let body = match request.path() {
            "/wp-sitemap.xml" => index.into_bytes(),
            "/posts.xml.gz" => gzip(posts.as_bytes()),
            _ => {
                let line = format!("{} {}", request.method, request.target);
                origin_received.lock().unwrap().push(line);
                Vec::new()
            }
        };
        writer.respond(200, &[], &body);
    })
    .unwrap();
    *address.lock().unwrap() = origin.addr().to_string();
    let url = format!("http://{}/", origin.addr());
    let output = load(&[
        &url,
        "--rate",
        "50",
        "--duration",
        "1s",
        "--sitemap",
        "/wp-sitemap.xml",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let mut requests = std::mem::take(&mut *received.lock().unwrap());
    requests.sort();
    requests.dedup();
    assert_eq!(requests, ["GET /a/", "GET /b/"]);
    let dir = Scratch::new().unwrap();
    let line = |method: &str, path: &str| {
        format!(
            "192.0.2.1 - - [10/Oct/2026:13:55:36 +0000] \"{method} {path} HTTP/1.1\" 200 5 \"-\" \"x\"\n"
        )
    };
    let log = [
        ("GET", "/one"),
        ("POST", "/two"),
        ("HEAD", "/three"),
        ("GET", "/four"),
    ];
    let text: String = log
        .iter()
        .map(|(method, path)| line(method, path))
        .collect();
    let file = dir.write("access.log.1.gz", gzip(text.as_bytes())).unwrap();
    let file = file.display().to_string();
    let output = load(&[
        &url,
        "--access-log",
        &file,
        "--replay",
        "--connections",
        "1",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let requests = received.lock().unwrap().clone();
    assert_eq!(requests, ["GET /one", "HEAD /three", "GET /four"]);
}

#[test]
fn sigint_prints_the_report_so_far() {
    let origin = stalling_origin(0);
    let url = format!("http://{}/", origin.addr());
    let mut command = command(&[&url, "--rate", "50", "--duration", "1h", "--json"]);
    let child: Child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("requests", Duration::from_secs(20), || {
        origin.requests().len() > 20
    });
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
    let run = report(&output);
    assert_eq!(run["stopped"], true);
    assert!(run["responses"].as_u64().unwrap() >= 20, "{run}");
}

#[test]
fn https_works_with_http1_and_http2() {
    let authority = Authority::new();
    let builder = SiteBuilder::files().file("index.html", "hello");
    let site = over_tls(builder, &authority).start();
    let address = tls_addr(&site).to_string();
    let arguments = [
        "https://example.test/",
        "--connect-to",
        &address,
        "--rate",
        "100",
        "--duration",
        "1s",
        "--json",
    ];
    for (more, client) in [
        (&["--insecure"][..], "HTTP/1.1 over TLS, 200 connections"),
        // The client offers a single protocol, so a server without it aborts the handshake.
        (
            &["--insecure", "--http2"],
            "HTTP/2 over TLS, 200 connections",
        ),
    ] {
        let output = load(&[&arguments[..], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", output_text(&output));
        let run = report(&output);
        assert_eq!(run["setup"]["client"], client);
        assert_eq!(
            (&run["responses"], &run["failures"]),
            (&100.into(), &0.into()),
            "{run}"
        );
        assert_eq!(run["cache"]["file"], 100, "{run}");
    }
    // This machine does not trust the certificate authority.
    let output = load(&arguments);
    assert_eq!(output.status.code(), Some(1), "{}", output_text(&output));
    let text = output_text(&output);
    assert!(text.contains("certificate"), "{text}");
}

#[test]
fn wrong_usage_and_a_dead_server_have_different_exit_codes() {
    let free = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{free}/");
    for (arguments, code) in [
        (&[&*url][..], 2),
        (&[&*url, "--rate", "1", "--ramp", "1:2"], 2),
        (&[&*url, "--rate", "1", "--http2"], 2),
        (
            &[
                &*format!("http://{HOST}/"),
                "--connect-to",
                "192.0.2.1:80",
                "--rate",
                "1",
            ],
            2,
        ),
        (&["nonsense", "--rate", "1"], 2),
        (&[&*url, "--rate", "0"], 2),
        (&[&*url, "-n", "1", "--uncached", "5%"], 2),
        (&[&*url, "--rate", "1", "--logged-in", "5%"], 2),
        (&[&*url, "--rate", "1", "--duration", "1s"], 1),
    ] {
        let output = load(arguments);
        assert_eq!(
            output.status.code(),
            Some(code),
            "{arguments:?}: {}",
            output_text(&output)
        );
    }
}
