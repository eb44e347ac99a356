//! The purge of everything that replaces purges that are lost, or that a cache does not support.

use galley_policy::purge::{Purge, Scope, Strength};

/// A purge of the whole site.
pub(super) fn everything() -> Purge {
    Purge {
        scope: Scope::Site,
        strength: Strength::Hard,
    }
}
