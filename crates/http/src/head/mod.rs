//! Reads one request head: request line and field lines (RFC 9112 sections 2 to 5), nothing of their meaning.
//!
//! There are two ways to the same result. The careful one knows all of the grammar: `httparse` with all leniency off, and
//! before it a scanner that refuses what httparse lets pass (bare line feeds, endless empty lines) and what is too long. The
//! quick one (`fast`) reads what nearly every client sends, in a third of the time, and leaves the rest to the other.
//!
//! Invariants: no allocation for a usual head; all text of a [`Head`] lies in the caller's buffer; names are tokens, values hold no
//! control character but HTAB, the target is visible ASCII.

mod fast;
mod limits;
mod line;
mod parse;
mod scan;

pub use self::limits::{HeadLimits, MAX_FIELDS, METHOD_BYTES};
pub(crate) use self::line::FieldLine;
pub use self::line::{Head, Version};
pub use self::parse::{HeadBuffer, ParsedHead, parse, resume};
pub use self::scan::HeadScanner;
pub use crate::refusal::BadRequest;
