//! TLS connections of clients: curl, OpenSSL, and a client that sends arbitrary bytes.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use crate::support::{SiteBuilder, TIMEOUT};
use crate::tls_certificates::two_sites;
use crate::tls_support::{Authority, Tls, curl, over_tls, s_client, tls_addr};

const CLOSE: &str = "GET / HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n";

#[test]
fn php_gets_https_and_pages_are_cached_separately_from_http() {
    let builder = over_tls(SiteBuilder::php(), &Authority::new()).file(
        "index.php",
        "<?php header('Cache-Control: max-age=600');\n\
         echo '<html>', $_SERVER['HTTPS'] ?? 'none', ' ', $_SERVER['REQUEST_SCHEME'], ' ', $_SERVER['SERVER_PORT'], '</html>';",
    );
    let site = builder.start();
    let port = tls_addr(&site).port();
    let url = format!("https://example.test:{port}/");
    let send = || {
        let output = curl(&site, "example.test", &["-i", "--http1.1", &url]);
        assert!(
            output.contains(&format!("<html>on https {port}</html>")),
            "{output}"
        );
        output
    };
    let first = send();
    assert!(first.contains("fwd=uri-miss; stored"), "{first}");
    wait_for("a hit", TIMEOUT, || send().contains("galley; hit"));
    let plain = site.get("/");
    assert!(
        plain.text().starts_with("<html>none http "),
        "{}",
        plain.text()
    );
    // An upload that is large enough for a temporary file, with `Expect: 100-continue`.
    let large = site.scratch.write("large", vec![b'x'; 3_000_000]).unwrap();
    let output = curl(
        &site,
        "example.test",
        &[
            "-i",
            "--http1.1",
            "-H",
            "Expect: 100-continue",
            "--data-binary",
            &format!("@{}", large.display()),
            &url,
        ],
    );
    assert!(
        output.contains("100 Continue") && output.contains("on https"),
        "{output}"
    );
}

#[test]
fn alpn_selects_http_2_for_clients_that_offer_it() {
    let authority = Authority::new();
    let site = two_sites(&authority);
    let url = format!("https://example.test:{}/", tls_addr(&site).port());
    let send = |more: &[&str]| {
        let format = ["-i", "-w", "version=%{http_version}"];
        curl(&site, "example.test", &[&format, more, &[&url]].concat())
    };
    for (more, status, version) in [
        (&["--http2"][..], "200", "version=2"),
        (&["--http1.1"], "200", "version=1.1"),
        (&["--no-alpn"], "200", "version=1.1"),
        // HTTP/2 requests for a host that the certificate does not cover are refused too.
        (&["--http2", "-H", "Host: other.test"], "421", "version=2"),
        (
            &["--http2", "-H", "Host: www.example.test"],
            "200",
            "version=2",
        ),
    ] {
        let output = send(more);
        let line = output.lines().next().unwrap_or_default();
        assert!(
            line.contains(status) && output.ends_with(version),
            "{more:?}: {output}"
        );
    }
    // A client that offers neither protocol gets an alert (RFC 7301 section 3.2).
    let name = ["-servername", "example.test", "-alpn", "spdy/3"];
    let output = s_client(&site.scratch, tls_addr(&site), &name, CLOSE);
    assert!(output.contains("no application protocol"), "{output}");
    // There is no ACME challenge for this name.
    let name = ["-servername", "example.test", "-alpn", "acme-tls/1"];
    let output = s_client(&site.scratch, tls_addr(&site), &name, CLOSE);
    assert!(output.contains("no peer certificate available"), "{output}");
}

