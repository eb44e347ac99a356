//! systemd units: their state, and changes of it.

use std::path::Path;
use std::process::{Command, Stdio};

use super::error::SetupError;
use crate::setup::{SetupJournal, UndoStep};

/// Whether systemd runs on this machine.
pub(super) fn is_there() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

pub(super) fn is_active(unit: &str) -> bool {
    query("is-active", unit) == "active"
}

pub(super) fn is_enabled(unit: &str) -> bool {
    query("is-enabled", unit) == "enabled"
}

fn query(what: &str, unit: &str) -> String {
    let mut command = Command::new("systemctl");
    let output = command
        .args([what, "--", unit])
        .stdin(Stdio::null())
        .output();
    output.map_or_else(
        |_| String::new(),
        |o| String::from_utf8_lossy(&o.stdout).trim().to_owned(),
    )
}

/// Runs `systemctl` with these arguments.
pub(super) fn systemctl(arguments: &[&str]) -> Result<(), SetupError> {
    let mut command = Command::new("systemctl");
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| SetupError::Failed(format!("cannot run systemctl: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(SetupError::Failed(format!(
        "`systemctl {}` failed: {}",
        arguments.join(" "),
        stderr.trim()
    )))
}

/// A change of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitChange {
    /// Enable and start.
    Start,
    /// Restart, without changing whether the unit is enabled.
    Restart,
    /// Stop and disable.
    Stop,
}

/// Changes a unit, after recording its state. A unit that is in the right state is not changed.
pub(super) fn change(
    journal: &mut SetupJournal,
    unit: &str,
    change: UnitChange,
) -> Result<(), SetupError> {
    let is_done = match change {
        UnitChange::Start => is_active(unit) && is_enabled(unit),
        UnitChange::Stop => !is_active(unit) && !is_enabled(unit),
        UnitChange::Restart => false,
    };
    if is_done {
        return Ok(());
    }
    note(journal, unit)?;
    match change {
        UnitChange::Start => systemctl(&["enable", "--quiet", "--now", "--", unit]),
        UnitChange::Stop => systemctl(&["disable", "--quiet", "--now", "--", unit]),
        UnitChange::Restart => systemctl(&["restart", "--", unit]),
    }
}

/// Enables a unit if it is not enabled. Enabling the service also enables its socket (`Also=`), so that the sockets must be
/// changed afterwards.
pub(super) fn enable(journal: &mut SetupJournal, unit: &str) -> Result<(), SetupError> {
    if is_enabled(unit) {
        return Ok(());
    }
    note(journal, unit)?;
    systemctl(&["enable", "--quiet", "--", unit])
}

/// Records the state of a unit before a change.
pub(super) fn note(journal: &mut SetupJournal, unit: &str) -> Result<(), SetupError> {
    let step = UndoStep::Unit {
        unit: unit.to_owned(),
        was_active: is_active(unit),
        was_enabled: is_enabled(unit),
    };
    let noted = journal.record(step);
    noted.map_err(|error| SetupError::Failed(format!("cannot note the change of {unit}: {error}")))
}
