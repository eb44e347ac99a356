//! The limits of the log's size and waits.

use std::time::Duration;

/// The sizes at which the file is compacted, and other limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogLimits {
    /// Above this size, and above twice the size after the last compaction, the file is compacted.
    pub(super) file_bytes: u64,
    /// The number of purges that compaction keeps exactly. The file is also compacted above twice as many records.
    pub(super) records: usize,
    /// The size of the purges that compaction keeps exactly. They are in memory as long as the process runs.
    pub(super) folded_bytes: usize,
    /// A larger file is not read. Compaction keeps the file far below.
    pub(super) max_file_bytes: usize,
    /// The maximum size of queued purges: some ten thousand.
    pub(super) queue_bytes: usize,
    /// The same for one site: two thousand. Other sites wait for them.
    pub(super) site_queue_bytes: usize,
    /// The pause between two attempts to create a lost log again.
    pub(super) retry: Duration,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            file_bytes: 4 << 20,
            records: 20_000,
            folded_bytes: 4 << 20,
            max_file_bytes: 256 << 20,
            queue_bytes: 4 << 20,
            site_queue_bytes: 256 << 10,
            retry: Duration::from_secs(1),
        }
    }
}

/// The file name of the log.
pub(super) const NAME: &str = "purges.log";
