//! A small world: requests without end, an upstream with a law of its own, a clock that only the world moves.

use super::*;

/// What an upstream gives when so many requests are there: answers a second.
type Law = fn(f64) -> f64;

/// As many workers as that, each taking 100 ms; more requests wait in the upstream's own line.
fn five_workers(places: f64) -> f64 {
    places.min(5.0) * 10.0
}

/// Waits for others: each request has its own time, whatever else is there.
fn idle_waiting(places: f64) -> f64 {
    places * 2.0
}

/// A few processors, a database: each further request brings less, and all of them bring something.
fn half_as_much_from_each(places: f64) -> f64 {
    10.0 * places.sqrt()
}

/// Memory runs out beyond eight: all of them go slower together.
fn swapping(places: f64) -> f64 {
    if places <= 8.0 {
        places * 10.0
    } else {
        80.0 * (8.0 / places).powi(2)
    }
}

struct World {
    adaptive: Adaptive,
    now: Instant,
    dice: Dice,
}

/// Numbers below 1 that are the same in each run (xorshift).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX) * 0.999
    }
}

impl World {
    fn new(most: usize) -> Self {
        Self {
            adaptive: Adaptive::new(most),
            now: Instant::now(),
            dice: Dice(0x2545_f491_4f6c_dd1d),
        }
    }

    /// So many answers under a law, of a pool with `asked` requests at any time.
    fn run(&mut self, law: Law, asked: usize, answers: usize) {
        for _ in 0..answers {
            self.answer(law, asked, [1.0, 1.0]);
        }
    }

    /// The same with pages that differ: times between answers, and latencies, are spread exponentially. Gives the part of the
    /// throughput that the best limit would have had.
    fn run_with_noise(&mut self, law: Law, asked: usize, answers: usize) -> f64 {
        let best = (1..=self.adaptive.most).map(|limit| law(places(limit)));
        let best = best.fold(0.0, f64::max);
        let began = self.now;
        for _ in 0..answers {
            let mut spread = || -(1.0 - self.dice.next()).ln();
            let noise = [spread(), spread()];
            self.answer(law, asked, noise);
        }
        let lasted = (self.now - began).as_secs_f64();
        f64::from(u32::try_from(answers).unwrap()) / lasted / best
    }

    fn answer(&mut self, law: Law, asked: usize, noise: [f64; 2]) {
        let limit = self.adaptive.limit();
        let there = asked.min(limit);
        let rate = law(places(there));
        self.now += Duration::from_secs_f64(noise[0] / rate);
        // Little's law.
        let latency = Duration::from_secs_f64(noise[1] * places(there) / rate);
        self.adaptive.record(latency, asked >= limit, self.now);
    }
}

