//! Where connections come in: IPv4, IPv6, sockets in the file system, sockets of the service manager; and whose the process
//! is behind them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use galley_testkit::client::{Connection, Request};
use galley_testkit::{Galley, Launch, Scratch, runs_as_root, wait_for};

use crate::support::{SiteBuilder, TIMEOUT, binary, json_number, with_host};

/// All that comes for a request over a socket in the file system.
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
fn a_socket_in_the_file_system_serves_and_leaves_nothing() {
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
    // Killed, it leaves its socket behind, and the next one takes the place.
    site.restart();
    assert!(get(&socket, "/a.txt").ends_with("mine"));
    assert!(site.galley.stop().success());
    assert!(!socket.exists());
}

#[test]
fn no_file_and_no_server_is_pushed_aside() {
    let scratch = Scratch::new().unwrap();
    let (dir, root) = (scratch.path().display(), scratch.dir("root").unwrap());
    let text = format!(
        "[server]\nlisten = [\"unix:{dir}/web.sock\"]\n[admin]\nlisten = \"off\"\n[[site]]\nhosts = [\"*\"]\nroot = \"{}\"\n",
        root.display()
    );
    scratch.write("web.sock", "a file of somebody's").unwrap();
    let refused = Galley::start_binary(binary(), &scratch.join("one"), &text).unwrap_err();
    assert!(
        refused.to_string().contains("not a socket exists there"),
        "{refused}"
    );
    fs::remove_file(scratch.join("web.sock")).unwrap();
    let first = Galley::start_binary(binary(), &scratch.join("one"), &text).unwrap();
    let refused = Galley::start_binary(binary(), &scratch.join("two"), &text).unwrap_err();
    assert!(
        refused.to_string().contains("another server is listening"),
        "{refused}"
    );
    assert!(get(&scratch.join("web.sock"), "/").starts_with("HTTP/1.1 "));
    drop(first);
}

#[test]
fn both_families_of_addresses_serve() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("no IPv6 here");
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
        let answer = connection
            .exchange(&with_host(Request::get("/a.txt")))
            .unwrap();
        assert_eq!(answer.text(), "mine");
    }
}

/// Two sockets of `systemd-socket-activate`: one is taken by its name, one by its place.
#[test]
fn sockets_of_the_service_manager_are_taken() {
    let plan = SiteBuilder::files()
        .file("a.txt", "mine")
        .server("listen = [\"systemd:web\", \"systemd:1\"]");
    let (scratch, _, text) = plan.prepare();
    let sockets: [PathBuf; 2] = ["web.sock", "other.sock"].map(|name| scratch.join(name));
    let words = |arguments: &[&str]| arguments.iter().map(|word| (*word).to_owned()).collect();
    let [web, other] = sockets.each_ref().map(|path| path.to_str().unwrap());
    let through: Vec<String> = words(&[
        "systemd-socket-activate",
        "-l",
        web,
        "-l",
        other,
        "--fdname=web:further",
    ]);
    let dir = scratch.dir("galley").unwrap();
    let config = scratch.write("galley/galley.toml", text).unwrap();
    // The server is started for the first who connects, whose connection waits for it.
    let first = std::thread::spawn({
        let web = sockets[0].clone();
        move || {
            wait_for("the socket of the service manager", TIMEOUT, || {
                UnixStream::connect(&web).is_ok()
            });
        }
    });
    let launch = Launch {
        through,
        ..Launch::default()
    };
    let mut galley = Galley::start_under(binary(), &dir, &config, &launch).unwrap();
    first.join().unwrap();
    for socket in &sockets {
        assert!(get(socket, "/a.txt").ends_with("mine"));
    }
    assert!(galley.stop().success());
    // They are not Galley's to remove: the next one is handed them.
    assert!(sockets.iter().all(|socket| socket.exists()));
}

