//! `xtask fragments`: measures on a large site the requests to PHP after an edit, the responses to visitors, whether patched
//! pages are correct, and the pages per second that a member gets.
//!
//! The measurements are in [`galley_testkit::exactness::fragments`]; the load library generates the load. Progress goes to
//! stderr, the tables to stdout. Fails if a goal is missed.

pub(crate) mod load;
mod table;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use galley_testkit::exactness::fragments::{
    EditReport, FragmentMeasurements, FragmentSettings, LoadTarget, MemberRates, PatchingCost,
    RandomEditsReport,
};

use crate::error::CommandError;

/// The options of the command.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// Folder of the plugin
    #[arg(long, default_value = "wordpress-plugin/galley")]
    plugin: PathBuf,
    /// Posts in addition to those of the sample site [default: 3000, or as many as the pages require]
    #[arg(long)]
    posts: Option<usize>,
    /// Pages to keep warm and to compare
    #[arg(long, default_value_t = 1800)]
    pages: usize,
    /// Seconds of load after each edit; 0 for no load
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Requests per second of the load
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    /// Number of random edits to make in addition; pages are compared after each
    #[arg(long, default_value_t = 0)]
    edits: usize,
    /// Random pages to compare after each random edit; all pages are compared after the last
    #[arg(long, default_value_t = 20)]
    sample: usize,
    /// Seed of the random edits
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Skip the table of edits
    #[arg(long)]
    no_table: bool,
    /// Show the requests to PHP after an edit, and the difference on each stale page
    #[arg(long)]
    explain: bool,
    /// Print JSON instead of the tables
    #[arg(long)]
    json: bool,
}

/// The results of a run.
#[derive(Debug, Default)]
struct FragmentsReport {
    pages: usize,
    edits: Vec<EditReport>,
    patching: PatchingCost,
    members: MemberRates,
    random_edits: Option<RandomEditsReport>,
}

/// Runs the measurements and prints the results.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let galley = fs::canonicalize(&arguments.galley).map_err(|_| {
        let path = arguments.galley.display();
        format!("`{path}` does not exist: run `make build`")
    })?;
    let start = Instant::now();
    let progress = |text: &str| eprintln!("{:>5} s  {text}", start.elapsed().as_secs());
    progress("starting WordPress and requesting every page until all are stored");
    let mut measurements = FragmentMeasurements::start(&FragmentSettings {
        galley,
        plugin: arguments.plugin.clone(),
        posts: arguments.posts.unwrap_or(arguments.pages.max(POSTS)),
        pages: arguments.pages,
    })?;
    let mut report = FragmentsReport {
        pages: measurements.pages(),
        ..FragmentsReport::default()
    };
    if !arguments.no_table {
        let time = Duration::from_secs(arguments.seconds);
        let mut visit = |target: LoadTarget<'_>| load::visits(target, arguments.rate, time);
        report.edits = measurements.edits(&mut visit, &mut |edit| {
            progress(&table::line(edit));
            if arguments.explain {
                print_details(edit);
            }
        })?;
    }
    progress("patching every page");
    report.patching = measurements.patching()?;
    progress("requesting the front page as a member");
    report.members = measurements.members(&mut |addr, head| load::rate(addr, head, MEMBER_TIME))?;
    if arguments.edits > 0 {
        progress("making random edits");
        let random_edits =
            measurements.compare(arguments.edits, arguments.sample, arguments.seed)?;
        for finding in &random_edits.findings {
            eprintln!("         {finding}");
        }
        report.random_edits = Some(random_edits);
    }
    if arguments.json {
        println!("{:#}", table::json(&report));
    } else {
        print!("{}", table::markdown(&report));
    }
    check(&report, arguments)
}

fn print_details(edit: &EditReport) {
    for request in &edit.requested {
        eprintln!("         requested {request}");
    }
    for finding in &edit.findings {
        eprintln!("         stale {finding}");
    }
}

/// Fails with a list of the missed goals.
fn check(report: &FragmentsReport, arguments: &Arguments) -> Result<(), CommandError> {
    let mut missed: Vec<String> = report.edits.iter().flat_map(missed_by_edit).collect();
    missed.extend(missed_by_patching(report));
    missed.extend(missed_by_members(&report.members));
    missed.extend(missed_by_random_edits(report, arguments.edits));
    if missed.is_empty() {
        return Ok(());
    }
    Err(missed.join("; ").into())
}

fn missed_by_edit(report: &EditReport) -> Vec<String> {
    let EditReport { name, visits, .. } = report;
    let mut missed = Vec::new();
    if report.php_requests > MAX_PHP_REQUESTS {
        missed.push(format!(
            "`{name}` took {} requests to PHP; the limit is {MAX_PHP_REQUESTS}",
            report.php_requests
        ));
    }
    if report.is_everywhere && 2 * report.patched < report.pages as u64 {
        missed.push(format!(
            "after `{name}` {} of {} pages were patched; the minimum is half of them",
            report.patched, report.pages
        ));
    }
    if visits.responses > 0 && visits.hits * 100 <= visits.responses * MIN_HITS_PERCENT {
        missed.push(format!(
            "after `{name}` {} of {} visitors got a stored page; the goal is more than {MIN_HITS_PERCENT} %",
            visits.hits, visits.responses
        ));
    }
    if visits.failed > 0 {
        missed.push(format!("after `{name}` {} requests failed", visits.failed));
    }
    if report.stale > 0 {
        missed.push(format!("after `{name}` {} pages were stale", report.stale));
    }
    missed
}

