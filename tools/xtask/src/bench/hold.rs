//! `xtask hold -- PROGRAM ...`: runs a program and stays its parent, whatever it does: what the program starts and leaves
//! behind (daemons, sessions of their own) becomes a child of this process, by the kernel's sub-reaper.
//!
//! So every process of a contender hangs below one process, its processor time is complete, and all of it ends together:
//! at SIGTERM, or when the bench dies.

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

use super::processes::Tree;
use crate::demo::CommandError;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    line: Vec<OsString>,
}

/// Runs until the program and all that it left behind have ended.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    set_child_subreaper(Some(getpid()))?;
    set_parent_process_death_signal(Some(Signal::TERM))?;
    let (name, rest) = arguments.line.split_first().ok_or("no program is named")?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut children = signal(SignalKind::child())?;
        let mut ends = signal(SignalKind::terminate())?;
        // Ctrl-C reaches the whole terminal; the bench decides what it means.
        let _interrupts = signal(SignalKind::interrupt())?;
        let _hangups = signal(SignalKind::hangup())?;
        let child = Command::new(name)
            .args(rest)
            .spawn()
            .map_err(|error| format!("cannot start `{}`: {error}", name.display()))?;
        tokio::select! {
            outcome = until_childless(&mut children, &child) => return outcome,
            _ = ends.recv() => {}
        }
        end(&mut children, &child).await;
        Ok(())
    })
}

/// Waits for all children. An error when the program itself failed.
async fn until_childless(children: &mut Signals, child: &Child) -> Result<(), CommandError> {
    let program = Pid::from_child(child);
    let mut outcome = Ok(());
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                if pid == program && status.exit_status() != Some(0) {
                    outcome = Err(format!("the program ended: {status:?}").into());
                }
            }
            // Some live.
            Ok(None) => {
                children.recv().await;
            }
            Err(_) => return outcome,
        }
    }
}

/// Asks the program to end, and after a while ends everything.
async fn end(children: &mut Signals, child: &Child) {
    let own = std::process::id();
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    // A daemon has left its parent behind: it is asked as well.
    for pid in Tree::children(own) {
        if pid != child.id() {
            signal_to(pid, Signal::TERM);
        }
    }
    let _ = tokio::time::timeout(TIMEOUT, until_childless(children, child)).await;
    for _ in 0..SWEEPS {
        let left = Tree::below(&[own]);
        if left.is_empty() {
            return;
        }
        for pid in left {
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
/// Rounds for programs that start processes faster than they are ended.
const SWEEPS: u32 = 20;
