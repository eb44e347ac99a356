//! Programs that speak HTTP/2: curl, nghttp, and h2spec, which knows what the protocol demands.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use super::attacks::files;
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
    let wanted = format!("1500000 {} 2", sha256(&content));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), wanted);
}

#[test]
fn nghttp_fetches_many_at_once_by_small_windows() {
    let site = files("");
    let url = format!("http://{}/page.html", site.addr());
    // Windows of 2^10 - 1 bytes.
    let output = Command::new("nghttp")
        .args(["-nsv", "-w", "10", "-W", "16", "-m", "60", "--no-dep"])
        .args([&format!("-H:authority: {HOST}"), &url])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let ended = text.matches("; END_STREAM").count();
    // Their requests and our answers.
    assert!(output.status.success() && ended >= 120, "{ended} in {text}");
    assert!(
        !text.contains("RST_STREAM") && !text.contains("ENHANCE"),
        "{text}"
    );
}

/// Where `scripts/setup` puts it.
fn h2spec() -> PathBuf {
    let given = std::env::var_os("GALLEY_H2SPEC").map(PathBuf::from);
    let cache = || {
        let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        own.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache"))
            .join("galley/h2spec-2.2.1")
    };
    let path = given.unwrap_or_else(cache).join("h2spec");
    assert!(
        path.is_file(),
        "{} is missing: run `scripts/setup test`",
        path.display()
    );
    path
}

/// A site for every host, as h2spec names none.
fn for_h2spec() -> SiteBuilder {
    SiteBuilder::files()
        .server("h2c = true")
        .site("hosts = [\"*\"]")
        .file("page.html", "a page ".repeat(1500))
}

fn h2spec_says(at: SocketAddr, arguments: &[&str]) -> String {
    let output = Command::new(h2spec())
        .args(["--strict", "-h", "127.0.0.1", "-P", "/page.html"])
        .args(["-p", &at.port().to_string()])
        .args(arguments)
        .output()
        .unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn h2spec_finds_nothing_to_complain_of() {
    let authority = Authority::new();
    let site = over_tls(for_h2spec(), &authority).start();
    let text = h2spec_says(tls_addr(&site), &["-t", "-k"]);
    assert!(
        text.contains("146 tests, 146 passed, 0 skipped, 0 failed"),
        "{text}"
    );
}

/// Without TLS, a connection that does not begin as HTTP/2 does is one of HTTP/1 and gets its answer to that; h2spec expects
/// to be cut off.
#[test]
fn h2spec_finds_in_the_clear_only_that_http_1_is_spoken_too() {
    let site = for_h2spec().start();
    let text = h2spec_says(site.addr(), &[]);
    assert!(
        text.contains("146 tests, 145 passed, 0 skipped, 1 failed")
            && text.contains("\u{d7} 2: Sends invalid connection preface"),
        "{text}"
    );
}

#[test]
fn a_handshake_chooses_the_protocol() {
    let authority = Authority::new();
    let plan = SiteBuilder::files().file("page.html", "a page ".repeat(1500));
    let site = over_tls(plan, &authority).start();
    let port = tls_addr(&site).port();
    let url = format!("https://{HOST}:{port}/page.html");
    let said = "%{http_code} %{http_version} %{size_download}";
    for (asked, wanted) in [("--http2", "200 2 10500"), ("--http1.1", "200 1.1 10500")] {
        let arguments = ["-o", "/dev/null", "-w", said, asked, &url];
        assert_eq!(curl(&site, HOST, &arguments), wanted);
    }
    let line = site.access_line("HTTP/2.0");
    assert!(
        line.contains("\"GET /page.html HTTP/2.0\" 200 10500"),
        "{line}"
    );
}
