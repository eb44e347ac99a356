//! Hostile input, sent as raw bytes to the running server and to nginx and hyper: streams that one parser reads as one request
//! and another as two, requests that poison a page for the next visitor, and requests that would make a private page public.

#![expect(clippy::unwrap_used, reason = "tests, their helpers too")]

mod case;
mod client;
mod differential;
mod documentation_table;
mod early_responses;
mod http1;
mod http2;
#[path = "../../../http/tests/it/hyper_reader.rs"]
mod hyper_reader;
mod purge_floods;
#[path = "../../../http/tests/it/reader.rs"]
mod reader;
mod servers;
mod split_reads;
