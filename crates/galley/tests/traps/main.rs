//! The known traps of shared caches, tried on the running server without a preset against a scripted origin; each test has
//! its trap's number. Traps that are decisions alone are in the `response_traps` of `galley-policy`.

#![expect(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod messages;
mod reuse;
mod stage;
