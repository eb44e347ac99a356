//! Clusters of several machines.

use std::time::Duration;

use crate::options::ValueKind::{Path, Size, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{DAY, MIB, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Cluster, "engine", Text, "The Valkey or Redis of all nodes: `redis://host:6379`, `rediss://host:6379` with TLS, `redis+unix:///path`, or `redis+sentinel://host,host,host/name`.")
        .example(r#""redis://10.0.0.5:6379""#).needs_restart(),
    row(OptionSection::Cluster, "password_file", Path, "The secret file with the engine's password, read for each new connection.")
        .example(r#""/etc/galley/engine.token""#).needs_restart(),
    row(OptionSection::Cluster, "name", Text, "The name of the cluster. Clusters with different names can share an engine.")
        .or(r#""galley""#).needs_restart(),
    row(OptionSection::Cluster, "node", Text, "The name of this node, different on every node.")
        .computed("the host name").example(r#""front-1""#).needs_restart(),
    row(OptionSection::Cluster, "on_partition", Word(&["revalidate", "serve"]), "What Galley sends [while it cannot read the purges of other nodes](../how-to/cluster.md#when-the-engine-or-a-node-fails): pages from the upstream only, or stored pages, perhaps purged ones.")
        .or(r#""revalidate""#).needs_restart(),
    row(OptionSection::Cluster, "key_file", Path, "The secret file of all nodes, at least 32 bytes, with which they [share pages](../how-to/cluster.md#share-pages) and automatic certificates.")
        .example(r#""/etc/galley/cluster.key""#).needs_restart(),
    row(OptionSection::Cluster, "pages", Size { least: 0, most: 16 * MIB }, "The largest body of a shared page. 0: none are shared.")
        .or(r#""1MiB""#).needs_restart(),
    row(OptionSection::Cluster, "pages_lifetime", time(Duration::from_secs(1), DAY.saturating_mul(30)), "How long a fresh page stays in the engine.")
        .or(r#""1d""#).needs_restart(),
];
