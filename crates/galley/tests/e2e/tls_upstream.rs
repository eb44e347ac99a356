//! Upstreams over TLS: an Apache with `mod_ssl`, whose certificate is in order, for another name, or nobody's that we trust.

use std::fs;
use std::net::TcpListener;

use galley_testkit::{Apache, ApacheOptions, Scratch};

use crate::support::{AssertStatus, SiteBuilder, TIMEOUT, TestSite};
use crate::tls_support::{Authority, Ends, Key};

/// An Apache that speaks TLS at the port that comes with it; certificates lie in `dir`.
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
    let plan = SiteBuilder::upstream_line("upstream = [\"https://127.0.0.1:{port}\"]").site(lines);
    let authority = Authority::new();
    let dir = plan.scratch.path();
    authority.issue(dir, "named", &["apache.internal"]);
    authority.issue(dir, "addressed", &["127.0.0.1"]);
    authority.issue_as(
        dir,
        "expired",
        &["apache.internal"],
        (Key::Ecdsa, Ends::Past),
    );
    fs::copy(dir.join("ca.pem"), dir.join("trusted.pem")).unwrap();
    let stranger = Authority::new();
    stranger.issue(dir, "strange", &["apache.internal"]);
    let (apache, port) = apache(&plan.scratch, certificate);
    let (scratch, fpm, text) = plan.prepare();
    let text = text.replace("{port}", &port.to_string());
    let galley = galley_testkit::Galley::start_binary(
        crate::support::binary(),
        &scratch.join("galley"),
        &text,
    )
    .unwrap();
    let site = TestSite {
        galley,
        fpm,
        scratch,
    };
    (site, apache)
}

const NAMED: &str = "upstream_tls = { name = \"apache.internal\", ca = \"{dir}/trusted.pem\" }";

#[test]
fn pages_come_over_tls_and_connections_are_kept() {
    let (site, _apache) = site("named", NAMED);
    let answers = ["/", "/a", "/b"].map(|path| site.get(&format!("/index.php{path}")).text());
    for answer in &answers {
        assert!(
            answer.starts_with("on apache.internal example.test "),
            "{answer}"
        );
    }
    // One after the other they come over one connection.
    assert!(
        answers.windows(2).all(|two| two[0] == two[1]),
        "{answers:?}"
    );
}

#[test]
fn an_address_may_stand_in_the_certificate() {
    let (site, _apache) = site("addressed", "upstream_tls = { ca = \"{dir}/trusted.pem\" }");
    let answer = site.get("/index.php").text();
    // There is no name to ask for (RFC 6066 section 3).
    assert!(answer.starts_with("on - example.test"), "{answer}");
}

#[test]
fn an_upstream_that_is_not_who_it_should_be_gets_no_request() {
    let by_system = "upstream_tls = { name = \"apache.internal\" }";
    for (certificate, lines, why) in [
        ("addressed", NAMED, "not valid for name"),
        ("expired", NAMED, "xpired"),
        ("strange", NAMED, "UnknownIssuer"),
        ("named", by_system, "UnknownIssuer"),
    ] {
        let (site, apache) = site(certificate, lines);
        site.get("/index.php").assert_status(502);
        site.galley
            .wait_for_log("the TLS handshake with the upstream failed", TIMEOUT);
        let log = site.galley.log();
        assert!(log.contains(why), "{certificate}: {log}");
        assert!(
            !apache.access_log().contains("example.test"),
            "{}",
            apache.access_log()
        );
    }
}

#[test]
fn whoever_answers_is_believed_where_the_file_says_so() {
    let lines = "upstream_tls = { name = \"apache.internal\", verify = false }";
    let (site, _apache) = site("strange", lines);
    let answer = site.get("/index.php").text();
    assert!(answer.starts_with("on apache.internal"), "{answer}");
    site.galley.wait_for_log(
        "Galley does not notice a server that impersonates the upstream",
        TIMEOUT,
    );
}