#[test]
fn an_upstream_gets_the_scheme_in_x_forwarded_proto() {
    let origin = Origin::constant(&[("Content-Type", "text/html")], "<html></html>").unwrap();
    let site = over_tls(SiteBuilder::origin(&origin, "wordpress"), &Authority::new()).start();
    let url = format!("https://example.test:{}/", tls_addr(&site).port());
    curl(&site, "example.test", &[&url]);
    site.get("/");
    let schemes: Vec<_> = origin
        .requests()
        .iter()
        .map(|request| {
            request
                .field("x-forwarded-proto")
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    assert_eq!(schemes, ["https", "http"]);
}

#[test]
fn http_is_redirected_to_https_and_hsts_is_sent_over_tls() {
    let authority = Authority::new();
    let builder = SiteBuilder::files()
        .file("index.html", "one\n")
        .server("listen_tls = [\"127.0.0.1:0\"]")
        .site("hsts = \"1h\"\nhttps_port = 8443\ntls = { cert = \"{dir}/site.pem\", key = \"{dir}/site.key\" }");
    authority.issue(builder.scratch.path(), "site", &["example.test"]);
    let site = builder.start();
    let response = site.get("/?a=1").expect_status(301);
    let location = "https://example.test:8443/?a=1";
    assert_eq!(response.field("location"), Some(location));
    // A server must not send HSTS without TLS (RFC 6797 section 7.2).
    assert_eq!(response.field("strict-transport-security"), None);
    let url = format!("https://example.test:{}/", tls_addr(&site).port());
    for version in ["--http1.1", "--http2"] {
        let output = curl(&site, "example.test", &["-i", version, &url]).to_lowercase();
        assert!(
            output.contains("strict-transport-security: max-age=3600"),
            "{output}"
        );
    }
}

#[test]
fn openssl_negotiates_versions_and_resumes_sessions() {
    let authority = Authority::new();
    let site = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    )
    .start();
    let addr = tls_addr(&site);
    let name = ["-servername", "example.test", "-verify_return_error"];
    for (option, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let session = site.scratch.join("session");
        let file = session.to_str().unwrap();
        let first = [&name[..], &[option, "-sess_out", file]].concat();
        let output = s_client(&site.scratch, addr, &first, CLOSE);
        assert!(
            output.contains("hello") && output.contains("New, "),
            "{output}"
        );
        assert!(output.contains(version), "{output}");
        let again = [&name[..], &[option, "-sess_in", file]].concat();
        let output = s_client(&site.scratch, addr, &again, CLOSE);
        assert!(
            output.contains("hello") && output.contains("Reused, "),
            "{output}"
        );
    }
    let old = [&name[..], &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]].concat();
    let output = s_client(&site.scratch, addr, &old, CLOSE);
    assert!(
        !output.contains("hello") && output.contains("alert"),
        "{output}"
    );
    let metrics = site.metrics();
    assert!(
        metrics.contains("galley_tls_handshakes_total{kind=\"full\"} 2\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("galley_tls_handshakes_total{kind=\"resumed\"} 2\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains("galley_tls_handshake_failures_total 1\n"),
        "{metrics}"
    );
    assert!(
        metrics.contains(
            "galley_certificate_expires_timestamp_seconds{site=\"example.test\"} 3786912000\n"
        ),
        "{metrics}"
    );
}

#[test]
fn tls_min_version_refuses_older_versions() {
    let authority = Authority::new();
    let builder = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    );
    let site = builder.server("tls_min_version = \"1.3\"").start();
    let addr = tls_addr(&site);
    let send = |version| {
        s_client(
            &site.scratch,
            addr,
            &["-servername", "example.test", version],
            CLOSE,
        )
    };
    assert!(!send("-tls1_2").contains("hello"));
    assert!(send("-tls1_3").contains("hello"));
}

#[test]
fn an_idle_connection_is_closed_with_close_notify() {
    let authority = Authority::new();
    let builder = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    );
    let site = builder.server("idle_timeout = \"1s\"").start();
    let mut tls = Tls::connect(&authority.client(), "example.test", tls_addr(&site)).unwrap();
    tls.send(b"GET / HTTP/1.1\r\nHost: example.test\r\n\r\n");
    let (mut response, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        // Without `close_notify` the end is an error.
        match tls.0.read(&mut buffer).unwrap() {
            0 => break,
            count => response.extend_from_slice(&buffer[..count]),
        }
    }
    assert!(
        response.ends_with(b"hello\n"),
        "{}",
        response.escape_ascii()
    );
}

