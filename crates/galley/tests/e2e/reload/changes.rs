//! Reloads that change rules, listeners, certificates, logs and included files.

use std::net::{SocketAddr, TcpListener, TcpStream};

use galley_testkit::client::{Connection, Request};
use galley_testkit::wait_for;

use super::{config, reload};
use crate::support::{AssertStatus, HOST, SiteBuilder, TIMEOUT, with_host};
use crate::tls_support::{Authority, Tls, over_tls, tls_addr};

/// An address with a port that was just free.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

#[test]
fn a_change_of_cache_key_rules_invalidates_stored_pages() {
    let site = SiteBuilder::php().start();
    // The key of this page is the same under both rules.
    site.get("/page/").assert_status(200);
    assert!(site.get("/page/").is_hit());
    let before = config(&site);
    let output = reload(&site, &format!("{before}\nignore_query = [\"a\"]\n"));
    assert!(
        output.contains("its stored pages are not used any longer"),
        "{output}"
    );
    let first = site.get("/page/").expect_status(200);
    assert!(!first.is_hit(), "{}", first.excerpt());
    assert!(site.get("/page/?a=2").is_hit(), "the new rule is in effect");
}

#[test]
fn a_change_of_limits_keeps_stored_pages() {
    let site = SiteBuilder::php().start();
    site.get("/page/").assert_status(200);
    let changed = config(&site).replace("[[site]]\n", "[[site]]\nrequest_body = \"1KiB\"\n");
    let output = reload(&site, &changed);
    assert!(output.contains("request_body changed"), "{output}");
    assert!(site.get("/page/").is_hit());
    let large = Request::post("/form", "text/plain", vec![b'x'; 4096]);
    assert_eq!(site.send(large).status, 413);
}

/// Tightening a limit during an attack must not send every page to PHP.
#[test]
fn limits_and_access_control_keep_every_page_over_a_reload_and_a_restart() {
    let rule = "[[site.rule]]\npath = \"/form*\"\n";
    let mut site = SiteBuilder::php().disk().more(rule).start();
    site.get("/page/").assert_status(200);
    site.wait_for_disk(1);
    let before = config(&site);
    let with = |of_site: &str, of_rule: &str| {
        let site = before.replace("[[site]]\n", &format!("[[site]]\n{of_site}\n"));
        format!("{site}\n{of_rule}\n")
    };
    let of_site = [
        "login_limit = { rate = \"7/m\", burst = 3 }",
        "xmlrpc_limit = { rate = \"7/m\", burst = 3 }",
        "deny = [\"192.0.2.0/24\"]",
        "request_body = \"2MiB\"",
        "outer_ttl = \"7s\"",
        "hide_authors = true",
    ];
    let of_rule = [
        "limit = { rate = \"7/m\", burst = 3 }",
        "allow = [\"127.0.0.0/8\"]",
        "request_body = \"1MiB\"",
    ];
    let all = with(&of_site.join("\n"), &of_rule.join("\n"));
    let single = of_site.iter().map(|line| with(line, ""));
    let single = single.chain(of_rule.iter().map(|line| with("", line)));
    for changed in single.chain([all.clone()]) {
        let output = reload(&site, &changed);
        assert!(output.contains(" changed"), "{changed}\n{output}");
        assert!(!output.contains("stored pages"), "{changed}\n{output}");
        assert!(site.get("/page/").is_hit(), "{changed}");
    }
    site.restart_with(&all);
    assert!(site.get("/page/").is_hit());
    site.restart_with(&before);
    assert!(site.get("/page/").is_hit());
    assert_eq!(site.runs("/page/"), 1);
}

