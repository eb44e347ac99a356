//! What a reload changes: rules, listeners, certificates, logs.

use std::net::{SocketAddr, TcpListener, TcpStream};

use galley_testkit::client::{Connection, Request};
use galley_testkit::wait_for;

use super::{config, reloaded};
use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, with_host};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

/// A port that was free a moment ago.
fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn pages_of_other_rules_for_keys_are_not_found() {
    let stage = SiteBuilder::php().start();
    // The key of this page is the same under both rules.
    stage.get("/page/").assert_status(200);
    assert!(stage.get("/page/").is_hit());
    let before = config(&stage);
    let said = reloaded(&stage, &format!("{before}\nignore_query = [\"a\"]\n"));
    assert!(
        said.contains("its stored pages are not used any longer"),
        "{said}"
    );
    let first = stage.get("/page/").expect_status(200);
    assert!(!first.is_hit(), "{}", first.beginning());
    assert!(stage.get("/page/?a=2").is_hit(), "the rule is in force");
}

#[test]
fn limits_are_changed_and_answers_of_before_stay() {
    let stage = SiteBuilder::php().start();
    stage.get("/page/").assert_status(200);
    let changed = config(&stage).replace("[[site]]\n", "[[site]]\nrequest_body = \"1KiB\"\n");
    let said = reloaded(&stage, &changed);
    assert!(said.contains("request_body changed"), "{said}");
    assert!(stage.get("/page/").is_hit());
    let large = Request::post("/form", "text/plain", vec![b'x'; 4096]);
    assert_eq!(stage.send(large).status, 413);
}

#[test]
fn listeners_are_added_and_removed() {
    let (one, other) = (free(), free());
    let stage = SiteBuilder::files()
        .file("a.txt", "a")
        .server(&format!("listen = [\"{one}\"]"))
        .start();
    let at = |addr: SocketAddr| with_host(Request::get("/a.txt")).send(addr);
    at(one).unwrap().assert_status(200);
    let socket = stage.scratch.join("web.sock");
    let before = config(&stage);
    let both = before.replace(
        &format!("listen = [\"{one}\"]"),
        &format!(
            "listen = [\"{one}\", \"{other}\", \"unix:{}\"]",
            socket.display()
        ),
    );
    let said = reloaded(&stage, &both);
    assert!(
        said.contains(&format!("listener `http://{other}`: added")),
        "{said}"
    );
    at(one).unwrap().assert_status(200);
    at(other).unwrap().assert_status(200);
    assert!(socket.exists());
    assert!(stage.status().contains(&format!("http://{other}")));
    let last = before.replace(&one.to_string(), &other.to_string());
    let mut kept = Connection::within(one, TIMEOUT).unwrap();
    kept.exchange(&with_host(Request::get("/a.txt")))
        .unwrap()
        .assert_status(200);
    reloaded(&stage, &last);
    kept.exchange(&with_host(Request::get("/a.txt")))
        .unwrap()
        .assert_status(200);
    at(other).unwrap().assert_status(200);
    wait_for("the listener to be closed", TIMEOUT, || {
        TcpStream::connect(one).is_err()
    });
    assert!(!socket.exists());
    reloaded(&stage, &before);
    at(one).unwrap().assert_status(200);
}

