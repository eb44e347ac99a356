//! The errors of `galley plugin`.

use std::path::Path;
use std::process::ExitCode;

use galley_config::Diagnostics;

use crate::outcome::{EXIT_USAGE, fail, print_diagnostics, talk};

/// The reason why a command failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum PluginError {
    #[error("{0}")]
    Config(Diagnostics),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Failed(String),
}

impl PluginError {
    pub(super) fn file(verb: &str, path: &Path, cause: &std::io::Error) -> Self {
        let hint = match cause.kind() {
            std::io::ErrorKind::PermissionDenied => {
                "; run the command as root, or as the user that owns the site"
            }
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
            Self::Failed(message) => fail(message),
        }
    }
}
