//! Signals: SIGTERM, SIGINT and SIGQUIT drain and end, SIGHUP reloads the configuration, SIGUSR1 reopens the logs, SIGUSR2
//! starts the program again and hands over to it. SIGWINCH, which ends nginx's workers, changes nothing.

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

/// What a signal says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalEvent {
    Stop,
    ReopenLogs,
    Reload,
    Upgrade,
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

    /// The next one. Cancel-safe.
    pub(super) async fn next(&mut self) -> SignalEvent {
        tokio::select! {
            biased;
            () = stop(&mut self.terminate, &mut self.interrupt, &mut self.quit) => SignalEvent::Stop,
            _ = self.reopen.recv() => SignalEvent::ReopenLogs,
            _ = self.upgrade.recv() => SignalEvent::Upgrade,
            // On a terminal the signal means that it was closed; elsewhere it is an operator who wants a reload.
            _ = self.hangup.recv() => {
                if io::stderr().is_terminal() {
                    SignalEvent::Stop
                } else {
                    SignalEvent::Reload
                }
            }
        }
    }

    /// The next one that ends the server; others wait. Cancel-safe.
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
