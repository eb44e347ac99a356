//! The wall clock set back and forward, while the server runs and between two runs, alone and together with a reboot.
//!
//! The machine's clock does not change. The server sees a fake wall clock (libfaketime), a fake clock since boot (a time
//! namespace) and a fake boot id (a bind mount over the kernel's file). Purges must stay in force with any clock. Pages must not be
//! fresh for longer than their lifetime, and must keep their age unless the machine was rebooted.

use std::path::Path;

use super::{
    FaultSettings, TestLength,
    purges::Editor,
    random::Random,
    report::FaultReport,
    site_content::{Lengths, Scope, SiteContent, path},
    test_site::{Client, SiteOptions, TestSite, get},
    wall_clock::{self, WallClock},
};
use crate::{TestkitError, runs_as_root};

pub(super) fn run(settings: &FaultSettings) -> Result<FaultReport, TestkitError> {
    let mut sum = FaultReport::default();
    let Some(library) = wall_clock::library() else {
        sum.skip("libfaketime is not installed (`faketime` on Debian)");
        return Ok(sum);
    };
    let rounds = match settings.length {
        TestLength::Short => 1,
        TestLength::Long => 4,
    };
    for round in 0..rounds {
        let random = Random::new(settings.seed).fork(round);
        sum += while_running(settings, &library, random.fork(0))?;
        for (number, case) in CASES.iter().enumerate() {
            let random = random.fork(1 + u64::try_from(number).unwrap_or(0));
            if (case.is_rebooted || case.suspended_days > 0) && !runs_as_root() {
                sum.skip(&format!("{}: requires root", case.name));
            } else {
                sum += between_runs(settings, &library, case, random)?;
            }
        }
    }
    Ok(sum)
}

/// Sets the clock of a running server.
fn while_running(
    settings: &FaultSettings,
    library: &Path,
    mut random: Random,
) -> Result<FaultReport, TestkitError> {
    let mut site = new_site(settings, &mut random)?;
    let clock = WallClock::new(site.scratch.join("wall-clock"), library)?;
    let mut report = FaultReport::default();
    site.start_under(clock.launch())?;
    report += site.compare()?;
    for days in [3, -3, 400, -4_000, 0] {
        clock.set(days * DAY_SECONDS)?;
        report.rounds += 1;
        let comparison = site.compare()?;
        report.require(
            comparison.hits == comparison.pages,
            &format!(
                "with the clock {days} days off, stored pages were misses on the running server"
            ),
        );
        report += comparison;
        check_ages(&site, &mut report)?;
        edit(&site, &mut random, &mut report)?;
        report += site.compare()?;
    }
    Ok(report)
}

/// A change of the clocks between two runs of the server.
struct Case {
    name: &'static str,
    /// Wall clock of the first and the second run, in days from now.
    days: (i64, i64),
    /// Days by which the clock since boot advances without a reboot, as for a suspended machine.
    suspended_days: i64,
    /// Whether the second run sees another boot id.
    is_rebooted: bool,
    /// The state of the stored pages in the second run.
    expected: Expected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// Hits, with their age.
    Fresh,
    /// Possibly older than their lifetime of a day: fetched again, and used as stale copies if the upstream fails.
    Stale,
}

const CASES: &[Case] = &[
    Case {
        name: "the wall clock is set back",
        days: (0, -3),
        suspended_days: 0,
        is_rebooted: false,
        expected: Expected::Fresh,
    },
    Case {
        name: "the wall clock is set forward by years",
        days: (0, 4_000),
        suspended_days: 0,
        is_rebooted: false,
        expected: Expected::Fresh,
    },
    Case {
        name: "the wall clock was ahead and is corrected",
        days: (700, 0),
        suspended_days: 0,
        is_rebooted: false,
        expected: Expected::Fresh,
    },
    Case {
        name: "the machine is suspended for two days",
        days: (0, 0),
        suspended_days: 2,
        is_rebooted: false,
        expected: Expected::Stale,
    },
    Case {
        name: "a reboot",
        days: (0, 0),
        suspended_days: 0,
        is_rebooted: true,
        expected: Expected::Fresh,
    },
    Case {
        name: "a reboot after three days",
        days: (0, 3),
        suspended_days: 0,
        is_rebooted: true,
        expected: Expected::Stale,
    },
    Case {
        name: "a reboot with the clock behind",
        days: (0, -3),
        suspended_days: 0,
        is_rebooted: true,
        expected: Expected::Stale,
    },
];

