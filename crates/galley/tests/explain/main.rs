//! What the server says about itself: `why`, the listing of the cache, metrics, history, status. The real binary in front
//! of a scripted upstream, asked over its admin interface and with its own command.

#![expect(clippy::unwrap_used, reason = "tests")]

mod batch;
mod exact;
#[expect(dead_code, reason = "shared with the end-to-end tests")]
#[path = "../e2e/http2/client.rs"]
mod http2_client;
mod listeners;
mod listing;
mod numbers;
mod support;
mod why;
