//! Tells one run of an engine from another.

/// The run of an engine, and its replication history: a restart or a failover changes it, and may have lost the newest writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EngineIdentity {
    pub(crate) run: String,
    pub(crate) replication: String,
}

impl EngineIdentity {
    /// As one word, for the position file.
    pub(crate) fn word(&self) -> String {
        format!("{}/{}", self.run, self.replication)
    }
}
