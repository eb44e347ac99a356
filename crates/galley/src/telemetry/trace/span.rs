//! One finished span.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

/// A span, with the names of OpenTelemetry.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedSpan {
    /// The trace that it belongs to.
    pub trace_id: [u8; 16],
    /// Its own id.
    pub span_id: [u8; 8],
    /// The span that it is a part of; `None`: the trace begins with it.
    pub parent_id: Option<[u8; 8]>,
    /// The operation, in few different words.
    pub name: Cow<'static, str>,
    /// The side on which it was done.
    pub kind: SpanKind,
    /// When it began.
    pub start: SystemTime,
    /// How long it took.
    pub duration: Duration,
    /// More about it.
    pub attributes: Vec<Attribute>,
    /// Whether it failed.
    pub is_error: bool,
}

/// The side of an exchange that a span tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// Neither.
    Internal,
    /// That of the server: a client's request.
    Server,
    /// That of the client: a request to an upstream.
    Client,
}

/// A name of the semantic conventions or of Galley, and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// `http.request.method`.
    pub name: &'static str,
    /// Its value.
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
    /// One with a text, which may come from a client: only its first 1,024 bytes are kept.
    pub fn text(name: &'static str, text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.len() > MOST_TEXT {
            let end = (0..=MOST_TEXT)
                .rev()
                .find(|end| text.is_char_boundary(*end));
            text.truncate(end.unwrap_or(0));
        }
        Self {
            name,
            value: AttributeValue::Text(text),
        }
    }

    /// One with a number.
    pub fn number(name: &'static str, number: u64) -> Self {
        Self {
            name,
            value: AttributeValue::Number(number),
        }
    }

    /// One with a flag.
    pub fn flag(name: &'static str, flag: bool) -> Self {
        Self {
            name,
            value: AttributeValue::Flag(flag),
        }
    }
}

/// Longer than the paths and browsers that people look for, and short enough that a full channel is bounded.
const MOST_TEXT: usize = 1024;
