//! What each fuzz target does with its bytes: gives them to one parser of foreign bytes and holds what that parser promises.
//!
//! A target panics where a promise is broken. The programs in `fuzz_targets` are a line each; `run` builds and runs
//! them, and so does `cargo fuzz` where somebody has it.

pub mod client;
pub mod dns;
pub mod esi;
pub mod fastcgi;
pub mod files;
pub mod frames;
pub mod head;
pub mod import;
pub mod privileged;
pub mod request;
pub mod response;
pub mod wire;

#[path = "../../crates/http/tests/it/reader.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "it is shared with the tests")]
mod reader;
