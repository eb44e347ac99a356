//! `xtask exactness`: measures how exactly edits purge, for our plugin and for models of two others, event by event.
//!
//! The measurement is in [`galley_testkit::exactness`]; the tests run its short suite. Progress goes to stderr, the tables to
//! stdout, and the last line of stdout is JSON. Fails if our plugin left a page stale or purged too many unchanged pages.

mod audited;
mod generated;
mod installed;
mod table;

use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::{ValueEnum, builder::PossibleValuesParser};
use galley_testkit::exactness::{
    self, EventReport, ExactnessReport, ExactnessSettings, PluginCost, PluginEditCost, Progress,
    PurgeCounts, PurgeMethod, Suite, event_names,
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
    /// The purge methods to compare
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "galley,proxy-cache-purge,nginx-helper"
    )]
    with: Vec<MethodName>,
    /// Run only these events
    #[arg(long, value_name = "EVENT", value_delimiter = ',', value_parser = PossibleValuesParser::new(event_names()))]
    only: Vec<String>,
    /// Run the suite of `make test`: fewer pages and events
    #[arg(long)]
    short: bool,
    /// Show the difference on each stale page, and the unchanged pages that were purged
    #[arg(long)]
    explain: bool,
    /// Do not measure the cost of the plugin
    #[arg(long, conflicts_with = "cost")]
    no_cost: bool,
    /// Measure the cost of the plugin also with `--only`
    #[arg(long)]
    cost: bool,
    /// Write all results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(subcommand)]
    other: Option<OtherSite>,
}

/// Measurements on other sites.
#[derive(Debug, clap::Subcommand)]
enum OtherSite {
    /// Pages that depend on files, which only the audit finds
    Audited(audited::AuditedArguments),
    /// Random plugins and random edits
    Generated(generated::GeneratedArguments),
    /// Any plugins and themes, with PHP scripts as events
    Installed(installed::InstalledArguments),
}

/// What the measurements on other sites have in common.
struct Common<'a> {
    /// Our plugin, and none.
    methods: Vec<PurgeMethod>,
    explain: bool,
    json: Option<&'a PathBuf>,
}

/// A purge method on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodName {
    Galley,
    ProxyCachePurge,
    NginxHelper,
    None,
}

impl MethodName {
    fn method(self) -> PurgeMethod {
        match self {
            Self::Galley => PurgeMethod::Galley,
            Self::ProxyCachePurge => PurgeMethod::ProxyCachePurge,
            Self::NginxHelper => PurgeMethod::NginxHelper,
            Self::None => PurgeMethod::None,
        }
    }
}

