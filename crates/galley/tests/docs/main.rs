//! Compares the manual with the code: loads configuration blocks, compares command lines with `--help`, words and options
//! with their tables, and follows links.
//!
//! Conventions of the pages: Galley must accept a `toml` block and reject a `toml,broken` block. Before that, the test replaces
//! folders below `/var/www`, token files and pages below `/etc/galley`, certificates below `/etc`, and log folders below `/var/log` by
//! real paths in a temporary folder, and adds a small site to a block without `[[site]]`.

#![expect(clippy::unwrap_used, reason = "tests")]

mod commands;
mod configuration;
mod defaults;
mod packaging;
mod pages;
mod references;
mod schema;
mod symbols;
