//! How many connections each front thread may have.

use galley_config::Config;

use crate::sys;

/// Connections per core, from the configuration or from the descriptors there are.
pub(super) struct ConnectionShare {
    /// Front threads.
    pub(super) cores: usize,
    /// Connections of each.
    pub(super) connections: usize,
}

impl ConnectionShare {
    pub(super) fn new(config: &Config, descriptors: u64) -> Self {
        let cores = match config.server.workers {
            0 => sys::cores(),
            workers => workers,
        };
        let all = match config.server.max_connections {
            0 => connections_within(usize::try_from(descriptors).unwrap_or(usize::MAX)),
            connections => connections,
        };
        Self {
            cores,
            connections: (all / cores).max(1),
        }
    }
}

/// How many connections so many descriptors are enough for: each takes one for itself and, while it is answered, one for
/// its file or for PHP.
fn connections_within(descriptors: usize) -> usize {
    let reserved = RESERVED_DESCRIPTORS
        .min(descriptors / 2)
        .max(IDLE_DESCRIPTORS);
    descriptors.saturating_sub(reserved) / 2
}

/// Descriptors that are not for clients: files, upstreams, logs.
const RESERVED_DESCRIPTORS: usize = 256;

/// What a server without clients has open (37 with two workers, measured), and some for its admin interface.
const IDLE_DESCRIPTORS: usize = 48;
