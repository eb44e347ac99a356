//! `galley setup --undo`: reverts the steps of the journal, the last one first.

use std::path::Path;

use super::error::SetupError;
use super::units;
use crate::outcome::talk;
use crate::setup::{SetupJournal, UndoResult, UndoStep};

/// Changes that could not be undone, one line each.
pub(super) type UndoFailures = Vec<String>;

/// Restores the state in which the journal had `until` steps.
pub(super) fn back_to(
    journal: &mut SetupJournal,
    until: usize,
) -> Result<UndoFailures, SetupError> {
    let mut remains = Vec::new();
    let mut service: Option<ServiceState> = None;
    while journal.steps().len() > until {
        let Some(step) = journal.steps().last().cloned() else {
            break;
        };
        match &step {
            // Galley's own service is restored last, with the previous configuration. The oldest step contains its original state.
            UndoStep::Unit {
                unit,
                was_active,
                was_enabled,
            } if unit == SERVICE => {
                if service.is_none() {
                    remains.extend(run(&["stop", "--", unit]));
                }
                service = Some(ServiceState {
                    is_active: *was_active,
                    is_enabled: *was_enabled,
                });
            }
            _ => remains.extend(undo(&step)),
        }
        let forgotten = journal.forget_last();
        forgotten
            .map_err(|error| SetupError::Failed(format!("cannot write the journal: {error}")))?;
    }
    if units::is_there() {
        remains.extend(run(&["daemon-reload"]));
    }
    if let Some(state) = service {
        // Both also change the sockets (`Also=`), which have been restored by now.
        match (state.is_enabled, units::is_enabled(SERVICE)) {
            (true, false) => remains.extend(run(&["enable", "--quiet", "--", SERVICE])),
            (false, true) => remains.extend(run(&["disable", "--quiet", "--", SERVICE])),
            _ => {}
        }
        if state.is_active {
            remains.extend(run(&["restart", "--", SERVICE]));
        }
    }
    Ok(remains)
}

/// The original state of Galley's service.
#[derive(Clone, Copy)]
struct ServiceState {
    is_active: bool,
    is_enabled: bool,
}

/// Runs `systemctl`; returns the error, if any.
fn run(arguments: &[&str]) -> Option<String> {
    units::systemctl(arguments)
        .err()
        .map(|error| error.to_string())
}

/// Undoes one step; returns what could not be undone.
fn undo(step: &UndoStep) -> UndoFailures {
    match step {
        UndoStep::File { path, .. } | UndoStep::Made { path } => match step.undo_file() {
            Ok(UndoResult::Restored) => {
                talk(&format!("restored {}", path.display()));
                Vec::new()
            }
            Ok(UndoResult::Kept) => vec![format!(
                "`{}` has changed since, so it stays",
                path.display()
            )],
            Err(error) => vec![format!("cannot restore `{}`: {error}", path.display())],
        },
        UndoStep::Unit {
            unit,
            was_active,
            was_enabled,
        } => {
            let verb = if *was_active { "start" } else { "stop" };
            let state = if *was_enabled { "enable" } else { "disable" };
            talk(&format!("{verb} {unit}, {state} it"));
            let results = [
                run(&[verb, "--", unit]),
                run(&[state, "--quiet", "--", unit]),
            ];
            results.into_iter().flatten().collect()
        }
        UndoStep::Plugin { root } => remove_plugin(root),
    }
}

fn remove_plugin(root: &Path) -> UndoFailures {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return vec![error.to_string()],
    };
    let mut command = std::process::Command::new(program);
    let output = command
        .args(["plugin", "remove", "--json"])
        .arg(root)
        .output();
    match output {
        Ok(output) if output.status.success() => {
            talk(&format!("removed the plugin from {}", root.display()));
            Vec::new()
        }
        Ok(output) => {
            let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            vec![format!("the plugin in `{}`: {stderr}", root.display())]
        }
        Err(error) => vec![error.to_string()],
    }
}

pub(super) const SERVICE: &str = "galley.service";
