//! Parses one request head: request line and field lines (RFC 9112 sections 2 to 5), without their meaning.
//!
//! There are two parsers with the same result. The full one supports the whole grammar: `httparse` without any leniency,
//! and before it a scanner that rejects what httparse accepts (bare line feeds, endless empty lines) and what is too long.
//! The fast one (`fast`) parses the heads of nearly all clients in a third of the time, and leaves the rest to the full one.
//!
//! Invariants: no allocation for a usual head; all text of a [`Head`] is in the caller's buffer; names are tokens, values
//! contain no control character but HTAB, the target is visible ASCII.

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
