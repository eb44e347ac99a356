//! Server certificates: selection by name, hosts that a certificate covers, renewal, and expiry.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use galley_testkit::wait_for;

use crate::support::{SiteBuilder, TIMEOUT, TestSite};
use crate::tls_support::{Authority, KeyType, Tls, Validity, curl, over_tls, s_client, tls_addr};

const CLOSE: &str = "GET / HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n";

/// A site with one certificate, and one with an RSA and an ECDSA certificate for several names.
pub fn two_sites(authority: &Authority) -> TestSite {
    let builder = over_tls(SiteBuilder::files(), authority)
        .file("index.html", "one\n")
        .site("hosts = [\"example.test\", \"www.example.test\"]")
        .more(
            "[[site]]\nhosts = [\"other.test\", \"*.wild.test\"]\nroot = \"{dir}/other\"\n\
             tls = [{ cert = \"{dir}/rsa.pem\", key = \"{dir}/rsa.key\" }, { cert = \"{dir}/other.pem\", key = \"{dir}/other.key\" }]",
        );
    let dir = builder.scratch.path();
    let hosts = ["other.test", "*.wild.test"];
    authority.issue(dir, "other", &hosts);
    authority.issue_as(dir, "rsa", &hosts, (KeyType::Rsa, Validity::Valid));
    builder.scratch.write("other/index.html", "two\n").unwrap();
    builder.start()
}

#[test]
fn the_certificate_is_selected_by_name_and_by_signature_algorithm() {
    let site = two_sites(&Authority::new());
    let addr = tls_addr(&site);
    let get = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let with = |name: &str, more: &[&str], host: &str| {
        let name = [
            "-servername",
            name,
            "-verify_return_error",
            "-verify_hostname",
            name,
        ];
        s_client(&site.scratch, addr, &[&name[..], more].concat(), &get(host))
    };
    for (name, text) in [
        ("example.test", "one"),
        ("other.test", "two"),
        ("a.wild.test", "two"),
        ("A.WILD.test", "two"),
    ] {
        let output = with(name, &[], name);
        assert!(
            output.contains(text) && output.contains("ECDSA"),
            "{name}: {output}"
        );
    }
    let rsa = with("other.test", &["-sigalgs", "RSA-PSS+SHA256"], "other.test");
    assert!(rsa.contains("two") && rsa.contains("RSA-PSS"), "{rsa}");
    // No site has this name, so no certificate is sent.
    let unknown = s_client(
        &site.scratch,
        addr,
        &["-servername", "unknown.test"],
        &get("example.test"),
    );
    assert!(
        unknown.contains("no peer certificate available"),
        "{unknown}"
    );
    // Without a server name, the certificate of the first site is sent.
    let none = s_client(
        &site.scratch,
        addr,
        &["-noservername"],
        &get("example.test"),
    );
    assert!(none.contains("one"), "{none}");
}

#[test]
fn a_host_that_the_certificate_does_not_cover_gets_421() {
    let authority = Authority::new();
    let site = two_sites(&authority);
    let (addr, client) = (tls_addr(&site), authority.client());
    let send_for_host = |name: &str, host: &str| {
        let mut tls = Tls::connect(&client, name, addr).unwrap();
        tls.send_raw(
            format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").as_bytes(),
        )
    };
    for (name, host, status) in [
        ("example.test", "example.test", 200),
        ("example.test", "example.test:8443", 200),
        ("example.test", "www.example.test", 200),
        ("example.test", "other.test", 421),
        ("example.test", "a.wild.test", 421),
        ("example.test", "nobody.test", 421),
        ("other.test", "b.wild.test", 200),
        ("a.wild.test", "other.test", 200),
        ("other.test", "example.test", 421),
    ] {
        let output = send_for_host(name, host);
        let line = format!("HTTP/1.1 {status} ");
        assert!(output.starts_with(&line), "{name} {host}: {output}");
    }
    let line = site.access_line("misdirected");
    assert!(line.contains(" 421 "), "{line}");
    // A refused request does not affect the other requests of its connection.
    let mut tls = Tls::connect(&client, "example.test", addr).unwrap();
    let output = tls.send_raw(
        format!("GET / HTTP/1.1\r\nHost: other.test\r\n\r\nGET / HTTP/1.1\r\nHost: example.test\r\n\r\n{CLOSE}").as_bytes(),
    );
    assert_eq!(output.matches("HTTP/1.1 421 ").count(), 1, "{output}");
    assert_eq!(output.matches("HTTP/1.1 200 ").count(), 2, "{output}");
}

#[test]
fn a_renewed_certificate_is_used_without_a_failed_handshake() {
    let authority = Authority::new();
    let builder = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    );
    let site = builder.log("level = \"info\"").start();
    let (addr, dir) = (tls_addr(&site), site.scratch.path().to_owned());
    let sent_certificate = || {
        Tls::connect(&authority.client(), "example.test", addr)
            .unwrap()
            .certificate()
    };
    let (stop, responses) = (AtomicBool::new(false), AtomicUsize::new(0));
    let old = sent_certificate();
    // This connection stays open after the renewal.
    let mut open_connection = Tls::connect(&authority.client(), "example.test", addr).unwrap();
    std::thread::scope(|scope| {
        let load = || {
            while !stop.load(Ordering::Relaxed) {
                let mut tls = Tls::connect(&authority.client(), "example.test", addr).unwrap();
                assert!(tls.send_raw(CLOSE.as_bytes()).contains("hello"));
                responses.fetch_add(1, Ordering::Relaxed);
            }
        };
        let threads = [scope.spawn(load), scope.spawn(load)];
        // A key that does not match the certificate: the old pair remains in use.
        let key = fs::read(dir.join("site.key")).unwrap();
        authority.issue(&dir, "site", &["example.test"]);
        fs::write(dir.join("site.key"), &key).unwrap();
        site.galley
            .wait_for_log("the old one remains in use", TIMEOUT);
        assert_eq!(sent_certificate(), old);
        let new = authority.issue(&dir, "site", &["example.test"]);
        wait_for("the new certificate", TIMEOUT, || sent_certificate() == new);
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().unwrap();
        }
    });
    assert!(responses.into_inner() > 0);
    assert!(open_connection.send_raw(CLOSE.as_bytes()).contains("hello"));
    assert!(site.galley.log().contains("the certificate was renewed"));
}

#[test]
fn an_expired_certificate_is_reported_and_sent() {
    let authority = Authority::new();
    let builder = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    );
    let hosts = ["example.test", "www.example.test"];
    authority.issue_as(
        builder.scratch.path(),
        "site",
        &hosts,
        (KeyType::Ecdsa, Validity::Expired),
    );
    let site = builder.start();
    site.galley
        .wait_for_log("site.pem`, which expired ", TIMEOUT);
    let checked = site.galley.cli(&["check"]).unwrap();
    let output = String::from_utf8(checked.stderr).unwrap();
    assert!(checked.status.success(), "{output}");
    let line = output
        .lines()
        .find(|line| line.contains("which expired"))
        .unwrap();
    assert!(
        line.contains("galley: warning: ") && line.contains("galley.toml:"),
        "{output}"
    );
    let url = format!("https://example.test:{}/", tls_addr(&site).port());
    let refused = curl(&site, "example.test", &[&url]);
    assert!(refused.contains("expired"), "{refused}");
    assert_eq!(
        curl(&site, "example.test", &["--insecure", &url]),
        "hello\n"
    );
}
