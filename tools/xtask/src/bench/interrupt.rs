//! Ctrl-C, SIGTERM and SIGHUP stop the run: it stops its child processes in order and writes no report.
//!
//! A second signal ends this process immediately. The kernel then signals the child processes, which were started with a
//! parent-death signal.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tokio::signal::unix::{SignalKind, signal};

use crate::demo::CommandError;

/// Whether a signal was received.
#[derive(Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

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
                    }
                });
            })?;
        Ok(Self(interrupted))
    }

    /// A flag that the first signal sets.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }

    /// Fails if a signal was received.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        if self.0.load(Ordering::SeqCst) {
            Err("interrupted by a signal".into())
        } else {
            Ok(())
        }
    }
}
