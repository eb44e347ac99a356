//! Delays the replies of the engine by 50 ms.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crate::{TestkitError, redis::RedisClient};

/// A thread that pauses the engine repeatedly.
pub(super) struct EngineDelay {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64, TestkitError>>,
}

impl EngineDelay {
    pub(super) fn start(engine: RedisClient) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut pauses = 0;
            while !stop.load(Ordering::SeqCst) {
                engine.run(&["client", "pause", "50", "all"])?;
                pauses += 1;
                thread::sleep(GAP);
            }
            Ok(pauses)
        });
        Self { is_over, thread }
    }

    /// Stops the thread and returns the number of pauses.
    pub(super) fn stop(self) -> Result<u64, TestkitError> {
        self.is_over.store(true, Ordering::SeqCst);
        let joined = self.thread.join();
        joined.unwrap_or_else(|_| {
            Err(TestkitError::Refused(
                "the thread that pauses the engine panicked".to_owned(),
            ))
        })
    }
}

/// The time between two pauses, in which the engine replies to the waiting commands.
const GAP: Duration = Duration::from_millis(5);
