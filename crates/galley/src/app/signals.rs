//! Signal handling: SIGTERM, SIGINT and SIGQUIT drain and end, SIGHUP reloads the configuration, SIGUSR1 reopens the logs, SIGUSR2
//! starts the program again and hands over to it. SIGWINCH, which ends nginx's workers, has no effect.

use std::io::{self, IsTerminal};

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that the server handles.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    quit: Signal,
    reopen: Signal,
    hangup: Signal,
    upgrade: Signal,
}

/// The action that a signal requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalEvent {
    Stop,
    ReopenLogs,
    Reload,
    Upgrade,
}

impl Signals {
    /// Installs the handlers; from here on the signals no longer end the process.
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

    /// Returns the next event. Cancel-safe.
    pub(super) async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            biased;
            () = stop(&mut self.terminate, &mut self.interrupt, &mut self.quit) => SignalEvent::Stop,
            _ = self.reopen.recv() => SignalEvent::ReopenLogs,
            _ = self.upgrade.recv() => SignalEvent::Upgrade,
            // With a terminal, the signal means that the terminal was closed; otherwise an operator requests a reload.
            _ = self.hangup.recv() => {
                if io::stderr().is_terminal() {
                    SignalEvent::Stop
                } else {
                    SignalEvent::Reload
                }
            }
        }
    }

    /// Waits for a signal that ends the server; other signals stay pending. Cancel-safe.
    pub(super) async fn stop(&mut self) {
        stop(&mut self.terminate, &mut self.interrupt, &mut self.quit).await;
    }
}

async fn stop(terminate: &mut Signal, interrupt: &mut Signal, quit: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = quit.recv() => {}
    }
}
