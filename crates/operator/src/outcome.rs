//! Functions of all commands: reading the configuration, exit codes, error messages.

use std::path::Path;
use std::process::ExitCode;

use galley_config::{Config, Diagnostics};

use crate::show;

/// The runtime for commands that wait.
pub fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| e.to_string())
}

/// Prints the errors of a configuration and returns the exit code for them.
pub fn print_diagnostics(diagnostics: &Diagnostics) -> ExitCode {
    show::talk_lines(&diagnostics.to_string());
    ExitCode::from(EXIT_USAGE)
}

/// Prints an error to stderr and returns exit code 1.
pub fn fail(message: &str) -> ExitCode {
    talk(message);
    ExitCode::FAILURE
}

/// Prints one message to stderr.
pub fn talk(line: &str) {
    show::talk_lines(&format!("galley: {line}"));
}

/// The configuration file that the package installs.
pub const DEFAULT_CONFIG: &str = "/etc/galley/galley.toml";

/// The exit code for wrong usage or configuration, like clap's own for wrong arguments.
pub const EXIT_USAGE: u8 = 2;

/// Reads the configuration for commands that query a running server.
pub fn configuration(path: &Path) -> Result<Config, Diagnostics> {
    galley_config::load(path)
}
