//! Access control by network and password, rate limits, XML-RPC and user enumeration. Requests are sent from several
//! loopback addresses.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use galley_testkit::client::{Connection, Request, Response};

use crate::support::{
    AssertStatus, HOST, SiteBuilder, TEST_PAGE, TIMEOUT, TestSite, page_value, with_host,
};

/// Sends a request from 127.0.0.`number`.
pub fn send_from(site: &TestSite, number: u8, request: Request) -> Response {
    let mut connection = site.connect_from(Ipv4Addr::new(127, 0, 0, number));
    connection.exchange(&with_host(request)).unwrap()
}

pub fn get_from(site: &TestSite, number: u8, target: &str) -> Response {
    send_from(site, number, Request::get(target))
}

#[track_caller]
pub fn assert_refused(response: &Response, status: u16, detail: &str) {
    assert_eq!(response.status, status, "{}", response.excerpt());
    assert_eq!(
        response.cache_status(),
        format!("galley; detail={detail}"),
        "{}",
        response.excerpt()
    );
    assert_eq!(response.field("cache-control"), Some("no-store"));
}

#[test]
fn allow_and_deny_apply_before_the_cache_and_files() {
    let site = SiteBuilder::php()
        .site("allow = [\"127.0.0.2\", \"127.0.0.3\"]\ndeny = [\"127.0.0.3\"]")
        .more(
            "[[site.rule]]\npath = \"/open*\"\nallow = []\n[[site.rule]]\npath = \"/inner*\"\nallow = [\"127.0.0.4\"]\n",
        )
        .file("style.css", "p {}")
        .start();
    site.head("/page/", &["Cache-Control: max-age=600"]);
    get_from(&site, 2, "/page/").assert_status(200);
    assert!(get_from(&site, 2, "/page/").is_hit());
    get_from(&site, 2, "/style.css").assert_status(200);
    for number in [1, 3] {
        assert_refused(&get_from(&site, number, "/page/"), 403, "network");
        assert_refused(&get_from(&site, number, "/style.css"), 403, "network");
        assert_refused(&get_from(&site, number, "//page/"), 403, "network");
    }
    get_from(&site, 1, "/open/x").assert_status(200);
    assert_refused(&get_from(&site, 3, "/open/x"), 403, "network");
    assert_refused(&get_from(&site, 2, "/inner/x"), 403, "network");
    assert_refused(&get_from(&site, 2, "//inner/x"), 403, "network");
    get_from(&site, 4, "/inner/x").assert_status(200);
    site.access_line("outcome=refused:network");
    let why = |target: &str, address: &str| {
        let url = format!("http://{HOST}{target}");
        let output = site.galley.cli(&["why", &url, "--from", address]).unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let output = why("/inner/x", "127.0.0.2");
    assert!(output.contains("(refused: network)"), "{output}");
    let reason = "`allow` of rule number 2, for `/inner*` does not name 127.0.0.2";
    assert!(output.contains(reason), "{output}");
    assert!(
        why("/page/", "127.0.0.2").contains("(hit)"),
        "an allowed client gets a hit"
    );
}

#[test]
fn a_rule_denies_paths_and_methods_with_its_own_status() {
    let everybody = "deny = [\"0.0.0.0/0\", \"::/0\"]\n";
    let site = SiteBuilder::php()
        .more(&format!(
            "[[site.rule]]\npath = \"/*\"\nmethods = [\"PUT\", \"DELETE\"]\n{everybody}deny_status = 405\nspellings = false\n
             [[site.rule]]\npath = \"/gone*\"\n{everybody}deny_status = 410\n"
        ))
        .start();
    let send = |method: &str, target: &str| send_from(&site, 1, Request::new(method, target));
    assert_refused(&send("GET", "/gone/x"), 410, "network");
    for target in ["/", "/gone/x", "/index.php/x"] {
        assert_refused(&send("PUT", target), 405, "network");
        assert_refused(&send("DELETE", target), 405, "network");
    }
    send("PATCH", "/x").assert_status(200);
    // The block editor names methods in this field.
    for target in ["/wp-json/x", "/index.php/wp-json/x"] {
        let request = Request::new("POST", target).field("X-HTTP-Method-Override", "PUT");
        send_from(&site, 1, request).assert_status(200);
    }
    let url = format!("http://{HOST}/gone/x");
    let output = site.galley.cli(&["why", &url, "--json"]).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["now"]["status"], 410, "{value}");
}

