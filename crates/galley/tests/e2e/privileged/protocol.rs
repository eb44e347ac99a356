//! The packets between Galley and its privileged process: invalid ones have no effect, and several connections are independent.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use galley_privileged::{BYTES, KillSignal, PrivilegedCommand, Report};
use galley_sys::packets;
use galley_testkit::{Scratch, runs_as_root, wait_for};
use rustix::fs::{MemfdFlags, SealFlags};

use super::setup::children;
use crate::support::{TIMEOUT, account, binary, is_running, status_field};

/// The process that keeps root, with one pool: at most two `sleep` processes of the user `games`.
struct PrivilegedProcess {
    child: Child,
    socket: OwnedFd,
    scratch: Scratch,
}

impl PrivilegedProcess {
    fn start() -> Self {
        let scratch = Scratch::new().unwrap();
        let folder = scratch.dir("pool").unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        let (uid, gid) = account("games");
        let account = format!("{{\"uid\":{uid},\"gid\":{gid},\"groups\":[]}}");
        let plan = format!(
            "{{\"pools\":[{{\"program\":\"/bin/sleep\",\"arguments\":[\"600\"],\"kind\":{{\"Program\":{{\"socket\":\"{0}/s\",\"requests\":[1,2]}}}},\
             \"account\":{account},\"root\":\"/\",\"slots\":2,\"folder\":\"{0}\"}}],\"galley\":{account}}}",
            folder.display()
        );
        let (galley_end, privileged_end) = packets::pair().unwrap();
        let child = Command::new(binary())
            .arg("privileged")
            .stdin(Stdio::from(privileged_end))
            .stdout(Stdio::from(sealed_memfd(&plan)))
            .spawn()
            .unwrap();
        let mut privileged = Self {
            child,
            socket: galley_end,
            scratch,
        };
        assert_eq!(privileged.receive().0, Report::Ready);
        privileged
    }

    fn send(&self, packet: &[u8]) {
        packets::send(&self.socket, packet, None).unwrap();
    }

    fn exchange(&mut self, packet: &[u8]) -> (Report, Option<OwnedFd>) {
        self.send(packet);
        self.receive()
    }

    fn receive(&mut self) -> (Report, Option<OwnedFd>) {
        receive(&self.socket)
    }

    fn children(&self) -> Vec<(u32, String)> {
        children(self.child.id())
    }
}

fn receive(socket: &OwnedFd) -> (Report, Option<OwnedFd>) {
    let mut packet = [0; BYTES + 1];
    let (length, descriptor) = packets::receive(socket, &mut packet).unwrap();
    (Report::read(&packet[..length]).unwrap(), descriptor)
}

fn sealed_memfd(text: &str) -> OwnedFd {
    let file = rustix::fs::memfd_create("plan", MemfdFlags::ALLOW_SEALING).unwrap();
    let mut file = File::from(file);
    file.write_all(text.as_bytes()).unwrap();
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file.into()
}

/// Sends a descriptor with an invalid command, and checks that it is closed immediately.
fn assert_closes_the_descriptor_of_an_invalid_order(privileged: &mut PrivilegedProcess) {
    let (sent, mut received) = UnixStream::pair().unwrap();
    packets::send(
        &privileged.socket,
        b"x",
        Some(std::os::fd::AsFd::as_fd(&sent)),
    )
    .unwrap();
    assert_eq!(privileged.receive().0, Report::Refused);
    drop(sent);
    assert_eq!(std::io::Read::read(&mut received, &mut [0]).unwrap(), 0);
}

#[test]
fn invalid_orders_are_refused_without_effect() {
    if !runs_as_root() {
        return;
    }
    let mut privileged = PrivilegedProcess::start();
    let start = |pool, slot| PrivilegedCommand::Start { pool, slot }.bytes();
    privileged.send(&start(0, 1));
    let (Report::Started { process, .. }, Some(_output)) = privileged.receive() else {
        panic!("the program was not started");
    };
    let sleep = |process| [(process, "/bin/sleep 600".to_owned())];
    wait_for("the program", TIMEOUT, || {
        privileged.children() == sleep(process)
    });
    assert!(status_field(process, "Uid:").starts_with(&format!("{}\t", account("games").0)));
    let own_pid = std::process::id();
    let signal = |pool, process| {
        let how = KillSignal::Kill;
        PrivilegedCommand::Signal { pool, process, how }
            .bytes()
            .to_vec()
    };
    let replace = |worker| {
        PrivilegedCommand::Replace { pool: 0, worker }
            .bytes()
            .to_vec()
    };
    for invalid_packet in [
        b"x".to_vec(),
        vec![0; BYTES],
        vec![255; BYTES],
        [&start(0, 0)[..], b"x"].concat(),
        vec![1; 4096],
        signal(1, process),
        signal(0, own_pid),
        signal(0, 1),
        replace(own_pid),
        replace(1),
        replace(process),
        Report::Ready.bytes().to_vec(),
    ] {
        privileged.send(&invalid_packet);
        assert_eq!(
            privileged.receive().0,
            Report::Refused,
            "{invalid_packet:?}"
        );
    }
    for (pool, slot) in [(1, 0), (0, 2), (0, 1), (u32::MAX, u32::MAX)] {
        privileged.send(&start(pool, slot));
        let report = privileged.receive().0;
        assert!(matches!(report, Report::Failed { .. }), "{report:?}");
    }
    assert_closes_the_descriptor_of_an_invalid_order(&mut privileged);
    assert_eq!(privileged.children(), sleep(process));
    privileged.send(&signal(0, process));
    let ended = Report::Ended {
        pool: 0,
        process,
        status: 9,
    };
    assert_eq!(privileged.receive().0, ended);
    privileged.send(&start(0, 0));
    let (Report::Started { process, .. }, _) = privileged.receive() else {
        panic!("the program was not restarted");
    };
    let PrivilegedProcess {
        mut child,
        socket,
        scratch,
    } = privileged;
    drop(socket);
    assert!(child.wait().unwrap().success());
    assert!(!is_running(process) && !scratch.join("pool").exists());
}

