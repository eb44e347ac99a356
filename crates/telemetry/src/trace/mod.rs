//! OpenTelemetry spans of requests that no stored page answers.
//!
//! A [`Tracer`] begins traces and puts finished spans into a bounded channel without waiting; if the channel is full, the span is
//! dropped and counted. Hits have no trace, so they cost nothing. `otlp` sends the spans.

mod open_span;
mod request_trace;
mod span;
mod tracer;

pub use open_span::{OpenSpan, TraceScope};
pub use request_trace::RequestTrace;
pub use span::{Attribute, AttributeValue, FinishedSpan, SpanKind};
pub use tracer::{TraceStats, Tracer, TracerSettings};
