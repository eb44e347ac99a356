//! The fuzz targets: each passes its bytes to one parser of untrusted bytes and checks the guarantees of that parser.
//!
//! A target panics if a guarantee is violated. Each program in `fuzz_targets` calls one target. `fuzz/run` builds and runs them;
//! `cargo fuzz` works, too.

pub mod client;
pub mod esi;
pub mod fastcgi;
pub mod files;
pub mod frames;
pub mod head;
pub mod http3;
pub mod import;
pub mod privileged;
pub mod request;
pub mod response;
pub mod wire;

#[path = "../../crates/http/tests/it/reader.rs"]
#[allow(dead_code, clippy::unwrap_used, reason = "it is shared with the tests")]
mod reader;
