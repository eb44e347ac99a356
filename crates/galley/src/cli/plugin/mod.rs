//! `galley plugin`: puts the WordPress plugin into a WordPress, connects it, and takes it out again.
//!
//! The plugin's files are part of this program, so that server and plugin fit. Everything may be done again at any time: what
//! is right already stays. Nothing is written through a symbolic link, and PHP runs as the site's user, never as root.

mod command;
mod error;
mod folder;
mod target;
mod wordpress;

pub(super) use command::plugin;
use error::PluginError;
