//! Runs other commands of this program with JSON output.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// Runs `galley ARGUMENTS --json`. The error is the command's output.
pub(super) fn galley(arguments: &[&str], configuration: &Path) -> Result<Value, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new(program)
        .args(arguments)
        .arg("--json")
        .arg("--config")
        .arg(configuration)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let value = serde_json::from_slice(&output.stdout).ok();
    value.ok_or_else(|| String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
