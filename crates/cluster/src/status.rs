//! What is known of the cluster, for `status` and metrics.

/// The state of this node in its cluster.
#[derive(Clone, Debug, Default)]
pub struct ClusterStatus {
    /// Whether the node reads the stream.
    pub is_connected: bool,
    /// Whether it has read the stream to its end since the start.
    pub has_read: bool,
    /// Why it is not connected.
    pub error: Option<String>,
    /// The version of the engine.
    pub engine: Option<String>,
    /// Other nodes.
    pub members: Vec<MemberStatus>,
    /// Purges that are not in the stream yet.
    pub unsent: usize,
    /// Purges that every member has applied.
    pub acknowledged: u64,
    /// Purges whose publisher could not be told so in time.
    pub local_only: u64,
    /// How often entries of the stream were missing.
    pub gaps: u64,
    /// Purges of other nodes that this node has applied.
    pub applied: u64,
}

/// Another node, as the publisher sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its name.
    pub node: String,
    /// Whether its lease may still hold.
    pub is_present: bool,
}
