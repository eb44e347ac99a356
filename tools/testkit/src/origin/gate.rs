//! A gate at which a script waits until the test opens it.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Closed at first; stays open once opened. Clones share the same gate.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    inner: Arc<(Mutex<GateState>, Condvar)>,
}

#[derive(Debug, Default)]
struct GateState {
    is_open: bool,
    arrivals: usize,
}

impl Gate {
    /// Creates a closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens the gate for all current and later calls of [`pass`](Self::pass).
    pub fn open(&self) {
        self.state().is_open = true;
        self.inner.1.notify_all();
    }

    /// Waits until the gate is open.
    ///
    /// # Panics
    /// If the gate is not opened within 60 seconds.
    pub fn pass(&self) {
        let mut state = self.state();
        state.arrivals += 1;
        self.inner.1.notify_all();
        self.wait(state, "for the gate to open", |state| state.is_open);
    }

    /// Waits until [`pass`](Self::pass) has been called `count` times, including calls that still wait.
    ///
    /// # Panics
    /// If this takes longer than 60 seconds.
    #[track_caller]
    pub fn wait_for_arrivals(&self, count: usize) {
        self.wait(self.state(), "for arrivals at the gate", |state| {
            state.arrivals >= count
        });
    }

    /// Number of calls of [`pass`](Self::pass) so far.
    pub fn arrivals(&self) -> usize {
        self.state().arrivals
    }

    #[track_caller]
    fn wait(
        &self,
        state: MutexGuard<'_, GateState>,
        what: &str,
        condition: impl Fn(&GateState) -> bool,
    ) {
        let waited = self
            .inner
            .1
            .wait_timeout_while(state, TIMEOUT, |state| !condition(state));
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        let is_late = timeout.timed_out() && !condition(&state);
        drop(state);
        assert!(!is_late, "waited {TIMEOUT:?} {what}");
    }

    fn state(&self) -> MutexGuard<'_, GateState> {
        self.inner.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const TIMEOUT: Duration = Duration::from_secs(60);
