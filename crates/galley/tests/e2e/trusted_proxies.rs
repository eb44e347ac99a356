//! The client address, scheme and host that trusted proxies pass in fields or by the PROXY protocol. Galley ignores the fields of
//! other clients.

use std::net::Ipv4Addr;
use std::process::Command;

use galley_testkit::client::{Connection, Request};
use galley_testkit::{Apache, ApacheOptions};

use crate::support::{
    AssertStatus, HOST, SiteBuilder, TIMEOUT, TestSite, output_text, page_value, with_host,
};

/// Prints the variables of PHP that describe the client and the scheme.
const CLIENT_PAGE: &str = r#"<?php
header('Cache-Control: no-store');
foreach (['REMOTE_ADDR', 'REMOTE_PORT', 'HTTPS', 'SERVER_PORT', 'REQUEST_SCHEME', 'HTTP_HOST', 'HTTP_FORWARDED', 'HTTP_X_REAL_IP',
    'HTTP_X_FORWARDED_FOR', 'HTTP_X_FORWARDED_PROTO', 'HTTP_X_FORWARDED_HOST', 'HTTP_X_FORWARDED_PORT'] as $name) {
    echo $name, '=', $_SERVER[$name] ?? '-', "\n";
}
"#;

const HOSTS: &str = "hosts = [\"example.test\", \"shop.test\"]";

fn builder() -> SiteBuilder {
    SiteBuilder::php()
        .file("client.php", CLIENT_PAGE)
        .site(HOSTS)
}

/// A client that is no trusted proxy.
const UNTRUSTED: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

fn send_untrusted(site: &TestSite, request: Request) -> galley_testkit::client::Response {
    let mut connection = site.connect_from(UNTRUSTED);
    connection.exchange(&with_host(request)).unwrap()
}

fn request_with_forwarding_fields() -> Request {
    Request::get("/client.php")
        .field("X-Forwarded-For", "10.9.8.7, 203.0.113.7")
        .field("Forwarded", "for=203.0.113.8;proto=https;host=shop.test")
        .field("X-Real-IP", "203.0.113.9")
        .field("X-Forwarded-Proto", "https")
        .field("X-Forwarded-Host", "shop.test")
        .field("X-Forwarded-Port", "8443")
}

#[test]
fn php_gets_address_scheme_and_host_from_a_trusted_proxy() {
    let site = builder()
        .server("trusted_proxies = [\"127.0.0.1\"]")
        .start();
    let text = site.send(request_with_forwarding_fields()).text();
    for (name, value) in [
        ("REMOTE_ADDR", "203.0.113.7"),
        ("REMOTE_PORT", "-"),
        ("HTTPS", "on"),
        ("REQUEST_SCHEME", "https"),
        ("SERVER_PORT", "8443"),
        ("HTTP_HOST", "shop.test:8443"),
        ("HTTP_X_FORWARDED_FOR", "203.0.113.7"),
        ("HTTP_X_REAL_IP", "203.0.113.7"),
        ("HTTP_X_FORWARDED_PROTO", "https"),
        ("HTTP_X_FORWARDED_HOST", "shop.test:8443"),
        ("HTTP_FORWARDED", "-"),
    ] {
        assert_eq!(page_value(&text, name), value, "{name} in {text}");
    }
    // A proxy that terminates TLS and sends only the scheme: WordPress gets `https` and a host without a port.
    let plain = Request::get("/client.php").field("X-Forwarded-Proto", "https");
    let text = site.send(plain).text();
    for (name, value) in [
        ("REMOTE_ADDR", "127.0.0.1"),
        ("HTTPS", "on"),
        ("SERVER_PORT", "443"),
        ("HTTP_HOST", HOST),
    ] {
        assert_eq!(page_value(&text, name), value, "{name} in {text}");
    }
    let unknown = Request::get("/client.php").field("X-Forwarded-Host", "evil.test");
    site.send(unknown).assert_status(421);
}

#[test]
fn forwarding_fields_of_untrusted_clients_are_dropped() {
    for server in ["", "trusted_proxies = [\"127.0.0.1\", \"10.0.0.0/8\"]"] {
        let site = builder().server(server).start();
        let text = send_untrusted(&site, request_with_forwarding_fields()).text();
        for (name, value) in [
            ("REMOTE_ADDR", "127.0.0.9"),
            ("HTTPS", "-"),
            ("SERVER_PORT", "80"),
            ("HTTP_HOST", HOST),
            ("HTTP_X_FORWARDED_FOR", "127.0.0.9"),
            ("HTTP_X_FORWARDED_PROTO", "http"),
            ("HTTP_X_FORWARDED_HOST", HOST),
            ("HTTP_FORWARDED", "-"),
        ] {
            assert_eq!(page_value(&text, name), value, "{name} in {text}");
        }
        site.access_line("127.0.0.9 ");
    }
}

