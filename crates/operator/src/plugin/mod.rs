//! `galley plugin`: installs the WordPress plugin, connects it, and removes it.
//!
//! The plugin's files are part of this program, so that server and plugin match. Every step can be repeated at any time: files
//! that are up to date are not changed. Nothing is written through a symbolic link, and PHP runs as the site's user, never as root.

mod command;
mod error;
mod folder;
mod target;
mod wordpress;

pub use command::plugin;
use error::PluginError;
