//! Power failures between any two operations: afterwards, every acknowledged purge is still in effect.
//!
//! A scenario publishes purges and stores pages. At its end, or after a power failure, the log is opened again on each possible
//! state of the disk, and every stored page is compared with the acknowledged purges.

use galley_policy::purge::PurgePattern;
use proptest::prelude::*;

use super::*;
use crate::log::limits::LogLimits;
use crate::purge_table::PurgeTable;
use galley_policy::purge::Purge;
use galley_policy::purge::Scope;
use galley_policy::purge::Strength;

const SITES: [&str; 2] = ["a.test", "b.test"];

#[derive(Clone, Debug)]
enum Step {
    /// Publishes a purge on the site with this index, and waits for the ticket or not.
    Publish(usize, Purge, bool),
    /// Generates and stores a page of that site with this tag.
    Store(usize, &'static str),
    /// Closes and opens the log.
    Restart,
    /// Makes these operations fail from now on.
    Fail(Vec<Op>),
}

/// A page on the disk.
struct Stored {
    generation: Generation,
    run: usize,
    site: usize,
    tag: &'static str,
    born: u64,
}

/// The result of a scenario.
struct CrashScenario {
    sim: Sim,
    limits: LogLimits,
    stored: Vec<Stored>,
    /// Purges that were acknowledged without a warning, or with the guarantee to purge everything.
    acknowledged: Vec<PublishedPurge>,
    published: Vec<PublishedPurge>,
}

/// A published purge. Numbers of different runs may belong to different generations.
#[derive(Clone)]
struct PublishedPurge {
    run: usize,
    site: usize,
    number: u64,
    purge: Purge,
}

/// One process.
struct Run {
    opened: OpenedLog,
    table: [PurgeTable; 2],
}

impl Run {
    fn new(sim: &Sim, limits: LogLimits) -> Self {
        let opened = PurgeLog::start(Box::new(sim.clone()), limits, now()).unwrap();
        let table = SITES.map(|site| {
            let table = PurgeTable::new();
            opened.replay(site, &table);
            table
        });
        Self { opened, table }
    }
}

fn run_scenario(steps: &[Step], limits: LogLimits, ends_at: usize) -> CrashScenario {
    let mut scenario = CrashScenario {
        sim: Sim::default().ends_at(ends_at),
        limits,
        stored: Vec::new(),
        acknowledged: Vec::new(),
        published: Vec::new(),
    };
    let (mut run, mut runs) = (Run::new(&scenario.sim, limits), 0);
    for step in steps {
        if scenario.sim.is_out() {
            break;
        }
        match step {
            Step::Publish(site, purge, waits) => {
                let (log, table) = (&run.opened.log, &run.table[*site]);
                let Published { number, ticket } = log.publish(SITES[*site], table, purge, now());
                let expected_severity = PublishedPurge {
                    run: runs,
                    site: *site,
                    number,
                    purge: purge.clone(),
                };
                scenario.published.push(expected_severity.clone());
                if *waits {
                    let outcome = ticket.wait();
                    let is_kept = outcome == Durability::Kept;
                    if is_kept
                        || (!scenario.sim.is_out() && restart(&outcome) == RestartEffect::PurgesAll)
                    {
                        scenario.acknowledged.push(expected_severity);
                    }
                }
            }
            Step::Store(site, tag) => scenario.stored.push(Stored {
                generation: run.opened.log.generation(),
                run: runs,
                site: *site,
                tag,
                born: run.table[*site].current(),
            }),
            Step::Restart => {
                drop(run);
                run = Run::new(&scenario.sim, limits);
                runs += 1;
            }
            Step::Fail(faults) => scenario.sim.fail(faults),
        }
    }
    scenario
}

fn severity(validity: Validity) -> u8 {
    match validity {
        Validity::Valid => 0,
        Validity::SoftPurged => 1,
        Validity::Purged => 2,
        Validity::Outdated | Validity::Unknown => unreachable!("nobody writes"),
    }
}

/// The effect on a page of the purges that were published after it was generated.
fn expected_severity(purges: &[PublishedPurge], stored: &Stored) -> u8 {
    let table = PurgeTable::new();
    let later = purges.iter().filter(|expected_severity| {
        expected_severity.site == stored.site
            && (expected_severity.run, expected_severity.number) > (stored.run, stored.born)
    });
    for expected_severity in later {
        table.publish(&expected_severity.purge);
    }
    severity(table.validity(&entry(SITES[stored.site], "/p", &[stored.tag], 0)))
}

/// Opens the log that a crash left, and compares. `is_exact`: nothing failed and no floor was raised, so no page may be lost
/// either.
fn check(scenario: &CrashScenario, left: Left, is_exact: bool) {
    let sim = scenario.sim.reboot(left);
    let run = Run::new(&sim, scenario.limits);
    assert!(
        !matches!(run.opened.found, LogContents::Unreadable(_)) || !is_exact,
        "{:?} {left:?}",
        run.opened.found
    );
    let alive = scenario
        .stored
        .iter()
        .filter(|stored| stored.generation == run.opened.generation);
    if is_exact && run.opened.found != LogContents::Nothing {
        assert_eq!(alive.clone().count(), scenario.stored.len());
    }
    let entries: Vec<(Entry, &Stored)> = alive
        .map(|stored| {
            let page = entry(SITES[stored.site], "/p", &[stored.tag], stored.born);
            (page, stored)
        })
        .collect();
    for (page, stored) in &entries {
        let now = severity(run.table[stored.site].validity(page));
        assert!(
            now >= expected_severity(&scenario.acknowledged, stored),
            "forgotten: {left:?} {page:?}"
        );
        if is_exact {
            assert!(
                now <= expected_severity(&scenario.published, stored),
                "invented: {left:?} {page:?}"
            );
        }
    }
    // The next purge touches every page, whatever number it was stored under.
    for (site, table) in run.table.iter().enumerate() {
        let purge = hard(Scope::Site);
        let ticket = run
            .opened
            .log
            .publish(SITES[site], table, &purge, now())
            .ticket;
        assert_eq!(ticket.wait(), Durability::Kept);
    }
    for (page, stored) in &entries {
        assert_eq!(
            run.table[stored.site].validity(page),
            Validity::Purged,
            "{left:?}"
        );
    }
}

fn every_crash(steps: &[Step], limits: LogLimits, is_exact: bool) {
    let whole = run_scenario(steps, limits, usize::MAX).sim.operations();
    assert!(whole > 50, "{whole}");
    // While a lost log is retried repeatedly, there are many similar operations.
    for ends_at in (0..whole).step_by(whole.div_ceil(200)) {
        let scenario = run_scenario(steps, limits, ends_at);
        for left in Left::every() {
            check(&scenario, left, is_exact);
        }
    }
}

fn script() -> Vec<Step> {
    const TAGS: [&str; 5] = ["t", "u", "v", "w", "x"];
    let rounds = (0..14).flat_map(|n| {
        let (site, tag) = (n % 2, TAGS[n % 5]);
        [
            Step::Store(site, tag),
            Step::Store(1 - site, tag),
            Step::Publish(site, super::tag(tag), true),
        ]
    });
    let mut steps: Vec<Step> = rounds.collect();
    steps.insert(20, Step::Restart);
    steps
}

#[test]
fn a_crash_at_any_operation_loses_no_purge_and_adds_none() {
    every_crash(&script(), limits(), true);
}

#[test]
fn a_crash_in_compaction_leaves_the_old_file_or_the_new_one() {
    let narrow = LogLimits {
        file_bytes: 200,
        records: 3,
        ..limits()
    };
    every_crash(&script(), narrow, false);
    let exact = LogLimits {
        file_bytes: 200,
        records: 1_000,
        ..limits()
    };
    every_crash(&script(), exact, true);
}

#[test]
fn a_crash_during_the_handling_of_a_loss_loses_no_purge() {
    for fault in [Op::Write, Op::SyncFile] {
        let mut steps = script();
        steps.insert(30, Step::Fail(Vec::new()));
        steps.insert(12, Step::Fail(vec![fault]));
        every_crash(&steps, limits(), false);
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let tag = || prop::sample::select(vec!["t", "u", "v", "*"]);
    let named = tag().prop_map(|tag| Scope::Tag(tag.to_owned()));
    let scope = prop_oneof![
        6 => named,
        1 => Just(Scope::Site),
        1 => Just(Scope::Host(SITES[0].into())),
        1 => Just(Scope::Prefix(b"/p".to_vec())),
        1 => Just(Scope::Pattern(PurgePattern::parse("^/p").unwrap())),
    ];
    let strength = prop_oneof![Just(Strength::Hard), Just(Strength::Soft)];
    let purge = (scope, strength).prop_map(|(scope, strength)| Purge { scope, strength });
    let faults = prop::sample::subsequence(
        vec![
            Op::Create,
            Op::Write,
            Op::SyncFile,
            Op::Rename,
            Op::Remove,
            Op::Empty,
            Op::SyncNames,
        ],
        0..3,
    );
    let step = prop_oneof![
        8 => (0..2usize, purge, any::<bool>()).prop_map(|(site, purge, waits)| Step::Publish(site, purge, waits)),
        6 => (0..2usize, tag()).prop_map(|(site, tag)| Step::Store(site, tag)),
        1 => Just(Step::Restart),
        1 => faults.prop_map(Step::Fail),
        1 => Just(Step::Fail(Vec::new())),
    ];
    prop::collection::vec(step, 1..60)
}

fn bounds() -> impl Strategy<Value = LogLimits> {
    let file_bytes = prop::sample::select(vec![200, 1_000, 4 << 20]);
    let records = prop::sample::select(vec![2, 5, 20_000]);
    let queue_bytes = prop::sample::select(vec![100, 4 << 20]);
    (file_bytes, records, queue_bytes).prop_map(|(file_bytes, records, queue_bytes)| LogLimits {
        file_bytes,
        records,
        queue_bytes,
        ..limits()
    })
}

proptest! {
    #[test]
    fn no_sequence_of_faults_and_crashes_loses_a_purge(steps in steps(), limits in bounds(), ends_at in 0..200usize) {
        let scenario = run_scenario(&steps, limits, ends_at);
        for left in Left::every() {
            check(&scenario, left, false);
        }
    }
}
