//! Signals: SIGTERM, SIGINT and SIGQUIT drain and end, SIGUSR1 opens the logs anew. SIGHUP and SIGUSR2, by which nginx reloads and
//! upgrades itself, and SIGWINCH, by which it ends its workers, change nothing; the first two get a line in the log.

use std::io::{self, IsTerminal};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that the server obeys.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    reopen: Signal,
    hangup: Signal,
    upgrade: Signal,
}

impl Signals {
    /// Takes the signals over; from here on they no longer end the process by themselves.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            quit: signal(SignalKind::quit())?,
            reopen: signal(SignalKind::user_defined1())?,
            hangup: signal(SignalKind::hangup())?,
            upgrade: signal(SignalKind::user_defined2())?,
        })
    }

    /// Returns when the server is to end; calls `reopen` at each SIGUSR1 until then.
    pub(super) async fn until_stop(mut self, reopen: impl Fn()) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.quit.recv() => return,
                _ = self.reopen.recv() => reopen(),
                _ = self.upgrade.recv() => {
                    tracing::warn!("SIGUSR2 changes nothing: there is no upgrade of the running program, restart to run a new one");
                }
                // On a terminal the signal says that it has been closed; elsewhere it is an operator who expects a reload.
                _ = self.hangup.recv() => {
                    if io::stderr().is_terminal() {
                        return;
                    }
                    tracing::warn!("SIGHUP changes nothing: there is no reload, restart to read the configuration again");
                }
            }
        }
    }
}
