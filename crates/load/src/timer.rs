//! A timer for the intended starts of requests. The runtime's own timers are precise to a millisecond or two; a file
//! descriptor timer of Linux is precise to some microseconds, and waiting for it takes no processor time.

use std::{io, time::Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;

/// One timer, for one task at a time. The runtime waits for it as for a pipe: both are descriptors that become readable.
pub(crate) struct StartTimer(Receiver);

impl StartTimer {
    /// A timer that is not set. Call within the runtime.
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
            // The runtime still takes the timer for readable from the last time. Asking before the wait costs the request nothing.
            match self.0.try_read(&mut [0_u8; 8]) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Err(_) => self.0.readable().await?,
                Ok(_) => {}
            }
        }
    }
}
