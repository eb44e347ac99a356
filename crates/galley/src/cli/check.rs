//! `check`: reports all errors of a configuration, and the problems that a start would have on this machine. Changes
//! nothing.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use galley_config::{Config, Diagnostics, UpstreamConfig};
use serde_json::{Value, json};

use super::options::{AdminOptions, CheckOptions};
use galley_operator::outcome::{DEFAULT_CONFIG, EXIT_USAGE, fail, runtime};
use galley_operator::{ask, show};

use super::reload;
use crate::app::{self, Preflight, RunningGalley};

pub(super) fn check(options: &CheckOptions) -> ExitCode {
    let as_json = options.json;
    let path = options.config.as_deref();
    let path = path.unwrap_or(Path::new(DEFAULT_CONFIG));
    let mut config = match galley_config::load(path) {
        Ok(config) => config,
        Err(diagnostics) => {
            print(&diagnostics, as_json);
            return ExitCode::from(EXIT_USAGE);
        }
    };
    let mut inspection = app::inspect(&config, &running(path));
    let lacks = lacks(&config, &mut inspection);
    let notes = config.warnings_of(&inspection.notes);
    let unreachable = config.warnings_of(&inspection.unreachable);
    config.warnings.extend(unreachable);
    let warnings = inspection.all();
    if warnings.is_empty() {
        let diff = match options.diff.then(|| differences(path, &config)) {
            Some(Err(code)) => return code,
            Some(Ok(diff)) => Some(diff),
            None => None,
        };
        show::checked(path, &config, &lacks, &notes, diff.as_ref(), as_json);
        return ExitCode::SUCCESS;
    }
    print(&config.diagnostics(&warnings), as_json);
    if !as_json {
        show::notes(&notes);
    }
    if inspection.wrong.is_empty() {
        ExitCode::FAILURE
    } else {
        ExitCode::from(EXIT_USAGE)
    }
}

fn print(diagnostics: &Diagnostics, as_json: bool) {
    if as_json {
        show::data(&show::diagnostics(diagnostics));
    } else {
        show::talk_lines(&diagnostics.to_string());
    }
}

/// The changes that a reload of the running server would make.
fn differences(path: &Path, config: &Config) -> Result<Value, ExitCode> {
    let report = reload::order(&of_file(path), &json!({ "compare": true }))?;
    // The running server reads the file that it was started with.
    let read = reload::lines(&report, "files").next().map(Path::new);
    let checked_file = config.files.first().map(PathBuf::as_path);
    if read.map(Path::canonicalize).transpose().ok()
        != checked_file.map(Path::canonicalize).transpose().ok()
    {
        let read = read.unwrap_or(Path::new("")).display();
        return Err(fail(&format!(
            "the running server reads `{read}`: name that file with `--config`"
        )));
    }
    Ok(report)
}

fn of_file(path: &Path) -> AdminOptions {
    AdminOptions {
        config: Some(path.to_owned()),
        admin: None,
        token_file: None,
    }
}

/// Queries whether a Galley with this configuration runs.
fn running(path: &Path) -> RunningGalley {
    let status = ask::admin(&of_file(path)).and_then(|admin| admin.get("/status"));
    match status {
        Ok(status) => match status["listeners"].as_array() {
            Some(urls) => {
                let urls = urls.iter().filter_map(|url| url.as_str());
                RunningGalley::At(urls.map(str::to_owned).collect())
            }
            None => RunningGalley::Somewhere,
        },
        Err(ask::AdminError::Refused { .. }) => RunningGalley::Somewhere,
        Err(_) => RunningGalley::No,
    }
}

/// The missing PHP modules, for each site whose PHP Galley would run; the configuration is valid nevertheless. A PHP that
/// cannot be started is added to `found`.
fn lacks(config: &Config, found: &mut Preflight) -> Vec<(String, String)> {
    let sites = config.sites.iter().enumerate();
    let managed = sites.filter(|(_, site)| site.upstream == UpstreamConfig::Managed);
    let mut missing = Vec::new();
    for (index, site) in managed {
        let result = runtime()
            .map(|runtime| runtime.block_on(galley_php::lacks(site.managed.binary.as_deref())));
        let lacks = match result {
            Ok(Ok(lacks)) => lacks,
            Ok(Err(error)) => {
                found.refused.push(app::of_php(config, index, &error));
                continue;
            }
            Err(error) => vec![error],
        };
        missing.extend(lacks.into_iter().map(|lack| (site.name.clone(), lack)));
    }
    missing
}
