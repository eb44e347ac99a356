//! TLS towards clients, with real ones: curl, OpenSSL, and a client whose bytes are the test's own.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use galley_testkit::client::Request;
use galley_testkit::origin::Origin;
use galley_testkit::wait_for;

use crate::overload_outage::metrics;
use crate::support::{SiteBuilder, TIMEOUT, TestSite};
use crate::tls_support::{Authority, Ends, Key, Tls, curl, over_tls, s_client, tls_addr};

const CLOSE: &str = "GET / HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n";

fn two_sites(authority: &Authority) -> TestSite {
    let plan = over_tls(SiteBuilder::files(), authority)
        .file("index.html", "one\n")
        .site("hosts = [\"example.test\", \"www.example.test\"]")
        .more(
            "[[site]]\nhosts = [\"other.test\", \"*.wild.test\"]\nroot = \"{dir}/other\"\n\
             tls = [{ cert = \"{dir}/rsa.pem\", key = \"{dir}/rsa.key\" }, { cert = \"{dir}/other.pem\", key = \"{dir}/other.key\" }]",
        );
    let dir = plan.scratch.path();
    let hosts = ["other.test", "*.wild.test"];
    authority.issue(dir, "other", &hosts);
    authority.issue_as(dir, "rsa", &hosts, (Key::Rsa, Ends::Far));
    plan.scratch.write("other/index.html", "two\n").unwrap();
    plan.start()
}

#[test]
fn php_hears_of_https_and_its_pages_are_kept_apart() {
    let plan = over_tls(SiteBuilder::php(), &Authority::new()).file(
        "index.php",
        "<?php header('Cache-Control: max-age=600');\n\
         echo '<html>', $_SERVER['HTTPS'] ?? 'none', ' ', $_SERVER['REQUEST_SCHEME'], ' ', $_SERVER['SERVER_PORT'], '</html>';",
    );
    let stage = plan.start();
    let port = tls_addr(&stage).port();
    let url = format!("https://example.test:{port}/");
    let send = || {
        let said = curl(&stage, "example.test", &["-i", "--http1.1", &url]);
        assert!(
            said.contains(&format!("<html>on https {port}</html>")),
            "{said}"
        );
        said
    };
    let first = send();
    assert!(first.contains("fwd=uri-miss; stored"), "{first}");
    wait_for("a hit", TIMEOUT, || send().contains("galley; hit"));
    let plain = stage.get("/");
    assert!(
        plain.text().starts_with("<html>none http "),
        "{}",
        plain.text()
    );
    // An upload that needs a file, with curl's `Expect: 100-continue`.
    let large = stage.scratch.write("large", vec![b'x'; 3_000_000]).unwrap();
    let said = curl(
        &stage,
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
        said.contains("100 Continue") && said.contains("on https"),
        "{said}"
    );
}

#[test]
fn http_2_is_agreed_on_with_those_who_know_it() {
    let authority = Authority::new();
    let stage = two_sites(&authority);
    let url = format!("https://example.test:{}/", tls_addr(&stage).port());
    let send = |more: &[&str]| {
        let shown = ["-i", "-w", "spoken=%{http_version}"];
        curl(&stage, "example.test", &[&shown, more, &[&url]].concat())
    };
    for (more, status, spoken) in [
        (&["--http2"][..], "200", "spoken=2"),
        (&["--http1.1"], "200", "spoken=1.1"),
        (&["--no-alpn"], "200", "spoken=1.1"),
        // Also there a host that the certificate does not speak for is refused.
        (&["--http2", "-H", "Host: other.test"], "421", "spoken=2"),
        (
            &["--http2", "-H", "Host: www.example.test"],
            "200",
            "spoken=2",
        ),
    ] {
        let said = send(more);
        let line = said.lines().next().unwrap_or_default();
        assert!(
            line.contains(status) && said.ends_with(spoken),
            "{more:?}: {said}"
        );
    }
    // A client that knows neither gets an alert (RFC 7301 section 3.2).
    let name = ["-servername", "example.test", "-alpn", "spdy/3"];
    let said = s_client(&stage.scratch, tls_addr(&stage), &name, CLOSE);
    assert!(said.contains("no application protocol"), "{said}");
    // Nobody asks a challenge of a name that has none.
    let name = ["-servername", "example.test", "-alpn", "acme-tls/1"];
    let said = s_client(&stage.scratch, tls_addr(&stage), &name, CLOSE);
    assert!(said.contains("no peer certificate available"), "{said}");
}

