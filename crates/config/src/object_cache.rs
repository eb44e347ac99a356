//! The memory of a site's object cache.

use galley_policy::site::Preset;

use crate::config::ClusterConfig;
use crate::diagnostic::Diagnostics;
use crate::quantity::write_size;
use crate::tree::SectionTable;

/// What the object caches of all sites depend on.
#[derive(Clone, Copy)]
pub(super) struct ObjectContext {
    /// The memory limit of all together, in bytes.
    memory: u64,
    /// Whether the nodes of a cluster use stored pages while they cannot read the purges of others.
    serves_through_partitions: bool,
}

impl ObjectContext {
    pub(super) fn new(memory: u64, cluster: Option<&ClusterConfig>) -> Self {
        let serves = cluster.is_some_and(|cluster| cluster.serve_through_partitions);
        Self {
            memory,
            serves_through_partitions: serves,
        }
    }
}

/// The memory for WordPress's object cache in bytes, by default if possible. Reports the option if it is not possible.
pub(super) fn memory(
    options: &SectionTable,
    preset: Preset,
    context: ObjectContext,
    diagnostics: &mut Diagnostics,
) -> Option<u64> {
    let configured = options.get::<u64>("object_cache");
    let obstacle = match preset {
        Preset::None => "the object cache needs the WordPress preset",
        // A node would not notice that the others have changed a value.
        Preset::WordPress if context.serves_through_partitions => {
            "with `[cluster] on_partition = \"serve\"` a node may use values that another one has changed"
        }
        Preset::WordPress => {
            if configured.is_some_and(|bytes| bytes > context.memory) {
                let memory = write_size(context.memory);
                let why = format!(
                    "is more than `cache.memory`, `{memory}`, the limit of all object caches together"
                );
                let help = "lower it, or raise `memory` in `[cache]`";
                options.report("object_cache", why, help, diagnostics);
            }
            let bytes = configured.unwrap_or(DEFAULT.min(context.memory));
            return Some(bytes).filter(|bytes| *bytes > 0);
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
