//! Listeners: IPv4, IPv6, Unix sockets, and sockets of the service manager. Also the privileges of the process that serves them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use galley_testkit::client::{Connection, Request};
use galley_testkit::{Galley, Launch, Scratch, runs_as_root, skip, wait_for};

use crate::support::{SiteBuilder, TIMEOUT, account, binary, json_number, with_host};

/// Response to a request over a Unix socket.
fn send(stream: &mut UnixStream, target: &str) -> String {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let request = Request::get(target).field("Connection", "close");
    stream
        .write_all(&with_host(request).to_bytes("unused"))
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn get(socket: &Path, target: &str) -> String {
    send(&mut UnixStream::connect(socket).unwrap(), target)
}

#[test]
fn a_unix_socket_serves_and_is_removed_at_shutdown() {
    let mut site = SiteBuilder::php()
        .file("a.txt", "mine")
        .server("listen = [\"unix:{dir}/web.sock\"]\nsocket_mode = \"0600\"")
        .start();
    let socket = site.scratch.join("web.sock");
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(site.galley.urls(), [format!("unix:{}", socket.display())]);
    assert!(get(&socket, "/a.txt").ends_with("mine"));
    let page = get(&socket, "/page");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("HTTP_X_FORWARDED_FOR=0.0.0.0"));
    assert!(get(&socket, "/page").contains("galley; hit"));
    // A killed process leaves its socket, which the next one replaces.
    site.restart();
    assert!(get(&socket, "/a.txt").ends_with("mine"));
    assert!(site.galley.stop().success());
    assert!(!socket.exists());
}

#[test]
fn an_existing_file_or_a_listening_server_is_not_replaced() {
    let scratch = Scratch::new().unwrap();
    let (dir, root) = (scratch.path().display(), scratch.dir("root").unwrap());
    let text = format!(
        "[server]\nlisten = [\"unix:{dir}/web.sock\"]\n[admin]\nlisten = \"off\"\n[[site]]\nhosts = [\"*\"]\nroot = \"{}\"\n",
        root.display()
    );
    scratch.write("web.sock", "an unrelated file").unwrap();
    let error = Galley::start_binary(binary(), &scratch.join("one"), &text).unwrap_err();
    assert!(
        error.to_string().contains("not a socket exists there"),
        "{error}"
    );
    fs::remove_file(scratch.join("web.sock")).unwrap();
    let first = Galley::start_binary(binary(), &scratch.join("one"), &text).unwrap();
    let error = Galley::start_binary(binary(), &scratch.join("two"), &text).unwrap_err();
    assert!(
        error.to_string().contains("another server is listening"),
        "{error}"
    );
    assert!(get(&scratch.join("web.sock"), "/").starts_with("HTTP/1.1 "));
    drop(first);
}

#[test]
fn ipv4_and_ipv6_listeners_serve() {
    if TcpListener::bind("[::1]:0").is_err() {
        skip("this machine has no IPv6");
        return;
    }
    let site = SiteBuilder::files()
        .file("a.txt", "mine")
        .server("listen = [\"[::1]:0\", \"127.0.0.1:0\"]")
        .start();
    let urls = site.galley.urls();
    assert_eq!(urls.len(), 2);
    assert!(
        urls.iter().any(|url| url.starts_with("http://[::1]:")),
        "{urls:?}"
    );
    for index in 0..2 {
        let mut connection = Connection::within(site.addr_of(index), TIMEOUT).unwrap();
        let response = connection
            .exchange(&with_host(Request::get("/a.txt")))
            .unwrap();
        assert_eq!(response.text(), "mine");
    }
}

/// Two sockets of `systemd-socket-activate`, one selected by name and one by index.
#[test]
fn socket_activation_works_by_name_and_by_index() {
    let builder = SiteBuilder::files()
        .file("a.txt", "mine")
        .server("listen = [\"systemd:web\", \"systemd:1\"]");
    let (scratch, _, text) = builder.prepare();
    let sockets: [PathBuf; 2] = ["web.sock", "other.sock"].map(|name| scratch.join(name));
    let to_strings = |arguments: &[&str]| arguments.iter().map(|word| (*word).to_owned()).collect();
    let [web, other] = sockets.each_ref().map(|path| path.to_str().unwrap());
    let command_prefix: Vec<String> = to_strings(&[
        "systemd-socket-activate",
        "-l",
        web,
        "-l",
        other,
        "--fdname=web:further",
    ]);
    let dir = scratch.dir("galley").unwrap();
    let config = scratch.write("galley/galley.toml", text).unwrap();
    // The first connection starts the server and waits for it.
    let first = std::thread::spawn({
        let web = sockets[0].clone();
        move || {
            wait_for("the socket of the service manager", TIMEOUT, || {
                UnixStream::connect(&web).is_ok()
            });
        }
    });
    let launch = Launch {
        through: command_prefix,
        ..Launch::default()
    };
    let mut galley = Galley::start_under(binary(), &dir, &config, &launch).unwrap();
    first.join().unwrap();
    for socket in &sockets {
        assert!(get(socket, "/a.txt").ends_with("mine"));
    }
    assert!(galley.stop().success());
    // Galley must not remove them: the service manager passes them to the next process.
    assert!(sockets.iter().all(|socket| socket.exists()));
}