fn htpasswd(kind: &str, name: &str, password: &str) -> String {
    let mut command = Command::new("htpasswd");
    let output = command
        .args(["-nb", kind, name, password])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// `jane:secret`, `joe:other` and `jane:wrong` in Base64 (`printf jane:secret | base64`).
const JANE: &str = "Basic amFuZTpzZWNyZXQ=";
const JOE: &str = "Basic am9lOm90aGVy";
const WRONG: &str = "Basic amFuZTp3cm9uZw==";

#[test]
fn basic_auth_protects_a_site_and_is_not_forwarded_to_php() {
    let builder = SiteBuilder::php();
    let lines = [
        htpasswd("-B", "jane", "secret"),
        htpasswd("-m", "joe", "other"),
    ];
    let password_file = builder.scratch.write("people", lines.join("\n")).unwrap();
    let site = builder
        .site("basic_auth = \"{dir}/people\"")
        .more("[[site.rule]]\npath = \"/health\"\nbasic_auth = \"off\"\n")
        .file("style.css", "p {}")
        .start();
    site.head("/page/", &["Cache-Control: public, max-age=600"]);
    let send = |target: &str, value: &str| {
        let request = Request::get(target);
        site.send(match value {
            "" => request,
            value => request.field("Authorization", value),
        })
    };
    for target in ["/page/", "/style.css"] {
        for value in ["", WRONG, "Basic !!!", "Basic", "Bearer x"] {
            let response = send(target, value);
            assert_refused(&response, 401, "password");
            let expected = "Basic realm=\"restricted\", charset=\"UTF-8\"";
            assert_eq!(response.field("www-authenticate"), Some(expected));
        }
    }
    for value in [JANE, JOE] {
        let response = send("/page/", value);
        response.assert_status(200);
        assert_eq!(
            response.cache_status(),
            "galley; fwd=bypass; detail=authorization"
        );
        assert!(
            !response.text().contains("AUTHORIZATION"),
            "{}",
            response.text()
        );
        send("/style.css", value).assert_status(200);
    }
    assert_refused(&send("/page/", ""), 401, "password");
    send("/health", "").assert_status(200);
    // A name removed from the file is rejected after at most a minute; an added one works at once.
    std::fs::write(password_file, htpasswd("-s", "joe", "other")).unwrap();
    send("/page/", JOE).assert_status(200);
    let twice = Request::get("/page/")
        .field("Authorization", JANE)
        .field("Authorization", JANE);
    assert_refused(&site.send(twice), 401, "password");
}

#[test]
fn basic_auth_forward_passes_the_password_to_php() {
    let builder = SiteBuilder::php();
    let line = htpasswd("-B", "jane", "secret");
    builder.scratch.write("people", line).unwrap();
    let site = builder
        .site("basic_auth = \"{dir}/people\"\nbasic_auth_forward = true")
        .start();
    let response = site.send(Request::get("/x").field("Authorization", JANE));
    assert_eq!(page_value(&response.text(), "HTTP_AUTHORIZATION"), JANE);
}

#[test]
fn password_checks_are_limited_per_client() {
    let builder = SiteBuilder::files()
        .file("a.txt", "a")
        .server("limit_exempt = []");
    builder
        .scratch
        .write("people", htpasswd("-s", "jane", "secret"))
        .unwrap();
    let site = builder.site("basic_auth = \"{dir}/people\"").start();
    let guess = |number: u8, value: &str| {
        send_from(
            &site,
            number,
            Request::get("/a.txt").field("Authorization", value),
        )
    };
    guess(3, JANE).assert_status(200);
    let limited = (0..60)
        .map(|_| guess(2, WRONG))
        .find(|response| response.status != 401);
    assert_refused(
        &limited.expect("a refusal within sixty guesses"),
        429,
        "limited",
    );
    guess(2, JANE).assert_status(429);
    guess(3, JANE).assert_status(200);
}

#[test]
fn a_rate_limit_counts_each_client_separately() {
    let site = SiteBuilder::php()
        .server("limit_exempt = [\"127.0.0.9\"]")
        .more(
            "[[site.rule]]\npath = \"/page/\"\nlimit = { rate = \"1/h\", burst = 4 }\n\
             [[site.rule]]\npath = \"/other/\"\nlimit = { rate = \"1/d\" }\n",
        )
        .start();
    site.head("/page/", &["Cache-Control: max-age=600"]);
    for number in [2, 3] {
        for _ in 0..4 {
            get_from(&site, number, "/page/").assert_status(200);
        }
        let response = get_from(&site, number, "/page/");
        assert_refused(&response, 429, "limited");
        let retry_after: u64 = response.field("retry-after").unwrap().parse().unwrap();
        assert!((1..=3_600).contains(&retry_after), "{retry_after}");
        // Each rule has its own bucket; paths without a rule have no limit.
        get_from(&site, number, "/other/").assert_status(200);
        get_from(&site, number, "/other/").assert_status(429);
        get_from(&site, number, "/free/").assert_status(200);
    }
    for _ in 0..10 {
        get_from(&site, 9, "/page/").assert_status(200);
    }
    assert_eq!(site.runs("/page/"), 1, "hits did not run PHP");
}

#[test]
fn password_guessing_is_limited_by_default() {
    let site = SiteBuilder::php()
        .server("limit_exempt = []")
        .file("wp-login.php", TEST_PAGE)
        .file("xmlrpc.php", TEST_PAGE)
        .start();
    let form = [("log", "admin"), ("pwd", "guess")];
    let guess = |number| send_from(&site, number, Request::form("/wp-login.php", &form));
    let accepted = (0..40).filter(|_| guess(2).status == 200).count();
    assert!(
        (15..=20).contains(&accepted),
        "{accepted} guesses were accepted"
    );
    assert_refused(&guess(2), 429, "limited");
    // The limited client can still read pages, and other clients can log in.
    get_from(&site, 2, "/wp-login.php").assert_status(200);
    get_from(&site, 2, "/").assert_status(200);
    guess(3).assert_status(200);
    let call = "<methodCall><methodName>wp.getUsersBlogs</methodName></methodCall>";
    let send = || send_from(&site, 4, Request::post("/xmlrpc.php", "text/xml", call));
    let accepted = (0..100).filter(|_| send().status == 200).count();
    assert!(
        (60..=80).contains(&accepted),
        "{accepted} calls were accepted"
    );
}

#[test]
fn xmlrpc_multicall_and_pingback_are_refused() {
    let site = SiteBuilder::php().file("xmlrpc.php", TEST_PAGE).start();
    let call = |name: &str, more: &str| {
        let body = format!(
            "<?xml version=\"1.0\"?>\n<methodCall><methodName>{name}</methodName><params>{more}</params></methodCall>"
        );
        site.send(Request::post("/xmlrpc.php", "text/xml", body))
    };
    // Large enough to be spooled to a file.
    let upload = format!(
        "<param><value><base64>{}</base64></value></param>",
        "A".repeat(300_000)
    );
    for (name, more) in [("wp.getUsersBlogs", ""), ("wp.uploadFile", upload.as_str())] {
        let response = call(name, more);
        response.assert_status(200);
        assert!(response.text().contains(name), "{}", response.excerpt());
    }
    let hidden = format!("{upload}<methodName>system.multicall</methodName>");
    for (name, more) in [
        ("system.multicall", ""),
        ("pingback.ping", ""),
        ("system.multic&#x61;ll", ""),
        ("wp.getUsersBlogs", hidden.as_str()),
    ] {
        let response = call(name, more);
        assert_refused(&response, 200, "xmlrpc");
        assert_eq!(
            response.field("content-type"),
            Some("text/xml; charset=UTF-8")
        );
        assert!(
            response.text().contains("<int>-32601</int>"),
            "{}",
            response.text()
        );
    }
    assert_eq!(site.runs("/xmlrpc.php"), 2);
    for (option, expected) in [("on", 200), ("off", 403)] {
        let site = SiteBuilder::php()
            .file("xmlrpc.php", TEST_PAGE)
            .site(&format!("xmlrpc = \"{option}\""))
            .start();
        let call = "<methodCall><methodName>system.multicall</methodName></methodCall>";
        let response = site.send(Request::post("/xmlrpc.php", "text/xml", call));
        response.assert_status(expected);
        assert_eq!(response.text().contains("multicall"), expected == 200);
        site.get("/xmlrpc.php?rsd").assert_status(expected);
    }
}

#[test]
fn hide_authors_prevents_user_enumeration() {
    let site = SiteBuilder::php()
        .site("hide_authors = true")
        .file("wp-comments-post.php", TEST_PAGE)
        .start();
    site.head("/", &["Cache-Control: max-age=600"]);
    for target in [
        "/?author=1",
        "/?%61uthor[]=1",
        "/wp-json/wp/v2/users",
        "/?rest_route=/wp/v2/users/1",
    ] {
        assert_refused(&site.get(target), 403, "authors");
    }
    let form = [("author", "1")];
    assert_refused(&site.send(Request::form("/", &form)), 403, "authors");
    site.send(Request::form("/wp-comments-post.php", &form))
        .assert_status(200);
    site.send(Request::form("/", &[("s", "author")]))
        .assert_status(200);
    site.get("/author/jane/").assert_status(200);
    site.get("/").assert_status(200);
    assert!(site.get("/").is_hit());
}

#[test]
fn purge_requests_from_loopback_need_no_password() {
    let builder = SiteBuilder::php();
    builder
        .scratch
        .write("people", htpasswd("-s", "jane", "secret"))
        .unwrap();
    let site = builder.site("basic_auth = \"{dir}/people\"").start();
    site.send(Request::new("PURGE", "/page/"))
        .assert_status(200);
    assert_refused(
        &send_from(&site, 2, Request::new("PURGE", "/page/")),
        401,
        "password",
    );
}

/// Sends a request head and returns the first bytes of the response.
fn send_head(site: &TestSite, number: u8, head: &str) -> String {
    let mut connection = site.connect_from(Ipv4Addr::new(127, 0, 0, number));
    connection.write(head.as_bytes()).unwrap();
    let mut stream = connection.stream();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut bytes = vec![0; 4096];
    let count = stream.read(&mut bytes).unwrap();
    let _ = stream.flush();
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

#[test]
fn a_request_is_refused_before_its_body_is_sent() {
    let site = SiteBuilder::php().site("deny = [\"127.0.0.2\"]").start();
    let head = |length: u64, more: &str| {
        format!("POST /f HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {length}\r\n{more}\r\n")
    };
    // The default limit is 32 MiB. The test sends no byte of a body.
    let too_long = 32 * 1024 * 1024 + 1;
    for more in ["", "Expect: 100-continue\r\n"] {
        let response = send_head(&site, 1, &head(too_long, more));
        assert!(response.starts_with("HTTP/1.1 413 "), "{response}");
        let response = send_head(&site, 2, &head(1_000, more));
        assert!(response.starts_with("HTTP/1.1 403 "), "{response}");
    }
    let response = send_head(&site, 1, &head(too_long - 1, "Expect: 100-continue\r\n"));
    assert!(response.starts_with("HTTP/1.1 100 "), "{response}");
    assert_eq!(site.runs("/f"), 0);
}

#[test]
fn connections_are_limited_per_client_address() {
    let site = SiteBuilder::files()
        .server(
            "connections_per_address = 5\nlimit_exempt = [\"127.0.0.1\"]\nidle_timeout = \"1h\"",
        )
        .file("a.txt", "a")
        .start();
    let connect = |number| site.connect_from(Ipv4Addr::new(127, 0, 0, number));
    let works = |connection: &mut Connection| {
        let response = connection.exchange(&with_host(Request::get("/a.txt")));
        response.is_ok_and(|response| response.status == 200)
    };
    let mut connections: Vec<Connection> = (0..5).map(|_| connect(2)).collect();
    assert!(connections.iter_mut().all(works));
    assert!(!works(&mut connect(2)) && !works(&mut connect(2)));
    assert!(works(&mut connect(3)));
    let exempt: Vec<Connection> = (0..20).map(|_| connect(1)).collect();
    assert!(
        exempt
            .into_iter()
            .all(|mut connection| works(&mut connection))
    );
    connections.truncate(2);
    galley_testkit::wait_for("a free connection slot", Duration::from_secs(15), || {
        works(&mut connect(2))
    });
}
