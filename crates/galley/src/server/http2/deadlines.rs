//! The timeouts of a connection, by its state.
//!
//! There are four clocks, each of which runs only in its state: no stream is open; a head has begun; output waits to be sent;
//! the connection is closing. Output means bytes that wait to be sent, or responses for windows that the client keeps closed:
//! the amount that is sent in a whole `write_timeout` counts, as in HTTP/1, so a byte now and then prolongs nothing. A stream
//! that waits for PHP has a separate clock in its task, as does a stream of which only its own window remains closed.

use std::time::Duration;

use crate::server::ClientLimits;
use crate::server::speed::Speed;
use crate::server::timer::{Deadline, Timer};

/// The clocks of one connection; see the module.
pub(super) struct ConnectionDeadlines {
    idle_timeout: Duration,
    head_timeout: Duration,
    speed: Speed,
    idle: Option<Deadline>,
    head: Option<Deadline>,
    taking: Option<Taking>,
    /// The number of requests that had been received when `idle` and `head` were set.
    requests: u64,
    is_going: bool,
}

/// A period in which the client has to receive output.
struct Taking {
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
    pub(super) going: bool,
}

/// A wait that has taken too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionTimeout {
    /// For a request.
    Idle,
    /// For the client to disconnect, after a GOAWAY frame.
    Going,
    /// For the rest of a head.
    Head,
    /// For the client to receive output.
    Taking,
    /// The period has ended, the client has received enough, and the next period has begun.
    Taken,
}

impl ConnectionDeadlines {
    pub(super) fn new(limits: &ClientLimits) -> Self {
        Self {
            idle_timeout: limits.idle_timeout,
            head_timeout: limits.head_timeout,
            speed: limits.response_speed,
            idle: None,
            head: None,
            taking: None,
            requests: 0,
            is_going: false,
        }
    }

    /// Starts and stops the clocks. `arrived` returns the number of bytes that the client has received since the beginning.
    pub(super) fn look(
        &mut self,
        timer: &Timer,
        sight: &ConnectionActivity,
        arrived: impl Fn() -> u64,
    ) {
        if std::mem::replace(&mut self.is_going, sight.going) != sight.going {
            self.idle = None;
        }
        if std::mem::replace(&mut self.requests, sight.requests) != sight.requests {
            self.head = None;
            // The clock for closing continues during further requests.
            self.idle = self.idle.filter(|_| sight.going);
        }
        let idle_timeout = if sight.going {
            LINGER
        } else {
            self.idle_timeout
        };
        run(&mut self.idle, !sight.has_streams, timer, idle_timeout);
        run(&mut self.head, sight.is_mid_head, timer, self.head_timeout);
        // A stream without a task waits inside the library, because the client has reduced its window.
        let is_stuck = sight.has_streams && !sight.has_tasks;
        if sight.is_writing || sight.is_waiting || is_stuck {
            let begin = || Taking {
                until: timer.deadline(self.speed.window),
                arrived: arrived(),
            };
            self.taking.get_or_insert_with(begin);
        } else {
            self.taking = None;
        }
    }

    /// The next deadline of a clock.
    pub(super) fn next(&self) -> Option<Deadline> {
        let taking = self.taking.as_ref().map(|taking| taking.until);
        [self.idle, self.head, taking].into_iter().flatten().min()
    }

    /// Checks at the end of a period how much the client has received, and begins the next.
    fn late_taking(
        &mut self,
        timer: &Timer,
        arrived: impl Fn() -> u64,
    ) -> Option<ConnectionTimeout> {
        let taking = self.taking.as_mut()?;
        if !timer.is_past(taking.until) {
            return None;
        }
        let now = arrived();
        if !self.speed.is_enough(now.saturating_sub(taking.arrived)) {
            return Some(ConnectionTimeout::Taking);
        }
        taking.arrived = now;
        taking.until = timer.deadline(self.speed.window);
        Some(ConnectionTimeout::Taken)
    }

