//! `galley setup` from beginning to end.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use super::apply::{Change, require_one_managed};
use super::consent::Consent;
use super::error::SetupError;
use super::ports::{self, ListenPlan};
use super::report::SetupReport;
use super::survey::{self, SetupFindings};
use super::undo;
use crate::options::SetupOptions;
use crate::outcome::{EXIT_USAGE, runtime, talk};
use crate::setup::{
    PageComparison, PhpChoice, SetupJournal, SetupPlan, TestInstance, TrialError, compare_pages,
};
use crate::show;

/// Runs `galley setup`.
pub fn setup(options: &SetupOptions) -> ExitCode {
    let done = if options.undo {
        undo(options)
    } else {
        run(options)
    };
    done.unwrap_or_else(|error| error.message())
}

fn run(options: &SetupOptions) -> Result<ExitCode, SetupError> {
    let start = Instant::now();
    let Some(consent) = Consent::new(options.yes || options.dry_run) else {
        talk("there is no terminal to ask at: use --yes, or --dry-run to see what it would do");
        return Ok(ExitCode::from(EXIT_USAGE));
    };
    let survey = survey::survey(options)?;
    survey.explain();
    survey.require_sites()?;
    let mut journal = SetupJournal::open(&options.output)
        .map_err(|cause| SetupError::file("read the journal of", &options.output, &cause))?;
    require_replaceable(&options.output, &journal)?;
    let mut listen = choose_ports(options, &survey)?;
    let mut plan = plan(options, &survey, &listen);
    require_one_managed(&plan)?;
    let mut report = SetupReport::default();
    if !options.no_test {
        report.comparisons = test(&survey, &plan)?;
    }
    if options.dry_run {
        return Ok(print(options, &survey, &plan, &report));
    }
    if let Some(units) = offer_take_over(consent, &survey, &listen, options) {
        listen = ListenPlan::Sockets { stop: units };
        plan = self::plan(options, &survey, &listen);
    }
    for line in plan.configuration().lines() {
        talk(&format!("| {line}"));
    }
    if !consent.to(&format!("write this to {}?", options.output.display())) {
        talk("nothing was changed");
        return Ok(ExitCode::FAILURE);
    }
    let change = Change {
        options,
        survey: &survey,
        plan: &plan,
        listen: &listen,
        consent,
        start,
    };
    change.apply(&mut journal, &mut report)?;
    Ok(print(options, &survey, &plan, &report))
}

/// Prints the result: JSON, the configuration of a dry run, or the changes.
fn print(
    options: &SetupOptions,
    survey: &SetupFindings,
    plan: &SetupPlan,
    report: &SetupReport,
) -> ExitCode {
    if options.json {
        show::data(&report.value(survey, &plan.configuration()));
        return ExitCode::SUCCESS;
    }
    if options.dry_run {
        plan.configuration().lines().for_each(show::line);
        return ExitCode::SUCCESS;
    }
    for action in &report.actions {
        show::line(&format!("done   {action}"));
    }
    if let Some(time) = report.first_hit {
        show::line(&format!(
            "done   the first page came from the cache {:.1} s after the start",
            time.as_secs_f64()
        ));
    }
    for line in &report.to_do {
        show::line(&format!("to do  {line}"));
    }
    ExitCode::SUCCESS
}

/// Checks that the file is the package's, or was written by this command: an administrator's file is not replaced.
fn require_replaceable(output: &Path, journal: &SetupJournal) -> Result<(), SetupError> {
    let text = match fs::read_to_string(output) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(SetupError::file("read", output, &cause)),
        Ok(text) => text,
    };
    if text == PACKAGED || journal.has_written(output) {
        return Ok(());
    }
    Err(SetupError::Usage(format!(
        "`{}` exists and is not from this command: name another file with --output, or move it away",
        output.display()
    )))
}

fn choose_ports(options: &SetupOptions, survey: &SetupFindings) -> Result<ListenPlan, SetupError> {
    let foreign = ports::foreign(&survey.detection);
    let stop = ports::taken_over(&options.take_over, &foreign)?;
    if !stop.is_empty() {
        require_ready_for_ports(survey)?;
    }
    let has_units = survey.detection.has_package && !options.no_service;
    match options.listen {
        Some(plain) => Ok(ListenPlan::Own {
            plain,
            tls: ports::free(8443)?,
        }),
        None if has_units && (foreign.is_empty() || !stop.is_empty()) => {
            Ok(ListenPlan::Sockets { stop })
        }
        None => Ok(ListenPlan::Own {
            plain: ports::free(8080)?,
            tls: ports::free(8443)?,
        }),
    }
}

