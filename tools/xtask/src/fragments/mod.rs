//! `xtask fragments`: what an edit costs PHP on a large site, what visitors notice, and whether patched pages are right.
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

use galley_testkit::exactness::fragments::{Comparison, EditCost, Fragments, Patching, Setting};

use crate::demo::Complaint;

/// What the command line says.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The server binary
    #[arg(long, default_value = "target/release/galley")]
    galley: PathBuf,
    /// Folder of the plugin
    #[arg(long, default_value = "wordpress-plugin/galley")]
    plugin: PathBuf,
    /// Posts beside those of the sample site
    #[arg(long, default_value_t = 3000)]
    posts: usize,
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
    /// Show which pages PHP generated after an edit, and what differs on a stale page
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
    comparison: Option<Comparison>,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Complaint> {
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
        posts: arguments.posts,
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
    verdict(&outcome)
}

fn explain(cost: &EditCost) {
    for page in &cost.generated {
        eprintln!("         generated {page}");
    }
    for finding in &cost.findings {
        eprintln!("         stale {finding}");
    }
}

/// The goals.
fn verdict(outcome: &Outcome) -> Result<(), Complaint> {
    let mut missed = Vec::new();
    for cost in &outcome.costs {
        if cost.php_requests > MOST_REQUESTS && !cost.is_wide {
            missed.push(format!(
                "`{}` took {} requests to PHP; the limit is {MOST_REQUESTS}",
                cost.edit, cost.php_requests
            ));
        }
        let visits = &cost.visits;
        if visits.responses > 0 && visits.hits * 100 <= visits.responses * LEAST_HITS_PERCENT {
            missed.push(format!(
                "after `{}` {} of {} visitors got a stored page; the goal is more than {LEAST_HITS_PERCENT} %",
                cost.edit, visits.hits, visits.responses
            ));
        }
        if visits.failed > 0 {
            missed.push(format!(
                "after `{}` {} requests failed",
                cost.edit, visits.failed
            ));
        }
        if cost.stale > 0 {
            missed.push(format!(
                "after `{}` {} pages were stale",
                cost.edit, cost.stale
            ));
        }
    }
    if let Some(compared) = &outcome.comparison
        && !compared.findings.is_empty()
    {
        let count = compared.findings.len();
        missed.push(format!("{count} pages differed after random edits"));
    }
    if missed.is_empty() {
        return Ok(());
    }
    Err(missed.join("; ").into())
}

/// Requests to PHP after an edit.
const MOST_REQUESTS: u64 = 12;

/// Stored pages among the responses after an edit.
const LEAST_HITS_PERCENT: u64 = 99;

#[cfg(test)]
mod tests {
    use galley_testkit::exactness::fragments::Visits;

    use super::*;

    fn outcome(php_requests: u64, hits: u64, stale: usize) -> Outcome {
        Outcome {
            costs: vec![EditCost {
                php_requests,
                stale,
                visits: Visits {
                    responses: 1000,
                    hits,
                    ..Visits::default()
                },
                ..EditCost::default()
            }],
            ..Outcome::default()
        }
    }

    #[test]
    fn each_goal_can_be_missed() {
        let rows = [
            (12, 991, 0, true),
            (13, 991, 0, false),
            (12, 990, 0, false),
            (12, 991, 1, false),
        ];
        for (php_requests, hits, stale, fine) in rows {
            let outcome = outcome(php_requests, hits, stale);
            assert_eq!(
                verdict(&outcome).is_ok(),
                fine,
                "{php_requests} {hits} {stale}"
            );
        }
        let mut differing = Outcome::default();
        assert!(verdict(&differing).is_ok());
        differing.comparison = Some(Comparison {
            findings: vec!["/x".to_owned()],
            ..Comparison::default()
        });
        assert!(verdict(&differing).is_err());
    }
}
