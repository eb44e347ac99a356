//! Logs and counters: one access line per request, messages for the operator, counters.
//!
//! Nothing here decides about a request or delays one: access lines leave a core through a bounded channel that drops and
//! counts when it is full, and counters are plain stores by the core that owns them. Text of clients is escaped before it
//! is written, so that no line can be forged.

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
