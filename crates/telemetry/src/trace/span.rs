//! Finished spans.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

/// A finished span, with the names of OpenTelemetry.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedSpan {
    /// The id of the trace.
    pub trace_id: [u8; 16],
    /// The id of the span.
    pub span_id: [u8; 8],
    /// The id of the parent span; `None`: the first span of the trace.
    pub parent_id: Option<[u8; 8]>,
    /// The operation, with few different values.
    pub name: Cow<'static, str>,
    /// The kind of the operation.
    pub kind: SpanKind,
    /// The start time.
    pub start: SystemTime,
    /// How long it took.
    pub duration: Duration,
    /// The attributes.
    pub attributes: Vec<Attribute>,
    /// Whether the operation failed.
    pub is_error: bool,
}

/// The side of an exchange that a span describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// An internal operation.
    Internal,
    /// The server side: a client's request.
    Server,
    /// The client side: a request to an upstream.
    Client,
}

/// An attribute with a name of the semantic conventions or of Galley.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The name, such as `http.request.method`.
    pub name: &'static str,
    /// The value.
    pub value: AttributeValue,
}

/// The value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// A text.
    Text(String),
    /// A whole number.
    Number(u64),
    /// A flag.
    Flag(bool),
}

impl Attribute {
    /// Creates an attribute with a text, of which only the first 1,024 bytes are kept, since it may come from a client.
    pub fn text(name: &'static str, text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.len() > MAX_TEXT {
            let end = (0..=MAX_TEXT).rev().find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
        }
        Self {
            name,
            value: AttributeValue::Text(text),
        }
    }

    /// Creates an attribute with a number.
    pub fn number(name: &'static str, number: u64) -> Self {
        Self {
            name,
            value: AttributeValue::Number(number),
        }
    }

    /// Creates an attribute with a flag.
    pub fn flag(name: &'static str, flag: bool) -> Self {
        Self {
            name,
            value: AttributeValue::Flag(flag),
        }
    }
}

/// Longer than the paths and browser names that people search for, and short enough to limit the size of a full channel.
const MAX_TEXT: usize = 1024;
