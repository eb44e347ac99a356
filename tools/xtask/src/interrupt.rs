//! Ctrl-C, SIGTERM and SIGHUP stop a run: it stops its child processes in order and writes no report. These run in separate process
//! groups, so Ctrl-C at the terminal reaches only this process.
//!
//! A second signal ends this process immediately. The kernel then signals the child processes, which were started with a
//! parent-death signal.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

use tokio::signal::unix::{SignalKind, signal};

use crate::error::CommandError;

/// Whether a signal was received.
#[derive(Debug)]
pub(crate) struct Interrupt {
    flag: Arc<AtomicBool>,
    first: Receiver<()>,
}

impl Interrupt {
    /// Installs the signal handlers: from now on a signal sets the flag instead of ending this process.
    pub(crate) fn listen() -> Result<Self, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let entered = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        drop(entered);
        let (sender, first) = mpsc::sync_channel(1);
        let interrupted = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&interrupted);
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                runtime.block_on(async {
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
                });
            })?;
        Ok(Self {
            flag: interrupted,
            first,
        })
    }

    /// A flag that the first signal sets.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// Whether a signal was received.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.flag.load(Ordering::SeqCst)
    }

    /// Fails if a signal was received.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        if self.is_interrupted() {
            Err("interrupted by a signal".into())
        } else {
            Ok(())
        }
    }

    /// Waits for a signal, or until `is_finished` returns true; it is called every half second.
    pub(crate) fn wait(&self, is_finished: impl Fn() -> bool) {
        while !self.is_interrupted() && !is_finished() {
            match self.first.recv_timeout(Duration::from_millis(500)) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}
