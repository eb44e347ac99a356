//! Distinguishes the runs of an engine.

/// The run of an engine, and its replication history. A restart or a failover changes it, and may have lost the newest writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EngineIdentity {
    pub(crate) run: String,
    pub(crate) replication: String,
}

impl EngineIdentity {
    /// The identity as one word, for the position file.
    pub(crate) fn word(&self) -> String {
        format!("{}/{}", self.run, self.replication)
    }
}
