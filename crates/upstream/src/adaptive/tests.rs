//! Simulations: continuous load, an upstream with a given throughput curve, a simulated clock.

use super::*;

/// The throughput of an upstream for a number of concurrent requests, in responses per second.
type ThroughputCurve = fn(f64) -> f64;

/// Five workers that take 100 ms for each request; more requests wait in the backlog of the upstream.
fn five_workers(slots: f64) -> f64 {
    slots.min(5.0) * 10.0
}

/// Requests that wait for another server: each takes the same time for any number of concurrent requests.
fn idle_waiting(slots: f64) -> f64 {
    slots * 2.0
}

/// A few processors, a database: each further request adds less throughput, and all of them add some.
fn half_as_much_from_each(slots: f64) -> f64 {
    10.0 * slots.sqrt()
}

/// Memory is exhausted above eight requests: all of them become slower together.
fn swapping(slots: f64) -> f64 {
    if slots <= 8.0 {
        slots * 10.0
    } else {
        80.0 * (8.0 / slots).powi(2)
    }
}

struct Simulation {
    adaptive: AdaptiveLimit,
    now: Instant,
    rng: Rng,
}

/// Pseudorandom numbers below 1 that are the same in each run (xorshift).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX) * 0.999
    }
}

impl Simulation {
    fn new(most: usize) -> Self {
        Self {
            adaptive: AdaptiveLimit::new(most),
            now: Instant::now(),
            rng: Rng(0x2545_f491_4f6c_dd1d),
        }
    }

    /// Simulates `responses` responses under a curve, of a pool with `demand` requests at any time.
    fn run(&mut self, curve: ThroughputCurve, demand: usize, responses: usize) {
        for _ in 0..responses {
            self.respond(curve, demand, [1.0, 1.0]);
        }
    }

    /// As `run`, with pages that differ: the times between responses, and the latencies, are distributed exponentially. Returns the
    /// throughput in relation to that of the best limit.
    fn run_with_noise(&mut self, curve: ThroughputCurve, demand: usize, responses: usize) -> f64 {
        let best = (1..=self.adaptive.maximum).map(|limit| curve(slots(limit)));
        let best = best.fold(0.0, f64::max);
        let began = self.now;
        for _ in 0..responses {
            let mut spread = || -(1.0 - self.rng.next()).ln();
            let noise = [spread(), spread()];
            self.respond(curve, demand, noise);
        }
        let lasted = (self.now - began).as_secs_f64();
        f64::from(u32::try_from(responses).unwrap()) / lasted / best
    }

    fn respond(&mut self, curve: ThroughputCurve, demand: usize, noise: [f64; 2]) {
        let limit = self.adaptive.limit();
        let in_progress = demand.min(limit);
        let rate = curve(slots(in_progress));
        self.now += Duration::from_secs_f64(noise[0] / rate);
        // Little's law.
        let latency = Duration::from_secs_f64(noise[1] * slots(in_progress) / rate);
        self.adaptive.record(latency, demand >= limit, self.now);
    }
}

#[test]
fn excess_slots_are_removed_and_no_worker_is_idle() {
    let mut simulation = Simulation::new(20);
    simulation.run(five_workers, 2, 100);
    assert_eq!(
        simulation.adaptive.limit(),
        20,
        "nothing happens while it is quiet"
    );
    simulation.run(five_workers, 200, 1000);
    let mut limits = Vec::new();
    for _ in 0..200 {
        simulation.run(five_workers, 200, 10);
        limits.push(simulation.adaptive.limit());
    }
    let good = limits
        .iter()
        .filter(|limit| (5..=10).contains(*limit))
        .count();
    assert!(good > 150, "{limits:?}");
    assert!(
        limits.iter().all(|limit| (4..=14).contains(limit)),
        "{limits:?}"
    );
}

#[test]
fn an_upstream_that_collapses_is_relieved() {
    let mut simulation = Simulation::new(32);
    simulation.run(swapping, 2, 100);
    simulation.run(swapping, 500, 3000);
    let mut limits = Vec::new();
    for _ in 0..100 {
        simulation.run(swapping, 500, 10);
        limits.push(simulation.adaptive.limit());
    }
    assert!(
        limits.iter().all(|limit| (4..=14).contains(limit)),
        "{limits:?}"
    );
    let around = limits
        .iter()
        .filter(|limit| (5..=10).contains(*limit))
        .count();
    assert!(around > 70, "{limits:?}");
}

#[test]
fn slow_work_without_contention_keeps_its_slots() {
    let mut simulation = Simulation::new(20);
    // Quick pages first, then requests that wait for another server: ten times as slow, and independent of each other.
    simulation.run(|slots| slots * 20.0, 10, 200);
    let mut limits = Vec::new();
    for _ in 0..100 {
        simulation.run(idle_waiting, 200, 20);
        limits.push(simulation.adaptive.limit());
    }
    let all = limits.iter().filter(|limit| **limit == 20).count();
    assert!(all > 90, "{limits:?}");
}

