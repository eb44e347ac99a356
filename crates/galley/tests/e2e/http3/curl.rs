//! curl, whose HTTP/3 is that of ngtcp2 and nghttp3.

use std::fs;
use std::process::Command;

use super::client::{installed, quic_port, start};
use crate::support::{HOST, SiteBuilder, TestSite, output_text, random_bytes, sha256};

const LARGE: usize = 3_000_000;

fn site() -> TestSite {
    let hash =
        "<?php $in = file_get_contents('php://input'); echo strlen($in), ' ', hash('sha256', $in);";
    start(
        SiteBuilder::php()
            .file("hash.php", hash)
            .file("large.bin", random_bytes(LARGE)),
    )
}

/// Runs curl with HTTP/3 only, and returns its output.
fn curl(site: &TestSite, port: u16, path: &str, arguments: &[&str]) -> String {
    let mut command = Command::new(installed("GALLEY_CURL", "curl-http3", "curl"));
    command
        .args([
            "--http3-only",
            "--silent",
            "--show-error",
            "--max-time",
            "60",
        ])
        .args(["--resolve", &format!("{HOST}:{port}:127.0.0.1")])
        .arg("--cacert")
        .arg(site.scratch.join("ca.pem"))
        .args(arguments)
        .arg(format!("https://{HOST}:{port}{path}"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn curl_downloads_uploads_and_uses_the_cache() {
    let site = site();
    let port = quic_port(&site);
    let large = site.scratch.join("large");
    let path = large.to_str().unwrap();
    let about = curl(
        &site,
        port,
        "/large.bin",
        &[
            "--output",
            path,
            "--write-out",
            "%{http_version} %{http_code}",
        ],
    );
    assert_eq!(about, "3 200");
    let received = fs::read(&large).unwrap();
    assert_eq!(sha256(&received), sha256(&random_bytes(LARGE)));
    // A body of known length, and one whose length the client does not announce.
    let expected = format!("{LARGE} {}", sha256(&received));
    let whole = format!("@{path}");
    assert_eq!(
        curl(&site, port, "/hash.php", &["--data-binary", &whole]),
        expected
    );
    assert_eq!(
        curl(
            &site,
            port,
            "/hash.php",
            &["--upload-file", path, "--request", "POST"]
        ),
        expected
    );
    let part = curl(
        &site,
        port,
        "/large.bin",
        &[
            "--range",
            "0-9",
            "--output",
            "/dev/null",
            "--write-out",
            "%{http_code} %{size_download}",
        ],
    );
    assert_eq!(part, "206 10");
    for outcome in ["fwd=uri-miss", "hit"] {
        let head = curl(
            &site,
            port,
            "/stored",
            &["--dump-header", "-", "--output", "/dev/null"],
        );
        let line = head.lines().find(|line| line.starts_with("cache-status:"));
        assert!(line.is_some_and(|line| line.contains(outcome)), "{head}");
    }
    assert_eq!(site.runs("/stored"), 1);
}
