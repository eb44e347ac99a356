//! Ctrl-C, SIGTERM and SIGHUP ask the demo to end. What it has started runs in process groups of its own, so a Ctrl-C at the
//! terminal reaches this process alone, and everything ends in order. A second signal ends this process at once; the watchers
//! of its children then end them.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use tokio::signal::unix::{SignalKind, signal};

use super::CommandError;

/// The signals that came so far.
pub(super) struct Signals {
    asked: Arc<AtomicBool>,
    first: Receiver<()>,
}

impl Signals {
    /// From now on signals are noted instead of ending this process.
    pub(super) fn listen() -> Result<Self, CommandError> {
        let (sender, first) = mpsc::sync_channel(1);
        let (report, started) = mpsc::sync_channel(1);
        let asked = Arc::new(AtomicBool::new(false));
        let note = Arc::clone(&asked);
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let outcome = runtime.and_then(|runtime| {
                    runtime.block_on(async {
                        let mut all = [
                            SignalKind::interrupt(),
                            SignalKind::terminate(),
                            SignalKind::hangup(),
                        ]
                        .into_iter()
                        .map(signal);
                        let mut next = || {
                            all.next()
                                .unwrap_or_else(|| Err(io::Error::other("no such signal")))
                        };
                        let (mut interrupt, mut terminate, mut hangup) =
                            (next()?, next()?, next()?);
                        let _ = report.send(Ok(()));
                        loop {
                            tokio::select! {
                                _ = interrupt.recv() => {}
                                _ = terminate.recv() => {}
                                _ = hangup.recv() => {}
                            }
                            if note.swap(true, Ordering::SeqCst) {
                                std::process::exit(130);
                            }
                            let _ = sender.try_send(());
                        }
                    })
                });
                let _ = report.send(outcome);
            })?;
        started.recv()??;
        Ok(Self { asked, first })
    }

    /// True once a signal has come.
    pub(super) fn asked_to_end(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Becomes true with the first signal.
    pub(super) fn flag(&self) -> &Arc<AtomicBool> {
        &self.asked
    }

    /// Waits for a signal, or until `over` is true (looked at every half second).
    pub(super) fn wait(&self, over: impl Fn() -> bool) {
        while !self.asked_to_end() && !over() {
            match self.first.recv_timeout(Duration::from_millis(500)) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}
