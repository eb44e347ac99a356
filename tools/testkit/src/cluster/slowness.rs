//! An engine that takes 50 ms for each reply while pages are edited.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{TestkitError, redis::RedisAsker};

/// Pauses an engine again and again, until it is dropped.
pub(super) struct Slowness {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64, TestkitError>>,
}

impl Slowness {
    pub(super) fn begin(engine: RedisAsker) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut pauses = 0;
            while !ends.load(Ordering::SeqCst) {
                engine.run(&["client", "pause", "50", "all"])?;
                pauses += 1;
                thread::sleep(GAP);
            }
            Ok(pauses)
        });
        Self { is_over, thread }
    }

    /// How often it was paused.
    pub(super) fn end(self) -> Result<u64, TestkitError> {
        self.is_over.store(true, Ordering::SeqCst);
        let ended = self.thread.join();
        ended.unwrap_or_else(|_| {
            Err(TestkitError::Refused(
                "the pauses ended in a panic".to_owned(),
            ))
        })
    }
}

/// Between a pause and the next: the engine replies to what waits.
const GAP: Duration = Duration::from_millis(5);