    /// The expired clock.
    pub(super) fn late(
        &mut self,
        timer: &Timer,
        arrived: impl Fn() -> u64,
    ) -> Option<ConnectionTimeout> {
        if let Some(late) = self.late_taking(timer, arrived) {
            return Some(late);
        }
        let idle = if self.is_going {
            ConnectionTimeout::Going
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

fn run(clock: &mut Option<Deadline>, runs: bool, timer: &Timer, limit: Duration) {
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
    use crate::server::timer::Timers;

    fn deadlines() -> ConnectionDeadlines {
        ConnectionDeadlines {
            idle_timeout: Duration::from_secs(60),
            head_timeout: Duration::from_secs(10),
            speed: Speed::new(Duration::from_secs(30), 100),
            idle: None,
            head: None,
            taking: None,
            requests: 0,
            is_going: false,
        }
    }

    fn sight() -> ConnectionActivity {
        ConnectionActivity {
            has_streams: false,
            has_tasks: false,
            is_mid_head: false,
            is_writing: false,
            is_waiting: false,
            requests: 0,
            going: false,
        }
    }

    /// The timeout that is reported if nothing changes for `seconds` seconds.
    fn after(
        deadlines: &mut ConnectionDeadlines,
        sight: &ConnectionActivity,
        seconds: u64,
    ) -> Option<ConnectionTimeout> {
        let timers = Rc::new(Timers::default());
        let timer = timers.register();
        deadlines.look(&timer, sight, || 0);
        timers.sweep(Tick(seconds * 1000));
        deadlines.look(&timer, sight, || 0);
        deadlines.late(&timer, || 0)
    }

    #[test]
    fn each_state_has_its_limit() {
        let idle = sight();
        assert_eq!(after(&mut deadlines(), &idle, 59), None);
        assert_eq!(
            after(&mut deadlines(), &idle, 60),
            Some(ConnectionTimeout::Idle)
        );
        let head = ConnectionActivity {
            is_mid_head: true,
            ..sight()
        };
        assert_eq!(after(&mut deadlines(), &head, 9), None);
        assert_eq!(
            after(&mut deadlines(), &head, 10),
            Some(ConnectionTimeout::Head)
        );
        let stuck = ConnectionActivity {
            has_streams: true,
            ..sight()
        };
        assert_eq!(
            after(&mut deadlines(), &stuck, 30),
            Some(ConnectionTimeout::Taking)
        );
        let busy = ConnectionActivity {
            has_streams: true,
            has_tasks: true,
            ..sight()
        };
        assert_eq!(after(&mut deadlines(), &busy, 100_000), None);
        let starving = ConnectionActivity {
            is_waiting: true,
            ..busy
        };
        assert_eq!(after(&mut deadlines(), &starving, 29), None);
        assert_eq!(
            after(&mut deadlines(), &starving, 30),
            Some(ConnectionTimeout::Taking)
        );
        let going = ConnectionActivity {
            going: true,
            ..sight()
        };
        assert_eq!(
            after(&mut deadlines(), &going, 1),
            Some(ConnectionTimeout::Going)
        );
    }

    #[test]
    fn a_request_that_is_answered_at_once_is_progress() {
        let timers = Rc::new(Timers::default());
        let timer = timers.register();
        let mut deadlines = deadlines();
        let mut sight = ConnectionActivity {
            // A part of the next request has always been received.
            is_mid_head: true,
            ..sight()
        };
        for second in 0..100 {
            timers.sweep(Tick(second * 1000));
            sight.requests = second;
            deadlines.look(&timer, &sight, || 0);
            assert_eq!(deadlines.late(&timer, || 0), None);
        }
        sight.going = true;
        deadlines.look(&timer, &sight, || 0);
        timers.sweep(Tick(101_000));
        sight.requests += 1;
        deadlines.look(&timer, &sight, || 0);
        assert_eq!(deadlines.late(&timer, || 0), Some(ConnectionTimeout::Going));
    }

    #[test]
    fn what_arrives_in_a_window_is_progress_where_it_is_enough() {
        for (bytes_per_s, limit_s) in [(100, None), (99, Some(30)), (1, Some(30))] {
            let timers = Rc::new(Timers::default());
            let timer = timers.register();
            let mut deadlines = deadlines();
            let sight = ConnectionActivity {
                has_streams: true,
                has_tasks: true,
                is_waiting: true,
                ..sight()
            };
            let ended = (0..200_u64).find(|second| {
                timers.sweep(Tick(second * 1000));
                let arrived = || second * bytes_per_s;
                deadlines.look(&timer, &sight, arrived);
                deadlines.late(&timer, arrived) == Some(ConnectionTimeout::Taking)
            });
            assert_eq!(ended, limit_s, "{bytes_per_s} bytes a second");
        }
    }
}