#[test]
fn an_upstream_hears_of_https() {
    let origin = Origin::constant(&[("Content-Type", "text/html")], "<html></html>").unwrap();
    let stage = over_tls(SiteBuilder::origin(&origin, "wordpress"), &Authority::new()).start();
    let url = format!("https://example.test:{}/", tls_addr(&stage).port());
    curl(&stage, "example.test", &[&url]);
    stage.get("/");
    let heard: Vec<_> = origin
        .requests()
        .iter()
        .map(|seen| {
            seen.field("x-forwarded-proto")
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    assert_eq!(heard, ["https", "http"]);
}

#[test]
fn what_comes_in_the_clear_is_sent_to_tls() {
    let authority = Authority::new();
    let plan = SiteBuilder::files()
        .file("index.html", "one\n")
        .server("listen_tls = [\"127.0.0.1:0\"]")
        .site("hsts = \"1h\"\nhttps_port = 8443\ntls = { cert = \"{dir}/site.pem\", key = \"{dir}/site.key\" }");
    authority.issue(plan.scratch.path(), "site", &["example.test"]);
    let stage = plan.start();
    let answer = stage.get("/?a=1").expect_status(301);
    let there = "https://example.test:8443/?a=1";
    assert_eq!(answer.field("location"), Some(there));
    // Without TLS anybody could send it (RFC 6797 section 7.2).
    assert_eq!(answer.field("strict-transport-security"), None);
    let url = format!("https://example.test:{}/", tls_addr(&stage).port());
    for version in ["--http1.1", "--http2"] {
        let said = curl(&stage, "example.test", &["-i", version, &url]).to_lowercase();
        assert!(
            said.contains("strict-transport-security: max-age=3600"),
            "{said}"
        );
    }
}

#[test]
fn openssl_agrees_on_versions_and_resumes() {
    let authority = Authority::new();
    let stage = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    )
    .start();
    let at = tls_addr(&stage);
    let name = ["-servername", "example.test", "-verify_return_error"];
    for (version, spoken) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let session = stage.scratch.join("session");
        let file = session.to_str().unwrap();
        let first = [&name[..], &[version, "-sess_out", file]].concat();
        let said = s_client(&stage.scratch, at, &first, CLOSE);
        assert!(said.contains("hello") && said.contains("New, "), "{said}");
        assert!(said.contains(spoken), "{said}");
        let again = [&name[..], &[version, "-sess_in", file]].concat();
        let said = s_client(&stage.scratch, at, &again, CLOSE);
        assert!(
            said.contains("hello") && said.contains("Reused, "),
            "{said}"
        );
    }
    let old = [&name[..], &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]].concat();
    let said = s_client(&stage.scratch, at, &old, CLOSE);
    assert!(!said.contains("hello") && said.contains("alert"), "{said}");
    let numbers = metrics(&stage);
    assert!(
        numbers.contains("galley_tls_handshakes_total{kind=\"full\"} 2\n"),
        "{numbers}"
    );
    assert!(
        numbers.contains("galley_tls_handshakes_total{kind=\"resumed\"} 2\n"),
        "{numbers}"
    );
    assert!(
        numbers.contains("galley_tls_handshake_failures_total 1\n"),
        "{numbers}"
    );
    assert!(
        numbers.contains(
            "galley_certificate_expires_timestamp_seconds{site=\"example.test\"} 3786912000\n"
        ),
        "{numbers}"
    );
}

#[test]
fn the_least_version_is_kept() {
    let authority = Authority::new();
    let plan = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    );
    let stage = plan.server("tls_min_version = \"1.3\"").start();
    let at = tls_addr(&stage);
    let send = |version| {
        s_client(
            &stage.scratch,
            at,
            &["-servername", "example.test", version],
            CLOSE,
        )
    };
    assert!(!send("-tls1_2").contains("hello"));
    assert!(send("-tls1_3").contains("hello"));
}

#[test]
fn certificates_are_chosen_by_name_and_by_what_the_client_understands() {
    let stage = two_sites(&Authority::new());
    let at = tls_addr(&stage);
    let get = |host: &str| format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    let with = |name: &str, more: &[&str], host: &str| {
        let name = [
            "-servername",
            name,
            "-verify_return_error",
            "-verify_hostname",
            name,
        ];
        s_client(&stage.scratch, at, &[&name[..], more].concat(), &get(host))
    };
    for (name, text) in [
        ("example.test", "one"),
        ("other.test", "two"),
        ("a.wild.test", "two"),
        ("A.WILD.test", "two"),
    ] {
        let said = with(name, &[], name);
        assert!(
            said.contains(text) && said.contains("ECDSA"),
            "{name}: {said}"
        );
    }
    let rsa = with("other.test", &["-sigalgs", "RSA-PSS+SHA256"], "other.test");
    assert!(rsa.contains("two") && rsa.contains("RSA-PSS"), "{rsa}");
    // Nobody has this name, so nobody's certificate is shown.
    let unknown = s_client(
        &stage.scratch,
        at,
        &["-servername", "unknown.test"],
        &get("example.test"),
    );
    assert!(
        unknown.contains("no peer certificate available"),
        "{unknown}"
    );
    // Without a name it is the first site's.
    let none = s_client(&stage.scratch, at, &["-noservername"], &get("example.test"));
    assert!(none.contains("one"), "{none}");
}

