//! The state of the cluster for `status` and metrics.

/// The state of this node in its cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterStatus {
    /// Whether the node reads the stream.
    pub is_connected: bool,
    /// Whether the node has read the stream to its end since the start.
    pub has_read: bool,
    /// Why the node is not connected.
    pub error: Option<String>,
    /// The version of the engine.
    pub engine: Option<String>,
    /// The other nodes.
    pub members: Vec<MemberStatus>,
    /// Purges that are not in the stream yet.
    pub unsent: usize,
    /// Purges that every member has applied.
    pub acknowledged: u64,
    /// Purges whose publishers did not get that confirmation in time.
    pub local_only: u64,
    /// The number of times that entries of the stream were missing.
    pub gaps: u64,
    /// Purges of other nodes that this node has applied.
    pub applied: u64,
    /// The counters of shared pages; `None`: the nodes share no pages.
    pub pages: Option<PagesStatus>,
}

/// Counters of lookups and writes of shared pages since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagesStatus {
    /// Searches that found a page.
    pub hits: u64,
    /// Searches that found none.
    pub misses: u64,
    /// Pages that were not used, because a purge may be newer or they are not fresh.
    pub refused: u64,
    /// Values that no node of this cluster has stored under their names.
    pub foreign: u64,
    /// Lookups without a reply in time.
    pub timeouts: u64,
    /// Lookups that failed.
    pub errors: u64,
    /// Pages stored.
    pub stored: u64,
    /// Pages that were not stored: too large, too short-lived, too many concurrent stores, or an error of the engine.
    pub not_stored: u64,
    /// Whether no commands are sent to the engine, because it failed or was slow several times.
    pub is_paused: bool,
}

/// Another node, as the publisher sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// The name of the node.
    pub node: String,
    /// Whether the lease of the node may still be valid.
    pub is_present: bool,
}
