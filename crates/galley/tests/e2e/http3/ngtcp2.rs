//! The client of ngtcp2, which loses datagrams, updates keys and changes its address on purpose. It reports success always, so that only
//! what it has received counts.

use std::fs;
use std::io::ErrorKind;
use std::process::Command;

use galley_testkit::{skip, wait_for};

use super::client::quic_port;
use super::defenses::metric;
use crate::support::{
    HOST, SiteBuilder, TIMEOUT, TestSite, output_text, page_value, random_bytes, sha256,
};
use crate::tls_support::{Authority, over_tls};

/// The name that the client puts into SNI for a server with a numeric address.
const NAME: &str = "localhost";

const LARGE: usize = 1_000_000;

/// Its response comes when the client has done what it does after these times.
const SLOW: &str = "<?php sleep(2); echo str_repeat('slow ', 20000);";
const KEY_UPDATE: &str = "--key-update=300ms";
const OTHER_ADDRESS: &str = "--change-local-addr=700ms";

fn site() -> TestSite {
    let authority = Authority::new();
    let builder = SiteBuilder::php()
        .file("slow.php", SLOW)
        .file("page.html", "a page")
        .file("large.bin", random_bytes(LARGE))
        .server("listen_quic = [\"127.0.0.1:0\"]")
        .site(&format!("hosts = [\"{HOST}\", \"{NAME}\"]"));
    let builder = over_tls(builder, &authority);
    authority.issue(builder.scratch.path(), "site", &[HOST, NAME]);
    builder.start()
}

/// Downloads these paths at a time on one connection. `None`: the client is not installed.
fn download(site: &TestSite, paths: &[&str], arguments: &[&str]) -> Option<Vec<Vec<u8>>> {
    let port = quic_port(site);
    let dir = site.scratch.dir("received").unwrap();
    let mut command = Command::new("gtlsclient");
    command
        .args(["--quiet", "--exit-on-all-streams-close"])
        .arg(format!("--download={}", dir.display()))
        .args(arguments)
        .args(["127.0.0.1", &port.to_string()]);
    let urls = paths
        .iter()
        .map(|path| format!("https://{NAME}:{port}{path}"));
    let output = match command.args(urls).output() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            skip("gtlsclient is not installed");
            return None;
        }
        output => output.unwrap(),
    };
    let received = paths.iter().map(|path| {
        let file = dir.join(path.trim_start_matches('/'));
        let read = fs::read(&file);
        let _ = fs::remove_file(&file);
        read.unwrap_or_else(|_| panic!("no {path}: {}", output_text(&output)))
    });
    Some(received.collect())
}

fn assert_large(received: &[u8]) {
    assert_eq!(sha256(received), sha256(&random_bytes(LARGE)));
}

#[test]
fn ngtcp2_gets_stored_pages_and_large_files() {
    let site = site();
    for _ in 0..2 {
        let Some(received) = download(&site, &["/stored"], &[]) else {
            return;
        };
        assert_eq!(
            page_value(&String::from_utf8_lossy(&received[0]), "run"),
            "1"
        );
    }
    assert_eq!(site.runs("/stored"), 1);
    assert_large(&download(&site, &["/large.bin"], &[]).unwrap()[0]);
    let several = ["/stored", "/large.bin", "/page.html", "/other"];
    let received = download(&site, &several, &[]).unwrap();
    assert_eq!(
        page_value(&String::from_utf8_lossy(&received[0]), "run"),
        "1"
    );
    assert_large(&received[1]);
    assert_eq!(received[2], b"a page");
    assert_eq!(
        page_value(&String::from_utf8_lossy(&received[3]), "path"),
        "/other"
    );
    let line = site.access_line("\"GET /other HTTP/3.0\" 200");
    assert!(line.contains("nghttp3/ngtcp2 client"), "{line}");
    wait_for("the end of the connections", TIMEOUT, || {
        metric(&site, "galley_http3_connections_total") == 4
    });
}

#[test]
fn ngtcp2_gets_everything_although_datagrams_are_lost() {
    let site = site();
    let lossy = ["--tx-loss=0.02", "--rx-loss=0.02"];
    if let Some(received) = download(&site, &["/large.bin"], &lossy) {
        assert_large(&received[0]);
    }
}

#[test]
fn responses_follow_ngtcp2_when_it_updates_keys_and_moves() {
    let site = site();
    let Some(received) = download(&site, &["/slow.php"], &[KEY_UPDATE, OTHER_ADDRESS]) else {
        return;
    };
    assert_eq!(received[0].len(), 100_000);
    // The request comes from another port than the handshake, as behind a router that has forgotten the connection.
    let rebound = [
        "--change-local-addr=100ms",
        "--nat-rebinding",
        "--delay-stream=300ms",
    ];
    let received = download(&site, &["/page.html"], &rebound).unwrap();
    assert_eq!(received[0], b"a page");
}
