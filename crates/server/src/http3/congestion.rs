//! Congestion control: CUBIC of the library, which is not told of losses that show no congestion.
//!
//! A queue that overflows delays packets before it drops them. So CUBIC answers a loss if the delay of the path has grown, too, if many
//! packets are lost, or if the network reports congestion. Radio links lose packets at any rate, and CUBIC would leave slow start at the
//! first one and use a small part of them.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, Cubic, CubicConfig};

/// Creates the congestion control of each path.
#[derive(Debug)]
pub(super) struct PathCongestionConfig;

impl ControllerFactory for PathCongestionConfig {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(PathCongestion::new(now, mtu))
    }
}

/// The congestion control of one path. Sizes are in bytes.
#[derive(Clone, Debug)]
struct PathCongestion {
    cubic: Cubic,
    mtu: u64,
    /// Losses of packets that were sent before are part of the congestion that was answered.
    answered: Option<Instant>,
    /// The lowest delay of the path.
    lowest: Duration,
    /// The lowest delay of the packets that are being acknowledged, and of each of the groups that were acknowledged together before.
    arriving: Duration,
    groups: [Duration; 4],
    /// The recent packets that were lost, and all.
    lost: u64,
    all: u64,
}

impl PathCongestion {
    fn new(now: Instant, mtu: u16) -> Self {
        Self {
            cubic: Cubic::new(Arc::new(CubicConfig::default()), now, mtu),
            mtu: mtu.into(),
            answered: None,
            lowest: Duration::MAX,
            arriving: Duration::MAX,
            groups: [Duration::ZERO; 4],
            lost: 0,
            all: 0,
        }
    }

    /// Learns from a packet that was acknowledged after `delay`.
    fn acknowledged(&mut self, delay: Duration, bytes: u64) {
        self.lowest = self.lowest.min(delay);
        self.arriving = self.arriving.min(delay);
        self.count(0, bytes);
    }

    fn count(&mut self, lost: u64, all: u64) {
        if self.all > RECENT_PACKETS * self.mtu {
            self.lost /= 2;
            self.all /= 2;
        }
        self.lost += lost;
        self.all += all;
    }

    /// Whether packets wait in a queue.
    fn is_queued(&self) -> bool {
        let margin = (self.lowest / 8).clamp(LEAST_QUEUE, MOST_QUEUE);
        let most = self.lowest.saturating_add(margin);
        self.groups.iter().all(|delay| *delay > most)
    }

    fn are_many_lost(&self) -> bool {
        self.lost >= MANY_PACKETS * self.mtu && self.lost > self.all / MANY_DIVISOR
    }
}

impl Controller for PathCongestion {
    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.acknowledged(now.saturating_duration_since(sent), bytes);
        self.cubic.on_ack(now, sent, bytes, app_limited, rtt);
    }

    fn on_end_acks(
        &mut self,
        _now: Instant,
        _in_flight: u64,
        _app_limited: bool,
        _largest: Option<u64>,
    ) {
        let arrived = std::mem::replace(&mut self.arriving, Duration::MAX);
        if arrived != Duration::MAX {
            self.groups.rotate_right(1);
            self.groups[0] = arrived;
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        if self.answered.is_some_and(|answered| sent <= answered) {
            return;
        }
        self.count(lost_bytes, lost_bytes);
        let is_reported = lost_bytes == 0;
        if is_reported || is_persistent_congestion || self.is_queued() || self.are_many_lost() {
            self.answered = Some(now);
            (self.lost, self.all) = (0, 0);
            self.cubic
                .on_congestion_event(now, sent, is_persistent_congestion, lost_bytes);
        }
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.mtu = new_mtu.into();
        self.cubic.on_mtu_update(new_mtu);
    }

    fn window(&self) -> u64 {
        self.cubic.window()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.cubic.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// The bounds of the delay that shows a queue, an eighth of the path's (RFC 9406 section 4.3).
const LEAST_QUEUE: Duration = Duration::from_millis(4);
const MOST_QUEUE: Duration = Duration::from_millis(16);

/// The share of lost packets that is congestion without a delay, too: links that drop what exceeds a rate have no queue. The number of
/// packets of which it is the share is at most twice the packets here, and a few lost ones are no share yet.
const MANY_DIVISOR: u64 = 16;
const MANY_PACKETS: u64 = 8;
const RECENT_PACKETS: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: u16 = 1200;
    const RTT: Duration = Duration::from_millis(100);

    /// A path that has delivered some packets. As the estimator of the library is private, CUBIC is not told of them, and the window does
    /// not grow.
    struct SimulatedPath {
        control: PathCongestion,
        now: Instant,
    }

    impl SimulatedPath {
        fn new() -> Self {
            let now = Instant::now();
            let control = PathCongestion::new(now, MTU);
            let mut path = Self { control, now };
            path.deliver(100, RTT);
            path
        }

        fn deliver(&mut self, packets: u64, delay: Duration) {
            for number in 0..packets {
                self.now += Duration::from_millis(1);
                self.control.acknowledged(delay, MTU.into());
                self.control.on_end_acks(self.now, 0, false, Some(number));
            }
        }

        /// Loses some packets that were sent a round before, and returns the window.
        fn lose(&mut self, packets: u64) -> u64 {
            let sent = self.now.checked_sub(RTT).unwrap();
            let bytes = packets * u64::from(MTU);
            self.control
                .on_congestion_event(self.now, sent, false, bytes);
            self.control.window()
        }
    }

    #[test]
    fn a_random_loss_changes_nothing() {
        let mut path = SimulatedPath::new();
        let before = path.control.window();
        for _ in 0..100 {
            assert_eq!(path.lose(1), before);
            path.deliver(49, RTT + Duration::from_millis(10));
        }
    }

    #[test]
    fn a_loss_with_a_delay_is_answered_once() {
        let mut path = SimulatedPath::new();
        let before = path.control.window();
        // Not a single packet that was late.
        path.deliver(3, RTT * 2);
        assert_eq!(path.lose(1), before);
        path.deliver(4, RTT * 2);
        let after = path.lose(1);
        assert_eq!(after, before * 7 / 10);
        path.deliver(4, RTT * 2);
        assert_eq!(path.lose(1), after);
        path.deliver(100, RTT * 2);
        assert_eq!(path.lose(1), after * 7 / 10);
    }

    #[test]
    fn many_losses_are_congestion_without_a_delay() {
        let mut path = SimulatedPath::new();
        let before = path.control.window();
        assert_eq!(path.lose(7), before);
        assert_eq!(path.lose(1), before * 7 / 10);
    }

    #[test]
    fn reports_and_persistent_congestion_are_answered() {
        let mut path = SimulatedPath::new();
        let before = path.control.window();
        let sent = path.now.checked_sub(RTT).unwrap();
        path.control.on_congestion_event(path.now, sent, false, 0);
        assert_eq!(path.control.window(), before * 7 / 10);
        path.deliver(100, RTT);
        let sent = path.now;
        path.now += RTT;
        path.control.on_congestion_event(path.now, sent, true, 1);
        assert_eq!(path.control.window(), 2 * u64::from(MTU));
    }
}
