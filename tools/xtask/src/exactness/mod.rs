//! `xtask exactness`: how exactly edits purge, for our plugin and for two models of others, event by event.
//!
//! What is done is in the kit's [`galley_testkit::exactness`], which the tests run in a short form. Talk goes to stderr, the
//! tables to stdout, and the last line of stdout is JSON. Fails when our plugin left a page stale or purged too much.

mod table;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{ValueEnum, builder::PossibleValuesParser};
use galley_testkit::exactness::{
    self, Cost, EditCost, Event, Form, Outcome, Progress, Setting, Tally, With, event_names,
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
    /// Who purges, side by side
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "galley,proxy-cache-purge,nginx-helper"
    )]
    with: Vec<Way>,
    /// Only these events
    #[arg(long, value_name = "EVENT", value_delimiter = ',', value_parser = PossibleValuesParser::new(event_names()))]
    only: Vec<String>,
    /// The form that `make test` runs: fewer pages and events
    #[arg(long)]
    short: bool,
    /// Show what differs on each stale page, and which pages were purged without need
    #[arg(long)]
    explain: bool,
    /// Leave out what the plugin costs
    #[arg(long, conflicts_with = "cost")]
    no_cost: bool,
    /// Measure what the plugin costs also where only some events are done
    #[arg(long)]
    cost: bool,
    /// Write everything that was counted to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A way of purging, as the command line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Way {
    Galley,
    ProxyCachePurge,
    NginxHelper,
    None,
}

impl Way {
    fn with(self) -> With {
        match self {
            Self::Galley => With::Galley,
            Self::ProxyCachePurge => With::ProxyCachePurge,
            Self::NginxHelper => With::NginxHelper,
            Self::None => With::None,
        }
    }
}

/// Runs the events and prints the tables.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let setting = setting(arguments)?;
    let began = Instant::now();
    let outcome = exactness::run(&setting, &mut |progress| {
        tell(&progress, &setting, arguments.explain, began);
    })?;
    print!("{}", table::markdown(&setting.with, &outcome));
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&table::everything(&setting.with, &outcome))?;
        fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    println!("{}", table::last_line(&setting.with, &outcome));
    verdict(&setting.with, &outcome)
}

fn setting(arguments: &Arguments) -> Result<Setting, CommandError> {
    let mut with: Vec<With> = arguments.with.iter().map(|way| way.with()).collect();
    with.sort_by_key(|one| With::ALL.iter().position(|other| other == one));
    with.dedup();
    let ours = with.contains(&With::Galley);
    Ok(Setting {
        galley: fs::canonicalize(&arguments.galley).map_err(|_| {
            format!(
                "`{}` is not there: run `make build`",
                arguments.galley.display()
            )
        })?,
        plugin: arguments.plugin.clone(),
        with,
        only: arguments.only.clone(),
        form: if arguments.short {
            Form::Short
        } else {
            Form::Long
        },
        cost: ours && !arguments.no_cost && (arguments.cost || arguments.only.is_empty()),
    })
}

fn tell(progress: &Progress<'_>, setting: &Setting, explain: bool, began: Instant) {
    let at = began.elapsed().as_secs();
    match progress {
        Progress::Step(what) => eprintln!("{at:>5} s  {what}"),
        Progress::Event(event, number, all) => {
            eprintln!(
                "{at:>5} s  {number}/{all} {}: {}",
                event.name,
                summary(event, setting)
            );
            if explain {
                explain_event(event, setting);
            }
        }
    }
}

fn summary(event: &Event, setting: &Setting) -> String {
    let one = |(with, tally): (&With, &Tally)| {
        format!(
            "{} changed {}, stale {}, purged {}, over {}",
            with.name(),
            tally.changed,
            tally.stale,
            tally.purged,
            tally.over
        )
    };
    let all: Vec<String> = setting.with.iter().zip(&event.tallies).map(one).collect();
    all.join("; ")
}

fn explain_event(event: &Event, setting: &Setting) {
    for (with, tally) in setting.with.iter().zip(&event.tallies) {
        for finding in &tally.findings {
            eprintln!(
                "         {} {:?} {}",
                with.name(),
                finding.what,
                finding.page
            );
            for line in finding.difference.lines() {
                eprintln!("           {line}");
            }
        }
    }
}

