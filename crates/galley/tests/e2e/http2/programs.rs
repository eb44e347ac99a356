//! Programs that speak HTTP/2: curl, nghttp, and h2spec, which knows what the protocol demands.

use std::path::PathBuf;
use std::process::Command;

use super::attacks::files;
use crate::support::{HOST, Plan, noise, sha256, words};

#[test]
fn curl_fetches_and_uploads() {
    let script =
        "<?php echo $_FILES['f']['size'], ' ', hash_file('sha256', $_FILES['f']['tmp_name']);";
    let stage = Plan::php()
        .server("h2c = true")
        .file("upload.php", script)
        .start();
    let content = noise(1_500_000);
    let file = stage.scratch.join("p.bin");
    std::fs::write(&file, &content).unwrap();
    let output = Command::new("curl")
        .args(["-sS", "--http2-prior-knowledge", "-w", " %{http_version}"])
        .args(["-H", &format!("Host: {HOST}")])
        .args(["-F", &format!("f=@{}", file.display())])
        .arg(format!("http://{}/upload.php", stage.addr()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", words(&output));
    let wanted = format!("1500000 {} 2", sha256(&content));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), wanted);
}

#[test]
fn nghttp_fetches_many_at_once_by_small_windows() {
    let stage = files("");
    let url = format!("http://{}/page.html", stage.addr());
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

/// In the clear, a connection that does not begin as HTTP/2 does is one of HTTP/1 and gets its answer to that; h2spec expects
/// to be cut off.
#[test]
fn h2spec_finds_nothing_to_complain_of_but_that_http_1_is_spoken_too() {
    let stage = Plan::files()
        .server("h2c = true")
        .site("hosts = [\"*\"]")
        .file("page.html", "a page ".repeat(1500))
        .start();
    let output = Command::new(h2spec())
        .args(["--strict", "-h", "127.0.0.1", "-P", "/page.html"])
        .args(["-p", &stage.addr().port().to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("146 tests, 145 passed, 0 skipped, 1 failed")
            && text.contains("\u{d7} 2: Sends invalid connection preface"),
        "{text}"
    );
}
