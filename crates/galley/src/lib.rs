//! The web server for WordPress: the program that connects the other crates.
//!
//! [`cli`] is the command line, `app` builds a server from a configuration, reloads it and hands it to its successor. Each other
//! part of the server is a crate of its own; `ARCHITECTURE.md` has a diagram of all of them.
//!
//! This crate never handles a request, and no other crate depends on it: what a part needs, it gets as an argument from `app`.

pub mod app;
mod binary_upgrade;
pub mod cli;
pub mod otlp;
