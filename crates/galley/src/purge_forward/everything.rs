//! The purge that takes the place of purges that are lost, or that a cache has no form for.

use galley_policy::purge::{Purge, Scope, Strength};

/// All of a site.
pub(super) fn everything() -> Purge {
    Purge {
        scope: Scope::Site,
        strength: Strength::Hard,
    }
}