#[test]
fn client_field_selects_the_field_with_the_address() {
    for (field, client) in [
        ("x-forwarded-for", "203.0.113.7"),
        ("forwarded", "203.0.113.8"),
        ("x-real-ip", "203.0.113.9"),
    ] {
        let lines = format!("trusted_proxies = [\"127.0.0.1\"]\nclient_field = \"{field}\"");
        let site = builder().server(&lines).start();
        let text = site.send(request_with_forwarding_fields()).text();
        assert_eq!(page_value(&text, "REMOTE_ADDR"), client, "{field}");
        assert_eq!(page_value(&text, "HTTPS"), "on", "{field}");
    }
}

#[test]
fn pages_are_cached_separately_per_scheme() {
    for fast_path in [true, false] {
        let lines = format!("trusted_proxies = [\"127.0.0.1\"]\nfast_path = {fast_path}");
        let site = builder().server(&lines).start();
        let send_over = |scheme: &str, client: &str| {
            let request = Request::get("/page").field("X-Forwarded-Proto", scheme);
            site.send(request.field("X-Forwarded-For", client))
        };
        send_over("https", "203.0.113.1").assert_status(200);
        assert!(send_over("https", "203.0.113.2").is_hit());
        let first = send_over("http", "203.0.113.3");
        assert!(!first.is_hit(), "{}", first.excerpt());
        assert!(send_over("http", "203.0.113.4").is_hit());
        assert_eq!(site.runs("/page"), 2);
        // For an untrusted client the field has no effect: it gets the page of `http`.
        let untrusted_request = Request::get("/page").field("X-Forwarded-Proto", "https");
        assert!(send_untrusted(&site, untrusted_request).is_hit());
        assert_eq!(site.runs("/page"), 2);
        for client in ["203.0.113.1 ", "203.0.113.2 ", "203.0.113.4 ", "127.0.0.9 "] {
            site.access_line(client);
        }
    }
}

#[test]
fn a_purge_through_a_proxy_needs_the_purge_secret() {
    let site = builder().server("trusted_proxies = [\"127.0.0.1\"]").site(
        "purge_allow = [\"203.0.113.0/24\", \"127.0.0.1\"]\npurge_secret_file = \"{dir}/secret\"",
    );
    let path = site.scratch.join("secret");
    std::fs::write(&path, "a secret of thirty-two characters").unwrap();
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let site = site.start();
    let purge = || Request::new("PURGE", "/page").field("X-Forwarded-For", "203.0.113.5");
    site.send(purge()).assert_status(405);
    let secret = ("X-Purge-Secret", "a secret of thirty-two characters");
    site.send(purge().field(secret.0, secret.1))
        .assert_status(200);
    site.send(Request::new("PURGE", "/page")).assert_status(200);
}

/// A PROXY header of version 2 for the client 203.0.113.7, with a TLV.
fn version_2(command: u8) -> Vec<u8> {
    let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    header.extend([command, 0x11, 0, 19]);
    header.extend([203, 0, 113, 7, 198, 51, 100, 1, 0x0f, 0xa0, 0x01, 0xbb]);
    header.extend([0x04, 0, 4, 1, 2, 3, 4]);
    header
}

const REQUEST: &[u8] = b"GET /client.php HTTP/1.1\r\nHost: example.test\r\n\r\n";

fn proxy_protocol_builder() -> SiteBuilder {
    builder().server(
        "listen = [\"127.0.0.1:0\"]\nproxy_protocol = [\"127.0.0.1:0\"]\ntrusted_proxies = [\"127.0.0.1\", \"10.0.0.0/8\"]\n\
         head_timeout = \"300ms\"",
    )
}

