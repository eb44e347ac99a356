//! The upstream side of a fetch thread: its pools, and the spools of responses that slow clients have not received.

use std::sync::Arc;

use galley_cache::fill::FillError;

use super::spool::{AHEAD, ResponseSpool};
use galley_upstream::body::body_spools::BodySpools;
use galley_upstream::{PoolSpec, UpstreamPool, UpstreamStats};

/// The pools and spools; see the module.
pub(super) struct Upstreams {
    pools: Vec<UpstreamPool>,
    spools: Arc<BodySpools>,
}

impl Upstreams {
    /// `stats` are those of `pools`, in their order.
    pub(super) fn new(
        pools: &[PoolSpec],
        stats: &[Arc<UpstreamStats>],
        spools: Arc<BodySpools>,
    ) -> Self {
        let pools = pools.iter().zip(stats);
        Self {
            pools: pools
                .map(|(spec, stats)| UpstreamPool::new(spec, stats))
                .collect(),
            spools,
        }
    }

    pub(super) fn pool(&self, index: usize) -> Result<&UpstreamPool, FillError> {
        self.pools.get(index).ok_or(FillError::Connect)
    }

    pub(super) fn has_spare_slots(&self, pool: usize) -> bool {
        self.pool(pool).is_ok_and(UpstreamPool::has_spare_slots)
    }

    /// A spool for a new response.
    pub(super) fn spool(&self) -> ResponseSpool {
        ResponseSpool::new(&self.spools, AHEAD)
    }
}
