//! `xtask hold` with programs that become daemons: they become its children, and it stops them.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use galley_testkit::wait_for;
use rustix::process::{Pid, Signal, kill_process};

/// Starts `xtask hold` with a shell script; returns it with the first number that the script prints.
fn start_hold(script: &str) -> (Child, u32) {
    let mut hold = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["hold", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let out = hold.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    (hold, line.trim().parse().unwrap())
}

fn parent(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

fn is_running(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap()
}

#[test]
fn a_daemon_in_another_session_becomes_a_child_and_is_stopped() {
    // The script exits immediately; the daemon has a separate session and ignores SIGTERM.
    let (mut hold, daemon) =
        start_hold("setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' &");
    wait_for(
        "the daemon to become a child of xtask hold",
        Duration::from_secs(30),
        || parent(daemon) == Some(hold.id()),
    );
    assert!(
        hold.try_wait().unwrap().is_none(),
        "it exited with the script"
    );
    kill_process(Pid::from_child(&hold), Signal::TERM).unwrap();
    assert!(hold.wait().unwrap().success());
    assert!(!is_running(daemon));
}

#[test]
fn it_exits_with_its_program_and_reports_a_failure() {
    let (mut hold, _) = start_hold("echo 1; exit 3");
    assert_eq!(hold.wait().unwrap().code(), Some(1));
    let (mut hold, _) = start_hold("echo 1");
    assert!(hold.wait().unwrap().success());
}
