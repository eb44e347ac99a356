//! UDP sockets that the service manager passes.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use galley_testkit::{Galley, Launch, wait_for};
use serde_json::json;

use super::client::{get, run_trusting};
use crate::support::{SiteBuilder, TIMEOUT, binary};
use crate::tls_support::{Authority, over_tls};

#[test]
fn a_passed_socket_is_shared_by_all_threads() {
    let builder = SiteBuilder::files()
        .file("page.html", "a page")
        .server("listen_quic = [\"systemd:quic\"]\nworkers = 3");
    let (scratch, _, text) = over_tls(builder, &Authority::new()).prepare();
    let port = galley_testkit::free_port().unwrap();
    let address = format!("{}:{port}", Ipv4Addr::LOCALHOST);
    let command_prefix = [
        "systemd-socket-activate",
        "--datagram",
        "-l",
        &address,
        "--fdname=quic",
    ];
    let launch = Launch {
        through: command_prefix.map(str::to_owned).to_vec(),
        ..Launch::default()
    };
    let dir = scratch.dir("galley").unwrap();
    let config = scratch.write("galley/galley.toml", text).unwrap();
    let has_started = AtomicBool::new(false);
    let galley = std::thread::scope(|scope| {
        // The first datagram starts the server.
        scope.spawn(|| {
            let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            wait_for("the server to start", TIMEOUT, || {
                let _ = socket.send_to(b"begin", &address);
                has_started.load(Ordering::Relaxed)
            });
        });
        let galley = Galley::start_under(binary(), &dir, &config, &launch);
        has_started.store(true, Ordering::Relaxed);
        galley
    });
    let mut galley = galley.unwrap();
    for _ in 0..6 {
        let requests = json!({ "streams": vec![get("/page.html"); 10] });
        let found = run_trusting(&scratch.join("ca.pem"), port, requests).result();
        for one in found["streams"].as_array().unwrap() {
            assert_eq!(
                (&one["status"], &one["text"]),
                (&json!(200), &json!("a page"))
            );
        }
    }
    assert!(galley.stop().success());
}