/// Changes the clocks between two runs of the server.
fn between_runs(
    settings: &FaultSettings,
    library: &Path,
    case: &Case,
    mut random: Random,
) -> Result<FaultReport, TestkitError> {
    let mut site = new_site(settings, &mut random)?;
    let clock = WallClock::new(site.scratch.join("wall-clock"), library)?;
    let mut report = FaultReport {
        rounds: 1,
        ..FaultReport::default()
    };
    clock.set(case.days.0 * DAY_SECONDS)?;
    site.start_under(clock.launch())?;
    report += site.compare()?;
    edit(&site, &mut random, &mut report)?;
    report += site.compare()?;
    // The purged entries of this edit are not replaced before the restart.
    edit(&site, &mut random, &mut report)?;
    if random.once_in(2) {
        site.kill();
    } else {
        site.stop();
    }
    clock.set(case.days.1 * DAY_SECONDS)?;
    let mut launch = clock.launch();
    launch.through = launcher(&site, case)?;
    site.start_under(launch)?;
    if case.expected == Expected::Stale {
        check_stale_if_error(&site, case, &mut report)?;
    }
    let comparison = site.compare()?;
    match case.expected {
        Expected::Fresh => report.require(
            comparison.hits > 0,
            &format!("{}: no stored page is fresh", case.name),
        ),
        Expected::Stale => report.require(
            comparison.hits == 0,
            &format!("{}: pages older than their lifetime were hits", case.name),
        ),
    }
    report += comparison;
    check_ages(&site, &mut report)?;
    // Sequence numbers that the two runs assign must not collide.
    edit(&site, &mut random, &mut report)?;
    report += site.compare()?;
    site.kill();
    site.start()?;
    report += site.compare()?;
    Ok(report)
}

/// With the upstream down, stale pages must be served and purged ones must not.
fn check_stale_if_error(
    site: &TestSite,
    case: &Case,
    report: &mut FaultReport,
) -> Result<(), TestkitError> {
    site.upstream.set_down(true);
    let mut client = Client::new(site.addr()?);
    let mut served = 0;
    for page in 0..site.content.page_count() {
        let minimum = site.content.minimum_version(page);
        let response = client.send(&get(page))?;
        if response.status == 200 {
            served += 1;
            report.count(site.content.verify(page, minimum, &response), || {
                format!("{}: {} from a stale copy", case.name, path(page))
            });
        }
    }
    site.upstream.set_down(false);
    report.require(
        served > 0,
        &format!(
            "{}: no stale copy was served while the upstream was down",
            case.name
        ),
    );
    Ok(())
}

/// Checks that no page has an age longer than the test has run.
fn check_ages(site: &TestSite, report: &mut FaultReport) -> Result<(), TestkitError> {
    let mut client = Client::new(site.addr()?);
    for page in 0..site.content.page_count() {
        let response = client.send(&get(page))?;
        let age = response.age().unwrap_or(0);
        report.require(age < 600, &format!("{} has an age of {age} s", path(page)));
    }
    Ok(())
}

fn new_site(settings: &FaultSettings, random: &mut Random) -> Result<TestSite, TestkitError> {
    let lengths = Lengths {
        usual: 100..20_000,
        long_every: 30,
        long: 100_000..400_000,
        last: Vec::new(),
    };
    let content = SiteContent::new(PAGES, random.number(), &lengths);
    // libfaketime reads its file from every thread that uses the clock; sandboxed threads could not and would see the real time.
    let options = SiteOptions {
        server_lines: "sandbox = \"off\"",
        ..SiteOptions::default()
    };
    TestSite::new(&settings.galley, content, &options)
}

fn edit(
    site: &TestSite,
    random: &mut Random,
    report: &mut FaultReport,
) -> Result<(), TestkitError> {
    let mut editor = Editor::new(site)?;
    report.purges += editor.edit_by_all_methods(site, random, PAGES, Some(Scope::Tag(1)))?;
    Ok(())
}

/// The command that starts the server with another clock since boot or another boot id.
fn launcher(site: &TestSite, case: &Case) -> Result<Vec<String>, TestkitError> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    if case.suspended_days > 0 {
        let offset = (case.suspended_days * 86_400).to_string();
        return Ok(words(&["unshare", "--time", "--boottime", &offset]));
    }
    if !case.is_rebooted {
        return Ok(Vec::new());
    }
    let id = "0c6ed5d5-7d5f-4d5b-9d0b-2f3f0b6a9d11\n";
    let id = site.scratch.write("boot-id", id)?;
    let script = format!(
        "mount --bind {} /proc/sys/kernel/random/boot_id && exec \"$@\"",
        id.display()
    );
    Ok(words(&["unshare", "--mount", "sh", "-c", &script, "sh"]))
}

const DAY_SECONDS: i64 = 86_400;

const PAGES: usize = 120;
