//! Known traps of shared caches, tested on the running server without a preset and with a scripted origin. The name of a test
//! contains the number of its trap. `response_traps` of `galley-policy` tests the traps that need only a decision.

#![expect(clippy::unwrap_used, reason = "tests")]

mod messages;
mod reuse;
mod site;
