//! Runs `galley load`: permission, pages, the run, the report.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use galley_config::{Config, Diagnostics};
use galley_load::{KneeCause, LoadClient, LoadReport, VisitedPage, find_knee};

use super::fetcher::{SiteFetcher, trust};
use super::live::LiveView;
use super::login;
use super::machine::{MachineWatch, local_galley};
use super::options::LoadOptions;
use super::ownership::permission;
use super::pages;
use super::site::TestedSite;
use super::workload::PlannedLoad;
use super::write;
use crate::ask;
use crate::outcome::{DEFAULT_CONFIG, EXIT_USAGE, fail, print_diagnostics, runtime, talk};
use galley_sys::raise_descriptor_limit;

/// Runs the command.
pub fn load(options: &LoadOptions) -> ExitCode {
    let wrong = |why: String| {
        talk(&why);
        ExitCode::from(EXIT_USAGE)
    };
    let (site, named) = match TestedSite::of(&options.urls, options.connect_to) {
        Ok(of) => of,
        Err(why) => return wrong(why),
    };
    if options.http2 && !site.is_tls {
        return wrong("--http2 needs a URL with https".to_owned());
    }
    if options.logged_in > 0.0 && options.cookie_file.is_none() && options.user.is_none() {
        return wrong("--logged-in needs --cookie-file, or --user with --password-file".to_owned());
    }
    let before = match write::earlier(options) {
        Ok(before) => before,
        Err(why) => return wrong(why),
    };
    let trust = trust(options.insecure);
    let fetcher = SiteFetcher::new(&site, &trust);
    let config = match configuration(options) {
        Ok(config) => config,
        Err(diagnostics) => return print_diagnostics(&diagnostics),
    };
    if let Err(why) = permission(&site, config.as_ref(), options.i_own.as_deref(), &fetcher) {
        return wrong(why);
    }
    match plan(options, &site, named, &fetcher).and_then(|planned| run(options, &site, planned)) {
        Ok(report) => finish(options, &report, before.as_ref()),
        Err(why) => fail(&why),
    }
}

/// The configuration, if there is one. A file that the options name must be valid.
fn configuration(options: &LoadOptions) -> Result<Option<Config>, Diagnostics> {
    match &options.admin.config {
        Some(path) => galley_config::load(path).map(Some),
        None => Ok(galley_config::load(Path::new(DEFAULT_CONFIG)).ok()),
    }
}

fn plan(
    options: &LoadOptions,
    site: &TestedSite,
    named: Vec<VisitedPage>,
    fetcher: &SiteFetcher<'_>,
) -> Result<PlannedLoad, String> {
    let pages = pages::pages(options, site, named, fetcher)?;
    let cookie = login::cookie(options, fetcher)?;
    let trust = trust(options.insecure);
    PlannedLoad::new(options, site, pages, cookie, trust).map_err(|error| error.to_string())
}

fn run(
    options: &LoadOptions,
    site: &TestedSite,
    planned: PlannedLoad,
) -> Result<LoadReport, String> {
    let admin = ask::admin(&options.admin).ok();
    let galley = admin.and_then(|admin| local_galley(admin, site.addr));
    let is_local = galley.is_some() || site.addr.ip().is_loopback();
    let stop = Arc::new(AtomicBool::new(false));
    stop_on_interrupt(Arc::clone(&stop));
    raise_descriptor_limit();
    let client = LoadClient::connect(planned.target, vec![planned.workload], stop);
    let mut client = client.map_err(|error| error.to_string())?;
    let mut view = LiveView::new();
    client.watch(move |outcome, elapsed| view.show(outcome, elapsed));
    let watch = MachineWatch::start(galley, is_local);
    let outcomes = client.run(planned.limit);
    let samples = watch.samples();
    let outcome = outcomes.map_err(|error| error.to_string())?.pop();
    let outcome = outcome.ok_or("the test has no outcome")?;
    let mut report = LoadReport::new(planned.setup, &outcome, samples);
    if options.ramp.is_some()
        && let (Some(rates), Some(over_s)) = (report.setup.rates, report.setup.planned_s)
    {
        let limit_ms = options.limit_p99.as_secs_f64() * 1000.0;
        let knee = find_knee(&report.seconds, rates, over_s, limit_ms);
        report.cause = knee.broke_at.map(|at| KneeCause::of(&report.machine, at));
        report.knee = Some(knee);
    }
    Ok(report)
}

/// The first Ctrl-C ends the test with a report, the second one ends the command.
fn stop_on_interrupt(stop: Arc<AtomicBool>) {
    thread::spawn(move || {
        let Ok(runtime) = runtime() else {
            return;
        };
        runtime.block_on(async {
            if tokio::signal::ctrl_c().await.is_ok() {
                stop.store(true, Ordering::Relaxed);
            }
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(INTERRUPTED);
            }
        });
    });
}

fn finish(options: &LoadOptions, report: &LoadReport, before: Option<&LoadReport>) -> ExitCode {
    if let Err(why) = write::write(options, report, before) {
        return fail(&why);
    }
    // A ramp ends when requests fail: that is its purpose.
    let has_failed = match &report.knee {
        Some(knee) => knee.rate.is_none(),
        None => report.failures > 0 || report.responses == 0,
    };
    if has_failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

const INTERRUPTED: i32 = 1;
