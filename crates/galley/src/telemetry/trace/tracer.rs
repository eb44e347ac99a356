//! Passes finished spans to the exporter, and gives new spans their ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::span::FinishedSpan;

/// See the module. Shared by all threads.
#[derive(Debug)]
pub struct Tracer {
    spans: mpsc::Sender<FinishedSpan>,
    stats: Arc<TraceStats>,
    settings: TracerSettings,
    /// Eight random bytes of the operating system's.
    random: fn() -> [u8; 8],
}

/// How traces begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracerSettings {
    /// How many of a hundred traces that begin here are recorded.
    pub percent: u8,
    /// Whether the trace of every client is continued, and not only that of trusted proxies.
    pub continues_any: bool,
}

/// What became of spans. Added to by the threads that end spans, and by the one that exports them.
#[derive(Debug, Default)]
pub struct TraceStats {
    exported: AtomicU64,
    dropped: AtomicU64,
}

impl Tracer {
    /// One that puts spans into `spans`.
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

    /// How traces begin.
    pub(super) fn settings(&self) -> &TracerSettings {
        &self.settings
    }

    /// What became of its spans.
    pub fn stats(&self) -> &TraceStats {
        &self.stats
    }

    /// A random id that is not zero.
    pub(super) fn trace_id(&self) -> [u8; 16] {
        let [high, low] = [(self.random)(), self.span_id()].map(u64::from_be_bytes);
        ((u128::from(high) << 64) | u128::from(low)).to_be_bytes()
    }

    /// A random id that is not zero.
    pub(super) fn span_id(&self) -> [u8; 8] {
        let id = (self.random)();
        if id == [0; 8] {
            1_u64.to_be_bytes()
        } else {
            id
        }
    }

    /// Takes a finished span. Never waits.
    pub(super) fn take(&self, span: FinishedSpan) {
        if let Err(TrySendError::Full(_) | TrySendError::Closed(_)) = self.spans.try_send(span) {
            self.stats.add_dropped(1);
        }
    }
}

impl TraceStats {
    /// Spans that the collector has taken.
    pub fn exported(&self) -> u64 {
        self.exported.load(Ordering::Relaxed)
    }

    /// Spans that got lost: the channel was full, or the collector did not take them.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Counts spans that the collector has taken.
    pub fn add_exported(&self, count: u64) {
        self.exported.fetch_add(count, Ordering::Relaxed);
    }

    /// Counts spans that got lost.
    pub fn add_dropped(&self, count: u64) {
        self.dropped.fetch_add(count, Ordering::Relaxed);
    }
}