#[test]
fn a_second_galley_takes_over_the_running_programs() {
    if !runs_as_root() {
        return;
    }
    let mut privileged = PrivilegedProcess::start();
    let start = |slot| PrivilegedCommand::Start { pool: 0, slot }.bytes();
    let (first, _output) = expect_started(privileged.exchange(&start(0)));
    let connected = Report::Connected { errno: 0 };
    let (report, second_galley) = privileged.exchange(&PrivilegedCommand::Connect.bytes());
    assert_eq!(report, connected);
    let second_galley = second_galley.unwrap();
    let running = Report::Started {
        pool: 0,
        slot: 0,
        process: first,
    };
    assert_eq!(receive(&second_galley).0, running);
    assert_eq!(receive(&second_galley).0, Report::Ready);
    // Each Galley gets the reports about its own orders, and both get the report about an end.
    let (second, _output) = expect_started(privileged.exchange(&start(1)));
    let how = KillSignal::Kill;
    let signal = PrivilegedCommand::Signal {
        pool: 0,
        process: first,
        how,
    };
    packets::send(&second_galley, &signal.bytes(), None).unwrap();
    let ended = Report::Ended {
        pool: 0,
        process: first,
        status: 9,
    };
    assert_eq!(
        (privileged.receive().0, receive(&second_galley).0),
        (ended, ended)
    );
    // The number of connections is limited.
    let mut connections = Vec::new();
    let refused = loop {
        let (report, socket) = privileged.exchange(&PrivilegedCommand::Connect.bytes());
        match socket {
            Some(socket) => connections.push(socket),
            None => break report,
        }
    };
    assert_ne!(refused, connected);
    assert!(connections.len() < 8, "{}", connections.len());
    // A program does not end while the Galley that started it is connected.
    let is_slot_busy = |report| {
        matches!(
            report,
            Report::Failed {
                pool: 0,
                slot: 1,
                ..
            }
        )
    };
    packets::send(&second_galley, &start(1), None).unwrap();
    assert!(is_slot_busy(receive(&second_galley).0));
    wait_for("the program", TIMEOUT, || is_running(second));
    drop((privileged.socket, connections));
    // Without a Galley that knows it, the second program ends.
    let deadline = std::time::Instant::now() + TIMEOUT;
    let (third, _output) = loop {
        assert!(std::time::Instant::now() < deadline);
        packets::send(&second_galley, &start(1), None).unwrap();
        match receive(&second_galley) {
            (Report::Ended { process, .. }, _) => assert_eq!(process, second),
            (report @ Report::Started { .. }, output) => break expect_started((report, output)),
            (report, _) => assert!(is_slot_busy(report), "{report:?}"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    wait_for("the program", TIMEOUT, || is_running(third));
    assert!(!is_running(second));
    drop(second_galley);
    assert!(privileged.child.wait().unwrap().success());
    assert!(!is_running(third) && !privileged.scratch.join("pool").exists());
}

#[test]
fn a_galley_that_reads_nothing_is_disconnected_without_delaying_others() {
    if !runs_as_root() {
        return;
    }
    let mut privileged = PrivilegedProcess::start();
    let (_, second_galley) = privileged.exchange(&PrivilegedCommand::Connect.bytes());
    let second_galley = second_galley.unwrap();
    assert_eq!(receive(&second_galley).0, Report::Ready);
    // Each packet is refused, and the client does not read the reports.
    let refused = (0..100_000).find(|_| packets::send(&privileged.socket, b"x", None).is_err());
    assert!(refused.is_some());
    let start = PrivilegedCommand::Start { pool: 0, slot: 0 }.bytes();
    packets::send(&second_galley, &start, None).unwrap();
    let (process, _output) = expect_started(receive(&second_galley));
    drop(second_galley);
    assert!(privileged.child.wait().unwrap().success());
    assert!(!is_running(process));
}

fn expect_started((report, output): (Report, Option<OwnedFd>)) -> (u32, Option<OwnedFd>) {
    match report {
        Report::Started { process, .. } => (process, output),
        other => panic!("the program was not started: {other:?}"),
    }
}