#[test]
fn a_listener_begins_to_speak_tls_on_its_address() {
    let authority = Authority::new();
    let address = free();
    let stage = SiteBuilder::files()
        .file("a.txt", "a")
        .server(&format!("listen = [\"127.0.0.1:0\", \"{address}\"]"))
        .start();
    authority.issue(stage.scratch.path(), "site", &[HOST]);
    let dir = stage.scratch.path().display();
    let secure = config(&stage)
        .replace(
            &format!("listen = [\"127.0.0.1:0\", \"{address}\"]"),
            &format!("listen = [\"127.0.0.1:0\"]\nlisten_tls = [\"{address}\"]"),
        )
        .replace(
            "[[site]]\n",
            &format!("[[site]]\ntls = {{ cert = \"{dir}/site.pem\", key = \"{dir}/site.key\" }}\n"),
        );
    reloaded(&stage, &secure);
    let request = format!("GET /a.txt HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    let said = Tls::connect(&authority.client(), HOST, address)
        .unwrap()
        .send_raw(request.as_bytes());
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
}

#[test]
fn a_replaced_certificate_is_sent_at_once() {
    let authority = Authority::new();
    let stage = over_tls(SiteBuilder::files().file("a.txt", "a"), &authority).start();
    let shown = || {
        let tls = Tls::connect(&authority.client(), HOST, tls_addr(&stage));
        tls.unwrap().certificate()
    };
    let old = shown();
    let new = authority.issue(stage.scratch.path(), "site", &[HOST]);
    reloaded(&stage, &config(&stage));
    assert!(shown() == new && new != old);
    // Another pair of files.
    let other = authority.issue(stage.scratch.path(), "other", &[HOST]);
    let said = reloaded(&stage, &config(&stage).replace("/site.", "/other."));
    assert!(said.contains("certificates changed"), "{said}");
    assert_eq!(shown(), other);
}

#[test]
fn logs_are_opened_and_closed() {
    let stage = SiteBuilder::files().file("a.txt", "a").start();
    stage.get("/a.txt?one").assert_status(200);
    let new = stage.scratch.join("new.log");
    let old = stage.scratch.join("access.log");
    let before = config(&stage);
    let with = before.replace(&old.display().to_string(), &new.display().to_string());
    reloaded(&stage, &with);
    stage.get("/a.txt?two").assert_status(200);
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    wait_for("the line", TIMEOUT, || read(&new).contains("?two"));
    wait_for("the line before", TIMEOUT, || read(&old).contains("?one"));
    assert!(!read(&old).contains("?two") && !read(&new).contains("?one"));
    let pid = stage.galley.pid();
    let is_open = || {
        let all = std::fs::read_dir(format!("/proc/{pid}/fd"))
            .unwrap()
            .flatten();
        let mut targets = all.filter_map(|fd| std::fs::read_link(fd.path()).ok());
        targets.any(|target| target == old)
    };
    wait_for("the log to be closed", TIMEOUT, || !is_open());
}

#[test]
fn the_error_log_goes_to_another_file_with_another_level() {
    let stage = SiteBuilder::files()
        .file("a.txt", "a")
        .log("level = \"warn\"")
        .start();
    let file = stage.scratch.join("error.log");
    let changed = config(&stage).replace(
        "level = \"warn\"",
        &format!("level = \"info\"\nerror = \"{}\"", file.display()),
    );
    reloaded(&stage, &changed);
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(
        written.contains("info reload: [log]: error, level changed"),
        "{written}"
    );
    assert!(
        !stage.galley.log().contains("reload:"),
        "{}",
        stage.galley.log()
    );
}

#[test]
fn a_watched_file_that_changes_is_read() {
    let stage = SiteBuilder::files().file("a.txt", "a").start();
    let root = stage.scratch.join("root");
    let site = |host: &str| {
        format!(
            "[[site]]\nhosts = [\"{host}\"]\nroot = \"{}\"\n",
            root.display()
        )
    };
    let included = stage.scratch.write("more.toml", site("one.test")).unwrap();
    let watched = config(&stage).replace("[server]\n", "[server]\nwatch = true\n");
    reloaded(
        &stage,
        &format!("include = [\"{}\"]\n{watched}", included.display()),
    );
    let status = |host: &str| {
        let request = Request::get("/a.txt").host(host);
        request.send(stage.addr()).unwrap().status
    };
    assert_eq!((status("one.test"), status("two.test")), (200, 421));
    std::fs::write(&included, site("two.test")).unwrap();
    wait_for("the reload", TIMEOUT, || status("two.test") == 200);
    // A connection that the former generation has accepted is answered by it.
    wait_for("the former site to end", TIMEOUT, || {
        status("one.test") == 421
    });
    std::fs::write(&included, "nothing = 1\n").unwrap();
    stage
        .galley
        .wait_for_log("the old configuration remains in use", TIMEOUT);
    assert_eq!(status("two.test"), 200);
    std::fs::write(&included, site("one.test")).unwrap();
    wait_for("the next reload", TIMEOUT, || status("one.test") == 200);
}

#[test]
fn a_file_that_a_watched_pattern_matches_is_read_when_it_appears() {
    let stage = SiteBuilder::files().file("a.txt", "a").start();
    let root = stage.scratch.join("root");
    let watched = config(&stage).replace("[server]\n", "[server]\nwatch = true\n");
    let pattern = stage.scratch.join("sites.d/*.toml");
    let with_include = format!("include = [\"{}\"]\n{watched}", pattern.display());
    reloaded(&stage, &with_include);
    let status = || {
        let request = Request::get("/a.txt").host("new.test");
        request.send(stage.addr()).unwrap().status
    };
    assert_eq!(status(), 421);
    // Wrong at first: the file is watched although the running configuration does not contain it.
    let file = stage
        .scratch
        .write("sites.d/new.toml", "[[site]]\n")
        .unwrap();
    stage
        .galley
        .wait_for_log("the old configuration remains in use", TIMEOUT);
    let site = format!(
        "[[site]]\nhosts = [\"new.test\"]\nroot = \"{}\"\n",
        root.display()
    );
    std::fs::write(&file, site).unwrap();
    wait_for("the site", TIMEOUT, || status() == 200);
    std::fs::remove_file(&file).unwrap();
    wait_for("the site to be removed", TIMEOUT, || status() == 421);
}
