//! The timeouts of a connection, by its state; checked a few times a second.
//!
//! They are those of HTTP/2: for the handshake, for a request, for the rest of a head, for the client to receive output, and for the end
//! after `GOAWAY`. QUIC has a clock of its own for clients that are silent.

use std::rc::Rc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use galley_http::h3::H3Code;

use super::clocks::{Http3ReceivePeriod, Http3Stage};
use super::link::ConnectionLink;
use super::state::Http3State;
use super::streams::RequestStream;
use galley_telemetry::counters::Handshake;
use galley_telemetry::http2::Http2EndReason;

impl Http3State {
    /// Ends the connection, or announces its end, if a time is over. True if QUIC may have something to send.
    pub(super) fn check(&mut self, link: &Rc<ConnectionLink>, now: Instant) -> bool {
        let before = self.stage;
        let pings = self.check_all(link, now);
        pings || self.stage != before || self.h3.flood.is_overdrawn()
    }

    fn check_all(&mut self, link: &Rc<ConnectionLink>, now: Instant) -> bool {
        if self.stage == Http3Stage::Ended {
            return false;
        }
        let core = &link.core;
        // The endpoint looks regularly, so nothing has to wake it.
        let was_told = link
            .timer
            .poll_late(&Context::from_waker(Waker::noop()))
            .is_ready();
        if self.stage == Http3Stage::Handshake {
            let limit = core.limits.head_timeout;
            let until = *self
                .clocks
                .until
                .get_or_insert_with(|| link.timer.deadline(limit));
            link.timer.arm(Some(until), true);
            if was_told || link.timer.is_past(until) {
                core.counters.handshake(Handshake::Failed);
                self.close(core, now, H3Code::NoError, None);
            }
            return false;
        }
        if core.stopping.get() {
            self.begin_closing();
        }
        self.check_idle(link, now, was_told);
        self.check_memory(link, now);
        self.check_heads(link, now);
        self.check_receiving(link, now);
        self.ping(link)
    }

    /// Whether no request is in progress.
    fn is_idle(&self) -> bool {
        self.streams.is_empty()
    }

    fn check_idle(&mut self, link: &Rc<ConnectionLink>, now: Instant, was_told: bool) {
        let (core, timer) = (&link.core, &link.timer);
        if let Http3Stage::Closing(None) = self.stage {
            let limit = core.limits.drain_timeout.min(REJECT_AFTER);
            let reject_at = self
                .clocks
                .reject_at
                .get_or_insert_with(|| timer.deadline(limit));
            if timer.is_past(*reject_at) {
                self.close_rest();
            }
        }
        let is_closing = matches!(self.stage, Http3Stage::Closing(_));
        if !self.is_idle() {
            self.clocks.until = None;
            self.clocks.of = None;
            timer.arm(None, false);
            if was_told {
                self.begin_closing();
            }
            return;
        }
        let of = Some((self.stage, self.clocks.requests));
        if std::mem::replace(&mut self.clocks.of, of) != of {
            self.clocks.until = None;
        }
        let limit = if is_closing {
            LINGER
        } else {
            core.limits.idle_timeout
        };
        let until = *self
            .clocks
            .until
            .get_or_insert_with(|| timer.deadline(limit));
        timer.arm(Some(until), true);
        if !was_told && !timer.is_past(until) {
            return;
        }
        match self.stage {
            Http3Stage::Closing(Some(_)) => self.close(core, now, H3Code::NoError, None),
            // The packet that ends a connection replaces all others, so the client learns first which requests were not processed.
            Http3Stage::Closing(None) => self.close_rest(),
            Http3Stage::Handshake | Http3Stage::Open | Http3Stage::Ended => self.begin_closing(),
        }
    }

    /// Reserves memory for what has begun to wait, and releases what does not wait any more.
    fn check_memory(&mut self, link: &Rc<ConnectionLink>, now: Instant) {
        if self.is_idle() {
            return self.narrow();
        }
        if !self.hold_memory() && self.streams.values().any(RequestStream::is_blocked) {
            let why = (Http2EndReason::Slow, "too much data waits for the client");
            self.close(&link.core, now, H3Code::ExcessiveLoad, Some(why));
        }
    }

    fn check_heads(&mut self, link: &Rc<ConnectionLink>, now: Instant) {
        let mut heads = self.streams.values().filter_map(|stream| stream.head_until);
        if heads.any(|until| link.timer.is_past(until)) {
            let why = (Http2EndReason::Slow, "the client sent a head too slowly");
            self.close(&link.core, now, H3Code::ExcessiveLoad, Some(why));
        }
    }

    /// Evaluates the speed at which the client receives, while something waits for it.
    fn check_receiving(&mut self, link: &Rc<ConnectionLink>, now: Instant) {
        let starved = link.quota.take_starved_count();
        if starved > 0 {
            // `advance` sees the result.
            let _ = self.h3.flood.starve(starved);
        }
        let is_blocked = self.streams.values().any(RequestStream::is_blocked);
        let is_unacknowledged = self.streams.values().any(|stream| stream.is_finished);
        if !is_blocked && !is_unacknowledged {
            self.clocks.receiving = None;
            return;
        }
        if is_blocked && link.quota.is_overdrawn() {
            let why = (Http2EndReason::Slow, "too much data waits for the client");
            return self.close(&link.core, now, H3Code::ExcessiveLoad, Some(why));
        }
        let (speed, timer) = (link.core.limits.response_speed, &link.timer);
        let (accepted, acknowledged) = (self.accepted, self.quic.stats().frame_rx.acks);
        let begin = || Http3ReceivePeriod {
            until: timer.deadline(speed.window),
            accepted,
            acknowledged,
            without_room: 0,
        };
        let period = self.clocks.receiving.get_or_insert_with(begin);
        if !timer.is_past(period.until) {
            return;
        }
        let is_fast = speed.is_enough(accepted - period.accepted);
        let is_alive = acknowledged > period.acknowledged;
        let without_room = if is_fast { 0 } else { period.without_room + 1 };
        self.clocks.receiving = Some(Http3ReceivePeriod {
            without_room,
            ..begin()
        });
        // What QUIC has accepted last takes a slow client some periods more.
        if !is_fast && (!is_alive || without_room > MAX_PERIODS) {
            let why = (Http2EndReason::Slow, "the client received nothing");
            self.close(&link.core, now, H3Code::ExcessiveLoad, Some(why));
        }
    }

    /// Keeps the connection of a client that waits for a response, and notices that the client is gone.
    fn ping(&mut self, link: &Rc<ConnectionLink>) -> bool {
        if !self.streams.values().any(|stream| stream.has_task) {
            self.clocks.ping_at = None;
            return false;
        }
        let next = || link.timer.deadline(PING_INTERVAL);
        let at = *self.clocks.ping_at.get_or_insert_with(next);
        let is_due = link.timer.is_past(at);
        if is_due {
            self.quic.ping();
            self.clocks.ping_at = Some(next());
        }
        is_due
    }
}

/// How long a connection stays open after each `GOAWAY` without a request: some may be in transit.
const LINGER: Duration = Duration::from_secs(1);

/// How long requests are accepted after `GOAWAY`.
const REJECT_AFTER: Duration = Duration::from_secs(5);

/// The interval of pings while a client waits for a response.
const PING_INTERVAL: Duration = Duration::from_secs(5);

/// The maximum number of periods in which a client receives only what it was permitted before.
const MAX_PERIODS: u32 = 4;
