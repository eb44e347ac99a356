//! The timeouts of a connection, by its state.
//!
//! There are four clocks, each of which runs only in its state: no stream is open; a head has begun; output waits to be sent;
//! the connection is closing. Output means bytes that wait to be sent, or responses for windows that the client keeps closed:
//! the amount that is sent in a whole `write_timeout` counts, as in HTTP/1, so a byte now and then prolongs nothing. A stream
//! that waits for PHP has a separate clock in its task, as does a stream of which only its own window remains closed.

use std::time::Duration;

use crate::ClientLimits;
use crate::speed::MinRate;
use crate::timer::{Deadline, Timer};

/// The clocks of one connection; see the module.
pub(super) struct ConnectionDeadlines {
    idle_timeout: Duration,
    head_timeout: Duration,
    speed: MinRate,
    idle: Option<Deadline>,
    head: Option<Deadline>,
    receiving: Option<ReceivePeriod>,
    /// The number of requests that had been received when `idle` and `head` were set.
    requests: u64,
    is_closing: bool,
}

/// A period in which the client has to receive output.
struct ReceivePeriod {
    until: Deadline,
    /// The number of bytes that the client had received when the period began.
    arrived: u64,
}

/// The state of a connection that determines its clocks.
pub(super) struct ConnectionActivity {
    pub(super) has_streams: bool,
    /// Whether tasks handle some of the streams.
    pub(super) has_tasks: bool,
    pub(super) is_mid_head: bool,
    pub(super) is_writing: bool,
    /// Whether responses wait for the client to open windows.
    pub(super) is_waiting: bool,
    /// The number of requests received since the beginning. A request that is answered at once has no other trace.
    pub(super) requests: u64,
    /// Whether a GOAWAY frame was sent.
    pub(super) is_closing: bool,
}

/// A wait that has taken too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionTimeout {
    /// For a request.
    Idle,
    /// For the client to disconnect, after a GOAWAY frame.
    Closing,
    /// For the rest of a head.
    Head,
    /// For the client to receive output.
    NotReceiving,
    /// The period has ended, the client has received enough, and the next period has begun.
    Received,
}

impl ConnectionDeadlines {
    pub(super) fn new(limits: &ClientLimits) -> Self {
        Self {
            idle_timeout: limits.idle_timeout,
            head_timeout: limits.head_timeout,
            speed: limits.response_speed,
            idle: None,
            head: None,
            receiving: None,
            requests: 0,
            is_closing: false,
        }
    }

    /// Starts and stops the clocks. `arrived` returns the number of bytes that the client has received since the beginning.
    pub(super) fn update(
        &mut self,
        timer: &Timer,
        activity: &ConnectionActivity,
        arrived: impl Fn() -> u64,
    ) {
        if std::mem::replace(&mut self.is_closing, activity.is_closing) != activity.is_closing {
            self.idle = None;
        }
        if std::mem::replace(&mut self.requests, activity.requests) != activity.requests {
            self.head = None;
            // The clock for closing continues during further requests.
            self.idle = self.idle.filter(|_| activity.is_closing);
        }
        let idle_timeout = if activity.is_closing {
            LINGER
        } else {
            self.idle_timeout
        };
        set_clock(&mut self.idle, !activity.has_streams, timer, idle_timeout);
        set_clock(
            &mut self.head,
            activity.is_mid_head,
            timer,
            self.head_timeout,
        );
        // A stream without a task waits inside the library, because the client has reduced its window.
        let is_stuck = activity.has_streams && !activity.has_tasks;
        if activity.is_writing || activity.is_waiting || is_stuck {
            let begin = || ReceivePeriod {
                until: timer.deadline(self.speed.window),
                arrived: arrived(),
            };
            self.receiving.get_or_insert_with(begin);
        } else {
            self.receiving = None;
        }
    }

    /// The next deadline of a clock.
    pub(super) fn next(&self) -> Option<Deadline> {
        let receiving = self.receiving.as_ref().map(|receiving| receiving.until);
        [self.idle, self.head, receiving]
            .into_iter()
            .flatten()
            .min()
    }

    /// Checks at the end of a period how much the client has received, and begins the next.
    fn late_receiving(
        &mut self,
        timer: &Timer,
        arrived: impl Fn() -> u64,
    ) -> Option<ConnectionTimeout> {
        let receiving = self.receiving.as_mut()?;
        if !timer.is_past(receiving.until) {
            return None;
        }
        let now = arrived();
        if !self.speed.is_enough(now.saturating_sub(receiving.arrived)) {
            return Some(ConnectionTimeout::NotReceiving);
        }
        receiving.arrived = now;
        receiving.until = timer.deadline(self.speed.window);
        Some(ConnectionTimeout::Received)
    }

    /// The expired clock.
    pub(super) fn late(
        &mut self,
        timer: &Timer,
        arrived: impl Fn() -> u64,
    ) -> Option<ConnectionTimeout> {
        if let Some(late) = self.late_receiving(timer, arrived) {
            return Some(late);
        }
        let idle = if self.is_closing {
            ConnectionTimeout::Closing
        } else {
            ConnectionTimeout::Idle
        };
        let clocks = [(self.head, ConnectionTimeout::Head), (self.idle, idle)];
        clocks
            .into_iter()
            .find(|(deadline, _)| deadline.is_some_and(|deadline| timer.is_past(deadline)))
            .map(|(_, waiting)| waiting)
    }
}