#[test]
fn listeners_are_added_and_removed() {
    let (one, other) = (free_address(), free_address());
    let site = SiteBuilder::files()
        .file("a.txt", "a")
        .server(&format!("listen = [\"{one}\"]"))
        .start();
    let get_from = |addr: SocketAddr| with_host(Request::get("/a.txt")).send(addr);
    get_from(one).unwrap().assert_status(200);
    let socket = site.scratch.join("web.sock");
    let before = config(&site);
    let both = before.replace(
        &format!("listen = [\"{one}\"]"),
        &format!(
            "listen = [\"{one}\", \"{other}\", \"unix:{}\"]",
            socket.display()
        ),
    );
    let output = reload(&site, &both);
    assert!(
        output.contains(&format!("listener `http://{other}`: added")),
        "{output}"
    );
    get_from(one).unwrap().assert_status(200);
    get_from(other).unwrap().assert_status(200);
    assert!(socket.exists());
    assert!(site.status().contains(&format!("http://{other}")));
    let only_other = before.replace(&one.to_string(), &other.to_string());
    let mut connection = Connection::within(one, TIMEOUT).unwrap();
    connection
        .exchange(&with_host(Request::get("/a.txt")))
        .unwrap()
        .assert_status(200);
    reload(&site, &only_other);
    connection
        .exchange(&with_host(Request::get("/a.txt")))
        .unwrap()
        .assert_status(200);
    get_from(other).unwrap().assert_status(200);
    wait_for("the listener to be closed", TIMEOUT, || {
        TcpStream::connect(one).is_err()
    });
    assert!(!socket.exists());
    reload(&site, &before);
    get_from(one).unwrap().assert_status(200);
}

#[test]
fn a_listener_changes_to_tls_on_the_same_address() {
    let authority = Authority::new();
    let address = free_address();
    let site = SiteBuilder::files()
        .file("a.txt", "a")
        .server(&format!("listen = [\"127.0.0.1:0\", \"{address}\"]"))
        .start();
    authority.issue(site.scratch.path(), "site", &[HOST]);
    let dir = site.scratch.path().display();
    let with_tls = config(&site)
        .replace(
            &format!("listen = [\"127.0.0.1:0\", \"{address}\"]"),
            &format!("listen = [\"127.0.0.1:0\"]\nlisten_tls = [\"{address}\"]"),
        )
        .replace(
            "[[site]]\n",
            &format!("[[site]]\ntls = {{ cert = \"{dir}/site.pem\", key = \"{dir}/site.key\" }}\n"),
        );
    reload(&site, &with_tls);
    let request = format!("GET /a.txt HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n");
    let output = Tls::connect(&authority.client(), HOST, address)
        .unwrap()
        .send_raw(request.as_bytes());
    assert!(output.starts_with("HTTP/1.1 200"), "{output}");
}

#[test]
fn a_replaced_certificate_is_used_after_a_reload() {
    let authority = Authority::new();
    let site = over_tls(SiteBuilder::files().file("a.txt", "a"), &authority).start();
    let served = || {
        let tls = Tls::connect(&authority.client(), HOST, tls_addr(&site));
        tls.unwrap().certificate()
    };
    let old = served();
    let new = authority.issue(site.scratch.path(), "site", &[HOST]);
    reload(&site, &config(&site));
    assert!(served() == new && new != old);
    // Other certificate and key files in the configuration.
    let other = authority.issue(site.scratch.path(), "other", &[HOST]);
    let output = reload(&site, &config(&site).replace("/site.", "/other."));
    assert!(output.contains("tls changed"), "{output}");
    assert_eq!(served(), other);
}

#[test]
fn a_change_of_the_access_log_closes_the_old_file() {
    let site = SiteBuilder::files().file("a.txt", "a").start();
    site.get("/a.txt?one").assert_status(200);
    let new = site.scratch.join("new.log");
    let old = site.scratch.join("access.log");
    let before = config(&site);
    let changed = before.replace(&old.display().to_string(), &new.display().to_string());
    reload(&site, &changed);
    site.get("/a.txt?two").assert_status(200);
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    wait_for("the line in the new log", TIMEOUT, || {
        read(&new).contains("?two")
    });
    wait_for("the line in the old log", TIMEOUT, || {
        read(&old).contains("?one")
    });
    assert!(!read(&old).contains("?two") && !read(&new).contains("?one"));
    let pid = site.galley.pid();
    let is_open = || {
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        let mut targets = descriptors
            .flatten()
            .filter_map(|fd| std::fs::read_link(fd.path()).ok());
        targets.any(|target| target == old)
    };
    wait_for("the log to be closed", TIMEOUT, || !is_open());
}

