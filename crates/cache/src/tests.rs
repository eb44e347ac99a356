//! Purges together with lookups, fills, joining, revalidation, sweeping, a crash and a restart, in generated interleavings.
//!
//! Actors randomly do what the callers of this crate do, with its own purge table, memory, fills and log. At each use of a
//! shared primitive (`crate::sync`) and between their steps a scheduler may switch to another actor. A history of the content
//! of each generated page (`world`) checks the laws. A seed determines everything, including the scheduling.
//!
//! Each line of the protocol has a test that fails without that line. If the line is the caller's, the test itself omits it and
//! asserts that a law is broken:
//!
//! | line | test |
//! |---|---|
//! | a reader loads the counter after the whole head | `the_counter_is_read_after_the_head` |
//! | the counter is never cached per core | `the_counter_is_never_cached` |
//! | a purged entry is never sent again, not on errors | `purged_entries_are_not_served_on_errors` |
//! | `born` is the counter before the request is sent | `born_is_read_before_sending` |
//! | retries reload `born` | `retries_reload_born` |
//! | a request that joins a fill checks for newer purges | `joining_checks_for_purges` |
//! | with newer tag purges it waits for the head | `joining_waits_for_tags` |
//! | a purged entry is fetched without conditions | `purged_entries_are_not_revalidated` |
//! | the entry that a 304 renews is compared again when the 304 is received | `a_renewed_entry_is_compared_again` |
//! | `born` of a revalidation is the counter at its start | `a_revalidation_is_born_at_its_start` |
//! | a 304 only replaces the entry for which it was requested | `a_304_replaces_no_other_entry` |
//! | a 304 keeps the old tags / adds the new ones | `a_304_keeps_the_old_tags`, `a_304_adds_the_new_tags` |
//! | purges reach markers | `purges_touch_hit_for_pass_entries` |
//! | more tags than allowed mean all | `too_many_tags_mean_all` |
//! | purges of a response count at its head and at its end | `responses_purge_with_the_head`, `responses_purge_at_the_end` |
//! | the log is durable before the response | `purges_are_durable_before_the_response` |
//! | entries of another generation are purged | `generations_count` |
//! | sweeping only removes purged entries | `sweeping_removes_purged_entries_only` |
//!
//! If the line is in this crate, these tests fail without it:
//!
//! | line | test |
//! |---|---|
//! | stored with release, loaded with acquire | `memory_order::an_entry_born_after_a_purge_sees_earlier_changes` |
//! | the tables before the counter; both in one critical section | `laws_hold_in_every_interleaving` |
//! | the loaded value is recorded, and never a later one | `laws_hold_in_every_interleaving` |
//! | a stored fill counts as compared up to `born` | `laws_hold_in_every_interleaving` |
//! | host, URL and prefix are compared before joining, tags later | `laws_hold_in_every_interleaving` |
//! | hard stays hard, in ring, tables and entries | `laws_hold_in_every_interleaving` |
//! | every purge touches `*` | `laws_hold_in_every_interleaving` |
//! | older never replaces newer; only the expected entry is replaced or removed | `laws_hold_in_every_interleaving` |
//! | numbers rise in the log as in memory | `laws_hold_in_every_interleaving` |
//! | a purge is synced before it is acknowledged; a log that cannot be written is removed | `laws_hold_in_every_interleaving` |
//! | a start replays, and lifts the counter | `laws_hold_in_every_interleaving` |
//! | limits of the tables raise a floor | `full_tables_raise_a_floor_and_lose_no_purge` |
//! | a new log has floors and a new generation | `a_lost_log_recovers_under_a_new_generation` |
//! | a truncated record is removed | `a_torn_record_is_cut_off_at_any_byte` |
//! | any other damage of the log purges all | `damage_anywhere_purges_everything` |
//! | folding keeps hard purges hard, and raises a floor | `folding_purges_the_same_and_above_the_limit_no_less` |
//! | files of other generations and rules are purged | `the_store_is_the_model` |
//!
//! `GALLEY_INTERLEAVINGS` is the number of interleavings (a long run: 100000), `GALLEY_INTERLEAVING_SEED` the first seed.

mod actors;
mod memory_order;
mod restart;
mod world;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use shuttle::scheduler::RandomScheduler;
use shuttle::thread::{JoinHandle, spawn};
use shuttle::{Config, FailurePersistence, Runner};

use self::actors::{draw, one_in};
use self::restart::{Crash, wait};
use self::world::{PAGES, World};
use crate::purge_table::PurgeTable;
use crate::sync::{point, set_points_per_switch};