fn missed_by_patching(report: &FragmentsReport) -> Vec<String> {
    let patching = &report.patching;
    let mut missed = Vec::new();
    if 2 * patching.pages < report.pages as u64 {
        missed.push(format!(
            "an edit of the sidebar patched {} of {} pages; the minimum is half of them",
            patching.pages, report.pages
        ));
    }
    let rate = pages_per_second_and_core(patching);
    if rate < MIN_PAGES_PER_SECOND_AND_CORE {
        missed.push(format!(
            "one core patches {rate:.0} pages of {STATED_BYTES} bytes per second; the goal is {MIN_PAGES_PER_SECOND_AND_CORE}"
        ));
    }
    missed
}

fn missed_by_members(rates: &MemberRates) -> Option<String> {
    let MemberRates { php, assembled } = *rates;
    let is_reached = php > 0.0 && assembled >= MIN_TIMES_PHP * php;
    (!is_reached).then(|| {
        format!(
            "a member got {assembled:.0} stored pages per second and {php:.1} from PHP; the goal is {MIN_TIMES_PHP} times as many"
        )
    })
}

fn missed_by_random_edits(report: &FragmentsReport, edits: usize) -> Vec<String> {
    let Some(random_edits) = &report.random_edits else {
        return (edits > 0)
            .then(|| "no random edits were made".to_owned())
            .into_iter()
            .collect();
    };
    let mut missed = Vec::new();
    if random_edits.edits < edits {
        missed.push(format!("{} of {edits} edits were made", random_edits.edits));
    }
    if random_edits.patched == 0 {
        missed.push("random edits patched no page".to_owned());
    }
    if !random_edits.findings.is_empty() {
        let count = random_edits.findings.len();
        missed.push(format!("{count} pages differed after random edits"));
    }
    missed
}

/// Pages of [`STATED_BYTES`] that one core patches and compresses per second. Both costs are proportional to the size.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn pages_per_second_and_core(patching: &PatchingCost) -> f64 {
    let spent = (patching.fetch_cpu + patching.compress_cpu).as_secs_f64();
    if spent <= 0.0 {
        return 0.0;
    }
    (patching.pages * patching.bytes) as f64 / (STATED_BYTES * spent)
}

/// Requests to PHP after an edit.
const MAX_PHP_REQUESTS: u64 = 12;

/// Percentage of stored pages in the responses after an edit.
const MIN_HITS_PERCENT: u64 = 99;

/// The page size that [`MIN_PAGES_PER_SECOND_AND_CORE`] assumes.
const STATED_BYTES: f64 = 47_000.0;

/// Pages that one core patches and compresses with gzip per second.
const MIN_PAGES_PER_SECOND_AND_CORE: f64 = 2000.0;

/// Front pages per second for a member, relative to PHP.
const MIN_TIMES_PHP: f64 = 50.0;
/// Duration of each of the two measurements for a member.
const MEMBER_TIME: Duration = Duration::from_secs(10);

/// Posts in addition to those of the sample site, unless more pages are requested.
const POSTS: usize = 3000;

#[cfg(test)]
mod tests {
    use galley_testkit::exactness::fragments::VisitCounts;

    use super::*;

    fn arguments(edits: usize) -> Arguments {
        Arguments {
            galley: PathBuf::new(),
            plugin: PathBuf::new(),
            posts: None,
            pages: 100,
            seconds: 60,
            rate: 200.0,
            edits,
            sample: 20,
            seed: 1,
            no_table: false,
            explain: false,
            json: false,
        }
    }

    /// The report of a run that just reaches each goal.
    fn report() -> FragmentsReport {
        FragmentsReport {
            pages: 100,
            edits: vec![EditReport {
                php_requests: 12,
                pages: 100,
                patched: 50,
                is_everywhere: true,
                visits: VisitCounts {
                    responses: 1000,
                    hits: 991,
                    ..VisitCounts::default()
                },
                ..EditReport::default()
            }],
            patching: PatchingCost {
                pages: 50,
                bytes: 47_000,
                fetch_cpu: Duration::from_millis(5),
                compress_cpu: Duration::from_millis(20),
                ..PatchingCost::default()
            },
            members: MemberRates {
                php: 20.0,
                assembled: 1000.0,
            },
            random_edits: Some(RandomEditsReport {
                edits: 500,
                patched: 1,
                ..RandomEditsReport::default()
            }),
        }
    }

    #[test]
    fn each_missed_goal_fails_the_run() {
        let changes: [fn(&mut FragmentsReport, RandomEditsReport); 13] = [
            |report, _| report.edits[0].php_requests = 13,
            |report, _| report.edits[0].patched = 49,
            |report, _| report.edits[0].visits.hits = 990,
            |report, _| report.edits[0].visits.failed = 1,
            |report, _| report.edits[0].stale = 1,
            |report, _| report.patching.pages = 49,
            |report, _| report.patching.compress_cpu = Duration::from_millis(21),
            |report, _| report.members.assembled = 999.0,
            |report, _| report.members = MemberRates::default(),
            |report, good| report.random_edits = Some(RandomEditsReport { edits: 499, ..good }),
            |report, good| report.random_edits = Some(RandomEditsReport { patched: 0, ..good }),
            |report, good| {
                let findings = vec!["/x".to_owned()];
                report.random_edits = Some(RandomEditsReport { findings, ..good });
            },
            |report, _| report.random_edits = None,
        ];
        assert!(check(&report(), &arguments(500)).is_ok());
        for (number, change) in changes.iter().enumerate() {
            let mut changed = report();
            let good = changed.random_edits.clone().unwrap_or_default();
            change(&mut changed, good);
            assert!(check(&changed, &arguments(500)).is_err(), "{number}");
        }
    }

    #[test]
    fn edits_that_are_not_visible_everywhere_need_not_patch_pages() {
        let mut report = report();
        report.edits[0].is_everywhere = false;
        report.edits[0].patched = 0;
        report.random_edits = None;
        assert!(check(&report, &arguments(0)).is_ok());
    }
}
