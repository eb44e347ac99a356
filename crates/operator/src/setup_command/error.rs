//! The errors of `galley setup`.

use std::path::Path;
use std::process::ExitCode;

use galley_config::Diagnostics;

use crate::outcome::{EXIT_USAGE, fail, print_diagnostics, talk};
use crate::setup::TrialError;

/// The reason why the command stops.
#[derive(Debug, thiserror::Error)]
pub(super) enum SetupError {
    /// The arguments do not fit this machine.
    #[error("{0}")]
    Usage(String),
    /// A step on this machine failed.
    #[error("{0}")]
    Failed(String),
    /// The configuration is invalid.
    #[error("{0}")]
    Config(Diagnostics),
    /// The test of the configuration failed.
    #[error("{0}")]
    Trial(#[from] TrialError),
}

impl SetupError {
    pub(super) fn file(verb: &str, path: &Path, cause: &std::io::Error) -> Self {
        let hint = match cause.kind() {
            std::io::ErrorKind::PermissionDenied => "; run the command as root",
            _ => "",
        };
        Self::Failed(format!("cannot {verb} `{}`: {cause}{hint}", path.display()))
    }

    pub(super) fn message(&self) -> ExitCode {
        match self {
            Self::Config(diagnostics) => print_diagnostics(diagnostics),
            Self::Usage(message) => {
                talk(message);
                ExitCode::from(EXIT_USAGE)
            }
            Self::Failed(_) | Self::Trial(_) => fail(&self.to_string()),
        }
    }
}
