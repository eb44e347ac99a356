//! One test for each guarantee of the log. `bytes` tests the format, `crash` tests crashes at every operation.

#[path = "../../tests/blocking/mod.rs"]
mod blocking;
pub(crate) mod by_hand;
mod bytes;
mod crash;
mod sim;

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use galley_policy::purge::PurgePattern;

use self::blocking::Wait as _;
use self::sim::{Left, Op, Sim};
use super::limits::{LogLimits, NAME};
use super::scan::scan;
use super::*;
use crate::entry::Entry;
use crate::purge_table::{PurgeTable, Validity};
use crate::testing::entry;
use galley_policy::purge::Purge;
use galley_policy::purge::Scope;
use galley_policy::purge::Strength;
use std::time::Duration;
use std::time::SystemTime;

const SITE: &str = "a.test";

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn hard(scope: Scope) -> Purge {
    Purge {
        scope,
        strength: Strength::Hard,
    }
}

fn tag(name: &str) -> Purge {
    hard(Scope::Tag(name.to_owned()))
}

fn limits() -> LogLimits {
    LogLimits {
        retry: Duration::ZERO,
        ..LogLimits::default()
    }
}

/// The number of the newest hard purge of the whole site, including purges that were folded into one; 0: none.
fn floor(opened: &OpenedLog, site: &str) -> u64 {
    let is_floor = |logged: &&LoggedPurge| logged.site == site && logged.purge == hard(Scope::Site);
    let newest = opened.purges.iter().rfind(is_floor);
    newest.map_or(0, |logged| logged.number)
}

/// Limits with which a lost log is not created again during the test.
fn without_retry() -> LogLimits {
    LogLimits {
        retry: Duration::from_secs(3_600),
        ..LogLimits::default()
    }
}

fn open(sim: &Sim, limits: LogLimits) -> (OpenedLog, PurgeTable) {
    let opened = PurgeLog::start(Box::new(sim.clone()), limits, now()).unwrap();
    let purge_table = PurgeTable::new();
    opened.replay(SITE, &purge_table);
    (opened, purge_table)
}

fn publish(log: &PurgeLog, purge_table: &PurgeTable, purge: &Purge) -> Published {
    log.publish(SITE, purge_table, purge, now())
}

fn page(tags: &[&str], born: u64) -> Entry {
    entry(SITE, "/p", tags, born)
}

fn restart(outcome: &Durability) -> RestartEffect {
    match outcome {
        Durability::Lost(loss) => loss.restart,
        Durability::Kept => panic!("kept"),
    }
}

fn until(condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "waited too long"
        );
        std::thread::yield_now();
    }
}

