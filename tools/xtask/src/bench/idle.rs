//! Waits until a server is idle.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::processes::ProcessTree;
use crate::{error::CommandError, interrupt::Interrupt};

/// Waits until the process trees below `roots` use less than a tenth of a core.
///
/// After a load run, a slow server still processes its queue, and Galley may still compress in the background.
pub(crate) fn wait_until_idle(interrupt: &Interrupt, roots: &[u32]) -> Result<(), CommandError> {
    let deadline = Instant::now() + IDLE_TIMEOUT;
    let mut before = ProcessTree::cpu_time(roots);
    loop {
        interrupt.check()?;
        thread::sleep(SAMPLE_INTERVAL);
        let now = ProcessTree::cpu_time(roots);
        if now.saturating_sub(before) <= SAMPLE_INTERVAL / 10 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err("the contender does not become idle".into());
        }
        before = now;
    }
}

const SAMPLE_INTERVAL: Duration = Duration::from_millis(150);
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);
