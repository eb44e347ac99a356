//! `xtask hold` against programs that leave: their daemons stay below it, and end with it.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    time::Duration,
};

use galley_testkit::wait_for;
use rustix::process::{Pid, Signal, kill_process};

/// Starts `hold` over a shell script; returns it with the first number that the script prints.
fn held(script: &str) -> (Child, u32) {
    let mut holder = Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(["hold", "--", "sh", "-c", script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let out = holder.stdout.take().unwrap();
    BufReader::new(out).read_line(&mut line).unwrap();
    (holder, line.trim().parse().unwrap())
}

fn parent(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

fn lives(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap()
}

#[test]
fn a_daemon_that_leaves_its_session_stays_below_the_holder_and_ends_with_it() {
    // The script ends at once; what it leaves behind has a session of its own and does not heed SIGTERM.
    let (mut holder, daemon) =
        held("setsid sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' &");
    wait_for(
        "the daemon to become the holder's child",
        Duration::from_secs(30),
        || parent(daemon) == Some(holder.id()),
    );
    assert!(
        holder.try_wait().unwrap().is_none(),
        "it left with the script"
    );
    kill_process(Pid::from_child(&holder), Signal::TERM).unwrap();
    assert!(holder.wait().unwrap().success());
    assert!(!lives(daemon));
}

#[test]
fn it_ends_with_its_program_and_says_how() {
    let (mut holder, _) = held("echo 1; exit 3");
    assert_eq!(holder.wait().unwrap().code(), Some(1));
    let (mut holder, _) = held("echo 1");
    assert!(holder.wait().unwrap().success());
}
