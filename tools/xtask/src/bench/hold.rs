//! `xtask hold -- PROGRAM ...`: runs a program as a child subreaper, so that orphaned processes of the program, such as daemons in
//! separate sessions, become children of this process.
//!
//! All processes of a contender are therefore below one process: their processor time is complete, and they are stopped together, at
//! SIGTERM or when the benchmark is killed.

use std::{
    ffi::OsString,
    process::{Child, Command},
    time::Duration,
};

use clap::Args;
use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, wait,
};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

use super::processes::ProcessTree;
use crate::error::CommandError;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    line: Vec<OsString>,
}

/// Runs until the program and all its orphaned processes have exited.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    set_child_subreaper(Some(getpid()))?;
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let (name, rest) = arguments.line.split_first().ok_or("no program is given")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut children = signal(SignalKind::child())?;
        let mut terminations = signal(SignalKind::terminate())?;
        // Ctrl-C goes to all processes of the terminal; the benchmark handles it.
        let _interrupts = signal(SignalKind::interrupt())?;
        let _hangups = signal(SignalKind::hangup())?;
        let child = Command::new(name)
            .args(rest)
            .spawn()
            .map_err(|error| format!("cannot start `{}`: {error}", name.display()))?;
        tokio::select! {
            outcome = until_childless(&mut children, &child) => return outcome,
            _ = terminations.recv() => {}
        }
        terminate(&mut children, &child).await;
        Ok(())
    })
}

/// Waits for all children. Fails if the program itself failed.
async fn until_childless(children: &mut Signals, child: &Child) -> Result<(), CommandError> {
    let program = Pid::from_child(child);
    let mut outcome = Ok(());
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                if pid == program && status.exit_status() != Some(0) {
                    outcome = Err(format!("the program exited: {status:?}").into());
                }
            }
            // Some children are running.
            Ok(None) => {
                children.recv().await;
            }
            Err(_) => return outcome,
        }
    }
}

/// Sends SIGTERM to the program, and SIGKILL to all processes that are left after the timeout.
async fn terminate(children: &mut Signals, child: &Child) {
    let this_process = std::process::id();
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    // Daemons do not receive the program's SIGTERM.
    for pid in ProcessTree::children(this_process) {
        if pid != child.id() {
            signal_to(pid, Signal::TERM);
        }
    }
    let _ = tokio::time::timeout(TIMEOUT, until_childless(children, child)).await;
    for _ in 0..MAX_KILL_ROUNDS {
        let remaining = ProcessTree::descendants(&[this_process]);
        if remaining.is_empty() {
            return;
        }
        for pid in remaining {
            signal_to(pid, Signal::KILL);
        }
        let _ = tokio::time::timeout(TIMEOUT, until_childless(children, child)).await;
    }
}

fn signal_to(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _ = kill_process(pid, signal);
    }
}

const TIMEOUT: Duration = Duration::from_secs(3);
/// Several rounds, for programs that start new processes.
const MAX_KILL_ROUNDS: u32 = 20;
