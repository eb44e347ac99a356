//! `galley upgrade`: makes the running server hand over to the program that is installed now, and reports the result.
//!
//! Exit codes: 0 the new program serves, 1 the running one continues because the new one does not start, 2 only a restart
//! can start the new program. The package's scripts restart the service after 2, but not after 1.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use super::options::UpgradeOptions;
use galley_operator::ask::{self, AdminError};
use galley_operator::outcome::{EXIT_USAGE, talk};
use galley_operator::show;

/// Runs `galley upgrade`.
pub(super) fn upgrade(options: &UpgradeOptions) -> ExitCode {
    let upgraded = ask::admin(&options.admin)
        .and_then(|admin| admin.post_within(TIMEOUT, "/upgrade", &json!({})));
    match upgraded {
        Ok(report) => {
            if options.json {
                show::data(&report);
            } else {
                print_report(&report);
            }
            ExitCode::SUCCESS
        }
        Err(AdminError::Refused { status, error }) if NEEDS_RESTART.contains(&status) => {
            talk("upgrade: only a restart starts the new program; the running one continues");
            show::talk_lines(&error);
            ExitCode::from(EXIT_USAGE)
        }
        Err(AdminError::Refused { error, .. }) => {
            talk("upgrade: the running process continues, because the new one did not start");
            show::talk_lines(&error);
            ExitCode::FAILURE
        }
        Err(trouble) => trouble.report(),
    }
}

fn print_report(report: &Value) {
    talk(&format!(
        "upgrade: process {} serves, with {} page(s) of the memory and {} PHP-FPM, after {} ms",
        report["pid"], report["pages"], report["pools"], report["milliseconds"]
    ));
}

/// The statuses for a required restart: 409, and 404 from a version without upgrades.
const NEEDS_RESTART: [u16; 2] = [409, 404];

/// The time limit for an upgrade. The new process may have to start PHP.
const TIMEOUT: Duration = Duration::from_secs(300);
