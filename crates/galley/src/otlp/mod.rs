//! Sends finished spans to a collector: OTLP over HTTP, in JSON.
//!
//! One thread receives spans from a bounded channel, sends them in batches, and retries those that the collector cannot accept now,
//! with growing pauses and for a limited time. Spans that cannot be delivered are dropped and counted; no request waits for the
//! exporter.

mod encode;
mod exporter;
mod failure;

pub use exporter::{Exporter, start};
