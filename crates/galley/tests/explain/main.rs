//! Reports of the server: `why`, the listing of the cache, metrics, history, status. The real binary runs in front of a
//! scripted upstream; the tests use its admin interface and its command line.

#![expect(clippy::unwrap_used, reason = "tests")]

mod batch;
mod cache_listing;
#[expect(dead_code, reason = "shared with the end-to-end tests")]
#[path = "../e2e/http2/client.rs"]
mod http2_client;
mod listeners;
mod prediction;
mod statistics;
mod support;
mod why;