/// The outcome; `None`: not written yet.
fn outcome(ticket: &mut DurableTicket) -> Option<Durability> {
    match Pin::new(ticket).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

#[test]
fn a_purge_is_in_force_at_once_and_acknowledged_after_the_fdatasync() {
    let sim = Sim::default();
    let (opened, purge_table) = open(&sim, limits());
    let old = page(&["t"], purge_table.current());
    sim.close(true);
    let mut published = publish(&opened.log, &purge_table, &tag("t"));
    sim.wait_for_sync();
    assert_eq!(outcome(&mut published.ticket), None);
    assert_eq!(purge_table.validity(&old), Validity::Purged);
    sim.close(false);
    assert_eq!(published.ticket.wait(), Durability::Kept);
    let (reopened, _) = open(&sim.reboot(Left::SYNCED), limits());
    assert_eq!(reopened.generation, opened.generation);
    assert_eq!(reopened.purges.len(), 1);
}

#[test]
fn purges_that_arrive_together_share_one_fdatasync() {
    const CALLERS: usize = 100;
    let sim = Sim::default();
    let (opened, purge_table) = open(&sim, limits());
    let before = sim.synced();
    sim.close(true);
    let first = publish(&opened.log, &purge_table, &tag("first"));
    sim.wait_for_sync();
    let all_published = Barrier::new(CALLERS);
    std::thread::scope(|scope| {
        for caller in 1..CALLERS {
            let (log, purge_table, sim, all_published) =
                (&opened.log, &purge_table, &sim, &all_published);
            scope.spawn(move || {
                let published = publish(log, purge_table, &tag(&format!("t{caller}")));
                all_published.wait();
                assert_eq!(published.ticket.wait(), Durability::Kept);
                let durable = scan(&sim.durable(NAME).unwrap()).unwrap();
                assert!(
                    durable
                        .purges
                        .iter()
                        .any(|logged| logged.number == published.number),
                    "on the disk when its ticket says so"
                );
            });
        }
        all_published.wait();
        sim.close(false);
    });
    assert_eq!(first.ticket.wait(), Durability::Kept);
    assert_eq!(
        sim.synced() - before,
        2,
        "one for the first, one for all others"
    );
}

#[test]
fn all_scopes_survive_a_restart() {
    let sim = Sim::default();
    let (opened, purge_table) = open(&sim, limits());
    assert_eq!(opened.found, LogContents::Nothing);
    let born = purge_table.current();
    let url = |host: Option<&str>, query: Option<&[u8]>| Scope::Url {
        host: host.map(str::to_owned),
        path: b"/p".to_vec(),
        query: query.map(<[u8]>::to_vec),
    };
    let scopes = [
        Scope::Host("b.test".into()),
        url(Some("b.test"), Some(b"x=1")),
        url(None, Some(b"")),
        url(Some(""), None),
        url(None, None),
        Scope::Prefix(b"/a\xff".to_vec()),
        Scope::Tag("\u{e4}".into()),
        Scope::Pattern(PurgePattern::parse("^/x").unwrap()),
        Scope::Site,
    ];
    let mut expected = Vec::new();
    for (scope, strength) in scopes
        .into_iter()
        .zip([Strength::Hard, Strength::Soft].into_iter().cycle())
    {
        let purge = Purge { scope, strength };
        let published = publish(&opened.log, &purge_table, &purge);
        expected.push(LoggedPurge {
            site: SITE.into(),
            number: published.number,
            at: now(),
            purge,
        });
        assert_eq!(published.ticket.wait(), Durability::Kept);
    }
    drop(opened.log);
    let read = scan(&sim.durable(NAME).unwrap()).unwrap();
    assert_eq!(read.purges, expected);
    let (reopened, purge_table) = open(&sim, limits());
    assert_eq!(
        (reopened.found.clone(), reopened.generation),
        (LogContents::Whole, opened.generation)
    );
    assert_eq!(
        floor(&reopened, SITE),
        expected[8].number,
        "the last one was for the whole site, and hard"
    );
    assert_eq!(floor(&reopened, "other"), 0);
    assert_eq!(purge_table.validity(&page(&[], born)), Validity::Purged);
    assert_eq!(
        purge_table.validity(&page(&[], purge_table.current())),
        Validity::Valid
    );
}

#[test]
fn each_site_has_a_separate_counter() {
    let sim = Sim::default();
    let (opened, a) = open(&sim, limits());
    let b = PurgeTable::new();
    opened.replay("b.test", &b);
    let born = opened.start;
    drop(publish(&opened.log, &a, &tag("t")));
    drop(publish(&opened.log, &a, &tag("u")));
    let last = opened.log.publish("b.test", &b, &tag("t"), now());
    assert_eq!((last.number, a.current()), (born + 1, born + 2));
    assert_eq!(last.ticket.wait(), Durability::Kept);
    let (reopened, a) = open(&sim.reboot(Left::SYNCED), limits());
    let b = PurgeTable::new();
    reopened.replay("b.test", &b);
    assert_eq!(a.validity(&page(&["u"], born)), Validity::Purged);
    assert_eq!(b.validity(&page(&["u"], born)), Validity::Valid);
    assert_eq!(b.validity(&page(&["t"], born)), Validity::Purged);
}

/// A purge got a number, an entry was stored under it, and neither is in the log on the disk.
#[test]
fn numbers_missing_in_the_log_are_not_assigned_again() {
    let sim = Sim::default();
    let (opened, purge_table) = open(&sim, limits());
    sim.close(true);
    for n in 0..50 {
        drop(publish(&opened.log, &purge_table, &tag(&format!("t{n}"))).ticket);
    }
    let born = purge_table.current();
    let (reopened, purge_table) = open(&sim.reboot(Left::SYNCED), limits());
    assert_eq!(reopened.generation, opened.generation);
    let stored = page(&["t"], born);
    assert_eq!(purge_table.validity(&stored), Validity::Valid);
    drop(publish(&reopened.log, &purge_table, &tag("t")).ticket);
    assert_eq!(purge_table.validity(&stored), Validity::Purged);
    sim.close(false);
}

#[test]
fn a_full_disk_delays_no_purge_and_is_reported() {
    let sim = Sim::default();
    let (opened, purge_table) = open(&sim, without_retry());
    let (old, born) = (page(&["t"], purge_table.current()), purge_table.current());
    sim.fail(&[Op::Write]);
    let published = publish(&opened.log, &purge_table, &tag("t"));
    let outcome = published.ticket.wait();
    assert_eq!(restart(&outcome), RestartEffect::PurgesAll);
    assert_eq!(purge_table.validity(&old), Validity::Purged, "obeyed");
    assert_eq!(opened.log.durability(), outcome);
    assert!(!sim.has(NAME), "taken away");
    for left in [Left::ALL, Left::SYNCED] {
        let (reopened, _) = open(&sim.reboot(left), limits());
        assert_eq!(reopened.found, LogContents::Nothing);
        assert_ne!(
            reopened.generation, opened.generation,
            "everything is purged"
        );
    }
    // Not tried again during the pause.
    sim.fail(&[]);
    assert_ne!(
        publish(&opened.log, &purge_table, &tag("u")).ticket.wait(),
        Durability::Kept
    );
    assert_eq!(born, old.born);
}

#[test]
fn a_lost_log_recovers_under_a_new_generation() {
    let sim = Sim::default();
    let (opened, purge_table) = open(&sim, limits());
    let born = purge_table.current();
    sim.fail(&[Op::Create, Op::Write]);
    let lost = publish(&opened.log, &purge_table, &tag("lost"));
    assert_eq!(restart(&lost.ticket.wait()), RestartEffect::PurgesAll);
    sim.fail(&[]);
    // The writer retries without a new purge.
    until(|| opened.log.durability() == Durability::Kept);
    let generation = opened.log.generation();
    assert_ne!(generation, opened.generation);
    let kept = publish(&opened.log, &purge_table, &tag("kept"));
    assert_eq!(kept.ticket.wait(), Durability::Kept);
    // A fill that began before the loss and was stored after the recovery has the new generation.
    let (raced, young) = (
        page(&["lost"], born),
        page(&["lost"], purge_table.current()),
    );
    let (reopened, purge_table) = open(&sim.reboot(Left::SYNCED), limits());
    assert_eq!(reopened.generation, generation);
    assert_eq!(
        purge_table.validity(&raced),
        Validity::Purged,
        "by the floor"
    );
    assert_eq!(purge_table.validity(&young), Validity::Valid);
}

/// After a failed fdatasync the system may have dropped the bytes and report success the next time.
#[test]
fn a_file_whose_fdatasync_failed_is_never_used_again() {
    let sim = Sim::default();
    let (opened, purge_table) = open(&sim, limits());
    sim.fail(&[Op::SyncFile]);
    let lost = publish(&opened.log, &purge_table, &tag("lost"))
        .ticket
        .wait();
    assert_eq!(restart(&lost), RestartEffect::PurgesAll);
    sim.fail(&[]);
    assert_eq!(
        publish(&opened.log, &purge_table, &tag("kept"))
            .ticket
            .wait(),
        Durability::Kept
    );
    assert_ne!(opened.log.generation(), opened.generation);
    let (reopened, _) = open(&sim.reboot(Left::SYNCED), limits());
    assert_eq!(reopened.generation, opened.log.generation());
}

#[test]
fn a_ticket_tells_the_effect_of_a_restart() {
    let table: &[(&[Op], RestartEffect)] = &[
        (&[Op::Write], RestartEffect::PurgesAll),
        (&[Op::Write, Op::Remove], RestartEffect::PurgesAll),
        (&[Op::Write, Op::Empty], RestartEffect::PurgesAll),
        (&[Op::Write, Op::SyncNames], RestartEffect::PurgesAll),
        (
            &[Op::Write, Op::Empty, Op::SyncNames],
            RestartEffect::MayForget,
        ),
        (
            &[Op::Write, Op::Empty, Op::Remove],
            RestartEffect::MayForget,
        ),
    ];
    for &(faults, expected) in table {
        let sim = Sim::default();
        let (opened, purge_table) = open(&sim, without_retry());
        sim.fail(faults);
        let outcome = publish(&opened.log, &purge_table, &tag("t")).ticket.wait();
        assert_eq!(restart(&outcome), expected, "{faults:?}");
        for left in Left::every() {
            let (reopened, _) = open(&sim.reboot(left), limits());
            let forgets = reopened.generation == opened.generation;
            assert!(
                !forgets || expected == RestartEffect::MayForget,
                "{faults:?} {left:?}"
            );
        }
    }
}

#[test]
fn a_read_only_log_is_replayed_and_removed() {
    let sim = Sim::default();
    let (opened, purge_table) = open(&sim, limits());
    let old = page(&["t"], purge_table.current());
    assert_eq!(
        publish(&opened.log, &purge_table, &tag("t")).ticket.wait(),
        Durability::Kept
    );
    let sim = sim.reboot(Left::SYNCED);
    sim.fail(&[Op::Create]);
    let (reopened, purge_table) = open(&sim, without_retry());
    assert_eq!(reopened.generation, opened.generation);
    let replayed = page(&["t"], old.born);
    assert_eq!(purge_table.validity(&replayed), Validity::Purged);
    assert_eq!(
        restart(&reopened.log.durability()),
        RestartEffect::PurgesAll
    );
    let lost = publish(&reopened.log, &purge_table, &tag("u"))
        .ticket
        .wait();
    assert_eq!(restart(&lost), RestartEffect::PurgesAll);
    let (third, _) = open(&sim.reboot(Left::SYNCED), limits());
    assert_ne!(third.generation, opened.generation);
}

/// The start record of the second run is not on the disk, and the log of the first cannot be removed. The third run begins at
/// the same number as the second, and assigns its numbers again.
#[test]
fn pages_of_a_run_without_a_log_are_purged_in_the_next() {
    let sim = Sim::default();
    let (opened, _) = open(&sim, limits());
    drop(opened.log);
    sim.fail(&[Op::Create, Op::Remove, Op::Empty]);
    let (untraced, purge_table) = open(&sim, without_retry());
    assert_eq!(
        restart(&untraced.log.durability()),
        RestartEffect::MayForget
    );
    let first = publish(&untraced.log, &purge_table, &tag("t")).number;
    let (next, purge_table) = open(&sim.reboot(Left::ALL), limits());
    assert_eq!(next.generation, opened.generation);
    assert_eq!(publish(&next.log, &purge_table, &tag("t")).number, first);
    assert_ne!(untraced.generation, next.generation);
    assert_ne!(untraced.log.generation(), next.generation);
}

/// The second run removes the log but cannot make that durable. The third finds none, and must not rely on that.
#[test]
fn a_log_that_may_reappear_after_a_power_failure_does_not_count_as_removed() {
    let sim = Sim::default();
    let (opened, _) = open(&sim, limits());
    drop(opened.log);
    sim.fail(&[Op::SyncNames]);
    let (second, _) = open(&sim, without_retry());
    assert_eq!(restart(&second.log.durability()), RestartEffect::MayForget);
    drop(second.log);
    assert!(!sim.has(NAME));
    sim.fail(&[Op::SyncNames, Op::Create]);
    let (third, purge_table) = open(&sim, limits());
    let outcome = publish(&third.log, &purge_table, &tag("t")).ticket.wait();
    assert_eq!(restart(&outcome), RestartEffect::MayForget);
    let (next, _) = open(&sim.reboot(Left::SYNCED), limits());
    assert_eq!(next.generation, opened.generation, "it came back");
    // Once names are durable again, the log cannot reappear.
    sim.fail(&[Op::Create]);
    let outcome = publish(&third.log, &purge_table, &tag("t")).ticket.wait();
    assert_eq!(restart(&outcome), RestartEffect::PurgesAll);
    let (next, _) = open(&sim.reboot(Left::SYNCED), limits());
    assert_ne!(next.generation, opened.generation);
}

/// The new log has the name now, the old one has it after a power failure: truncating the new one is not enough.
#[test]
fn truncating_the_file_is_not_enough_while_names_are_in_doubt() {
    let open_unsynced = |sim: &Sim| {
        let (opened, _) = open(sim, limits());
        drop(opened.log);
        sim.fail(&[Op::SyncNames, Op::Remove, Op::Empty]);
        drop(open(sim, without_retry()));
        sim.fail(&[Op::SyncNames, Op::Remove, Op::Create]);
        (open(sim, without_retry()).0, opened.generation)
    };
    let recover_unsynced = |sim: &Sim| {
        // The test runs the writer step by step: a thread would retry in between, with faults of both kinds.
        let (opened, mut writer) = by_hand::open(sim, limits());
        let purge_table = PurgeTable::new();
        opened.replay(SITE, &purge_table);
        let mut purge = || {
            let mut ticket = publish(&opened.log, &purge_table, &tag("t")).ticket;
            writer.write_batch();
            outcome(&mut ticket).unwrap()
        };
        sim.fail(&[Op::Write, Op::Remove, Op::Empty]);
        assert_eq!(restart(&purge()), RestartEffect::MayForget);
        sim.fail(&[Op::SyncNames, Op::Remove]);
        assert_ne!(purge(), Durability::Kept);
        let generation = opened.generation;
        (opened, generation)
    };
    let comes_back = |sim: &Sim, (lost, generation): (OpenedLog, Generation)| {
        assert_eq!(restart(&lost.log.durability()), RestartEffect::MayForget);
        let (next, _) = open(&sim.reboot(Left::SYNCED), limits());
        assert_eq!(next.generation, generation);
    };
    let sim = Sim::default();
    comes_back(&sim, open_unsynced(&sim));
    let sim = Sim::default();
    comes_back(&sim, recover_unsynced(&sim));
}

#[test]
fn an_overflowing_queue_records_whole_site_purges() {
    let sim = Sim::default();
    let small_limits = LogLimits {
        queue_bytes: 200,
        ..limits()
    };
    let (opened, purge_table) = open(&sim, small_limits);
    let born = purge_table.current();
    sim.close(true);
    drop(publish(&opened.log, &purge_table, &tag("first")).ticket);
    sim.wait_for_sync();
    let tickets =
        (0..100).map(|n| publish(&opened.log, &purge_table, &tag(&format!("t{n}"))).ticket);
    let tickets: Vec<DurableTicket> = tickets.collect();
    sim.close(false);
    assert!(
        tickets
            .into_iter()
            .all(|ticket| ticket.wait() == Durability::Kept)
    );
    let last = purge_table.current();
    let (reopened, purge_table) = open(&sim.reboot(Left::SYNCED), limits());
    assert_eq!((floor(&reopened, SITE), reopened.purges.len()), (last, 1));
    assert_eq!(purge_table.validity(&page(&[], born)), Validity::Purged);
    assert_eq!(purge_table.validity(&page(&[], last)), Validity::Valid);
}

/// While a batch is being written, another site fills its part of the queue, and purges itself again and again.
#[test]
fn a_site_that_floods_the_queue_costs_another_one_nothing() {
    let sim = Sim::default();
    let (opened, purge_table) = open(&sim, limits());
    let other = PurgeTable::new();
    opened.replay("b.test", &other);
    let born = purge_table.current();
    sim.close(true);
    drop(publish(&opened.log, &purge_table, &tag("first")).ticket);
    sim.wait_for_sync();
    for n in 0..20_000 {
        let purge = match n {
            0..10_000 => tag(&format!("{}{n}", "t".repeat(1_000))),
            _ => hard(Scope::Site),
        };
        drop(publish(&opened.log, &purge_table, &purge).ticket);
    }
    let last = purge_table.current();
    let ticket = opened
        .log
        .publish("b.test", &other, &tag("exact"), now())
        .ticket;
    sim.close(false);
    assert_eq!(ticket.wait(), Durability::Kept);
    let length = sim.durable(NAME).unwrap().len();
    assert!(length < 300_000, "{length}");
    let (reopened, purge_table) = open(&sim.reboot(Left::SYNCED), limits());
    assert_eq!(floor(&reopened, SITE), last);
    assert_eq!(purge_table.validity(&page(&[], born)), Validity::Purged);
    assert_eq!(floor(&reopened, "b.test"), 0);
    let logged = reopened.purges.iter().find(|one| one.site == "b.test");
    assert_eq!(logged.map(|one| &one.purge), Some(&tag("exact")));
}

#[test]
fn compaction_keeps_the_file_small_and_loses_no_purge() {
    let sim = Sim::default();
    let small_limits = LogLimits {
        file_bytes: 2_000,
        records: 10,
        ..limits()
    };
    let (opened, purge_table) = open(&sim, small_limits);
    let born = purge_table.current();
    for n in 0..500 {
        let purge = tag(&format!("t{}", n % 7));
        assert_eq!(
            publish(&opened.log, &purge_table, &purge).ticket.wait(),
            Durability::Kept
        );
        assert!(sim.durable(NAME).unwrap().len() < 3_000);
    }
    let sim = sim.reboot(Left::SYNCED);
    let (reopened, purge_table) = open(&sim, small_limits);
    assert_eq!(reopened.generation, opened.generation);
    assert_eq!(floor(&reopened, SITE), 0, "seven tags are kept exactly");
    for n in 0..7 {
        assert_eq!(
            purge_table.validity(&page(&[&format!("t{n}")], born)),
            Validity::Purged
        );
    }
    assert_eq!(purge_table.validity(&page(&["u"], born)), Validity::Valid);
    for n in 0..50 {
        let purge = tag(&format!("many{n}"));
        assert_eq!(
            publish(&reopened.log, &purge_table, &purge).ticket.wait(),
            Durability::Kept
        );
    }
    let (last, purge_table) = open(&sim.reboot(Left::SYNCED), small_limits);
    assert!(last.purges.len() <= 10 && floor(&last, SITE) > born);
    assert_eq!(
        purge_table.validity(&page(&["u"], born)),
        Validity::Purged,
        "below the floor"
    );
    assert_eq!(
        purge_table.validity(&page(&["u"], last.start)),
        Validity::Valid
    );
}

/// If a compaction fails, the old file stays, and later purges are durable.
#[test]
fn a_compaction_that_fails_changes_nothing() {
    let sim = Sim::default();
    let small_limits = LogLimits {
        file_bytes: 500,
        records: 1_000,
        ..without_retry()
    };
    let (opened, purge_table) = open(&sim, small_limits);
    sim.fail(&[Op::Create]);
    for n in 0..50 {
        let purge = tag(&format!("t{}", n % 3));
        assert_eq!(
            publish(&opened.log, &purge_table, &purge).ticket.wait(),
            Durability::Kept
        );
    }
    assert!(sim.durable(NAME).unwrap().len() > 3_000);
    assert_eq!(opened.log.generation(), opened.generation);
    // When the compaction gets that far, the name may be in doubt: then the log is lost, not written.
    sim.fail(&[Op::SyncNames]);
    let outcomes = (0..200).map(|n| {
        let purge = tag(&format!("t{}", n % 3));
        publish(&opened.log, &purge_table, &purge).ticket.wait()
    });
    let lost = outcomes
        .into_iter()
        .find(|outcome| *outcome != Durability::Kept);
    assert!(lost.is_some());
}

/// A damaged file, or a restored older one.
#[test]
fn compaction_removes_a_damaged_or_older_file() {
    for damage in [1, 0] {
        let sim = Sim::default();
        let small_limits = LogLimits {
            file_bytes: 300,
            ..without_retry()
        };
        let (opened, purge_table) = open(&sim, small_limits);
        let mut bytes = sim.durable(NAME).unwrap();
        bytes[60] ^= damage;
        sim.put(NAME, &bytes);
        let mut purges = std::iter::repeat_with(|| publish(&opened.log, &purge_table, &tag("t")));
        let mut outcomes = purges.by_ref().take(100).map(|purge| purge.ticket.wait());
        assert!(outcomes.any(|outcome| outcome != Durability::Kept));
        let (reopened, _) = open(&sim.reboot(Left::ALL), limits());
        assert_ne!(reopened.generation, opened.generation);
    }
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_ticket_can_be_awaited_without_a_thread() {
    let sim = Sim::default();
    let (opened, purge_table) = open(&sim, limits());
    sim.close(true);
    let mut ticket = publish(&opened.log, &purge_table, &tag("t")).ticket;
    let dropped = publish(&opened.log, &purge_table, &tag("u")).ticket;
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let mut cx = Context::from_waker(&waker);
    let mut poll = || std::pin::Pin::new(&mut ticket).poll(&mut cx);
    assert_eq!(poll(), Poll::Pending);
    assert_eq!(poll(), Poll::Pending);
    drop(dropped);
    sim.close(false);
    until(|| count.0.load(Ordering::SeqCst) > 0);
    assert_eq!(poll(), Poll::Ready(Durability::Kept));
    assert_eq!(count.0.load(Ordering::SeqCst), 1, "woken once");
    drop(opened.log);
    assert_eq!(
        scan(&sim.durable(NAME).unwrap()).unwrap().purges.len(),
        2,
        "a dropped ticket drops no purge"
    );
}

#[test]
fn closing_writes_the_queue() {
    let sim = Sim::default();
    let (opened, purge_table) = open(&sim, limits());
    sim.close(true);
    let first = publish(&opened.log, &purge_table, &tag("t")).ticket;
    sim.wait_for_sync();
    let second = publish(&opened.log, &purge_table, &tag("u")).ticket;
    std::thread::scope(|scope| {
        let log = opened.log;
        scope.spawn(move || drop(log));
        sim.close(false);
    });
    assert_eq!(
        (first.wait(), second.wait()),
        (Durability::Kept, Durability::Kept)
    );
    assert_eq!(scan(&sim.durable(NAME).unwrap()).unwrap().purges.len(), 2);
}

#[test]
fn tickets_fail_when_the_writer_panics() {
    let sim = Sim::default();
    let (opened, purge_table) = open(&sim, limits());
    sim.panic_from_now();
    assert_ne!(
        publish(&opened.log, &purge_table, &tag("t")).ticket.wait(),
        Durability::Kept
    );
    until(|| opened.log.durability() != Durability::Kept);
    let outcome = publish(&opened.log, &purge_table, &tag("u")).ticket.wait();
    assert_eq!(restart(&outcome), RestartEffect::PurgesAll);
    assert!(!sim.has(NAME));
}