/// A line of the protocol, in the caller's code, that a test omits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    CounterAfterTheHead,
    CounterNeverCached,
    NoPurgedEntryOnErrors,
    BornBeforeSending,
    RetriesReloadBorn,
    JoiningChecksForPurges,
    JoiningWaitsForTags,
    PurgedIsFetchedWithoutConditions,
    ComparedAfterThe304,
    RevalidationIsBornAtItsStart,
    OnlyTheRequestedEntry,
    TagsOfTheOld,
    TagsOfTheNew,
    MarkersAreEntries,
    TooManyTagsMeanAll,
    PurgesWithTheHead,
    PurgesAtTheEnd,
    DurableBeforeTheResponse,
    GenerationsCount,
    SweepingRemovesOnlyPurgedEntries,
}

/// The maximum number of each kind of actor.
#[derive(Clone, Copy)]
struct Cast {
    visitors: usize,
    editors: usize,
    revalidators: usize,
    posts: usize,
    sweepers: usize,
    has_log: bool,
}

const VISITORS: Cast = Cast {
    visitors: 3,
    editors: 2,
    revalidators: 0,
    posts: 0,
    sweepers: 0,
    has_log: false,
};
const REVALIDATORS: Cast = Cast {
    visitors: 2,
    revalidators: 2,
    ..VISITORS
};
const POSTS: Cast = Cast {
    editors: 0,
    posts: 2,
    ..VISITORS
};
const SWEEPERS: Cast = Cast {
    sweepers: 2,
    ..VISITORS
};
const CRASH: Cast = Cast {
    visitors: 2,
    has_log: true,
    ..VISITORS
};
const ALL: Cast = Cast {
    revalidators: 1,
    posts: 1,
    sweepers: 1,
    has_log: true,
    ..VISITORS
};
const CASTS: [Cast; 6] = [VISITORS, REVALIDATORS, POSTS, SWEEPERS, CRASH, ALL];

/// The result of one interleaving.
#[derive(Default)]
struct Outcome {
    served: usize,
    broken: Vec<String>,
}

/// Runs the interleaving of a seed.
fn play(seed: u64, cast: Cast, without: Option<Without>) -> Outcome {
    struct PrintSeedOnPanic(u64);
    impl Drop for PrintSeedOnPanic {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("GALLEY_INTERLEAVING_SEED={}", self.0);
            }
        }
    }
    let _print_seed = PrintSeedOnPanic(seed);
    let outcome = Arc::new(Mutex::new(Outcome::default()));
    let sink = Arc::clone(&outcome);
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    let scheduler = RandomScheduler::new_from_seed(seed, 1);
    Runner::new(scheduler, config).run(move || {
        *sink.lock().unwrap() = perform(cast, without);
    });
    std::mem::take(&mut *outcome.lock().unwrap())
}

fn perform(cast: Cast, without: Option<Without>) -> Outcome {
    set_points_per_switch([1, 3, 8][draw(3)]);
    let ring = [0, 1, 64][draw(3)];
    let has_ended = Arc::new(AtomicBool::new(false));
    let mut log_side = None;
    let world = if cast.has_log {
        let (directory, opened, writer, table) = restart::open(ring);
        let world = Arc::new(World::new(without, table, Some(opened.log)));
        let writer = {
            let has_ended = Arc::clone(&has_ended);
            spawn(move || restart::write(writer, &has_ended))
        };
        let disk = directory.clone();
        let fail_for_a_while = spawn(move || restart::fail_for_a_while(&disk));
        let crash = {
            let (world, directory) = (Arc::clone(&world), directory.clone());
            spawn(move || {
                for _ in 0..draw(6) {
                    wait();
                }
                Crash::now(&world, &directory)
            })
        };
        log_side = Some((writer, fail_for_a_while, crash));
        world
    } else {
        Arc::new(World::new(without, PurgeTable::with_ring(ring), None))
    };
    for actor in actors(&world, cast) {
        actor.join().unwrap();
    }
    if let Some((writer, fail_for_a_while, crash)) = log_side {
        let crash = crash.join().unwrap();
        fail_for_a_while.join().unwrap();
        has_ended.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        crash.restart(&world);
    }
    world.check_nothing_lost();
    let mut history = world.history();
    Outcome {
        served: history.served,
        broken: std::mem::take(&mut history.broken),
    }
}

fn actors(world: &Arc<World>, cast: Cast) -> Vec<JoinHandle<()>> {
    let pages = 1 + draw(PAGES.len());
    let offset = draw(PAGES.len());
    let a_page = move || (draw(pages) + offset) % PAGES.len();
    let mut actors = Vec::new();
    for _ in 0..cast.visitors {
        actors.push(repeat(world, 4, move |world, core| {
            actors::visit(world, a_page(), core);
        }));
    }
    for _ in 0..cast.editors {
        actors.push(repeat(world, 2, |world, _| actors::edit(world)));
    }
    for _ in 0..cast.revalidators {
        actors.push(repeat(world, 3, move |world, _| {
            actors::revalidate(world, a_page());
        }));
    }
    for _ in 0..cast.posts {
        actors.push(repeat(world, 1, |world, _| actors::post(world)));
    }
    for _ in 0..cast.sweepers {
        actors.push(repeat(world, 3, |world, _| actors::sweep(world)));
    }
    actors
}