#[test]
fn a_socket_that_the_service_manager_does_not_pass_is_an_error() {
    let (scratch, _, text) = SiteBuilder::files()
        .server("listen = [\"systemd:web\"]")
        .prepare();
    let error = Galley::start_binary(binary(), &scratch.join("galley"), &text).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`server.listen` is `systemd:web`, where Galley cannot listen"),
        "{error}"
    );
}

/// The first line of a status file of `/proc` that begins with `name`.
fn line(status: &Path, name: &str) -> String {
    let text = fs::read_to_string(status).unwrap_or_default();
    let found = text.lines().find(|line| line.starts_with(name));
    found.unwrap_or_default().to_owned()
}

/// Status files of the threads of a process whose names begin with `name`.
fn threads(pid: u32, name: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let all = all.map(|entry| entry.unwrap().path().join("status"));
    let expected = format!("Name:\t{name}");
    all.filter(|status| line(status, "Name:").starts_with(&expected))
        .collect()
}

#[test]
fn privileges_are_dropped_after_the_sockets_are_bound() {
    if !runs_as_root() {
        skip("only root can change its user");
        return;
    }
    let home = "/var/www";
    assert!(Path::new(home).exists() || fs::create_dir_all(home).is_ok());
    let (user, group) = account("www-data");
    let builder = SiteBuilder::upstream_line("php = \"managed\"")
        .file(
            "index.php",
            "<?php header('Cache-Control: no-store'); echo file_get_contents('/proc/self/status');",
        )
        .server("listen = [\"unix:{dir}/web.sock\"]\nuser = \"www-data\"");
    for folder in ["", "galley"] {
        let path = builder.scratch.dir(folder).unwrap();
        std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
    }
    let mut site = builder.start();
    let socket = site.scratch.join("web.sock");
    let owner = fs::metadata(&socket).unwrap();
    assert_eq!((owner.uid(), owner.gid()), (user, group));
    let pid = site.galley.pid();
    let all = threads(pid, "");
    assert!(all.len() > 3);
    for status in all {
        let expected = format!("Uid:\t{user}\t{user}\t{user}\t{user}");
        assert_eq!(line(&status, "Uid:"), expected);
        assert!(line(&status, "CapEff:").ends_with("0000000000000000"));
    }
    let page = get(&socket, "/");
    assert!(page.contains(&format!("Uid:\t{user}\t")), "{page}");
    // Programs that PHP starts to send mail must be able to change their group.
    assert!(page.contains("NoNewPrivs:\t0"), "{page}");
    assert!(site.galley.stop().success());
}

#[test]
fn threads_that_handle_network_input_are_sandboxed() {
    for (server_line, expected) in [("", "1"), ("sandbox = \"off\"", "0")] {
        let site = SiteBuilder::php()
            .file("a.txt", "mine")
            .server(server_line)
            .disk()
            .start();
        assert!(site.get("/page").text().contains("run=1"));
        assert_eq!(site.get("/a.txt").text(), "mine");
        let status = site.status();
        let sandbox = status.split("\"sandbox\":").nth(1).unwrap_or_default();
        let is_off = sandbox.trim_start().starts_with("\"off\"");
        assert_eq!(is_off, expected == "0", "{status}");
        for name in ["front-", "fetch-"] {
            let found = threads(site.galley.pid(), name);
            assert!(!found.is_empty(), "{name}");
            for status in found {
                assert_eq!(
                    line(&status, "NoNewPrivs:"),
                    format!("NoNewPrivs:\t{expected}")
                );
            }
        }
        assert_eq!(json_number(&status, "upgraded_connections"), 0);
    }
}