/// Runs the events and prints the tables.
pub(crate) fn run(arguments: &Arguments) -> Result<(), CommandError> {
    let settings = settings(arguments)?;
    if let Some(other) = &arguments.other {
        return run_on(other, arguments, &settings);
    }
    let start = Instant::now();
    let report = exactness::run(&settings, &mut |progress| {
        print_progress(&progress, &settings, arguments.explain, start);
    })?;
    print!("{}", table::markdown(&settings.methods, &report));
    if let Some(path) = &arguments.json {
        let text = serde_json::to_string_pretty(&table::json(&settings.methods, &report))?;
        fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    println!("{}", table::last_line(&settings.methods, &report));
    check(&settings.methods, &report)
}

/// Runs a measurement on another site, which has no models of other plugins.
fn run_on(
    site: &OtherSite,
    arguments: &Arguments,
    settings: &ExactnessSettings,
) -> Result<(), CommandError> {
    let mut methods = settings.methods.clone();
    methods.retain(|method| matches!(method, PurgeMethod::Galley | PurgeMethod::None));
    if methods.is_empty() {
        return Err("this measurement takes `--with galley` and `--with none` only".into());
    }
    let common = Common {
        methods,
        explain: arguments.explain,
        json: arguments.json.as_ref(),
    };
    match site {
        OtherSite::Audited(arguments) => audited::run(arguments, settings),
        OtherSite::Generated(arguments) => generated::run(arguments, &common, settings),
        OtherSite::Installed(arguments) => installed::run(arguments, &common, settings),
    }
}

fn settings(arguments: &Arguments) -> Result<ExactnessSettings, CommandError> {
    let mut methods: Vec<PurgeMethod> = arguments.with.iter().map(|name| name.method()).collect();
    methods.sort_by_key(|one| PurgeMethod::ALL.iter().position(|other| other == one));
    methods.dedup();
    let has_plugin = methods.contains(&PurgeMethod::Galley);
    Ok(ExactnessSettings {
        galley: fs::canonicalize(&arguments.galley).map_err(|_| {
            format!(
                "`{}` does not exist: run `make build`",
                arguments.galley.display()
            )
        })?,
        plugin: arguments.plugin.clone(),
        methods,
        only: arguments.only.clone(),
        suite: if arguments.short {
            Suite::Short
        } else {
            Suite::Long
        },
        measure_cost: has_plugin
            && !arguments.no_cost
            && (arguments.cost || arguments.only.is_empty()),
    })
}

fn print_progress(
    progress: &Progress<'_>,
    settings: &ExactnessSettings,
    explain: bool,
    start: Instant,
) {
    let seconds = start.elapsed().as_secs();
    match progress {
        Progress::Step(step) => eprintln!("{seconds:>5} s  {step}"),
        Progress::Event(event, number, total) => {
            eprintln!(
                "{seconds:>5} s  {number}/{total} {}: {}",
                event.name,
                summary(event, settings)
            );
            if explain {
                print_findings(event, settings);
            }
        }
    }
}

fn summary(event: &EventReport, settings: &ExactnessSettings) -> String {
    let one = |(method, counts): (&PurgeMethod, &PurgeCounts)| {
        format!(
            "{} changed {}, stale {}, purged {}, over {}",
            method.name(),
            counts.changed,
            counts.stale,
            counts.purged,
            counts.overpurged
        )
    };
    let pairs = settings.methods.iter().zip(&event.counts);
    let all: Vec<String> = pairs.map(one).collect();
    all.join("; ")
}

fn print_findings(event: &EventReport, settings: &ExactnessSettings) {
    for (method, counts) in settings.methods.iter().zip(&event.counts) {
        for finding in &counts.findings {
            eprintln!(
                "         {} {} {}",
                method.name(),
                finding.kind.name(),
                finding.page
            );
            for line in finding.difference.lines() {
                eprintln!("           {line}");
            }
        }
    }
}

/// Our plugin must leave no page stale, and fewer than five of a hundred purged pages may be unchanged, for each theme.
fn check(methods: &[PurgeMethod], report: &ExactnessReport) -> Result<(), CommandError> {
    let Some(index) = methods.iter().position(|one| *one == PurgeMethod::Galley) else {
        return Ok(());
    };
    let total = report.total(index);
    if total.stale > 0 {
        return Err(format!(
            "{} pages were stale after an edit: use --explain to list them",
            total.stale
        )
        .into());
    }
    for (theme, counts) in report.totals_by_theme(index) {
        if counts.overpurged * 20 >= counts.purged.max(1) {
            return Err(format!(
                "{} of {} purged pages were unchanged under {theme}: use --explain to list them",
                counts.overpurged, counts.purged
            )
            .into());
        }
    }
    let Some(cost) = &report.cost else {
        return Ok(());
    };
    let max_ms = cost.page_ms.median * MAX_SHARE_OF_A_PAGE;
    most_expensive_edit(cost, max_ms).map_or(Ok(()), |edit| {
        Err(format!(
            "the plugin takes {:.1} ms of processor time and {} database queries for an edit ({}): the limits are {max_ms:.1}, a sixth of what a page takes, and {MAX_QUERIES}",
            edit.cpu_ms.median, edit.queries.median, edit.name
        )
        .into())
    })
}

/// The edit with the highest cost of those that exceed a limit.
fn most_expensive_edit(cost: &PluginCost, max_ms: f64) -> Option<&PluginEditCost> {
    let each = cost.each.iter();
    each.filter(|edit| edit.cpu_ms.median > max_ms || edit.queries.median > MAX_QUERIES)
        .max_by(|one, other| one.cpu_ms.median.total_cmp(&other.cpu_ms.median))
}

/// Processor time that the plugin may take for an edit, relative to what PHP takes for a page, because machines differ.
const MAX_SHARE_OF_A_PAGE: f64 = 1.0 / 6.0;

/// Database queries that the plugin may make for an edit. They do not depend on the load of the machine.
const MAX_QUERIES: f64 = 10.0;

/// Milliseconds for a table.
fn ms(time: Option<Duration>) -> String {
    time.map_or_else(|| "never".to_owned(), |time| time.as_millis().to_string())
}

#[cfg(test)]
mod tests {
    use galley_testkit::Quartiles;

    use super::*;

    fn report(stale: usize, purged: usize, overpurged: usize) -> ExactnessReport {
        let counts = PurgeCounts {
            changed: 9,
            stale,
            purged,
            overpurged,
            ..PurgeCounts::default()
        };
        ExactnessReport {
            pages: 10,
            events: vec![EventReport {
                name: "e".into(),
                description: "w".into(),
                interface: "REST",
                theme: "t",
                pages: 10,
                hits: 10,
                counts: vec![counts],
            }],
            cost: None,
        }
    }

    #[test]
    fn an_edit_that_costs_too_much_fails_the_run() {
        let spread = |median| Quartiles {
            median,
            lower: 0.0,
            upper: 9.0,
        };
        let mut report = report(0, 100, 0);
        for (ms, queries, passes) in [(2.9, 10.0, true), (3.1, 10.0, false), (2.9, 11.0, false)] {
            let each = [2.0, ms].map(|ms| PluginEditCost {
                name: "title",
                ms: spread(9.0),
                cpu_ms: spread(ms),
                queries: spread(queries),
            });
            report.cost = Some(PluginCost {
                page_ms: spread(18.0),
                page_percent: spread(1.0),
                pages: 1,
                edit_ms: spread(1.0),
                edit_added_ms: spread(1.0),
                edits: 1,
                each: each.to_vec(),
            });
            assert_eq!(
                check(&[PurgeMethod::Galley], &report).is_ok(),
                passes,
                "{ms} {queries}"
            );
        }
    }

    #[test]
    fn each_theme_is_checked_separately() {
        let mut both = report(0, 1000, 0);
        let mut block = report(0, 20, 1).events;
        block[0].theme = "block";
        both.events.extend(block);
        let error = check(&[PurgeMethod::Galley], &both)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("1 of 20 purged pages") && error.contains("under block"),
            "{error}"
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
        for (stale, purged, overpurged, passes) in rows {
            let report = report(stale, purged, overpurged);
            assert_eq!(
                check(&[PurgeMethod::Galley], &report).is_ok(),
                passes,
                "{stale} {purged} {overpurged}"
            );
            assert!(check(&[PurgeMethod::NginxHelper], &report).is_ok());
        }
    }
}
