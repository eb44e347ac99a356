//! Passes finished spans to the exporter, and generates ids for new spans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::span::FinishedSpan;

/// Generates ids and accepts finished spans. Shared by all threads.
#[derive(Debug)]
pub struct Tracer {
    spans: mpsc::Sender<FinishedSpan>,
    stats: Arc<TraceStats>,
    settings: TracerSettings,
    /// Returns eight random bytes of the operating system.
    random: fn() -> [u8; 8],
}

/// The settings of tracing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracerSettings {
    /// The percentage of new traces that are recorded.
    pub percent: u8,
    /// Whether the traces of all clients are continued, and not only those of trusted proxies.
    pub continues_any: bool,
}

/// The counts of exported and dropped spans, for the threads that end spans and for the exporter.
#[derive(Debug, Default)]
pub struct TraceStats {
    exported: AtomicU64,
    dropped: AtomicU64,
}

impl Tracer {
    /// Creates a tracer that sends spans to `spans`.
    pub fn new(
        spans: mpsc::Sender<FinishedSpan>,
        stats: Arc<TraceStats>,
        settings: TracerSettings,
        random: fn() -> [u8; 8],
    ) -> Self {
        Self {
            spans,
            stats,
            settings,
            random,
        }
    }

    /// The settings.
    pub(super) fn settings(&self) -> &TracerSettings {
        &self.settings
    }

    /// The counts of exported and dropped spans.
    pub fn stats(&self) -> &TraceStats {
        &self.stats
    }

    /// Generates a random id that is not zero.
    pub(super) fn trace_id(&self) -> [u8; 16] {
        let [high, low] = [(self.random)(), self.span_id()].map(u64::from_be_bytes);
        ((u128::from(high) << 64) | u128::from(low)).to_be_bytes()
    }

    /// Generates a random id that is not zero.
    pub(super) fn span_id(&self) -> [u8; 8] {
        let id = (self.random)();
        if id == [0; 8] {
            1_u64.to_be_bytes()
        } else {
            id
        }
    }

    /// Sends a finished span to the exporter. Never waits.
    pub(super) fn take(&self, span: FinishedSpan) {
        if let Err(TrySendError::Full(_) | TrySendError::Closed(_)) = self.spans.try_send(span) {
            self.stats.add_dropped(1);
        }
    }
}

impl TraceStats {
    /// The number of spans that the collector has accepted.
    pub fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// The number of lost spans: the channel was full, or the collector did not accept them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Counts spans that the collector has accepted.
    pub fn add_exported(&self, count: u64) {
        self.exported.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts lost spans.
    pub fn add_dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }
}