#[test]
fn a_slow_handshake_is_ended_and_does_not_delay_other_clients() {
    let authority = Authority::new();
    let builder = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    );
    let site = builder.server("head_timeout = \"1s\"\nworkers = 1").start();
    let addr = tls_addr(&site);
    // The beginning of a ClientHello of 512 bytes, and no more of it.
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let mut slow: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut socket = TcpStream::connect(addr).unwrap();
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            socket.write_all(&hello).unwrap();
            socket
        })
        .collect();
    slow.push(TcpStream::connect(addr).unwrap());
    // An HTTP request without TLS in place of a handshake.
    let mut wrong = TcpStream::connect(addr).unwrap();
    wrong.write_all(CLOSE.as_bytes()).unwrap();
    let mut tls = Tls::connect(&authority.client(), "example.test", addr).unwrap();
    assert!(tls.send_raw(CLOSE.as_bytes()).contains("hello"));
    for mut socket in slow.into_iter().chain([wrong]) {
        let mut response = Vec::new();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        // Closed or reset; an alert may come before.
        let _ = socket.read_to_end(&mut response);
        assert!(!response.starts_with(b"HTTP/"), "{response:?}");
    }
    wait_for("the connections to be closed", TIMEOUT, || {
        site.metrics().contains("galley_connections 0\n")
    });
}

#[test]
fn large_files_and_ranges_are_sent_completely() {
    let authority = Authority::new();
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let site = over_tls(SiteBuilder::files().file("large.bin", &large), &authority).start();
    let (addr, client) = (tls_addr(&site), authority.client());
    let send = |fields: &str| {
        let mut tls = Tls::connect(&client, "example.test", addr).unwrap();
        tls.send(
            format!(
                "GET /large.bin HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n{fields}\r\n"
            )
            .as_bytes(),
        );
        let response = tls.rest();
        let head = response
            .windows(4)
            .position(|window| window == b"\r\n\r\n")
            .unwrap()
            + 4;
        response[head..].to_vec()
    };
    assert!(send("") == large);
    assert!(send("Range: bytes=1000001-9000000\r\n") == large[1_000_001..=9_000_000]);
    // A slow client gets the last record, too.
    let url = format!("https://example.test:{}/large.bin", addr.port());
    let into = site.scratch.join("got.bin");
    let got = into.to_str().unwrap();
    let output = curl(
        &site,
        "example.test",
        &["--http2", "--limit-rate", "8M", "-o", got, &url],
    );
    assert!(
        output.is_empty() && fs::read(&into).unwrap() == large,
        "{output}"
    );
    // A client that disconnects during a response does not affect others.
    let mut tls = Tls::connect(&client, "example.test", addr).unwrap();
    tls.send(b"GET /large.bin HTTP/1.1\r\nHost: example.test\r\n\r\n");
    let mut some = [0; 1000];
    tls.0.read_exact(&mut some).unwrap();
    drop(tls);
    let plain = site.send(Request::get("/large.bin"));
    assert!(plain.body == large);
    wait_for("the connections to be closed", TIMEOUT, || {
        site.metrics().contains("galley_connections 0\n")
    });
}

/// The sites have different certificates. A session proves the identity of only one of them.
#[test]
fn a_session_of_one_site_is_not_resumed_at_another() {
    let authority = Authority::new();
    let builder = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    );
    authority.issue(builder.scratch.path(), "other", &["other.test"]);
    let other = "[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}\"\n\
        https_redirect = false\ntls = { cert = \"{dir}/other.pem\", key = \"{dir}/other.key\" }";
    let site = builder.more(other).start();
    let session = site.scratch.join("session");
    for version in ["-tls1_2", "-tls1_3"] {
        let connect = |name: &str, session_option: &str| {
            let session = session.to_str().unwrap();
            let options = ["-servername", name, version, session_option, session];
            s_client(&site.scratch, tls_addr(&site), &options, CLOSE)
        };
        assert!(connect("example.test", "-sess_out").contains("New, "));
        let output = connect("other.test", "-sess_in");
        assert!(
            output.contains("New, ") && !output.contains("Reused, "),
            "{output}"
        );
        assert!(output.contains("Verify return code: 0"), "{output}");
        let output = connect("example.test", "-sess_in");
        assert!(output.contains("Reused, "), "{output}");
    }
}
