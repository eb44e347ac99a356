//! Without `listen_quic`, TLS listeners are served over UDP, too. That never stops a server that would start without it.

use std::net::UdpSocket;

use serde_json::json;

use super::client::{get, quic_port, streams};
use crate::reload::{config, reload, try_reload};
use crate::serving::Serving;
use crate::support::{HOST, SiteBuilder, TIMEOUT, TestSite, doctor_finding, output_text};
use crate::tls_support::{Authority, curl, over_tls, tls_addr};

fn builder() -> SiteBuilder {
    over_tls(
        SiteBuilder::files().file("page.html", "a page"),
        &Authority::new(),
    )
}

fn assert_served(site: &TestSite) {
    assert_eq!(quic_port(site), tls_addr(site).port());
    let found = streams(site, &[get("/page.html")]);
    assert_eq!(found[0]["text"], json!("a page"), "{found:?}");
}

/// Asserts that pages are served without HTTP/3, and that the UDP port is free unless the socket of a test has it.
fn assert_not_served(site: &TestSite) {
    let url = format!("https://{HOST}:{}/page.html", tls_addr(site).port());
    let head = curl(site, HOST, &["--head", &url]);
    assert!(head.starts_with("HTTP/2 200"), "{head}");
    assert!(!head.contains("alt-svc"), "{head}");
}

#[test]
fn tls_listeners_are_served_over_udp_too() {
    let site = builder().start();
    assert_served(&site);
    let port = tls_addr(&site).port();
    let found = doctor_finding(&site, "http3");
    assert_eq!(found["level"], "fine", "{found}");
    let on = config(&site);
    let off = on.replace("[server]\n", "[server]\nlisten_quic = []\n");
    let without_site = on.replace("https_redirect", "http3 = false\nhttps_redirect");
    for other in [&off, &without_site] {
        reload(&site, other);
        assert_not_served(&site);
        // Endpoints of the previous configuration may end their connections first.
        galley_testkit::wait_for("a free UDP port", TIMEOUT, || {
            UdpSocket::bind(("127.0.0.1", port)).is_ok()
        });
        reload(&site, &on);
        assert_served(&site);
    }
    let serving = Serving::new(&site);
    serving.upgrade();
    assert_served(&site);
}

#[test]
fn behind_a_mapping_of_ports_browsers_learn_the_port_that_they_use() {
    let site = builder().start();
    assert_served(&site);
    let own = tls_addr(&site).port();
    let other = builder().server("listen_quic = [\"127.0.0.1:0\"]").start();
    let advertised = |site: &TestSite, authority: &str| {
        let url = format!("https://{HOST}:{}/page.html", tls_addr(site).port());
        let host = format!("host: {authority}");
        let head = curl(site, HOST, &["--head", "--header", &host, &url]);
        assert!(head.starts_with("HTTP/2 200"), "{head}");
        let line = head.lines().find_map(|line| line.strip_prefix("alt-svc: "));
        line.map(|line| line.split(';').next().unwrap().to_owned())
    };
    for (authority, port) in [
        (HOST.to_owned(), Some(443)),
        (format!("{HOST}:443"), Some(443)),
        (format!("{HOST}:{own}"), Some(own)),
        (format!("{HOST}:9443"), None),
    ] {
        // The first one is not in memory yet.
        for _ in 0..2 {
            let expected = port.map(|port| format!("h3=\":{port}\""));
            assert_eq!(advertised(&site, &authority), expected, "{authority}");
        }
        // With a port of its own there is no mapping to follow.
        let named = format!("h3=\":{}\"", quic_port(&other));
        assert_eq!(advertised(&other, &authority), Some(named), "{authority}");
    }
}

#[test]
fn a_reload_adds_and_removes_udp_sockets_with_tls_listeners() {
    let site = builder().start();
    assert_served(&site);
    let one = config(&site);
    let port = galley_testkit::free_port().unwrap();
    let both = one.replace(
        "listen_tls = [\"127.0.0.1:0\"]",
        &format!("listen_tls = [\"127.0.0.1:0\", \"127.0.0.2:{port}\"]"),
    );
    let is_free = || UdpSocket::bind(("127.0.0.2", port)).is_ok();
    reload(&site, &both);
    assert!(!is_free());
    reload(&site, &one);
    galley_testkit::wait_for("a free UDP port", TIMEOUT, is_free);
    assert_served(&site);
}

#[test]
fn listeners_of_the_proxy_protocol_have_no_udp() {
    let lines = "trusted_proxies = [\"127.0.0.1\"]\nproxy_protocol = [\"127.0.0.1:0\"]";
    let more = "listen_tls = [\"127.0.0.1:0\", \"127.0.0.2:0\"]";
    let site = builder().server(lines).site(more).start();
    let log = site.galley.log();
    let urls = site.galley.urls();
    let direct = urls
        .iter()
        .find_map(|url| url.strip_prefix("https://127.0.0.2:"));
    let port: u16 = direct.unwrap().parse().unwrap();
    assert!(
        log.contains(&format!("HTTP/3 on 127.0.0.2:{port}\n")),
        "{log}"
    );
    assert_eq!(log.matches("HTTP/3 on ").count(), 1, "{log}");
}

#[test]
fn a_udp_port_of_another_program_costs_only_http3() {
    let (port, taken) = loop {
        // Another test may get the TCP port between both; then this one fails to start, as any.
        let port = galley_testkit::free_port().unwrap();
        if let Ok(socket) = UdpSocket::bind(("127.0.0.1", port)) {
            break (port, socket);
        }
    };
    let lines = format!("listen_tls = [\"127.0.0.1:{port}\"]");
    let site = builder().site(&lines).start();
    assert_not_served(&site);
    site.galley
        .wait_for_log("HTTP/3 is not served on this UDP address", TIMEOUT);
    let log = site.galley.log();
    let line = log
        .lines()
        .find(|line| line.contains("UDP address"))
        .unwrap();
    for words in [
        &format!("127.0.0.1:{port}"),
        "os error 98",
        "ss -lunp",
        "listen_quic = []",
    ] {
        assert!(line.contains(words), "{words}: {line}");
    }
    // An address that the configuration names is an error.
    let on = config(&site);
    let named = format!("[server]\nlisten_quic = [\"127.0.0.1:{port}\"]\n");
    let output = try_reload(&site, &on.replace("[server]\n", &named));
    let answer = output_text(&output);
    assert!(!output.status.success(), "{answer}");
    assert!(answer.contains("another program"), "{answer}");
    drop(taken);
    reload(&site, &on);
    assert_served(&site);
}
