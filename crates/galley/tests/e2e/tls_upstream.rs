//! Upstreams over TLS: Apache with `mod_ssl`, whose certificate is valid, expired, for another name, or from an untrusted authority.

use std::fs;
use std::net::TcpListener;

use galley_testkit::{Apache, ApacheOptions, Galley, Scratch};

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite, binary};
use crate::tls_support::{Authority, KeyType, Validity};

/// Starts Apache with TLS and this certificate of the scratch folder. Returns its port.
fn apache(scratch: &Scratch, certificate: &str) -> (Apache, u16) {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let dir = scratch.path().display();
    scratch
        .write(
            "web/index.php",
            "<?php header('Cache-Control: private'); echo $_SERVER['HTTPS'] ?? 'none', ' ', $_SERVER['SSL_TLS_SNI'] ?? '-', ' ', $_SERVER['HTTP_HOST'], ' ', $_SERVER['REMOTE_PORT'];",
        )
        .unwrap();
    let options = ApacheOptions {
        extra: format!(
            "LoadModule socache_shmcb_module /usr/lib/apache2/modules/mod_socache_shmcb.so\n\
             LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so\nListen 127.0.0.1:{port}\n\
             <VirtualHost 127.0.0.1:{port}>\nServerName example.test\nSSLEngine on\nSSLOptions +StdEnvVars\n\
             SSLCertificateFile {dir}/{certificate}.pem\nSSLCertificateKeyFile {dir}/{certificate}.key\n</VirtualHost>"
        ),
        ..ApacheOptions::default()
    };
    let apache = Apache::start(&scratch.join("apache"), &scratch.join("web"), &options);
    (apache.unwrap(), port)
}

fn site(certificate: &str, lines: &str) -> (TestSite, Apache) {
    let builder =
        SiteBuilder::upstream_line("upstream = [\"https://127.0.0.1:{port}\"]").site(lines);
    let authority = Authority::new();
    let dir = builder.scratch.path();
    authority.issue(dir, "named", &["apache.internal"]);
    authority.issue(dir, "addressed", &["127.0.0.1"]);
    authority.issue_as(
        dir,
        "expired",
        &["apache.internal"],
        (KeyType::Ecdsa, Validity::Expired),
    );
    fs::copy(dir.join("ca.pem"), dir.join("trusted.pem")).unwrap();
    let untrusted_authority = Authority::new();
    untrusted_authority.issue(dir, "strange", &["apache.internal"]);
    let (apache, port) = apache(&builder.scratch, certificate);
    let (scratch, fpm, text) = builder.prepare();
    let text = text.replace("{port}", &port.to_string());
    let galley = Galley::start_binary(binary(), &scratch.join("galley"), &text).unwrap();
    let site = TestSite {
        galley,
        fpm,
        scratch,
    };
    (site, apache)
}

const TRUSTED_NAME: &str =
    "upstream_tls = { name = \"apache.internal\", ca = \"{dir}/trusted.pem\" }";

#[test]
fn pages_are_fetched_over_one_persistent_tls_connection() {
    let (site, _apache) = site("named", TRUSTED_NAME);
    let responses = ["/", "/a", "/b"].map(|path| site.get(&format!("/index.php{path}")).text());
    for response in &responses {
        assert!(
            response.starts_with("on apache.internal example.test "),
            "{response}"
        );
    }
    // The page prints the client's port: all requests used one connection.
    assert!(
        responses.windows(2).all(|two| two[0] == two[1]),
        "{responses:?}"
    );
}

#[test]
fn the_certificate_of_an_upstream_can_name_an_ip_address() {
    let (site, _apache) = site("addressed", "upstream_tls = { ca = \"{dir}/trusted.pem\" }");
    let response = site.get("/index.php").text();
    // SNI does not permit an address (RFC 6066 section 3).
    assert!(response.starts_with("on - example.test"), "{response}");
}

#[test]
fn an_upstream_with_an_invalid_certificate_gets_no_request() {
    let system_roots = "upstream_tls = { name = \"apache.internal\" }";
    for (certificate, lines, reason) in [
        ("addressed", TRUSTED_NAME, "not valid for name"),
        ("expired", TRUSTED_NAME, "xpired"),
        ("strange", TRUSTED_NAME, "UnknownIssuer"),
        ("named", system_roots, "UnknownIssuer"),
    ] {
        let (site, apache) = site(certificate, lines);
        site.get("/index.php").assert_status(502);
        site.galley
            .wait_for_log("the TLS handshake with the upstream failed", TIMEOUT);
        let log = site.galley.log();
        assert!(log.contains(reason), "{certificate}: {log}");
        assert!(
            !apache.access_log().contains("example.test"),
            "{}",
            apache.access_log()
        );
    }
}

#[test]
fn verify_false_accepts_any_certificate() {
    let lines = "upstream_tls = { name = \"apache.internal\", verify = false }";
    let (site, _apache) = site("strange", lines);
    let response = site.get("/index.php").text();
    assert!(response.starts_with("on apache.internal"), "{response}");
    site.galley.wait_for_log(
        "Galley does not notice a server that impersonates the upstream",
        TIMEOUT,
    );
}
