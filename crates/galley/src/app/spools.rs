//! The folder for buffered bodies: the configured one, or the first usual one that is writable.
//!
//! `/var/tmp` is tried before `/tmp`: `/tmp` is in memory on many systems, and the files exist to save memory.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use galley_config::SpoolConfig;

use super::ServerStartError;
use galley_upstream::body::body_spools::{BodySpools, SpoolLimits};

fn may_write(folder: &PathBuf) -> io::Result<()> {
    tempfile::tempfile_in(folder).map(drop)
}

fn usual() -> Option<PathBuf> {
    let configured = std::env::var_os("TMPDIR").map(PathBuf::from);
    let usual = [PathBuf::from("/var/tmp"), PathBuf::from("/tmp")];
    let folder = configured
        .into_iter()
        .chain(usual)
        .find(|f| may_write(f).is_ok());
    if folder.is_none() {
        tracing::warn!(
            "no spool folder can be written, so large uploads are rejected; set `server.spool`"
        );
    }
    folder
}

/// The storage for bodies in transit. A configured folder must be writable; without a configured folder there may be none.
pub(super) fn open(spool: &SpoolConfig) -> Result<Arc<BodySpools>, ServerStartError> {
    let folder = match spool.folder.clone() {
        None => usual(),
        Some(path) => match may_write(&path) {
            Ok(()) => Some(path),
            Err(cause) => return Err(ServerStartError::Spool { path, cause }),
        },
    };
    Ok(Arc::new(BodySpools::new(SpoolLimits {
        memory: spool.memory,
        disk: spool.size,
        response: spool.response,
        folder,
    })))
}
