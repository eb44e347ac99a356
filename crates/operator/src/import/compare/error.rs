//! The errors of a comparison.

use galley_import::CopyError;

use crate::setup::TrialError;

/// The reason why the servers were not compared.
#[derive(Debug, thiserror::Error)]
pub(super) enum TryError {
    /// The old configuration cannot be copied.
    #[error("{0}")]
    Copy(#[from] CopyError),
    /// The program of the old server is not installed.
    #[error("`{0}` is not installed here: run the test on the machine of the old server")]
    NoProgram(&'static str),
    /// The old server does not start.
    #[error("the old server does not start with a copy of its configuration:\n{0}")]
    OldServer(String),
    /// The draft cannot be used.
    #[error("the draft cannot be tried: {0}")]
    Draft(String),
    /// The test instance of Galley does not start.
    #[error("{0}")]
    Galley(#[from] TrialError),
    /// A file of the test cannot be written.
    #[error("cannot prepare the test: {0}")]
    Io(#[from] std::io::Error),
    /// A log or sitemap cannot be read.
    #[error("{0}")]
    Pages(String),
    /// The user has interrupted the command.
    #[error("interrupted")]
    Interrupted,
}