fn set_clock(clock: &mut Option<Deadline>, runs: bool, timer: &Timer, limit: Duration) {
    if runs {
        clock.get_or_insert_with(|| timer.deadline(limit));
    } else {
        *clock = None;
    }
}

/// How long a client may take to disconnect when both sides are done.
pub(super) const LINGER: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use galley_policy::time::Tick;

    use super::*;
    use crate::timer::Timers;

    fn deadlines() -> ConnectionDeadlines {
        ConnectionDeadlines {
            idle_timeout: Duration::from_secs(60),
            head_timeout: Duration::from_secs(10),
            speed: MinRate::new(Duration::from_secs(30), 100),
            idle: None,
            head: None,
            receiving: None,
            requests: 0,
            is_closing: false,
        }
    }

    fn activity() -> ConnectionActivity {
        ConnectionActivity {
            has_streams: false,
            has_tasks: false,
            is_mid_head: false,
            is_writing: false,
            is_waiting: false,
            requests: 0,
            is_closing: false,
        }
    }

    /// The timeout that is reported if nothing changes for `seconds` seconds.
    fn after(
        deadlines: &mut ConnectionDeadlines,
        activity: &ConnectionActivity,
        seconds: u64,
    ) -> Option<ConnectionTimeout> {
        let timers = Rc::new(Timers::default());
        let timer = timers.register();
        deadlines.update(&timer, activity, || 0);
        timers.sweep(Tick(seconds * 1000));
        deadlines.update(&timer, activity, || 0);
        deadlines.late(&timer, || 0)
    }

    #[test]
    fn each_state_has_its_limit() {
        let idle = activity();
        assert_eq!(after(&mut deadlines(), &idle, 59), None);
        assert_eq!(
            after(&mut deadlines(), &idle, 60),
            Some(ConnectionTimeout::Idle)
        );
        let head = ConnectionActivity {
            is_mid_head: true,
            ..activity()
        };
        assert_eq!(after(&mut deadlines(), &head, 9), None);
        assert_eq!(
            after(&mut deadlines(), &head, 10),
            Some(ConnectionTimeout::Head)
        );
        let stuck = ConnectionActivity {
            has_streams: true,
            ..activity()
        };
        assert_eq!(
            after(&mut deadlines(), &stuck, 30),
            Some(ConnectionTimeout::NotReceiving)
        );
        let busy = ConnectionActivity {
            has_streams: true,
            has_tasks: true,
            ..activity()
        };
        assert_eq!(after(&mut deadlines(), &busy, 100_000), None);
        let starving = ConnectionActivity {
            is_waiting: true,
            ..busy
        };
        assert_eq!(after(&mut deadlines(), &starving, 29), None);
        assert_eq!(
            after(&mut deadlines(), &starving, 30),
            Some(ConnectionTimeout::NotReceiving)
        );
        let is_closing = ConnectionActivity {
            is_closing: true,
            ..activity()
        };
        assert_eq!(
            after(&mut deadlines(), &is_closing, 1),
            Some(ConnectionTimeout::Closing)
        );
    }

    #[test]
    fn a_request_that_is_answered_at_once_is_progress() {
        let timers = Rc::new(Timers::default());
        let timer = timers.register();
        let mut deadlines = deadlines();
        let mut activity = ConnectionActivity {
            // A part of the next request has always been received.
            is_mid_head: true,
            ..activity()
        };
        for second in 0..100 {
            timers.sweep(Tick(second * 1000));
            activity.requests = second;
            deadlines.update(&timer, &activity, || 0);
            assert_eq!(deadlines.late(&timer, || 0), None);
        }
        activity.is_closing = true;
        deadlines.update(&timer, &activity, || 0);
        timers.sweep(Tick(101_000));
        activity.requests += 1;
        deadlines.update(&timer, &activity, || 0);
        assert_eq!(
            deadlines.late(&timer, || 0),
            Some(ConnectionTimeout::Closing)
        );
    }

    #[test]
    fn enough_received_bytes_in_a_period_are_progress() {
        for (bytes_per_s, limit_s) in [(100, None), (99, Some(30)), (1, Some(30))] {
            let timers = Rc::new(Timers::default());
            let timer = timers.register();
            let mut deadlines = deadlines();
            let activity = ConnectionActivity {
                has_streams: true,
                has_tasks: true,
                is_waiting: true,
                ..activity()
            };
            let ended = (0..200_u64).find(|second| {
                timers.sweep(Tick(second * 1000));
                let arrived = || second * bytes_per_s;
                deadlines.update(&timer, &activity, arrived);
                deadlines.late(&timer, arrived) == Some(ConnectionTimeout::NotReceiving)
            });
            assert_eq!(ended, limit_s, "{bytes_per_s} bytes a second");
        }
    }
}
