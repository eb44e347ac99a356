//! Chromium loads a page with many resources over HTTP/3.

use std::fmt::Write as _;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use galley_testkit::{Chromium, Scratch};
use rcgen::{KeyPair, PublicKeyData as _};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::client::{quic_port, start};
use crate::support::{HOST, SiteBuilder, TestSite, random_bytes};

/// More than the requests that a connection may have in progress.
const FILES: usize = 150;

/// The pin of the site's key (RFC 7469 section 2.4).
fn pin(site: &TestSite) -> String {
    let key = fs::read_to_string(site.scratch.join("site.key")).unwrap();
    let key = KeyPair::from_pem(&key).unwrap();
    STANDARD.encode(Sha256::digest(key.subject_public_key_info()))
}

#[test]
fn chromium_loads_a_page_and_its_resources_over_http3() {
    let mut builder = SiteBuilder::php().file("large.bin", random_bytes(2_000_000));
    let mut page = String::from("<!doctype html><title>over HTTP/3</title>");
    for number in 0..FILES {
        let name = format!("part-{number}.js");
        let text = format!(
            "window.parts = (window.parts ?? 0) + 1;{}",
            " ".repeat(number * 100)
        );
        builder = builder.file(&name, &text);
        let _ = write!(page, "<script src=\"/{name}\"></script>");
    }
    let site = start(builder.file("page.html", &page));
    let port = quic_port(&site);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let scratch = Scratch::new().unwrap();
    let profile = scratch.join("chromium");
    let mut browser = Chromium::start_over_quic(&profile, &pin(&site), HOST, address).unwrap();
    let mut tab = browser.new_tab().unwrap();
    tab.navigate(&format!("https://{HOST}:{port}/page.html"))
        .unwrap();
    tab.wait(&format!("window.parts === {FILES}")).unwrap();

    // A large file, a page that PHP generates, and an upload.
    let fetched = tab.evaluate(
        "performance.setResourceTimingBufferSize(1000); \
         Promise.all([fetch('/large.bin'), fetch('/generated'), fetch('/form', { method: 'POST', body: new Uint8Array(500000) })] \
         .map(sent => sent.then(response => response.blob().then(body => [response.status, body.size]))))",
    );
    let fetched = fetched.unwrap();
    assert_eq!(fetched[0], json!([200, 2_000_000]));
    assert_eq!((&fetched[1][0], &fetched[2][0]), (&json!(200), &json!(200)));

    let entries = "performance.getEntries().filter(entry => 'nextHopProtocol' in entry && \
                   entry.name.startsWith(location.origin)) \
                   .map(entry => [entry.name, entry.nextHopProtocol, entry.responseStatus])";
    // The page, its scripts, and what was fetched.
    tab.wait(&format!("{entries}.length >= {}", FILES + 4))
        .unwrap();
    let entries = tab.evaluate(entries).unwrap();
    for entry in entries.as_array().unwrap() {
        let (protocol, status): (&Value, &Value) = (&entry[1], &entry[2]);
        assert_eq!((protocol, status), (&json!("h3"), &json!(200)), "{entry}");
    }
    let line = site.access_line("\"GET /page.html HTTP/3.0");
    assert!(line.contains("HTTP/3.0\" 200"), "{line}");
}
