//! Interoperability with HTTP/2 programs: curl, nghttp, and h2spec, which tests conformance.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use super::frames::file_site;
use crate::support::{HOST, SiteBuilder, output_text, random_bytes, sha256};
use crate::tls_support::{Authority, curl, over_tls, tls_addr};

#[test]
fn curl_fetches_and_uploads() {
    let script =
        "<?php echo $_FILES['f']['size'], ' ', hash_file('sha256', $_FILES['f']['tmp_name']);";
    let site = SiteBuilder::php()
        .server("h2c = true")
        .file("upload.php", script)
        .start();
    let content = random_bytes(1_500_000);
    let file = site.scratch.join("p.bin");
    std::fs::write(&file, &content).unwrap();
    let output = Command::new("curl")
        .args(["-sS", "--http2-prior-knowledge", "-w", " %{http_version}"])
        .args(["-H", &format!("Host: {HOST}")])
        .args(["-F", &format!("f=@{}", file.display())])
        .arg(format!("http://{}/upload.php", site.addr()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let expected = format!("1500000 {} 2", sha256(&content));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
}

#[test]
fn nghttp_fetches_concurrently_with_small_windows() {
    let site = file_site("");
    let url = format!("http://{}/page.html", site.addr());
    // Windows of 2^10 - 1 bytes.
    let output = Command::new("nghttp")
        .args(["-nsv", "-w", "10", "-W", "16", "-m", "60", "--no-dep"])
        .args([&format!("-H:authority: {HOST}"), &url])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let ended = text.matches("; END_STREAM").count();
    // 60 requests and 60 responses.
    assert!(output.status.success() && ended >= 120, "{ended} in {text}");
    assert!(
        !text.contains("RST_STREAM") && !text.contains("ENHANCE"),
        "{text}"
    );
}

/// Path of h2spec, which `scripts/setup` installs.
fn h2spec() -> PathBuf {
    let configured = std::env::var_os("GALLEY_H2SPEC").map(PathBuf::from);
    let cache = || {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        cache
            .unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"))
            .join("galley/h2spec-2.2.1")
    };
    let path = configured.unwrap_or_else(cache).join("h2spec");
    assert!(
        path.is_file(),
        "{} is missing: run `scripts/setup test`",
        path.display()
    );
    path
}

/// A site for every host, because h2spec sends no host of the test site.
fn h2spec_site() -> SiteBuilder {
    SiteBuilder::files()
        .server("h2c = true")
        .site("hosts = [\"*\"]")
        .file("page.html", "a page ".repeat(1500))
}

fn run_h2spec(addr: SocketAddr, arguments: &[&str]) -> String {
    let output = Command::new(h2spec())
        .args(["--strict", "-h", "127.0.0.1", "-P", "/page.html"])
        .args(["-p", &addr.port().to_string()])
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn h2spec_passes_over_tls() {
    let authority = Authority::new();
    let site = over_tls(h2spec_site(), &authority).start();
    let text = run_h2spec(tls_addr(&site), &["-t", "-k"]);
    assert!(
        text.contains("146 tests, 146 passed, 0 skipped, 0 failed"),
        "{text}"
    );
}

/// Without TLS, a connection without an HTTP/2 preface is an HTTP/1 connection and gets an HTTP/1 response. h2spec expects it to
/// be closed.
#[test]
fn h2spec_without_tls_fails_only_the_invalid_preface_test() {
    let site = h2spec_site().start();
    let text = run_h2spec(site.addr(), &[]);
    assert!(
        text.contains("146 tests, 145 passed, 0 skipped, 1 failed")
            && text.contains("\u{d7} 2: Sends invalid connection preface"),
        "{text}"
    );
}

#[test]
fn alpn_selects_the_protocol() {
    let authority = Authority::new();
    let builder = SiteBuilder::files().file("page.html", "a page ".repeat(1500));
    let site = over_tls(builder, &authority).start();
    let port = tls_addr(&site).port();
    let url = format!("https://{HOST}:{port}/page.html");
    let format = "%{http_code} %{http_version} %{size_download}";
    for (option, expected) in [("--http2", "200 2 10500"), ("--http1.1", "200 1.1 10500")] {
        let arguments = ["-o", "/dev/null", "-w", format, option, &url];
        assert_eq!(curl(&site, HOST, &arguments), expected);
    }
    let line = site.access_line("HTTP/2.0");
    assert!(
        line.contains("\"GET /page.html HTTP/2.0\" 200 10500"),
        "{line}"
    );
}
