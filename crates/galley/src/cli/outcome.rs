//! Functions of all commands: reading the configuration, exit codes, error messages.

use std::path::Path;
use std::process::ExitCode;

use galley_config::{Config, Diagnostics};

use super::show;

/// The runtime for commands that wait.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| e.to_string())
}

pub(super) fn print_diagnostics(diagnostics: &Diagnostics) -> ExitCode {
    show::talk_lines(&diagnostics.to_string());
    ExitCode::from(EXIT_USAGE)
}

pub(super) fn fail(message: &str) -> ExitCode {
    talk(message);
    ExitCode::FAILURE
}

pub(super) fn talk(line: &str) {
    show::talk_lines(&format!("galley: {line}"));
}

/// The configuration file that the package installs.
pub(super) const DEFAULT_CONFIG: &str = "/etc/galley/galley.toml";

/// The exit code for wrong usage or configuration, like clap's own for wrong arguments.
pub(super) const EXIT_USAGE: u8 = 2;

/// Reads the configuration for commands that query a running server.
pub(super) fn configuration(path: &Path) -> Result<Config, Diagnostics> {
    galley_config::load(path)
}
