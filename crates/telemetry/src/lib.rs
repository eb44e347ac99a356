//! Logs and counters: one access line per request, messages for the operator, counters.
//!
//! Nothing here makes decisions about a request or delays one: a thread sends access lines through a bounded channel, which
//! drops and counts them when it is full, and counters are plain stores by the thread that owns them. Text from clients is
//! escaped before it is written, so that no line can be forged.

pub mod access;
pub mod counters;
pub mod errors;
pub mod fields;
pub mod history;
pub mod http2;
pub mod totals;
pub mod trace;

mod ecs;
mod escape;
mod line;
mod rate;
mod record;
mod sink;
mod write;
