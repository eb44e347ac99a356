//! A door between a test and a script: the script waits in front of it until the test opens it.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Closed at first; stays open once opened. Clones are the same door.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    inner: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    arrived: usize,
}

impl Gate {
    /// A closed door.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody through, now and later.
    pub fn open(&self) {
        self.state().open = true;
        self.inner.1.notify_all();
    }

    /// Waits until the door is open.
    ///
    /// # Panics
    /// When nobody opens it within 30 seconds.
    pub fn pass(&self) {
        let mut state = self.state();
        state.arrived += 1;
        self.inner.1.notify_all();
        self.wait(state, "for the gate to open", |state| state.open);
    }

    /// Waits until `count` have come to the door, through it or not.
    ///
    /// # Panics
    /// When they do not come within 30 seconds.
    #[track_caller]
    pub fn wait_for_arrivals(&self, count: usize) {
        self.wait(self.state(), "for arrivals at the gate", |state| {
            state.arrived >= count
        });
    }

    /// How many have come to the door so far.
    pub fn arrivals(&self) -> usize {
        self.state().arrived
    }

    #[track_caller]
    fn wait(&self, state: MutexGuard<'_, State>, what: &str, done: impl Fn(&State) -> bool) {
        let waited = self
            .inner
            .1
            .wait_timeout_while(state, TIMEOUT, |state| !done(state));
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        let late = timeout.timed_out() && !done(&state);
        drop(state);
        assert!(!late, "waited {TIMEOUT:?} {what}");
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.inner.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const TIMEOUT: Duration = Duration::from_secs(60);
