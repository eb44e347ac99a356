//! `xtask fragments`: what an edit costs PHP on a large site, what visitors notice, whether patched pages are right, and how many
//! pages a member gets.
//!
//! The measurements are in [`galley_testkit::exactness::fragments`], which the tests run in a short form; the load comes from the load
//! library. Progress goes to stderr, the tables to stdout. Fails when a goal is missed.

mod load;
mod table;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use galley_testkit::exactness::fragments::{
    Comparison, EditCost, Fragments, MemberRates, Patching, Setting,
};

use crate::demo::CommandError;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// Folder of the plugin
    #[arg(long, default_value = "wordpress-plugin/galley")]
    plugin: PathBuf,
    /// Posts beside those of the sample site [default: 3000, or as many as the pages need]
    #[arg(long)]
    posts: Option<usize>,
    /// Pages that are kept warm and compared
    #[arg(long, default_value_t = 1800)]
    pages: usize,
    /// Seconds of load after each edit; 0: none
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Requests per second in that time
    #[arg(long, default_value_t = 200.0)]
    rate: f64,
    /// Also make so many random edits, and compare pages after each
    #[arg(long, default_value_t = 0)]
    edits: usize,
    /// Pages that are compared after each of these edits, at random; all are compared after the last
    #[arg(long, default_value_t = 20)]
    sample: usize,
    /// Chooses the random edits
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Leave out the table of edits
    #[arg(long)]
    no_table: bool,
    /// Show what PHP was requested for after an edit, and what differs on a stale page
    #[arg(long)]
    explain: bool,
    /// Print JSON instead of the tables
    #[arg(long)]
    json: bool,
}

/// Everything that one run measured.
#[derive(Debug, Default)]
struct Outcome {
    pages: usize,
    costs: Vec<EditCost>,
    patching: Patching,
    members: MemberRates,
    comparison: Option<Comparison>,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let galley = fs::canonicalize(&arguments.galley).map_err(|_| {
        let path = arguments.galley.display();
        format!("`{path}` is not there: run `make build`")
    })?;
    let began = Instant::now();
    let progress = |text: &str| eprintln!("{:>5} s  {text}", began.elapsed().as_secs());
    progress("starting WordPress and requesting every page until all are stored");
    let mut site = Fragments::start(&Setting {
        galley,
        plugin: arguments.plugin.clone(),
        posts: arguments.posts.unwrap_or(arguments.pages.max(POSTS)),
        pages: arguments.pages,
    })?;
    let mut outcome = Outcome {
        pages: site.pages(),
        ..Outcome::default()
    };
    if !arguments.no_table {
        let time = Duration::from_secs(arguments.seconds);
        let mut visit = |site: galley_testkit::exactness::fragments::Site<'_>| {
            load::visits(site, arguments.rate, time)
        };
        outcome.costs = site.edits(&mut visit, &mut |cost| {
            progress(&table::line(cost));
            if arguments.explain {
                explain(cost);
            }
        })?;
    }
    progress("patching every page");
    outcome.patching = site.patching()?;
    progress("requesting the front page as a member");
    outcome.members = site.members(&mut |addr, head| load::rate(addr, head, MEMBER_TIME))?;
    if arguments.edits > 0 {
        progress("making random edits");
        let compared = site.compare(arguments.edits, arguments.sample, arguments.seed)?;
        for finding in &compared.findings {
            eprintln!("         {finding}");
        }
        outcome.comparison = Some(compared);
    }
    if arguments.json {
        println!("{:#}", table::json(&outcome));
    } else {
        print!("{}", table::markdown(&outcome));
    }
    verdict(&outcome, arguments)
}

fn explain(cost: &EditCost) {
    for request in &cost.requested {
        eprintln!("         requested {request}");
    }
    for finding in &cost.findings {
        eprintln!("         stale {finding}");
    }
}

/// The goals, of a run with these arguments.
fn verdict(outcome: &Outcome, arguments: &Arguments) -> Result<(), CommandError> {
    let mut missed: Vec<String> = outcome.costs.iter().flat_map(missed_by_edit).collect();
    missed.extend(missed_by_patching(outcome));
    missed.extend(missed_by_members(&outcome.members));
    missed.extend(missed_by_comparison(outcome, arguments.edits));
    if missed.is_empty() {
        return Ok(());
    }
    Err(missed.join("; ").into())
}

fn missed_by_edit(cost: &EditCost) -> Vec<String> {
    let EditCost { edit, visits, .. } = cost;
    let mut missed = Vec::new();
    if cost.php_requests > MOST_REQUESTS {
        missed.push(format!(
            "`{edit}` took {} requests to PHP; the limit is {MOST_REQUESTS}",
            cost.php_requests
        ));
    }
    if cost.is_everywhere && 2 * cost.patched < cost.pages as u64 {
        missed.push(format!(
            "after `{edit}` {} of {} pages were patched; the least is half of them",
            cost.patched, cost.pages
        ));
    }
    if visits.responses > 0 && visits.hits * 100 <= visits.responses * LEAST_HITS_PERCENT {
        missed.push(format!(
            "after `{edit}` {} of {} visitors got a stored page; the goal is more than {LEAST_HITS_PERCENT} %",
            visits.hits, visits.responses
        ));
    }
    if visits.failed > 0 {
        missed.push(format!("after `{edit}` {} requests failed", visits.failed));
    }
    if cost.stale > 0 {
        missed.push(format!("after `{edit}` {} pages were stale", cost.stale));
    }
    missed
}

