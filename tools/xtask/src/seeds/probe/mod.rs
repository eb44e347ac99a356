//! Probes for the problems that the articles describe. Each sends the requests of visitors or editors.
//!
//! The stacks of an article start with empty caches, and each probe uses separate pages, so the state of the cache is known. If a stack
//! rejects a request of a probe, the stack has the problem.

mod check;
mod content;
mod scheduled;
mod serving;
mod visitors;

pub(super) use self::{check::check, scheduled::ScheduledPost};
