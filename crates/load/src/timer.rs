//! A timer for the intended starts of requests. The runtime's timers are accurate to a millisecond or two; a timer descriptor of
//! Linux is accurate to some microseconds, and waiting for it takes no processor time.

use std::{io, time::Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;

/// A timer for one task at a time. The runtime waits for it as for a pipe, because both are readable descriptors.
pub(crate) struct StartTimer(Receiver);

impl StartTimer {
    /// Creates a timer that is not set. Call within the runtime.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Receiver::from_owned_fd_unchecked(timer).map(Self)
    }

    /// Waits until `moment`. Cancel-safe: the next call sets the timer again.
    pub(crate) async fn until(&self, moment: Instant) -> io::Result<()> {
        loop {
            let left = moment.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let spec = Itimerspec {
                it_interval: Timespec::default(),
                it_value: Timespec::try_from(left).map_err(io::Error::other)?,
            };
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &spec)?;
            // Clears the runtime's readiness state of the last time. Doing this before the wait does not delay the request.
            match self.0.try_read(&mut [0_u8; 8]) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Err(_) => self.0.readable().await?,
                Ok(_) => {}
            }
        }
    }
}