#[test]
fn all_slots_are_used_if_each_raises_throughput() {
    let mut simulation = Simulation::new(20);
    simulation.run(half_as_much_from_each, 2, 100);
    simulation.run(half_as_much_from_each, 200, 2000);
    let mut limits = Vec::new();
    for _ in 0..100 {
        simulation.run(half_as_much_from_each, 200, 20);
        limits.push(simulation.adaptive.limit());
    }
    assert!(limits.iter().all(|limit| *limit >= 13), "{limits:?}");
}

#[test]
fn pages_that_differ_do_not_mislead_the_limit() {
    for (curve, least) in [
        (five_workers as ThroughputCurve, 0.9),
        (idle_waiting as ThroughputCurve, 0.85),
        (half_as_much_from_each as ThroughputCurve, 0.75),
        (swapping as ThroughputCurve, 0.7),
    ] {
        for seed in 1..=20 {
            let mut simulation = Simulation::new(20);
            simulation.rng = Rng(seed);
            simulation.run_with_noise(curve, 2, 200);
            let part = simulation.run_with_noise(curve, 200, 5000);
            assert!(
                part >= least,
                "{part} of what would be possible: {:?}",
                simulation.adaptive
            );
        }
    }
}

#[test]
fn a_shared_machine_does_not_mislead_the_limit() {
    for seed in 1..=20 {
        let mut simulation = Simulation::new(16);
        simulation.rng = Rng(seed);
        // 20 ms each, but other programs use the processors half of the time, for a tenth of a second or for three.
        let quiet: ThroughputCurve = |slots| slots * 50.0;
        let disturbed: ThroughputCurve = |slots| slots * 15.0;
        simulation.run_with_noise(quiet, 2, 200);
        let (mut slots_seen, mut rounds) = (0, 0);
        for _ in 0..400 {
            let curve = if simulation.rng.next() < 0.5 {
                quiet
            } else {
                disturbed
            };
            let until =
                simulation.now + Duration::from_secs_f64(0.1 + 2.9 * simulation.rng.next().powi(3));
            while simulation.now < until {
                simulation.run_with_noise(curve, 200, 5);
            }
            slots_seen += simulation.adaptive.limit();
            rounds += 1;
        }
        let mean = slots_seen / rounds;
        assert!(mean >= 13, "{mean} slots in the mean, seed {seed}");
    }
}

#[test]
fn the_limit_recovers_in_a_few_windows() {
    let mut simulation = Simulation::new(20);
    simulation.run(five_workers, 2, 100);
    simulation.run(five_workers, 200, 1000);
    assert!(
        simulation.adaptive.limit() < 12,
        "{:?}",
        simulation.adaptive
    );
    // The administrator has given PHP forty workers.
    let mut responses = 0;
    while simulation.adaptive.limit() < 20 {
        simulation.run(|slots| slots.min(40.0) * 10.0, 200, 1);
        responses += 1;
        assert!(responses < 800, "{:?}", simulation.adaptive);
    }
}

#[test]
fn after_an_outage_the_limit_starts_low_and_grows_with_each_response() {
    let mut simulation = Simulation::new(20);
    simulation.adaptive.restart();
    assert_eq!(simulation.adaptive.limit(), 2);
    simulation.run(|slots| slots * 10.0, 200, 5);
    assert_eq!(simulation.adaptive.limit(), 7);
    simulation.run(|slots| slots * 10.0, 200, 20);
    assert_eq!(simulation.adaptive.limit(), 20);
    let mut single = AdaptiveLimit::new(1);
    single.restart();
    assert_eq!(single.limit(), 1);
}

#[test]
fn a_new_maximum_applies_at_once() {
    let mut adaptive = AdaptiveLimit::new(20);
    adaptive.set_maximum(7);
    assert_eq!(adaptive.limit(), 7);
    adaptive.set_maximum(0);
    assert_eq!(adaptive.limit(), 1, "nothing at all would never end");
    adaptive.set_maximum(30);
    assert_eq!(adaptive.limit(), 30);
}

proptest::proptest! {
    #[test]
    fn the_limit_stays_within_its_bounds(
        most in 1_usize..70,
        responses in proptest::collection::vec((0_u64..100_000, proptest::bool::ANY, 0_u64..1000), 0..600),
    ) {
        let mut adaptive = AdaptiveLimit::new(most);
        let mut now = Instant::now();
        for (latency_ms, is_full, pause_ms) in responses {
            now += Duration::from_millis(pause_ms);
            adaptive.record(Duration::from_millis(latency_ms), is_full, now);
            let limit = adaptive.limit();
            proptest::prop_assert!(limit <= most && limit >= most.min(2), "{}", limit);
        }
    }
}
