//! How slow a client may be while it sends a body or receives a response.
//!
//! The bytes within a whole window count, so that single bytes extend nothing, and a fast start
//! gains nothing. For a response, bytes count when the client's system has acknowledged them, because the local
//! system accepts megabytes at once, and reports free space only when a third of it is free. A window that ends while
//! Galley is not waiting for the client is not evaluated.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use super::socket::UnacknowledgedBytes;
use super::timer::{Deadline, DeadlinePassed, Timer};

/// The minimum number of bytes in a window.
#[derive(Clone, Copy, Debug)]
pub struct MinRate {
    pub(super) window: Duration,
    bytes: u64,
}

impl MinRate {
    /// At least `per_s` bytes for each second of a window, and at least one byte in any window.
    pub fn new(window: Duration, per_s: u64) -> Self {
        let ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        Self {
            window,
            bytes: (per_s.saturating_mul(ms) / 1_000).max(1),
        }
    }

    /// Whether a number of bytes is sufficient for a window.
    pub(super) fn is_enough(self, bytes: u64) -> bool {
        bytes >= self.bytes
    }
}

/// A body that is being received.
pub(super) struct ReceiveProgress {
    speed: MinRate,
    pub(super) until: Deadline,
    came: u64,
}

impl ReceiveProgress {
    pub(super) fn begin(speed: MinRate, timer: &Timer) -> Self {
        Self {
            speed,
            until: timer.deadline(speed.window),
            came: 0,
        }
    }

    /// Counts received bytes.
    pub(super) fn add(&mut self, count: usize) {
        self.came += count as u64;
    }

    /// Evaluates a window at its end, and begins the next.
    pub(super) fn judge(&mut self, timer: &Timer) -> Result<(), DeadlinePassed> {
        if !timer.is_past(self.until) {
            return Ok(());
        }
        if !self.speed.is_enough(self.came) {
            return Err(DeadlinePassed);
        }
        *self = Self::begin(self.speed, timer);
        Ok(())
    }
}

/// A response that the client must receive.
pub(super) struct SendProgress {
    speed: MinRate,
    /// Bytes that had not been acknowledged when the window began.
    unsent: u64,
}

impl SendProgress {
    pub(super) fn begin(speed: MinRate, socket: &impl UnacknowledgedBytes) -> Self {
        Self {
            speed,
            unsent: socket.unsent(),
        }
    }

    /// Evaluates a window in which nothing was written, and begins the next.
    pub(super) fn judge(
        &mut self,
        socket: &impl UnacknowledgedBytes,
    ) -> Result<(), DeadlinePassed> {
        let unsent = socket.unsent();
        let arrived = self.unsent.saturating_sub(unsent);
        self.unsent = unsent;
        if !self.speed.is_enough(arrived) {
            return Err(DeadlinePassed);
        }
        Ok(())
    }
}

/// The result of `work` if it is ready without waiting; otherwise `work` is dropped.
pub(super) async fn at_once<T>(work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    poll_fn(|cx| {
        Poll::Ready(match work.as_mut().poll(cx) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::rc::Rc;

    use galley_policy::time::Tick;

    use super::super::timer::Timers;

    impl UnacknowledgedBytes for TcpStream {
        fn unsent(&self) -> u64 {
            galley_sys::unsent(self.as_fd())
        }
    }

    #[test]
    fn a_body_is_judged_by_whole_windows() {
        let timers = Rc::new(Timers::default());
        let timer = timers.register();
        let mut coming = ReceiveProgress::begin(MinRate::new(Duration::from_secs(10), 500), &timer);
        // Fast at the beginning, then a byte a second.
        coming.add(100_000);
        for (second, wanted) in [(9, true), (10, true), (15, true), (19, true), (20, false)] {
            timers.sweep(Tick(second * 1_000));
            coming.add(1);
            assert_eq!(coming.judge(&timer).is_ok(), wanted, "after {second} s");
        }
        let mut steady = ReceiveProgress::begin(MinRate::new(Duration::from_secs(10), 500), &timer);
        for second in 21..200 {
            timers.sweep(Tick(second * 1_000));
            steady.add(500);
            assert!(steady.judge(&timer).is_ok(), "after {second} s");
        }
        let mut silent = ReceiveProgress::begin(MinRate::new(Duration::from_secs(10), 0), &timer);
        timers.sweep(Tick(300_000));
        assert!(silent.judge(&timer).is_err());
    }

    #[test]
    fn an_answer_is_judged_by_what_has_arrived() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.set_nonblocking(true).unwrap();
        let piece = vec![0; 1 << 20];
        while server.write(&piece).is_ok() {}
        let speed = MinRate::new(Duration::from_secs(1), 1_000);
        let mut leaving = SendProgress::begin(speed, &server);
        assert!(leaving.unsent > 0);
        assert!(leaving.judge(&server).is_err(), "nothing was read");
        let before = leaving.unsent;
        // As much as makes room for more.
        let mut rest = vec![0; 4 << 20];
        while server.unsent() + 1_000 > before {
            assert!(client.read(&mut rest).unwrap() > 0);
        }
        assert!(leaving.judge(&server).is_ok());
    }
}