fn missed_by_patching(outcome: &Outcome) -> Vec<String> {
    let patching = &outcome.patching;
    let mut missed = Vec::new();
    if 2 * patching.pages < outcome.pages as u64 {
        missed.push(format!(
            "an edit of the sidebar patched {} of {} pages; the least is half of them",
            patching.pages, outcome.pages
        ));
    }
    let rate = patched_in_a_second(patching);
    if rate < LEAST_PATCHED_IN_A_SECOND {
        missed.push(format!(
            "one core patches {rate:.0} pages of {STATED_BYTES} bytes in a second; the goal is {LEAST_PATCHED_IN_A_SECOND}"
        ));
    }
    missed
}

fn missed_by_members(rates: &MemberRates) -> Option<String> {
    let MemberRates { php, assembled } = *rates;
    let is_reached = php > 0.0 && assembled >= LEAST_TIMES_PHP * php;
    (!is_reached).then(|| {
        format!(
            "a member got {assembled:.0} stored pages in a second and {php:.1} from PHP; the goal is {LEAST_TIMES_PHP} times as many"
        )
    })
}

fn missed_by_comparison(outcome: &Outcome, edits: usize) -> Vec<String> {
    let Some(compared) = &outcome.comparison else {
        return (edits > 0)
            .then(|| "no random edits were made".to_owned())
            .into_iter()
            .collect();
    };
    let mut missed = Vec::new();
    if compared.edits < edits {
        missed.push(format!("{} of {edits} edits were made", compared.edits));
    }
    if compared.patched == 0 {
        missed.push("random edits patched no page".to_owned());
    }
    if !compared.findings.is_empty() {
        let count = compared.findings.len();
        missed.push(format!("{count} pages differed after random edits"));
    }
    missed
}

/// Pages of [`STATED_BYTES`] that one core patches and compresses in a second: both grow with the bytes.
#[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
fn patched_in_a_second(patching: &Patching) -> f64 {
    let spent = (patching.fetch_cpu + patching.compress_cpu).as_secs_f64();
    if spent <= 0.0 {
        return 0.0;
    }
    (patching.pages * patching.bytes) as f64 / (STATED_BYTES * spent)
}

/// Requests to PHP after an edit.
const MOST_REQUESTS: u64 = 12;

/// Stored pages among the responses after an edit.
const LEAST_HITS_PERCENT: u64 = 99;

/// The page for which [`LEAST_PATCHED_IN_A_SECOND`] is meant.
const STATED_BYTES: f64 = 47_000.0;

/// Pages that one core patches and compresses with gzip.
const LEAST_PATCHED_IN_A_SECOND: f64 = 2000.0;

/// The front page for a member, against PHP.
const LEAST_TIMES_PHP: f64 = 50.0;
/// For each of the two.
const MEMBER_TIME: Duration = Duration::from_secs(10);

/// Posts beside those of the sample site, unless more pages are wanted.
const POSTS: usize = 3000;

#[cfg(test)]
mod tests {
    use galley_testkit::exactness::fragments::Visits;

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

    /// A run that reaches each goal, and none of them by much.
    fn outcome() -> Outcome {
        Outcome {
            pages: 100,
            costs: vec![EditCost {
                php_requests: 12,
                pages: 100,
                patched: 50,
                is_everywhere: true,
                visits: Visits {
                    responses: 1000,
                    hits: 991,
                    ..Visits::default()
                },
                ..EditCost::default()
            }],
            patching: Patching {
                pages: 50,
                bytes: 47_000,
                fetch_cpu: Duration::from_millis(5),
                compress_cpu: Duration::from_millis(20),
                ..Patching::default()
            },
            members: MemberRates {
                php: 20.0,
                assembled: 1000.0,
            },
            comparison: Some(Comparison {
                edits: 500,
                patched: 1,
                ..Comparison::default()
            }),
        }
    }

    #[test]
    fn each_goal_can_be_missed() {
        let spoilers: [fn(&mut Outcome, Comparison); 13] = [
            |outcome, _| outcome.costs[0].php_requests = 13,
            |outcome, _| outcome.costs[0].patched = 49,
            |outcome, _| outcome.costs[0].visits.hits = 990,
            |outcome, _| outcome.costs[0].visits.failed = 1,
            |outcome, _| outcome.costs[0].stale = 1,
            |outcome, _| outcome.patching.pages = 49,
            |outcome, _| outcome.patching.compress_cpu = Duration::from_millis(21),
            |outcome, _| outcome.members.assembled = 999.0,
            |outcome, _| outcome.members = MemberRates::default(),
            |outcome, held| outcome.comparison = Some(Comparison { edits: 499, ..held }),
            |outcome, held| outcome.comparison = Some(Comparison { patched: 0, ..held }),
            |outcome, held| {
                let findings = vec!["/x".to_owned()];
                outcome.comparison = Some(Comparison { findings, ..held });
            },
            |outcome, _| outcome.comparison = None,
        ];
        assert!(verdict(&outcome(), &arguments(500)).is_ok());
        for (number, spoil) in spoilers.iter().enumerate() {
            let mut spoilt = outcome();
            let held = spoilt.comparison.clone().unwrap_or_default();
            spoil(&mut spoilt, held);
            assert!(verdict(&spoilt, &arguments(500)).is_err(), "{number}");
        }
    }

    #[test]
    fn what_is_not_shown_everywhere_need_not_be_patched() {
        let mut run = outcome();
        run.costs[0].is_everywhere = false;
        run.costs[0].patched = 0;
        run.comparison = None;
        assert!(verdict(&run, &arguments(0)).is_ok());
    }
}
