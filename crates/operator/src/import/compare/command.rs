//! Runs `galley import --try`: starts both servers, compares them, and ends them in any case.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use galley_import::{Imported, ServedConfiguration, ServerKind, served};
use tokio::signal::unix::{SignalKind, signal};

use super::draft::{DraftPlaces, ReplacedFile, loopback};
use super::endpoints::{TryEndpoints, VisitedHost, hosts};
use super::error::TryError;
use super::findings::TryReport;
use super::origin::StatementFinder;
use super::pages::{FoundPages, logged, mapped};
use super::rounds::{Crawling, TryRun};
use super::servers::{OldServer, PreparedServer, prepare};
use super::statements::{self, VisitMeans};
use super::visit::TryVisit;
use super::workplace::TestWorkspace;
use super::{files, rules, text, value, visits};
use crate::outcome::{EXIT_USAGE, runtime, talk};
use crate::setup::{Machine, TestInstance};
use crate::show;

/// The options of the command line.
pub(in crate::import) struct TryOptions<'o> {
    pub(in crate::import) log: Option<&'o Path>,
    pub(in crate::import) sitemap: Option<&'o str>,
    pub(in crate::import) crawl: bool,
    pub(in crate::import) draft: Option<&'o Path>,
    pub(in crate::import) json: bool,
}

/// Runs the command. Exit code 0 without differences, 1 with differences, 2 if the servers cannot be compared.
pub(in crate::import) fn compare(
    machine: &Machine,
    mains: &[(ServerKind, PathBuf)],
    imported: &Imported,
    options: &TryOptions<'_>,
) -> ExitCode {
    let plan = TryPlan {
        machine,
        mains,
        imported,
        options,
    };
    let outcome = runtime().map_err(|why| TryError::Io(std::io::Error::other(why)));
    match outcome.and_then(|runtime| runtime.block_on(plan.run())) {
        Ok(report) => {
            if options.json {
                show::data(&value::value(&report));
            } else {
                show::verbatim(&text::text(&report));
            }
            ExitCode::from(u8::from(!report.findings.groups.is_empty()))
        }
        Err(error) => {
            talk(&format!("import --try: {error}"));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

struct TryPlan<'p> {
    machine: &'p Machine,
    mains: &'p [(ServerKind, PathBuf)],
    imported: &'p Imported,
    options: &'p TryOptions<'p>,
}

/// The processes that were started.
#[derive(Default)]
struct RunningServers {
    old: Option<OldServer>,
    galley: Option<TestInstance>,
}

impl RunningServers {
    async fn stop(&mut self) {
        if let Some(galley) = self.galley.take() {
            galley.stop().await;
        }
        if let Some(old) = self.old.take() {
            old.stop().await;
        }
    }
}

impl TryPlan<'_> {
    async fn run(&self) -> Result<TryReport, TryError> {
        let workplace = TestWorkspace::new()?;
        let mut running = RunningServers::default();
        let outcome = tokio::select! {
            outcome = self.compare(&workplace, &mut running) => outcome,
            () = interrupted() => Err(TryError::Interrupted),
        };
        running.stop().await;
        outcome
    }

    async fn compare(
        &self,
        workplace: &TestWorkspace,
        running: &mut RunningServers,
    ) -> Result<TryReport, TryError> {
        let Some((kind, main)) = self.mains.first() else {
            return Err(TryError::Pages("no configuration is named".to_owned()));
        };
        let prepared = prepare(self.machine, *kind, main, workplace)?;
        let (server, changes) = (prepared.name, prepared.copy.changes.clone());
        let passwords = prepared.copy.passwords.clone();
        let takes_addresses = changes.iter().any(|one| one.contains("X-Forwarded-For"));
        let draft = self.draft(&prepared, workplace, takes_addresses)?;
        talk(&format!(
            "try: starting {server} and Galley on loopback ports"
        ));
        let old = running
            .old
            .insert(OldServer::start(prepared, workplace.path()).await?);
        let galley = running.galley.insert(TestInstance::run(&draft).await?);
        let served = served(self.machine, self.mains);
        let endpoints = TryEndpoints::new(&served, &old.listeners, galley);
        let hosts = hosts(&served, &old.listeners);
        let means = VisitMeans {
            workplace,
            passwords: &passwords,
            takes_addresses,
        };
        let pages = self.pages(&hosts, &endpoints).await?;
        let rules = rules::of_draft(&draft);
        let mut visits = synthetic([&served, &rules], &hosts, &means);
        visits.extend(pages.visits);
        let run = TryRun {
            endpoints: &endpoints,
            hosts: &hosts,
            finder: StatementFinder {
                served: &served,
                imported: self.imported,
            },
            crawling: if self.options.crawl {
                Crawling::Links
            } else {
                Crawling::Off
            },
            uncompressed: Cell::default(),
        };
        Ok(TryReport {
            server,
            changes,
            skipped: pages.skipped,
            findings: run.run(visits).await,
        })
    }

    /// The configuration for the test instance of Galley.
    fn draft(
        &self,
        prepared: &PreparedServer,
        workplace: &TestWorkspace,
        takes_addresses: bool,
    ) -> Result<String, TryError> {
        let text = match self.options.draft {
            Some(path) => fs::read_to_string(path).map_err(|error| {
                TryError::Draft(format!("cannot read `{}`: {error}", path.display()))
            })?,
            None => self.imported.configuration.clone(),
        };
        let replaced = prepared
            .copy
            .passwords
            .iter()
            .enumerate()
            .map(|(index, path)| ReplacedFile {
                path: path.clone(),
                by: workplace.password_file(index),
            });
        let places = DraftPlaces {
            cert: workplace.copy().cert.clone(),
            key: workplace.copy().key.clone(),
            passwords: replaced.collect(),
            takes_addresses,
        };
        loopback(&text, &places).map_err(TryError::Draft)
    }

    /// The requests from a log or a sitemap.
    async fn pages(
        &self,
        hosts: &[VisitedHost],
        endpoints: &TryEndpoints,
    ) -> Result<FoundPages, TryError> {
        let mut found = FoundPages::default();
        if let (Some(path), Some(host)) = (self.options.log, hosts.first()) {
            found = logged(path, host)?;
        }
        if let Some(place) = self.options.sitemap {
            let more = mapped(place, hosts, endpoints).await?;
            found.visits.extend(more.visits);
            found.skipped.extend(more.skipped);
        }
        Ok(found)
    }
}

/// The requests that are derived from the configurations.
fn synthetic(
    configurations: [&ServedConfiguration; 2],
    hosts: &[VisitedHost],
    means: &VisitMeans<'_>,
) -> Vec<TryVisit> {
    let mut all = Vec::new();
    for host in hosts {
        let files = host.root.as_deref().map(files::below).unwrap_or_default();
        all.extend(visits::of_host(host, &files));
        all.extend(statements::of_host(host, &files, configurations, means));
    }
    for is_tls in [false, true] {
        if hosts
            .iter()
            .any(|host| if is_tls { host.has_tls } else { host.has_plain })
        {
            all.push(visits::unknown_host(is_tls));
        }
    }
    all
}

/// Waits for a signal that ends the command.
async fn interrupted() {
    let signals = [
        SignalKind::interrupt(),
        SignalKind::terminate(),
        SignalKind::hangup(),
    ]
    .map(signal);
    let [Ok(mut interrupt), Ok(mut terminate), Ok(mut hangup)] = signals else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
        _ = hangup.recv() => {}
    }
}
