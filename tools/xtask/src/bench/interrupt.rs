//! Ctrl-C, SIGTERM and SIGHUP ask the bench to end: what it has started ends in order, and nothing is reported.
//!
//! A second signal ends this process at once; what it has started then ends by itself, because it was told to end with
//! its parent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tokio::signal::unix::{SignalKind, signal};

use crate::demo::CommandError;

/// Whether a signal has come.
#[derive(Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// From now on signals are noted instead of ending this process.
    pub(crate) fn listen() -> Result<Self, CommandError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let entered = runtime.enter();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hangup = signal(SignalKind::hangup())?;
        drop(entered);
        let asked = Arc::new(AtomicBool::new(false));
        let note = Arc::clone(&asked);
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
                        if note.swap(true, Ordering::SeqCst) {
                            std::process::exit(130);
                        }
                    }
                });
            })?;
        Ok(Self(asked))
    }

    /// Becomes true with the first signal.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// An error once a signal has come.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        if self.0.load(Ordering::SeqCst) {
            Err("ended by a signal".into())
        } else {
            Ok(())
        }
    }
}
