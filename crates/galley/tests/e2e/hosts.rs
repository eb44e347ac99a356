//! Selection of the site: host normalization, wildcards, sites with a separate listener, and absolute request targets.

use galley_testkit::client::Request;

use crate::support::{AssertStatus, HOST, SiteBuilder, TestSite};

fn status_and_body(site: &TestSite, host: &str, target: &str) -> (u16, String) {
    let response = site.send(Request::get(target).host(host));
    (response.status, response.text())
}

#[test]
fn hosts_are_compared_without_case_port_and_trailing_dot() {
    let site = SiteBuilder::files().file("a.txt", "mine").start();
    for host in [
        "example.test",
        "EXAMPLE.Test",
        "example.test:80",
        "example.test:12345",
        "example.test.",
        "Example.Test.:80",
    ] {
        assert_eq!(
            status_and_body(&site, host, "/a.txt"),
            (200, "mine".to_owned()),
            "{host}"
        );
    }
}

#[test]
fn all_spellings_of_a_host_share_a_page() {
    let site = SiteBuilder::php().start();
    site.send(Request::get("/p").host("example.test"))
        .assert_status(200);
    for host in ["EXAMPLE.test", "example.test.", "example.test:80"] {
        assert!(site.send(Request::get("/p").host(host)).is_hit(), "{host}");
    }
    assert_eq!(site.runs("/p"), 1);
}

#[test]
fn unknown_hosts_get_421_for_every_target_and_method() {
    let site = SiteBuilder::php().file("a.txt", "mine").start();
    site.get("/page");
    for host in [
        "nobody.test",
        "xexample.test",
        "www.example.test",
        "example.test.evil.test",
        "127.0.0.1",
        "[::1]:80",
        "example",
    ] {
        for target in [
            "/a.txt",
            "/page",
            "/",
            "/.git/config",
            "/wp-login.php",
            "/../x",
            "/missing",
        ] {
            let (status, text) = status_and_body(&site, host, target);
            assert_eq!(status, 421, "{host} {target}: {text}");
            assert!(
                !text.contains("mine") && !text.contains("example.test"),
                "{host} {target}: {text}"
            );
        }
        for method in ["POST", "PURGE", "OPTIONS", "DELETE"] {
            let response = site.send(Request::new(method, "/page").host(host));
            assert_eq!(response.status, 421, "{method} {host}");
        }
    }
    assert!(
        site.get("/page").is_hit(),
        "a purge for an unknown host has no effect"
    );
}

#[test]
fn exact_hosts_precede_wildcards_and_wildcards_precede_any() {
    let site_config = |name: &str, hosts: &str| {
        format!("[[site]]\nhosts = {hosts}\nroot = \"{{root}}/../{name}\"\n")
    };
    let builder = SiteBuilder::files()
        .file("who.txt", "exact")
        .more(&site_config("wild", "[\"*.example.test\"]"))
        .more(&site_config("deep", "[\"*.deep.example.test\"]"))
        .more(&site_config("any", "[\"*\"]"));
    for name in ["wild", "deep", "any"] {
        builder
            .scratch
            .write(&format!("{name}/who.txt"), name)
            .unwrap();
    }
    let site = builder.start();
    for (host, expected) in [
        ("example.test", "exact"),
        ("www.example.test", "wild"),
        ("WWW.example.test:99", "wild"),
        ("a.b.example.test", "wild"),
        ("deep.example.test", "wild"),
        ("x.deep.example.test", "deep"),
        ("xexample.test", "any"),
        ("nobody.test", "any"),
        ("127.0.0.1", "any"),
        ("[::1]", "any"),
    ] {
        assert_eq!(
            status_and_body(&site, host, "/who.txt"),
            (200, expected.to_owned()),
            "{host}"
        );
    }
    // HTTP/1.0 requests may have no host.
    let response = site.send_raw(b"GET /who.txt HTTP/1.0\r\n\r\n");
    let text = String::from_utf8_lossy(&response);
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.ends_with("any"),
        "{text}"
    );
}

#[test]
fn http_1_0_without_a_host_gets_421_unless_a_site_accepts_any_host() {
    let site = SiteBuilder::files().file("a.txt", "mine").start();
    let text = String::from_utf8(site.send_raw(b"GET /a.txt HTTP/1.0\r\n\r\n")).unwrap();
    assert!(
        text.starts_with("HTTP/1.1 421 ") && !text.contains("mine"),
        "{text}"
    );
}

#[test]
fn an_absolute_target_overrides_the_host_field() {
    let builder = SiteBuilder::files()
        .file("who.txt", "first")
        .more("[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}/../other\"\n");
    builder.scratch.write("other/who.txt", "second").unwrap();
    let site = builder.start();
    for (target, host, expected) in [
        ("http://other.test/who.txt", HOST, "second"),
        ("http://OTHER.test:80/who.txt", HOST, "second"),
        ("http://example.test/who.txt", "other.test", "first"),
        ("http://example.test/who.txt", "nobody.test", "first"),
    ] {
        assert_eq!(
            status_and_body(&site, host, target),
            (200, expected.to_owned()),
            "{target} {host}"
        );
    }
    assert_eq!(
        status_and_body(&site, HOST, "http://nobody.test/who.txt").0,
        421
    );
    for target in [
        "http:///who.txt",
        "ftp://other.test/who.txt",
        "other.test/who.txt",
        "http://a@other.test/who.txt",
    ] {
        let (status, text) = status_and_body(&site, HOST, target);
        assert!(
            [400, 421].contains(&status) && text != "second",
            "{target}: {status} {text}"
        );
    }
    // HTTP/1.1 requires a `Host` field with an absolute target as well (RFC 9112 section 3.2).
    let text = String::from_utf8(site.send_raw(b"GET http://other.test/who.txt HTTP/1.1\r\n\r\n"))
        .unwrap();
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
}

#[test]
fn a_site_with_a_separate_listener_is_reachable_only_there() {
    let builder = SiteBuilder::files()
        .file("who.txt", "public")
        .more("[[site]]\nhosts = [\"inner.test\"]\nlisten = [\"127.0.0.2:0\"]\nroot = \"{root}/../inner\"\n");
    builder.scratch.write("inner/who.txt", "inner").unwrap();
    let site = builder.start();
    let urls = site.galley.urls();
    assert_eq!(urls.len(), 2, "{urls:?}");
    let inner = urls
        .iter()
        .position(|url| url.contains("127.0.0.2"))
        .unwrap();
    let send = |listener: usize, host: &str| {
        let response = Request::get("/who.txt")
            .host(host)
            .send(site.addr_of(listener))
            .unwrap();
        (response.status, response.text())
    };
    assert_eq!(send(inner, "inner.test"), (200, "inner".to_owned()));
    assert_eq!(send(1 - inner, HOST), (200, "public".to_owned()));
    assert_eq!(send(1 - inner, "inner.test").0, 421);
    assert_eq!(send(inner, HOST).0, 421);
}