#[test]
fn a_host_that_the_certificate_does_not_speak_for_is_misdirected() {
    let authority = Authority::new();
    let stage = two_sites(&authority);
    let (at, client) = (tls_addr(&stage), authority.client());
    let asked = |name: &str, host: &str| {
        let mut tls = Tls::connect(&client, name, at).unwrap();
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
        let said = asked(name, host);
        let line = format!("HTTP/1.1 {status} ");
        assert!(said.starts_with(&line), "{name} {host}: {said}");
    }
    let line = stage.access_line("misdirected");
    assert!(line.contains(" 421 "), "{line}");
    // On one connection: what is refused does not stand in the way of what is not.
    let mut tls = Tls::connect(&client, "example.test", at).unwrap();
    let said = tls.send_raw(
        format!("GET / HTTP/1.1\r\nHost: other.test\r\n\r\nGET / HTTP/1.1\r\nHost: example.test\r\n\r\n{CLOSE}").as_bytes(),
    );
    assert_eq!(said.matches("HTTP/1.1 421 ").count(), 1, "{said}");
    assert_eq!(said.matches("HTTP/1.1 200 ").count(), 2, "{said}");
}

#[test]
fn a_renewed_certificate_is_shown_at_once_and_no_handshake_fails() {
    let authority = Authority::new();
    let plan = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    );
    let stage = plan.log("level = \"info\"").start();
    let (at, dir) = (tls_addr(&stage), stage.scratch.path().to_owned());
    let shown = || {
        Tls::connect(&authority.client(), "example.test", at)
            .unwrap()
            .certificate()
    };
    let (ends, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let old = shown();
    // It outlives what it was made with.
    let mut standing = Tls::connect(&authority.client(), "example.test", at).unwrap();
    std::thread::scope(|scope| {
        let load = || {
            while !ends.load(Ordering::Relaxed) {
                let mut tls = Tls::connect(&authority.client(), "example.test", at).unwrap();
                assert!(tls.send_raw(CLOSE.as_bytes()).contains("hello"));
                served.fetch_add(1, Ordering::Relaxed);
            }
        };
        let threads = [scope.spawn(load), scope.spawn(load)];
        // The key is another's: the pair is not in order, and the old one remains in use.
        let key = fs::read(dir.join("site.key")).unwrap();
        authority.issue(&dir, "site", &["example.test"]);
        fs::write(dir.join("site.key"), &key).unwrap();
        stage
            .galley
            .wait_for_log("the old one remains in use", TIMEOUT);
        assert_eq!(shown(), old);
        let new = authority.issue(&dir, "site", &["example.test"]);
        wait_for("the new certificate", TIMEOUT, || shown() == new);
        ends.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().unwrap();
        }
    });
    assert!(served.into_inner() > 0);
    assert!(standing.send_raw(CLOSE.as_bytes()).contains("hello"));
    assert!(stage.galley.log().contains("the certificate was renewed"));
}

#[test]
fn an_idle_connection_ends_with_a_farewell() {
    let authority = Authority::new();
    let plan = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    );
    let stage = plan.server("idle_timeout = \"1s\"").start();
    let mut tls = Tls::connect(&authority.client(), "example.test", tls_addr(&stage)).unwrap();
    tls.send(b"GET / HTTP/1.1\r\nHost: example.test\r\n\r\n");
    let (mut answer, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        // An end without the farewell would be an error here.
        match tls.0.read(&mut piece).unwrap() {
            0 => break,
            count => answer.extend_from_slice(&piece[..count]),
        }
    }
    assert!(answer.ends_with(b"hello\n"), "{}", answer.escape_ascii());
}

#[test]
fn an_expired_certificate_is_reported_and_sent() {
    let authority = Authority::new();
    let plan = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    );
    let hosts = ["example.test", "www.example.test"];
    authority.issue_as(
        plan.scratch.path(),
        "site",
        &hosts,
        (Key::Ecdsa, Ends::Past),
    );
    let stage = plan.start();
    stage
        .galley
        .wait_for_log("site.pem`, which expired ", TIMEOUT);
    let checked = stage.galley.cli(&["check"]).unwrap();
    let said = String::from_utf8(checked.stderr).unwrap();
    assert!(checked.status.success(), "{said}");
    let line = said
        .lines()
        .find(|line| line.contains("which expired"))
        .unwrap();
    assert!(
        line.contains("galley: warning: ") && line.contains("galley.toml:"),
        "{said}"
    );
    let url = format!("https://example.test:{}/", tls_addr(&stage).port());
    let refused = curl(&stage, "example.test", &[&url]);
    assert!(refused.contains("expired"), "{refused}");
    assert_eq!(
        curl(&stage, "example.test", &["--insecure", &url]),
        "hello\n"
    );
}

