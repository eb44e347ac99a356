//! The right to send stored pages.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use galley_policy::time::Tick;

/// How long a node may send stored pages after it has sent a renewal.
pub const LEASE: Duration = Duration::from_secs(2);

/// How long the engine keeps a node's key after a renewal. More than [`LEASE`], because clocks may differ in speed.
pub const KEY_LIFETIME: Duration = Duration::from_secs(3);

/// Whether stored pages may be sent now. A hit reads one number.
#[derive(Debug)]
pub struct Lease {
    /// The tick at which the lease ends.
    until: AtomicU64,
}

impl Default for Lease {
    fn default() -> Self {
        Self::expired()
    }
}

impl Lease {
    /// A lease that never ends, for a node without a cluster or one that serves through partitions.
    pub fn unlimited() -> Self {
        Self {
            until: AtomicU64::new(u64::MAX),
        }
    }

    /// The lease of a node that has not read the purges of the other nodes yet.
    pub fn expired() -> Self {
        Self {
            until: AtomicU64::new(0),
        }
    }

    /// Whether stored pages may be sent at `now`.
    pub fn holds(&self, now: Tick) -> bool {
        now.0 < self.until.load(Ordering::Acquire)
    }

    /// Extends the lease until `until`. Never shortens it.
    pub(crate) fn extend(&self, until: Tick) {
        self.until.fetch_max(until.0, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_expires() {
        let lease = Lease::expired();
        assert!(!lease.holds(Tick(0)));
        lease.extend(Tick(100));
        assert!(lease.holds(Tick(99)) && !lease.holds(Tick(100)));
        lease.extend(Tick(50));
        assert!(lease.holds(Tick(99)));
        assert!(Lease::unlimited().holds(Tick(u64::MAX - 1)));
    }
}
