//! Spans in progress, and their parents.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use galley_policy::trace_context::{TraceParent, hex_digits};

use super::span::{Attribute, FinishedSpan, SpanKind};
use super::tracer::Tracer;

/// A parent for child spans, which any thread may begin.
#[derive(Clone, Debug)]
pub struct TraceScope {
    pub(super) tracer: Arc<Tracer>,
    pub(super) trace_id: [u8; 16],
    pub(super) span_id: [u8; 8],
    pub(super) is_sampled: bool,
}

/// A span in progress. It ends when it is dropped, so that canceled work is recorded as well.
#[derive(Debug)]
pub struct OpenSpan {
    scope: TraceScope,
    began: Instant,
    /// `None`: the trace is not recorded.
    span: Option<Box<FinishedSpan>>,
}

impl TraceScope {
    /// Begins a child span.
    pub fn begin(&self, name: impl Into<Cow<'static, str>>, kind: SpanKind) -> OpenSpan {
        let scope = Self {
            span_id: self.tracer.span_id(),
            ..self.clone()
        };
        let span = self.is_sampled.then(|| {
            Box::new(FinishedSpan {
                trace_id: self.trace_id,
                span_id: scope.span_id,
                parent_id: Some(self.span_id),
                name: name.into(),
                kind,
                start: SystemTime::now(),
                duration: Duration::ZERO,
                attributes: Vec::new(),
                is_error: false,
            })
        });
        OpenSpan {
            scope,
            began: Instant::now(),
            span,
        }
    }

    /// The trace id, in 32 digits.
    pub fn trace_id(&self) -> [u8; 32] {
        let mut text = [b'0'; 32];
        for (pair, byte) in text.chunks_mut(2).zip(self.trace_id) {
            pair.copy_from_slice(&hex_digits(byte));
        }
        text
    }
}

impl OpenSpan {
    /// The parent for child spans of this span.
    pub fn scope(&self) -> &TraceScope {
        &self.scope
    }

    /// The trace context for a request to an upstream.
    pub fn parent(&self) -> TraceParent {
        TraceParent {
            trace_id: self.scope.trace_id,
            parent_id: self.scope.span_id,
            is_sampled: self.scope.is_sampled,
        }
    }

    /// Adds attributes; `make` is called only if the trace is recorded.
    pub fn add<const N: usize>(&mut self, make: impl FnOnce() -> [Attribute; N]) {
        if let Some(span) = &mut self.span {
            span.attributes.extend(make());
        }
    }

    /// Marks the span as failed; `error_type` has few different values.
    pub fn fail(&mut self, error_type: &str) {
        if let Some(span) = &mut self.span {
            span.is_error = true;
            span.attributes
                .push(Attribute::text("error.type", error_type));
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if let Some(mut span) = self.span.take() {
            span.duration = self.began.elapsed();
            self.scope.tracer.take(*span);
        }
    }
}
