//! `galley reload`: makes the running server reload its configuration, and reports the result.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::options::{AdminOptions, ReloadOptions};
use galley_operator::ask::{self, AdminError};
use galley_operator::outcome::{EXIT_USAGE, talk};
use galley_operator::{option_change, show};

/// Runs `galley reload`.
pub(super) fn reload(options: &ReloadOptions) -> ExitCode {
    let result = order(&options.admin, &json!({}));
    match result {
        Ok(report) => {
            if options.json {
                show::data(&report);
            } else {
                print_report(&report);
            }
            ExitCode::SUCCESS
        }
        Err(code) => code,
    }
}

/// Sends a command to the running server. Errors have already been printed.
pub(super) fn order(options: &AdminOptions, order: &Value) -> Result<Value, ExitCode> {
    // The server reports and records an error of the file, too.
    let admin = ask::admin_quietly(options);
    match admin.and_then(|admin| admin.post_within(TIMEOUT, "/reload", order)) {
        Ok(report) => Ok(report),
        Err(AdminError::Refused { status, error }) => {
            show::talk_lines(&error);
            let is_invalid = status == INVALID;
            Err(if is_invalid {
                ExitCode::from(EXIT_USAGE)
            } else {
                ExitCode::FAILURE
            })
        }
        Err(trouble) => Err(trouble.report()),
    }
}

fn print_report(report: &Value) {
    for warning in lines(report, "warnings") {
        show::talk_lines(warning);
    }
    for change in lines(report, "changes") {
        talk(&format!("reload: {change}"));
    }
    for option in report["options"].as_array().into_iter().flatten() {
        talk(&format!("reload:   {}", option_change::line(option)));
    }
    let restart: Vec<&str> = lines(report, "restart").collect();
    if !restart.is_empty() {
        talk(&format!(
            "reload: these changes need a restart: {}",
            restart.join(", ")
        ));
    }
    talk("reload: the configuration is in force");
}

/// The lines of a list in a report.
pub(super) fn lines<'r>(report: &'r Value, list: &str) -> impl Iterator<Item = &'r str> {
    let items = report[list].as_array().map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(Value::as_str)
}

/// The status for an invalid configuration.
const INVALID: u16 = 422;

/// The time limit for a reload, which may start PHP of further sites.
const TIMEOUT: Duration = Duration::from_secs(300);
