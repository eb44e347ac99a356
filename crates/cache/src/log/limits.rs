//! How long the log waits, and how large it may become.

use std::time::Duration;

/// When the file is folded, and what else has a bound.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLimits {
    /// Above this size, and above twice the size after the last compaction, the file is compacted.
    pub(super) file_bytes: u64,
    /// How many purges are kept exactly when it is; above twice as many records it is compacted too.
    pub(super) records: usize,
    /// A file above this is not believed; compaction keeps it far below.
    pub(super) believed_bytes: usize,
    /// Orders that wait for the writer; some ten thousand.
    pub(super) queue_bytes: usize,
    /// The pause between two attempts to start a lost log again.
    pub(super) retry: Duration,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            file_bytes: 4 << 20,
            records: 20_000,
            believed_bytes: 256 << 20,
            queue_bytes: 4 << 20,
            retry: Duration::from_secs(1),
        }
    }
}

/// The log in its directory.
pub(super) const NAME: &str = "purges.log";
