//! Spans of OpenTelemetry: what happened to a request that a stored page did not answer.
//!
//! A [`Tracer`] begins traces and puts finished spans into a bounded channel, which never waits: a full one drops the span and counts
//! it. Hits have no trace, so that they cost nothing. Nothing here sends spans anywhere; `otlp` does.

mod open_span;
mod request_trace;
mod span;
mod tracer;

pub use open_span::{OpenSpan, TraceScope};
pub use request_trace::RequestTrace;
pub use span::{Attribute, AttributeValue, FinishedSpan, SpanKind};
pub use tracer::{TraceStats, Tracer, TracerSettings};
