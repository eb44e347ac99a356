//! Sends finished spans to a collector: OTLP over HTTP, in JSON.
//!
//! One thread takes spans from a bounded channel, sends them in batches, and repeats what the collector cannot accept now,
//! with growing pauses and for a limited time. Spans that cannot be delivered are dropped and counted; no request waits for
//! any of it.

mod encode;
mod exporter;
mod failure;

pub use exporter::{Exporter, start};
