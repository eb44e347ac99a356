//! Why a comparison cannot run.

use galley_import::CopyError;

use crate::setup::TrialError;

/// Why both servers were not compared.
#[derive(Debug, thiserror::Error)]
pub(super) enum TryError {
    /// The old configuration.
    #[error("{0}")]
    Copy(#[from] CopyError),
    /// Its program is not installed.
    #[error("`{0}` is not installed here: run the test on the machine of the old server")]
    NoProgram(&'static str),
    /// The old server.
    #[error("the old server does not start with a copy of its configuration:\n{0}")]
    OldServer(String),
    /// The draft.
    #[error("the draft cannot be tried: {0}")]
    Draft(String),
    /// Galley.
    #[error("{0}")]
    Galley(#[from] TrialError),
    /// A file of the test.
    #[error("cannot prepare the test: {0}")]
    Io(#[from] std::io::Error),
    /// A log or sitemap.
    #[error("{0}")]
    Pages(String),
    /// The person at the terminal.
    #[error("interrupted")]
    Interrupted,
}
