//! Waits until a contender rests.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{interrupt::Interrupt, processes::Tree};
use crate::demo::CommandError;

/// A slow contender still works through what the client before has left in its queue, and a good one may still compress.
pub(crate) fn wait_for_quiet(interrupt: &Interrupt, roots: &[u32]) -> Result<(), CommandError> {
    let deadline = Instant::now() + QUIET_PATIENCE;
    let mut before = Tree::time(roots);
    loop {
        interrupt.check()?;
        thread::sleep(QUIET);
        let now = Tree::time(roots);
        if now.saturating_sub(before) <= QUIET / 10 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("the contender does not come to rest".into());
        }
        before = now;
    }
}

const QUIET: Duration = Duration::from_millis(150);
const QUIET_PATIENCE: Duration = Duration::from_secs(60);