#[test]
fn a_socket_that_nobody_hands_over_is_missed() {
    let (scratch, _, text) = SiteBuilder::files()
        .server("listen = [\"systemd:web\"]")
        .prepare();
    let refused = Galley::start_binary(binary(), &scratch.join("galley"), &text).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("`server.listen` is `systemd:web`, where Galley cannot listen"),
        "{refused}"
    );
}

/// The lines of a status file of `/proc` that begin with a name.
fn line(status: &Path, name: &str) -> String {
    let text = fs::read_to_string(status).unwrap_or_default();
    let found = text.lines().find(|line| line.starts_with(name));
    found.unwrap_or_default().to_owned()
}

/// The threads of a process whose names begin so, by their status files.
fn threads(pid: u32, name: &str) -> Vec<PathBuf> {
    let all = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let all = all.map(|entry| entry.unwrap().path().join("status"));
    let wanted = format!("Name:\t{name}");
    all.filter(|status| line(status, "Name:").starts_with(&wanted))
        .collect()
}

#[test]
fn root_is_given_up_once_the_sockets_are_bound() {
    if !runs_as_root() {
        eprintln!("only root can become somebody else");
        return;
    }
    let uid = "/var/www";
    assert!(Path::new(uid).exists() || fs::create_dir_all(uid).is_ok());
    let accounts = fs::read_to_string("/etc/passwd").unwrap();
    let row = accounts
        .lines()
        .find(|row| row.starts_with("www-data:"))
        .unwrap();
    let number = |at| row.split(':').nth(at).unwrap().parse::<u32>().unwrap();
    let (user, group) = (number(2), number(3));
    let plan = SiteBuilder::upstream_line("php = \"managed\"")
        .file(
            "index.php",
            "<?php header('Cache-Control: no-store'); echo file_get_contents('/proc/self/status');",
        )
        .server("listen = [\"unix:{dir}/web.sock\"]\nuser = \"www-data\"");
    for folder in ["", "galley"] {
        let path = plan.scratch.dir(folder).unwrap();
        std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
    }
    let mut site = plan.start();
    let socket = site.scratch.join("web.sock");
    let owner = fs::metadata(&socket).unwrap();
    assert_eq!((owner.uid(), owner.gid()), (user, group));
    let pid = site.galley.pid();
    let all = threads(pid, "");
    assert!(all.len() > 3);
    for status in all {
        let wanted = format!("Uid:\t{user}\t{user}\t{user}\t{user}");
        assert_eq!(line(&status, "Uid:"), wanted);
        assert!(line(&status, "CapEff:").ends_with("0000000000000000"));
    }
    let page = get(&socket, "/");
    assert!(page.contains(&format!("Uid:\t{user}\t")), "{page}");
    // PHP's own programs, which send mail, may still change their group.
    assert!(page.contains("NoNewPrivs:\t0"), "{page}");
    assert!(site.galley.stop().success());
}

#[test]
fn threads_that_meet_strangers_are_confined() {
    for (line_of_server, wanted) in [("", "1"), ("sandbox = \"off\"", "0")] {
        let site = SiteBuilder::php()
            .file("a.txt", "mine")
            .server(line_of_server)
            .disk()
            .start();
        assert!(site.get("/page").text().contains("run=1"));
        assert_eq!(site.get("/a.txt").text(), "mine");
        let status = site.status();
        let held = status.split("\"sandbox\":").nth(1).unwrap_or_default();
        let is_off = held.trim_start().starts_with("\"off\"");
        assert_eq!(is_off, wanted == "0", "{status}");
        for name in ["front-", "fetch-"] {
            let found = threads(site.galley.pid(), name);
            assert!(!found.is_empty(), "{name}");
            for status in found {
                assert_eq!(
                    line(&status, "NoNewPrivs:"),
                    format!("NoNewPrivs:\t{wanted}")
                );
            }
        }
        assert_eq!(json_number(&status, "upgraded_connections"), 0);
    }
}
