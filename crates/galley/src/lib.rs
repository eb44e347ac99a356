//! The web server for WordPress: the program that connects the other crates.
//!
//! [`cli`] is the command line, `app` builds a server from a configuration, reloads it and hands it to its successor. Each other
//! part of the server is a crate of its own; `ARCHITECTURE.md` has a diagram of all of them.

pub mod app;
mod binary_upgrade;
pub mod cli;
pub mod otlp;
