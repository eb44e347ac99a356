//! What all commands share: reading the configuration, exit codes, and error messages.

use std::path::Path;
use std::process::ExitCode;

use galley_config::{Complaints, Config};

use super::show;

/// For commands that wait for something.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| e.to_string())
}

pub(super) fn complain(complaints: &Complaints) -> ExitCode {
    show::talk_lines(&complaints.to_string());
    ExitCode::from(EXIT_USAGE)
}

pub(super) fn fail(message: &str) -> ExitCode {
    talk(message);
    ExitCode::FAILURE
}

pub(super) fn talk(line: &str) {
    show::talk_lines(&format!("galley: {line}"));
}

/// A configuration that the file system package installs.
pub(super) const DEFAULT_CONFIG: &str = "/etc/galley/galley.toml";

/// Wrong usage or configuration; clap's own code for wrong arguments is the same.
pub(super) const EXIT_USAGE: u8 = 2;

/// The configuration for commands that ask a running server.
pub(super) fn configuration(path: &Path) -> Result<Config, Complaints> {
    galley_config::load(path)
}
