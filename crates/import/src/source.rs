//! The source of configuration files, and the position of a statement in them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The files of another server. An implementation bounds the size of a file.
pub trait Source {
    /// The text of a file; `None`: it does not exist, is not text, or cannot be read.
    fn text(&self, path: &Path) -> Option<String>;

    /// The files that a path with `*` and `?` matches, by name; a plain path matches itself if it exists.
    fn matching(&self, pattern: &Path) -> Vec<PathBuf>;
}

/// The place of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementOrigin {
    /// As the configuration names it.
    pub file: Rc<str>,
    /// From 1.
    pub line: usize,
}

impl fmt::Display for StatementOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Files that one import reads at most.
pub(crate) const MOST_FILES: usize = 1_000;

/// Levels of `include`.
pub(crate) const MOST_LEVELS: usize = 16;

/// Levels of blocks in blocks.
pub(crate) const MOST_NESTED: usize = 16;

/// Statements of one import. A configuration with more is not one that a person wrote.
pub(crate) const MOST_STATEMENTS: usize = 100_000;

/// Files of the packages, which every configuration includes.
pub(crate) const STANDARD_FILES: &[&str] = &[
    "fastcgi.conf",
    "fastcgi_params",
    "mime.types",
    "proxy_params",
    "uwsgi_params",
    "scgi_params",
];

/// The statement that reads another file.
pub(crate) const INCLUDE: &str = "include";