#[test]
fn the_file_and_level_of_the_error_log_are_changed() {
    let site = SiteBuilder::files()
        .file("a.txt", "a")
        .log("level = \"warn\"")
        .start();
    let file = site.scratch.join("error.log");
    let changed = config(&site).replace(
        "level = \"warn\"",
        &format!("level = \"info\"\nerror = \"{}\"", file.display()),
    );
    reload(&site, &changed);
    let log = std::fs::read_to_string(&file).unwrap();
    assert!(
        log.contains("info reload: [log]: error, level changed"),
        "{log}"
    );
    assert!(
        !site.galley.log().contains("reload:"),
        "{}",
        site.galley.log()
    );
}

#[test]
fn a_change_of_a_watched_file_triggers_a_reload() {
    let site = SiteBuilder::files().file("a.txt", "a").start();
    let root = site.scratch.join("root");
    let site_config = |host: &str| {
        format!(
            "[[site]]\nhosts = [\"{host}\"]\nroot = \"{}\"\n",
            root.display()
        )
    };
    let included = site
        .scratch
        .write("more.toml", site_config("one.test"))
        .unwrap();
    let watched = config(&site).replace("[server]\n", "[server]\nwatch = true\n");
    reload(
        &site,
        &format!("include = [\"{}\"]\n{watched}", included.display()),
    );
    let status = |host: &str| {
        let request = Request::get("/a.txt").host(host);
        request.send(site.addr()).unwrap().status
    };
    assert_eq!((status("one.test"), status("two.test")), (200, 421));
    std::fs::write(&included, site_config("two.test")).unwrap();
    wait_for("the reload", TIMEOUT, || status("two.test") == 200);
    // Connections accepted by the former generation are still served by it.
    wait_for("the former site to be removed", TIMEOUT, || {
        status("one.test") == 421
    });
    std::fs::write(&included, "nothing = 1\n").unwrap();
    site.galley
        .wait_for_log("the old configuration remains in use", TIMEOUT);
    assert_eq!(status("two.test"), 200);
    std::fs::write(&included, site_config("one.test")).unwrap();
    wait_for("the next reload", TIMEOUT, || status("one.test") == 200);
}

#[test]
fn a_new_file_that_matches_a_watched_pattern_is_loaded() {
    let site = SiteBuilder::files().file("a.txt", "a").start();
    let root = site.scratch.join("root");
    let watched = config(&site).replace("[server]\n", "[server]\nwatch = true\n");
    let pattern = site.scratch.join("sites.d/*.toml");
    let with_include = format!("include = [\"{}\"]\n{watched}", pattern.display());
    reload(&site, &with_include);
    let status = || {
        let request = Request::get("/a.txt").host("new.test");
        request.send(site.addr()).unwrap().status
    };
    assert_eq!(status(), 421);
    // Initially invalid: the file is watched although it is not part of the running configuration.
    let file = site
        .scratch
        .write("sites.d/new.toml", "[[site]]\n")
        .unwrap();
    site.galley
        .wait_for_log("the old configuration remains in use", TIMEOUT);
    let site_config = format!(
        "[[site]]\nhosts = [\"new.test\"]\nroot = \"{}\"\n",
        root.display()
    );
    std::fs::write(&file, site_config).unwrap();
    wait_for("the site", TIMEOUT, || status() == 200);
    std::fs::remove_file(&file).unwrap();
    wait_for("the site to be removed", TIMEOUT, || status() == 421);
}
