//! Signals: SIGTERM and SIGINT drain and end, SIGUSR1 opens the logs anew.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that the server obeys.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    reopen: Signal,
}

impl Signals {
    /// Takes the signals over; from here on they no longer end the process by themselves.
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            reopen: signal(SignalKind::user_defined1())?,
        })
    }

    /// Returns when the server is to end; calls `reopen` at each SIGUSR1 until then.
    pub(super) async fn until_stop(mut self, reopen: impl Fn()) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.reopen.recv() => reopen(),
            }
        }
    }
}
