//! The source of configuration files, and the position of a statement in them.

use crate::words::WordList;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The files of another server. An implementation limits the size of files.
pub trait Source {
    /// The text of a file; `None` if it does not exist, is not text, or cannot be read.
    fn text(&self, path: &Path) -> Option<String>;

    /// The files that a path with `*` and `?` matches, by name; a plain path matches itself if it exists.
    fn matching(&self, pattern: &Path) -> Vec<PathBuf>;
}

/// The position of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatementOrigin {
    /// The file as named in the configuration.
    pub file: Rc<str>,
    /// The line, from 1.
    pub line: usize,
}

impl fmt::Display for StatementOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// The maximum number of files of an import.
pub(crate) const MAX_FILES: usize = 1_000;

/// The maximum depth of `include`.
pub(crate) const MAX_LEVELS: usize = 16;

/// The maximum depth of nested blocks.
pub(crate) const MAX_NESTED: usize = 16;

/// The maximum number of statements of an import. No person writes a configuration with more.
pub(crate) const MAX_STATEMENTS: usize = 100_000;

/// Files of the packages that most configurations include.
pub(crate) const STANDARD_FILES: WordList =
    WordList("fastcgi.conf fastcgi_params mime.types proxy_params uwsgi_params scgi_params");

/// The statement that reads another file.
pub(crate) const INCLUDE: &str = "include";