/// A thread's cached entry and validity, used only by the test that caching them is wrong.
type Core = Option<(Arc<crate::entry::Entry>, crate::purge_table::Validity)>;

fn repeat(
    world: &Arc<World>,
    times: usize,
    act: impl Fn(&World, &mut Core) + Send + 'static,
) -> JoinHandle<()> {
    let world = Arc::clone(world);
    spawn(move || {
        let mut core = None;
        for _ in 0..=draw(times) {
            if one_in(2) {
                wait();
            }
            act(&world, &mut core);
            point();
        }
    })
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(default, |text| {
        text.parse().unwrap_or_else(|_| panic!("{name}: `{text}`"))
    })
}

fn seeds(default: u64) -> impl Iterator<Item = u64> {
    let first = setting("GALLEY_INTERLEAVING_SEED", 0);
    let many = setting("GALLEY_INTERLEAVINGS", default);
    first..first.saturating_add(many)
}

#[test]
fn laws_hold_in_every_interleaving() {
    let mut served = 0;
    for seed in seeds(6_000) {
        let cast = CASTS[usize::try_from(seed).unwrap() % CASTS.len()];
        let outcome = play(seed, cast, None);
        assert!(
            outcome.broken.is_empty(),
            "GALLEY_INTERLEAVING_SEED={seed}: {:#?}",
            outcome.broken
        );
        served += outcome.served;
    }
    assert!(served > 0, "somebody was served");
}

/// Asserts that omitting a line breaks a law.
fn assert_needed(without: Without, cast: Cast) {
    let found = (0..ENOUGH).find(|&seed| !play(seed, cast, Some(without)).broken.is_empty());
    let Some(seed) = found else {
        panic!("without {without:?} all laws held in {ENOUGH} interleavings");
    };
    println!("{without:?}: seed {seed}");
}

#[test]
fn the_counter_is_read_after_the_head() {
    assert_needed(Without::CounterAfterTheHead, VISITORS);
}

#[test]
fn the_counter_is_never_cached() {
    assert_needed(Without::CounterNeverCached, VISITORS);
}

#[test]
fn purged_entries_are_not_served_on_errors() {
    assert_needed(Without::NoPurgedEntryOnErrors, VISITORS);
}

#[test]
fn born_is_read_before_sending() {
    assert_needed(Without::BornBeforeSending, VISITORS);
}

#[test]
fn retries_reload_born() {
    assert_needed(Without::RetriesReloadBorn, VISITORS);
}

#[test]
fn joining_checks_for_purges() {
    assert_needed(Without::JoiningChecksForPurges, VISITORS);
}

#[test]
fn joining_waits_for_tags() {
    assert_needed(Without::JoiningWaitsForTags, VISITORS);
}

#[test]
fn purged_entries_are_not_revalidated() {
    assert_needed(Without::PurgedIsFetchedWithoutConditions, REVALIDATORS);
}

#[test]
fn a_renewed_entry_is_compared_again() {
    assert_needed(Without::ComparedAfterThe304, REVALIDATORS);
}

#[test]
fn a_revalidation_is_born_at_its_start() {
    assert_needed(Without::RevalidationIsBornAtItsStart, REVALIDATORS);
}

#[test]
fn a_304_replaces_no_other_entry() {
    assert_needed(Without::OnlyTheRequestedEntry, REVALIDATORS);
}

#[test]
fn a_304_keeps_the_old_tags() {
    assert_needed(Without::TagsOfTheOld, REVALIDATORS);
}

#[test]
fn a_304_adds_the_new_tags() {
    assert_needed(Without::TagsOfTheNew, REVALIDATORS);
}

#[test]
fn purges_touch_hit_for_pass_entries() {
    assert_needed(Without::MarkersAreEntries, VISITORS);
}

#[test]
fn too_many_tags_mean_all() {
    assert_needed(Without::TooManyTagsMeanAll, VISITORS);
}

#[test]
fn responses_purge_with_the_head() {
    assert_needed(Without::PurgesWithTheHead, POSTS);
}

#[test]
fn responses_purge_at_the_end() {
    assert_needed(Without::PurgesAtTheEnd, POSTS);
}

#[test]
fn purges_are_durable_before_the_response() {
    assert_needed(Without::DurableBeforeTheResponse, CRASH);
}

#[test]
fn generations_count() {
    assert_needed(Without::GenerationsCount, CRASH);
}

#[test]
fn sweeping_removes_purged_entries_only() {
    assert_needed(Without::SweepingRemovesOnlyPurgedEntries, SWEEPERS);
}

/// The number of seeds to try. Without a line, a law breaks long before.
const ENOUGH: u64 = 20_000;
/// Compiling a pattern, unoptimized, needs the most stack.
const STACK_BYTES: usize = 512 << 10;
