//! Where connections come in: IPv4, IPv6, sockets in the file system, sockets of the service manager.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use galley_testkit::client::{Connection, Request};
use galley_testkit::{Galley, Launch, Scratch, wait_for};

use crate::support::{PATIENCE, Plan, binary, hosted};

/// All that comes for a request over a socket in the file system.
fn ask(stream: &mut UnixStream, target: &str) -> String {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = Request::get(target).field("Connection", "close");
    stream
        .write_all(&hosted(request).to_bytes("unused"))
        .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn get(socket: &Path, target: &str) -> String {
    ask(&mut UnixStream::connect(socket).unwrap(), target)
}

#[test]
fn a_socket_in_the_file_system_serves_and_leaves_nothing() {
    let mut stage = Plan::php()
        .file("a.txt", "mine")
        .server("listen = [\"unix:{dir}/web.sock\"]\nsocket_mode = \"0600\"")
        .start();
    let socket = stage.scratch.join("web.sock");
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(stage.galley.urls(), [format!("unix:{}", socket.display())]);
    assert!(get(&socket, "/a.txt").ends_with("mine"));
    let page = get(&socket, "/page");
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("HTTP_X_FORWARDED_FOR=0.0.0.0"));
    assert!(get(&socket, "/page").contains("galley; hit"));
    // Killed, it leaves its socket behind, and the next one takes the place.
    stage.restart();
    assert!(get(&socket, "/a.txt").ends_with("mine"));
    assert!(stage.galley.stop().success());
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
        refused.to_string().contains("no socket is in the way"),
        "{refused}"
    );
    fs::remove_file(scratch.join("web.sock")).unwrap();
    let first = Galley::start_binary(binary(), &scratch.join("one"), &text).unwrap();
    let refused = Galley::start_binary(binary(), &scratch.join("two"), &text).unwrap_err();
    assert!(
        refused.to_string().contains("another server answers"),
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
    let stage = Plan::files()
        .file("a.txt", "mine")
        .server("listen = [\"[::1]:0\", \"127.0.0.1:0\"]")
        .start();
    let urls = stage.galley.urls();
    assert_eq!(urls.len(), 2);
    assert!(
        urls.iter().any(|url| url.starts_with("http://[::1]:")),
        "{urls:?}"
    );
    for index in 0..2 {
        let mut connection = Connection::within(stage.addr_of(index), PATIENCE).unwrap();
        let answer = connection
            .exchange(&hosted(Request::get("/a.txt")))
            .unwrap();
        assert_eq!(answer.text(), "mine");
    }
}

/// Two sockets of `systemd-socket-activate`: one is taken by its name, one by its place.
#[test]
fn sockets_of_the_service_manager_are_taken() {
    let plan = Plan::files()
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
            wait_for("the socket of the service manager", PATIENCE, || {
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
    let (scratch, _, text) = Plan::files().server("listen = [\"systemd:web\"]").prepare();
    let refused = Galley::start_binary(binary(), &scratch.join("galley"), &text).unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("cannot listen on `systemd:web`"),
        "{refused}"
    );
}
