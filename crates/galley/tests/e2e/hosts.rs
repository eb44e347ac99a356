//! Whose request it is: hosts in any spelling, wildcards, sites of one listener only, absolute targets.

use galley_testkit::client::Request;

use crate::support::{AssertStatus, HOST, SiteBuilder, TestSite};

fn named(site: &TestSite, host: &str, target: &str) -> (u16, String) {
    let answer = site.send(Request::get(target).host(host));
    (answer.status, answer.text())
}

#[test]
fn a_host_is_one_host_in_any_spelling() {
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
            named(&site, host, "/a.txt"),
            (200, "mine".to_owned()),
            "{host}"
        );
    }
}

#[test]
fn a_page_is_one_page_in_any_spelling_of_its_host() {
    let site = SiteBuilder::php().start();
    site.send(Request::get("/p").host("example.test"))
        .assert_status(200);
    for host in ["EXAMPLE.test", "example.test.", "example.test:80"] {
        assert!(site.send(Request::get("/p").host(host)).is_hit(), "{host}");
    }
    assert_eq!(site.runs("/p"), 1);
}

#[test]
fn unknown_hosts_get_421_whatever_they_ask() {
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
            let (status, text) = named(&site, host, target);
            assert_eq!(status, 421, "{host} {target}: {text}");
            assert!(
                !text.contains("mine") && !text.contains("example.test"),
                "{host} {target}: {text}"
            );
        }
        for method in ["POST", "PURGE", "OPTIONS", "DELETE"] {
            let answer = site.send(Request::new(method, "/page").host(host));
            assert_eq!(answer.status, 421, "{method} {host}");
        }
    }
    assert!(
        site.get("/page").is_hit(),
        "the purge for another host touched nothing"
    );
}

#[test]
fn exact_names_win_over_wildcards_and_wildcards_over_any() {
    let scratch_site = |name: &str, hosts: &str| {
        format!("[[site]]\nhosts = {hosts}\nroot = \"{{root}}/../{name}\"\n")
    };
    let plan = SiteBuilder::files()
        .file("who.txt", "exact")
        .more(&scratch_site("wild", "[\"*.example.test\"]"))
        .more(&scratch_site("deep", "[\"*.deep.example.test\"]"))
        .more(&scratch_site("any", "[\"*\"]"));
    for name in ["wild", "deep", "any"] {
        plan.scratch
            .write(&format!("{name}/who.txt"), name)
            .unwrap();
    }
    let site = plan.start();
    for (host, wanted) in [
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
            named(&site, host, "/who.txt"),
            (200, wanted.to_owned()),
            "{host}"
        );
    }
    // HTTP/1.0 may leave the host out.
    let answer = site.send_raw(b"GET /who.txt HTTP/1.0\r\n\r\n");
    let text = String::from_utf8_lossy(&answer);
    assert!(
        text.starts_with("HTTP/1.1 200 ") && text.ends_with("any"),
        "{text}"
    );
}

#[test]
fn http_1_0_without_host_is_nobodys_where_no_site_takes_all() {
    let site = SiteBuilder::files().file("a.txt", "mine").start();
    let text = String::from_utf8(site.send_raw(b"GET /a.txt HTTP/1.0\r\n\r\n")).unwrap();
    assert!(
        text.starts_with("HTTP/1.1 421 ") && !text.contains("mine"),
        "{text}"
    );
}

#[test]
fn an_absolute_target_names_the_host() {
    let plan = SiteBuilder::files()
        .file("who.txt", "first")
        .more("[[site]]\nhosts = [\"other.test\"]\nroot = \"{root}/../other\"\n");
    plan.scratch.write("other/who.txt", "second").unwrap();
    let site = plan.start();
    for (target, host, wanted) in [
        ("http://other.test/who.txt", HOST, "second"),
        ("http://OTHER.test:80/who.txt", HOST, "second"),
        ("http://example.test/who.txt", "other.test", "first"),
        ("http://example.test/who.txt", "nobody.test", "first"),
    ] {
        assert_eq!(
            named(&site, host, target),
            (200, wanted.to_owned()),
            "{target} {host}"
        );
    }
    assert_eq!(named(&site, HOST, "http://nobody.test/who.txt").0, 421);
    for target in [
        "http:///who.txt",
        "ftp://other.test/who.txt",
        "other.test/who.txt",
        "http://a@other.test/who.txt",
    ] {
        let (status, text) = named(&site, HOST, target);
        assert!(
            [400, 421].contains(&status) && text != "second",
            "{target}: {status} {text}"
        );
    }
    // Also an absolute target needs a Host field in 1.1 (RFC 9112 section 3.2).
    let text = String::from_utf8(site.send_raw(b"GET http://other.test/who.txt HTTP/1.1\r\n\r\n"))
        .unwrap();
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
}

#[test]
fn a_site_with_a_listener_of_its_own_is_reached_only_there() {
    let plan = SiteBuilder::files()
        .file("who.txt", "public")
        .more("[[site]]\nhosts = [\"inner.test\"]\nlisten = [\"127.0.0.2:0\"]\nroot = \"{root}/../inner\"\n");
    plan.scratch.write("inner/who.txt", "inner").unwrap();
    let site = plan.start();
    let urls = site.galley.urls();
    assert_eq!(urls.len(), 2, "{urls:?}");
    let inner = urls
        .iter()
        .position(|url| url.contains("127.0.0.2"))
        .unwrap();
    let send = |listener: usize, host: &str| {
        let answer = Request::get("/who.txt")
            .host(host)
            .send(site.addr_of(listener))
            .unwrap();
        (answer.status, answer.text())
    };
    assert_eq!(send(inner, "inner.test"), (200, "inner".to_owned()));
    assert_eq!(send(1 - inner, HOST), (200, "public".to_owned()));
    assert_eq!(send(1 - inner, "inner.test").0, 421);
    assert_eq!(send(inner, HOST).0, 421);
}