/// Our plugin must leave nothing stale, and under each theme purge less than five pages of a hundred without need.
fn verdict(with: &[With], outcome: &Outcome) -> Result<(), CommandError> {
    let Some(place) = with.iter().position(|one| *one == With::Galley) else {
        return Ok(());
    };
    let total = outcome.total(place);
    if total.stale > 0 {
        return Err(format!(
            "{} pages were stale after an edit: say --explain",
            total.stale
        )
        .into());
    }
    for (theme, tally) in outcome.totals_by_theme(place) {
        if tally.over * 20 >= tally.purged.max(1) {
            return Err(format!(
                "{} of {} pages were purged without need under {theme}: say --explain",
                tally.over, tally.purged
            )
            .into());
        }
    }
    let Some(cost) = &outcome.cost else {
        return Ok(());
    };
    let most_ms = cost.page_ms.median * MOST_OF_A_PAGE;
    dearest_edit(cost, most_ms).map_or(Ok(()), |edit| {
        Err(format!(
            "the plugin takes {:.1} ms of processor time and {} database queries for an edit ({}): the limits are {most_ms:.1}, a sixth of what a page takes, and {MOST_QUERIES}",
            edit.cpu_ms.median, edit.queries.median, edit.what
        )
        .into())
    })
}

/// The edit of which the plugin takes most, where that is too much.
fn dearest_edit(cost: &Cost, most_ms: f64) -> Option<&EditCost> {
    let each = cost.each.iter();
    each.filter(|edit| edit.cpu_ms.median > most_ms || edit.queries.median > MOST_QUERIES)
        .max_by(|one, other| one.cpu_ms.median.total_cmp(&other.cpu_ms.median))
}

/// Processor time that the plugin may take of an edit, as a part of what PHP takes for a page: machines differ.
const MOST_OF_A_PAGE: f64 = 1.0 / 6.0;

/// Database queries that the plugin may make for an edit: these do not vary with the load of the machine.
const MOST_QUERIES: f64 = 10.0;

/// Milliseconds for a table.
fn ms(time: Option<Duration>) -> String {
    time.map_or_else(|| "never".to_owned(), |time| time.as_millis().to_string())
}

#[cfg(test)]
mod tests {
    use galley_testkit::Spread;

    use super::*;

    fn outcome(stale: usize, purged: usize, over: usize) -> Outcome {
        let tally = Tally {
            changed: 9,
            stale,
            purged,
            over,
            ..Tally::default()
        };
        Outcome {
            pages: 10,
            events: vec![Event {
                name: "e",
                what: "w",
                way: "REST",
                theme: "t",
                pages: 10,
                hits: 10,
                tallies: vec![tally],
            }],
            cost: None,
        }
    }

    #[test]
    fn an_edit_that_costs_too_much_fails_the_run() {
        let middle = |median| Spread {
            median,
            lower: 0.0,
            upper: 9.0,
        };
        let mut outcome = outcome(0, 100, 0);
        for (ms, queries, fine) in [(2.9, 10.0, true), (3.1, 10.0, false), (2.9, 11.0, false)] {
            let each = [2.0, ms].map(|ms| EditCost {
                what: "title",
                ms: middle(9.0),
                cpu_ms: middle(ms),
                queries: middle(queries),
            });
            outcome.cost = Some(Cost {
                page_ms: middle(18.0),
                page_percent: middle(1.0),
                pages: 1,
                edit_ms: middle(1.0),
                edit_added_ms: middle(1.0),
                edits: 1,
                each: each.to_vec(),
            });
            assert_eq!(
                verdict(&[With::Galley], &outcome).is_ok(),
                fine,
                "{ms} {queries}"
            );
        }
    }

    #[test]
    fn one_theme_does_not_make_up_for_another() {
        let mut both = outcome(0, 1000, 0);
        let mut block = outcome(0, 20, 1).events;
        block[0].theme = "block";
        both.events.extend(block);
        let refused = verdict(&[With::Galley], &both).unwrap_err().to_string();
        assert!(
            refused.contains("1 of 20 pages") && refused.contains("under block"),
            "{refused}"
        );
    }

    #[test]
    fn only_our_plugin_can_fail_the_run() {
        let rows = [
            (0, 100, 4, true),
            (0, 100, 5, false),
            (1, 100, 0, false),
            (0, 0, 0, true),
        ];
        for (stale, purged, over, fine) in rows {
            let outcome = outcome(stale, purged, over);
            assert_eq!(
                verdict(&[With::Galley], &outcome).is_ok(),
                fine,
                "{stale} {purged} {over}"
            );
            assert!(verdict(&[With::NginxHelper], &outcome).is_ok());
        }
    }
}
