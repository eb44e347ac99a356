//! The thread that exchanges charges of shared limits ([`crate::limits`]) with the other nodes.

use std::time::{Duration, Instant};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::limits::{decode, entries};
use crate::shared::ClusterState;

/// Exchanges charges while the node runs.
pub(crate) fn exchange(engine: &Engine, shared: &ClusterState) {
    while !shared.is_stopped() {
        if shared.limits.sink().is_some()
            && let Err(error) = follow(engine, shared)
        {
            // The reader reports unreachable engines.
            tracing::debug!(%error, "limits are not shared now");
        }
        shared.limits.set_connected(false);
        std::thread::sleep(PAUSE);
    }
}

/// Uses one connection until it fails, the node ends, or limits are not shared any more.
fn follow(engine: &Engine, shared: &ClusterState) -> Result<(), EngineError> {
    let mut session = engine.connect(REPLY_TIMEOUT)?;
    let mut last = session.newest_charges()?;
    shared.limits.set_connected(true);
    while let Some(sink) = shared.limits.sink().filter(|_| !shared.is_stopped()) {
        let began = Instant::now();
        let charges = entries(&shared.limits.take());
        let entries_of_others = session.exchange_charges(&shared.incarnation, &charges, last)?;
        for entry in entries_of_others {
            last = entry.id;
            if entry.node != shared.incarnation {
                sink.charge(&decode(&entry.charges));
            }
        }
        std::thread::sleep(INTERVAL.saturating_sub(began.elapsed()));
    }
    Ok(())
}

/// Half of the time after which other nodes know a charge.
const INTERVAL: Duration = Duration::from_millis(100);

/// The timeout of a reply.
const REPLY_TIMEOUT: Duration = Duration::from_millis(500);

/// The pause before the next connection, and the maximum delay until limits that a reload shares are exchanged.
const PAUSE: Duration = Duration::from_millis(500);