#[test]
fn a_slow_handshake_has_a_deadline_and_keeps_nobody_waiting() {
    let authority = Authority::new();
    let plan = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    );
    let stage = plan.server("head_timeout = \"1s\"\nworkers = 1").start();
    let at = tls_addr(&stage);
    // The beginning of a ClientHello of 512 bytes, and no more of it.
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3];
    let mut slow: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut socket = TcpStream::connect(at).unwrap();
            socket.set_read_timeout(Some(TIMEOUT)).unwrap();
            socket.write_all(&hello).unwrap();
            socket
        })
        .collect();
    slow.push(TcpStream::connect(at).unwrap());
    // In plain, where a handshake belongs; and a browser's request for it.
    let mut wrong = TcpStream::connect(at).unwrap();
    wrong.write_all(CLOSE.as_bytes()).unwrap();
    let mut tls = Tls::connect(&authority.client(), "example.test", at).unwrap();
    assert!(tls.send_raw(CLOSE.as_bytes()).contains("hello"));
    for mut socket in slow.into_iter().chain([wrong]) {
        let mut answer = Vec::new();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        // Closed or reset; an alert may come before.
        let _ = socket.read_to_end(&mut answer);
        assert!(!answer.starts_with(b"HTTP/"), "{answer:?}");
    }
    wait_for("the connections to be gone", TIMEOUT, || {
        metrics(&stage).contains("galley_connections 0\n")
    });
}

#[test]
fn files_of_every_size_come_whole_and_in_parts() {
    let authority = Authority::new();
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let stage = over_tls(SiteBuilder::files().file("large.bin", &large), &authority).start();
    let (at, client) = (tls_addr(&stage), authority.client());
    let send = |fields: &str| {
        let mut tls = Tls::connect(&client, "example.test", at).unwrap();
        tls.send(
            format!(
                "GET /large.bin HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n{fields}\r\n"
            )
            .as_bytes(),
        );
        let answer = tls.rest();
        let head = answer.windows(4).position(|at| at == b"\r\n\r\n").unwrap() + 4;
        answer[head..].to_vec()
    };
    assert!(send("") == large);
    assert!(send("Range: bytes=1000001-9000000\r\n") == large[1_000_001..=9_000_000]);
    // A client that is slower than we are is sent the last record, too.
    let url = format!("https://example.test:{}/large.bin", at.port());
    let into = stage.scratch.join("got.bin");
    let got = into.to_str().unwrap();
    let said = curl(
        &stage,
        "example.test",
        &["--http2", "--limit-rate", "8M", "-o", got, &url],
    );
    assert!(
        said.is_empty() && fs::read(&into).unwrap() == large,
        "{said}"
    );
    // A client that leaves midway harms nobody.
    let mut tls = Tls::connect(&client, "example.test", at).unwrap();
    tls.send(b"GET /large.bin HTTP/1.1\r\nHost: example.test\r\n\r\n");
    let mut some = [0; 1000];
    tls.0.read_exact(&mut some).unwrap();
    drop(tls);
    let plain = stage.send(Request::get("/large.bin"));
    assert!(plain.body == large);
    wait_for("the connections to be gone", TIMEOUT, || {
        metrics(&stage).contains("galley_connections 0\n")
    });
}

/// Sites of different certificates: what one has proved is not taken for the other.
#[test]
fn a_session_of_one_site_is_not_resumed_at_another() {
    let authority = Authority::new();
    let plan = over_tls(
        SiteBuilder::files().file("index.html", "hello\n"),
        &authority,
    );
    authority.issue(plan.scratch.path(), "other", &["other.test"]);
    let other = "[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}\"\n\
        https_redirect = false\ntls = { cert = \"{dir}/other.pem\", key = \"{dir}/other.key\" }";
    let stage = plan.more(other).start();
    let session = stage.scratch.join("session");
    for version in ["-tls1_2", "-tls1_3"] {
        let says = |name: &str, way: &str| {
            let words = ["-servername", name, version, way, session.to_str().unwrap()];
            s_client(&stage.scratch, tls_addr(&stage), &words, CLOSE)
        };
        assert!(says("example.test", "-sess_out").contains("New, "));
        let said = says("other.test", "-sess_in");
        assert!(
            said.contains("New, ") && !said.contains("Reused, "),
            "{said}"
        );
        assert!(said.contains("Verify return code: 0"), "{said}");
        let said = says("example.test", "-sess_in");
        assert!(said.contains("Reused, "), "{said}");
    }
}
