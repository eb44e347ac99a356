//! A copy of a configuration.

use std::path::{Path, PathBuf};

use crate::copy::builder::{CopiedListener, CopyBuilder, CopyError, CopyWorkspace};
use crate::copy::{apache, caddy, nginx};
use crate::imported::ServerKind;
use crate::source::Source;

/// A configuration that can run at the same time as the original.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCopy {
    /// The text of its only file.
    pub text: String,
    /// The listeners of the copy.
    pub listeners: Vec<CopiedListener>,
    /// The password files of the original; in their place the copy reads `users-0`, `users-1` of its folder.
    pub passwords: Vec<PathBuf>,
    /// The differences from the original, as text for people.
    pub changes: Vec<String>,
}

/// Copies the configuration with the main file `main`.
///
/// # Errors
///
/// [`CopyError`] if a copy would not behave as the original.
pub fn copy(
    source: &dyn Source,
    kind: ServerKind,
    main: &Path,
    workspace: &CopyWorkspace,
) -> Result<ServerCopy, CopyError> {
    let mut builder = CopyBuilder::new(workspace);
    let text = match kind {
        ServerKind::Nginx => nginx::text(source, main, &mut builder)?,
        ServerKind::Apache => apache::text(source, main, &mut builder)?,
        ServerKind::Caddy => caddy::text(source, main, &mut builder)?,
        ServerKind::Varnish => {
            builder.port("80", false)?;
            source
                .text(main)
                .ok_or_else(|| CopyError::NoServer(main.display().to_string()))?
        }
    };
    Ok(ServerCopy {
        text,
        listeners: builder.listeners,
        passwords: builder.passwords,
        changes: builder.changes,
    })
}
