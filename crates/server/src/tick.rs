//! The regular tick of a core: a kernel timer (`timerfd`) that is an event like those of its sockets.
//!
//! A timer of the runtime would have to be checked, with a clock reading, before each `epoll_wait`; and each `epoll_wait`
//! would have a timeout, for which the kernel arms a timer of its own.

use std::io;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;

/// Ticks at a regular interval. Tokio's type for pipes makes no system call that a timer descriptor does not support.
pub(super) struct Ticks(Receiver);

impl Ticks {
    /// Ticks every `period`, the first time after one period. Must be called within a runtime.
    pub(super) fn every(period: Duration) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let period = Timespec::try_from(period).map_err(io::Error::other)?;
        let times = Itimerspec {
            it_interval: period,
            it_value: period,
        };
        timerfd_settime(&timer, TimerfdTimerFlags::empty(), &times)?;
        Receiver::from_owned_fd_unchecked(timer).map(Self)
    }

    /// Waits for the next tick; missed ticks count as one. Cancel-safe.
    pub(super) async fn next(&self) -> io::Result<()> {
        loop {
            self.0.readable().await?;
            match self.0.try_read(&mut [0; COUNT]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Size of the expiration count (`timerfd_create(2)`).
const COUNT: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_tick_wakes_its_waiters() {
        let ticks = Ticks::every(Duration::from_millis(1)).expect("a timer of the kernel");
        for _ in 0..3 {
            ticks.next().await.expect("a tick");
        }
    }
}
