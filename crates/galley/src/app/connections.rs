//! The number of connections per front thread.

use galley_config::Config;

use galley_admin::operator_http;

/// Connections per core, from the configuration or from the available file descriptors.
pub(super) struct ConnectionShare {
    /// The number of front threads.
    pub(super) cores: usize,
    /// The maximum number of connections of each front thread.
    pub(super) connections: usize,
}

impl ConnectionShare {
    pub(super) fn new(config: &Config, descriptors: u64) -> Self {
        let cores = match config.server.process.workers {
            0 => galley_sys::cores(),
            workers => workers,
        };
        let connections = match config.server.max_connections {
            0 => connections_within(descriptors),
            connections => connections,
        };
        Self {
            cores,
            connections: (connections / cores).max(1),
        }
    }
}

/// The number of connections for which `descriptors` suffice. Each connection needs one for its socket and, during a request,
/// one for a file or for PHP.
fn connections_within(descriptors: u64) -> usize {
    let admin = operator_http::max_connections(descriptors);
    let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
    let reserved = (RESERVED_DESCRIPTORS + admin)
        .min(descriptors / 2)
        .max(IDLE_DESCRIPTORS);
    descriptors.saturating_sub(reserved) / 2
}

/// Descriptors that are reserved for files, upstreams and logs.
const RESERVED_DESCRIPTORS: usize = 256;

/// The open descriptors of a server without clients (37 with two workers, measured), and some for its admin interface.
const IDLE_DESCRIPTORS: usize = 48;
