//! Tests of parsing bytes into requests and writing responses as bytes.
//!
//! `reader` parses a stream as a connection loop does, `corpus` contains the streams, the other modules contain the tests.

#![expect(
    clippy::unwrap_used,
    clippy::format_push_string,
    reason = "tests, which need not be fast"
)]

mod corpus;
mod hyper_comparison;
mod hyper_reader;
mod properties;
mod proxy_protocol;
mod reader;
mod response_heads;
mod rfc9110;
mod rfc9112;
mod split_reads;
