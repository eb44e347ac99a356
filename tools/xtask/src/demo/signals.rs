//! Ctrl-C, SIGTERM and SIGHUP stop the demo. Its child processes run in separate process groups, so Ctrl-C at the terminal reaches only
//! this process, which then stops the others in order. A second signal ends this process immediately; the watchdogs of its child processes
//! then stop them.

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

/// The signals received so far.
pub(super) struct Signals {
    interrupted: Arc<AtomicBool>,
    first: Receiver<()>,
}

impl Signals {
    /// Installs the handlers: from now on a signal sets a flag instead of ending this process.
    pub(super) fn listen() -> Result<Self, CommandError> {
        let (sender, first) = mpsc::sync_channel(1);
        let (report, started) = mpsc::sync_channel(1);
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupted);
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build();
                let outcome = runtime.and_then(|runtime| {
                    runtime.block_on(async {
                        let mut streams = [
                            SignalKind::interrupt(),
                            SignalKind::terminate(),
                            SignalKind::hangup(),
                        ]
                        .into_iter()
                        .map(signal);
                        let mut next_stream = || {
                            streams
                                .next()
                                .unwrap_or_else(|| Err(io::Error::other("no such signal")))
                        };
                        let (mut interrupt, mut terminate, mut hangup) =
                            (next_stream()?, next_stream()?, next_stream()?);
                        let _ = report.send(Ok(()));
                        loop {
                            tokio::select! {
                                _ = interrupt.recv() => {}
                                _ = terminate.recv() => {}
                                _ = hangup.recv() => {}
                            }
                            if flag.swap(true, Ordering::SeqCst) {
                                std::process::exit(130);
                            }
                            let _ = sender.try_send(());
                        }
                    })
                });
                let _ = report.send(outcome);
            })?;
        started.recv()??;
        Ok(Self { interrupted, first })
    }

    /// Whether a signal was received.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }

    /// A flag that the first signal sets.
    pub(super) fn flag(&self) -> &Arc<AtomicBool> {
        &self.interrupted
    }

    /// Waits for a signal, or until `is_finished` returns true; it is called every half second.
    pub(super) fn wait(&self, is_finished: impl Fn() -> bool) {
        while !self.is_interrupted() && !is_finished() {
            match self.first.recv_timeout(Duration::from_millis(500)) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}
