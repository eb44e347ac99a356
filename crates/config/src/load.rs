//! The ways to a configuration: a file, a text, or a folder without a file.

use std::path::Path;

use crate::assemble::finish;
use crate::complaint::Complaints;
use crate::config::Config;
use crate::machine::Surroundings;
use crate::{include, root};

/// Reads a configuration file and everything it includes.
///
/// Errors: all complaints of all files, in the order of files and lines.
pub fn load(path: &Path) -> Result<Config, Complaints> {
    finish(include::read_file(path), &Surroundings::here())
}

/// Reads a configuration from `text`; `name` is shown in complaints, and relative paths and includes start at its folder.
///
/// Errors: as [`load`].
pub fn from_text(name: &str, text: &str) -> Result<Config, Complaints> {
    finish(include::read_text(name, text), &Surroundings::here())
}

/// The configuration without a file: one site for every host on port 8080, from the WordPress folder `dir`, with managed PHP.
///
/// Errors: `dir` is not a folder, or holds neither `wp-config.php`, `wp-load.php` nor `index.php`.
pub fn for_root(dir: &Path) -> Result<Config, Complaints> {
    finish(root::for_root(dir), &Surroundings::here())
}