/// Checks that every site would work with Galley on the ports of visitors.
fn require_ready_for_ports(survey: &SetupFindings) -> Result<(), SetupError> {
    for site in survey.sites.iter().map(|site| &site.draft) {
        let root = site.root.display();
        if matches!(site.php, PhpChoice::Http(_)) {
            return Err(SetupError::Usage(format!(
                "--take-over: Apache runs the PHP of {root}; give it another port first, see `Apache behind Galley` in the tutorial"
            )));
        }
        if site.is_https && site.tls == crate::setup::TlsChoice::Off {
            return Err(SetupError::Usage(format!(
                "--take-over: {root} uses https, and no certificate was found: add --tls auto"
            )));
        }
    }
    Ok(())
}

fn plan(options: &SetupOptions, survey: &SetupFindings, listen: &ListenPlan) -> SetupPlan {
    let (plain, tls) = listen.listen();
    SetupPlan {
        listen: plain,
        listen_note: listen
            .note(options.listen.is_some(), &ports::foreign(&survey.detection))
            .to_owned(),
        listen_tls: tls,
        has_package: survey.detection.has_package && !options.no_service,
        sites: survey.sites.iter().map(|site| site.draft.clone()).collect(),
    }
}

/// Runs the configuration on a loopback port. Error: it does not start, a request fails, or a page differs.
fn test(survey: &SetupFindings, plan: &SetupPlan) -> Result<Vec<PageComparison>, SetupError> {
    talk("testing the configuration on a loopback port");
    let runtime = runtime().map_err(SetupError::Failed)?;
    let is_root = rustix::process::geteuid().is_root();
    let has_user = plan.has_package && is_root && survey.managed().is_none();
    let compared: Result<Vec<PageComparison>, TrialError> = runtime.block_on(async {
        let trial = TestInstance::start(plan, has_user.then_some("galley")).await?;
        let mut comparisons = Vec::new();
        for site in &survey.sites {
            let galley = trial.endpoint(site.draft.is_https);
            comparisons.extend(compare_pages(&site.draft, site.current, galley).await?);
        }
        trial.stop().await;
        Ok(comparisons)
    });
    let compared = compared?;
    let mut is_different = false;
    for page in &compared {
        let differences = page.differences();
        let verdict = if differences.is_empty() {
            "same"
        } else {
            "DIFFERS"
        };
        talk(&format!(
            "{verdict:<8} {}{} ({})",
            page.host, page.path, page.galley.status
        ));
        for one in &differences {
            talk(&format!(
                "         {}: `{}` today, `{}` by Galley",
                one.what, one.current, one.galley
            ));
        }
        is_different |= !differences.is_empty();
    }
    if is_different {
        return Err(SetupError::Failed(
            "Galley's pages differ from those of today, so nothing was changed; --no-test skips the comparison".to_owned(),
        ));
    }
    Ok(compared)
}

/// The units that the user at the terminal agrees to replace by Galley.
fn offer_take_over(
    consent: Consent,
    survey: &SetupFindings,
    listen: &ListenPlan,
    options: &SetupOptions,
) -> Option<Vec<String>> {
    let foreign = ports::foreign(&survey.detection);
    let is_beside = matches!(listen, ListenPlan::Own { .. }) && options.listen.is_none();
    let may = survey.detection.has_package && !options.no_service;
    if !is_beside || !may || foreign.is_empty() || require_ready_for_ports(survey).is_err() {
        return None;
    }
    let units: Option<Vec<String>> = foreign.iter().map(|owner| owner.unit.clone()).collect();
    let mut units = units?;
    units.sort();
    units.dedup();
    let question = format!(
        "stop and disable {}, and give its ports to Galley?",
        units.join(", ")
    );
    consent.only_by_hand(&question).then_some(units)
}

fn undo(options: &SetupOptions) -> Result<ExitCode, SetupError> {
    let mut journal = SetupJournal::open(&options.output)
        .map_err(|cause| SetupError::file("read the journal of", &options.output, &cause))?;
    if journal.steps().is_empty() {
        talk("there is nothing to undo");
        return Ok(ExitCode::SUCCESS);
    }
    match Consent::new(options.yes) {
        Some(consent) if consent.to("restore the state before `galley setup`?") => {}
        Some(_) => return Ok(ExitCode::FAILURE),
        None => {
            talk("there is no terminal to ask at: use --yes");
            return Ok(ExitCode::from(EXIT_USAGE));
        }
    }
    let remains = undo::back_to(&mut journal, 0)?;
    Ok(report_undo_failures(&remains, options))
}

fn report_undo_failures(remains: &[String], options: &SetupOptions) -> ExitCode {
    if options.json {
        show::data(&serde_json::json!({ "ok": remains.is_empty(), "remains": remains }));
    }
    for line in remains {
        talk(line);
    }
    match remains {
        [] => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// The unchanged configuration that the package installs.
const PACKAGED: &str = include_str!("../../../../packaging/config/galley.toml");
