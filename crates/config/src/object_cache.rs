//! The memory of a site's object cache.

use galley_policy::site::Preset;

use crate::diagnostic::Diagnostics;
use crate::tree::SectionTable;

/// The memory for WordPress's object cache in bytes, by default if possible. Reports the option if it is not possible.
pub(super) fn memory(
    options: &SectionTable,
    preset: Preset,
    has_cluster: bool,
    diagnostics: &mut Diagnostics,
) -> Option<u64> {
    let configured = options.get::<u64>("object_cache");
    let obstacle = match preset {
        Preset::None => "the object cache needs the WordPress preset",
        // Another node would not notice a change.
        Preset::WordPress if has_cluster => "the nodes of a `[cluster]` do not share it",
        Preset::WordPress => {
            return Some(configured.unwrap_or(DEFAULT)).filter(|bytes| *bytes > 0);
        }
    };
    if configured.is_some_and(|bytes| bytes > 0) {
        let why = format!("is given, but {obstacle}");
        options.report("object_cache", why, "set it to `\"off\"`", diagnostics);
    }
    None
}

/// A shop with 360 products has 3 MB. Memory is used only as far as there are values.
const DEFAULT: u64 = 64 << 20;