#[test]
fn more_places_than_workers_are_given_up_and_no_worker_is_idle() {
    let mut world = World::new(20);
    world.run(five_workers, 2, 100);
    assert_eq!(
        world.adaptive.limit(),
        20,
        "nothing happens while it is quiet"
    );
    world.run(five_workers, 200, 1000);
    let mut limits = Vec::new();
    for _ in 0..200 {
        world.run(five_workers, 200, 10);
        limits.push(world.adaptive.limit());
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
    let mut world = World::new(32);
    world.run(swapping, 2, 100);
    world.run(swapping, 500, 3000);
    let mut limits = Vec::new();
    for _ in 0..100 {
        world.run(swapping, 500, 10);
        limits.push(world.adaptive.limit());
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
    let mut world = World::new(20);
    // Quick pages first, then requests that wait for another server: ten times as slow, and each for itself.
    world.run(|places| places * 20.0, 10, 200);
    let mut limits = Vec::new();
    for _ in 0..100 {
        world.run(idle_waiting, 200, 20);
        limits.push(world.adaptive.limit());
    }
    let all = limits.iter().filter(|limit| **limit == 20).count();
    assert!(all > 90, "{limits:?}");
}

#[test]
fn where_each_place_brings_something_all_are_used() {
    let mut world = World::new(20);
    world.run(half_as_much_from_each, 2, 100);
    world.run(half_as_much_from_each, 200, 2000);
    let mut limits = Vec::new();
    for _ in 0..100 {
        world.run(half_as_much_from_each, 200, 20);
        limits.push(world.adaptive.limit());
    }
    assert!(limits.iter().all(|limit| *limit >= 13), "{limits:?}");
}

#[test]
fn pages_that_differ_do_not_mislead_it() {
    for (law, least) in [
        (five_workers as Law, 0.9),
        (idle_waiting as Law, 0.85),
        (half_as_much_from_each as Law, 0.75),
        (swapping as Law, 0.7),
    ] {
        for seed in 1..=20 {
            let mut world = World::new(20);
            world.dice = Dice(seed);
            world.run_with_noise(law, 2, 200);
            let part = world.run_with_noise(law, 200, 5000);
            assert!(
                part >= least,
                "{part} of what would be possible: {:?}",
                world.adaptive
            );
        }
    }
}

#[test]
fn a_machine_that_others_use_too_does_not_mislead_it() {
    for seed in 1..=20 {
        let mut world = World::new(16);
        world.dice = Dice(seed);
        // 20 ms each, but the processors belong to others half of the time, for a tenth of a second or for three.
        let quiet: Law = |places| places * 50.0;
        let disturbed: Law = |places| places * 15.0;
        world.run_with_noise(quiet, 2, 200);
        let (mut places_seen, mut rounds) = (0, 0);
        for _ in 0..400 {
            let law = if world.dice.next() < 0.5 {
                quiet
            } else {
                disturbed
            };
            let until = world.now + Duration::from_secs_f64(0.1 + 2.9 * world.dice.next().powi(3));
            while world.now < until {
                world.run_with_noise(law, 200, 5);
            }
            places_seen += world.adaptive.limit();
            rounds += 1;
        }
        let mean = places_seen / rounds;
        assert!(mean >= 13, "{mean} places in the mean, seed {seed}");
    }
}

#[test]
fn it_recovers_in_a_few_windows() {
    let mut world = World::new(20);
    world.run(five_workers, 2, 100);
    world.run(five_workers, 200, 1000);
    assert!(world.adaptive.limit() < 12, "{:?}", world.adaptive);
    // The administrator has given PHP forty workers.
    let mut answers = 0;
    while world.adaptive.limit() < 20 {
        world.run(|places| places.min(40.0) * 10.0, 200, 1);
        answers += 1;
        assert!(answers < 800, "{:?}", world.adaptive);
    }
}

#[test]
fn after_an_outage_it_begins_small_and_grows_with_each_answer() {
    let mut world = World::new(20);
    world.adaptive.restart();
    assert_eq!(world.adaptive.limit(), 2);
    world.run(|places| places * 10.0, 200, 5);
    assert_eq!(world.adaptive.limit(), 7);
    world.run(|places| places * 10.0, 200, 20);
    assert_eq!(world.adaptive.limit(), 20);
    let mut single = Adaptive::new(1);
    single.restart();
    assert_eq!(single.limit(), 1);
}

#[test]
fn what_is_allowed_is_obeyed_at_once() {
    let mut adaptive = Adaptive::new(20);
    adaptive.allow(7);
    assert_eq!(adaptive.limit(), 7);
    adaptive.allow(0);
    assert_eq!(adaptive.limit(), 1, "nothing at all would never end");
    adaptive.allow(30);
    assert_eq!(adaptive.limit(), 30);
}

proptest::proptest! {
    #[test]
    fn it_keeps_within_its_bounds(
        most in 1_usize..70,
        answers in proptest::collection::vec((0_u64..100_000, proptest::bool::ANY, 0_u64..1000), 0..600),
    ) {
        let mut adaptive = Adaptive::new(most);
        let mut now = Instant::now();
        for (latency_ms, is_full, pause_ms) in answers {
            now += Duration::from_millis(pause_ms);
            adaptive.record(Duration::from_millis(latency_ms), is_full, now);
            let limit = adaptive.limit();
            proptest::prop_assert!(limit <= most && limit >= most.min(2), "{}", limit);
        }
    }
}