#[test]
fn the_proxy_protocol_header_sets_the_client_address() {
    let site = proxy_protocol_builder().start();
    let line_1 = b"PROXY TCP4 203.0.113.7 198.51.100.1 4000 443\r\n".to_vec();
    let line_6 = b"PROXY TCP6 2001:db8::7 2001:db8::1 4000 443\r\n".to_vec();
    for (header, address, port) in [
        (line_1, "203.0.113.7", "4000"),
        (line_6, "2001:db8::7", "4000"),
        (version_2(0x21), "203.0.113.7", "4000"),
        (version_2(0x20), "127.0.0.1", ""),
        (b"PROXY UNKNOWN\r\n".to_vec(), "127.0.0.1", ""),
    ] {
        let mut connection = site.connect();
        // The header byte by byte, and its last byte together with the request.
        let (last, first) = header.split_last().unwrap();
        for byte in first {
            connection.write(&[*byte]).unwrap();
        }
        connection.write(&[&[*last], REQUEST].concat()).unwrap();
        for round in 0..2 {
            let text = connection.receive("GET").unwrap().text();
            assert_eq!(page_value(&text, "REMOTE_ADDR"), address, "{round}");
            assert!(page_value(&text, "REMOTE_PORT").ends_with(port));
            assert_eq!(page_value(&text, "HTTPS"), "-");
            if round == 0 {
                connection.write(REQUEST).unwrap();
            }
        }
    }
    site.access_line("203.0.113.7 ");
    // The client that the PROXY header names can be a trusted proxy itself.
    let mut connection = site.connect();
    connection
        .write(b"PROXY TCP4 10.1.2.3 198.51.100.1 4000 443\r\n")
        .unwrap();
    let request = with_host(Request::get("/client.php").field("X-Forwarded-For", "203.0.113.99"));
    let text = connection.exchange(&request).unwrap().text();
    assert_eq!(page_value(&text, "REMOTE_ADDR"), "203.0.113.99");
}

#[test]
fn the_proxy_protocol_header_of_curl_is_accepted() {
    let site = proxy_protocol_builder().start();
    let url = format!("http://{}/client.php", site.addr());
    let host = format!("Host: {HOST}");
    let mut curl = Command::new("curl");
    curl.args([
        "-sS",
        "--max-time",
        "15",
        "--haproxy-protocol",
        "-H",
        &host,
        &url,
    ]);
    let output = curl.output().unwrap();
    assert!(output.status.success(), "{}", output_text(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(page_value(&text, "REMOTE_ADDR"), "127.0.0.1");
}

#[test]
fn a_connection_without_a_trusted_proxy_header_is_closed() {
    let site = proxy_protocol_builder().start();
    let bytes = [
        &b"PROXY TCP4 203.0.113.7 198.51.100.1 4000 443\r\n"[..],
        REQUEST,
    ]
    .concat();
    let mut connection = site.connect_from(UNTRUSTED);
    // Galley may close the connection before it has read all bytes.
    let _ = connection.write(&bytes);
    assert_eq!(connection.read_to_end().unwrap_or_default(), b"");
    for bytes in [
        REQUEST,
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03 a TLS hello",
        b"PROXY TCP4 203.0.113.7 198.51.100.1 4000\r\nGET / HTTP/1.1\r\n\r\n",
        b"PROXY TCP4 203.0.113.7 ",
        b"",
    ] {
        assert_eq!(site.send_raw(bytes), b"", "{bytes:?}");
    }
    site.galley
        .wait_for_log("rejected a connection: only `trusted_proxies`", TIMEOUT);
}

/// Apache as a reverse proxy over TCP and over a Unix socket, with the fields that it adds by default.
#[test]
fn apache_as_trusted_proxy_passes_the_client_address() {
    let builder = builder().server(
        "listen = [\"127.0.0.1:0\", \"unix:{dir}/web.sock\"]\nsocket_mode = \"0666\"\ntrusted_proxies = [\"127.0.0.1\", \"unix\"]",
    );
    let site = builder.start();
    let socket = site.scratch.join("web.sock");
    let modules = "LoadModule proxy_module /usr/lib/apache2/modules/mod_proxy.so\n\
                   LoadModule proxy_http_module /usr/lib/apache2/modules/mod_proxy_http.so\n";
    let extra = format!(
        "{modules}ProxyPreserveHost On\nProxyPass \"/tcp/\" \"http://{}/\"\nProxyPass \"/unix/\" \"unix:{}|http://galley/\"\n",
        site.addr(),
        socket.display()
    );
    let options = ApacheOptions {
        extra,
        ..ApacheOptions::default()
    };
    let root = site.scratch.dir("front-root").unwrap();
    let apache = Apache::start(&site.scratch.join("front"), &root, &options).unwrap();
    for path in ["/tcp/client.php", "/unix/client.php"] {
        let client = Ipv4Addr::new(127, 0, 0, 77);
        let mut connection = Connection::from_address(client, apache.addr(), TIMEOUT).unwrap();
        let request = with_host(Request::get(path).field("X-Forwarded-For", "192.0.2.1"));
        let text = connection.exchange(&request).unwrap().text();
        assert_eq!(
            page_value(&text, "REMOTE_ADDR"),
            "127.0.0.77",
            "{path}: {text}"
        );
        assert_eq!(page_value(&text, "HTTP_HOST"), HOST, "{path}: {text}");
    }
}
