//! Tests of the whole way from bytes to requests, and from answers to bytes.
//!
//! One binary: `reader` reads a stream as a connection loop would, `corpus` holds the streams, the rest asks questions.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "tests may fail loudly and need not be fast"
)]

mod answers;
mod corpus;
mod cuts;

mod oracle;
mod peer;
mod properties;
mod proxy;
mod reader;
mod rfc9110;
mod rfc9112;
