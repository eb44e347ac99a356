//! Spools for unit tests, of this crate and, with the feature `testing`, of others.

use std::sync::Arc;

use crate::body::body_spools::{BodySpools, SpoolLimits};

/// Spools with these limits on memory, disk and the file of one response, in the system's temporary folder.
pub fn spools(memory: u64, disk: u64, response: u64) -> Arc<BodySpools> {
    Arc::new(BodySpools::new(SpoolLimits {
        memory,
        disk,
        response,
        folder: Some(std::env::temp_dir()),
    }))
}
