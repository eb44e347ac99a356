//! `galley plugin`: installs the WordPress plugin, connects it, and removes it.
//!
//! The plugin's files are part of this program, so server and plugin match. Every step can be repeated at any time: files
//! that are right already stay. Nothing is written through a symbolic link, and PHP runs as the site's user, never as root.

mod command;
mod error;
mod folder;
mod target;
mod wordpress;

pub(super) use command::plugin;
use error::PluginError;
