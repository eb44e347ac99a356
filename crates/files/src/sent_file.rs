//! One file that a response of the upstream names: whether it may be sent.
//!
//! Sources and hidden files are refused by the requested name and by the name with its links resolved.

use std::io;

use crate::asset::{Asset, is_resource_error};
use crate::deny;
use crate::path::RelPath;
use crate::resolve::PathLookup;
use crate::tree::{Node, RealPath};

/// The file that a response names.
#[derive(Debug)]
pub enum SentFile {
    /// The file, without siblings.
    File(Asset),
    /// There is no such file.
    Missing,
    /// A source, a hidden file, a path that is none, or a file without permission.
    Forbidden,
    /// Outside every permitted folder.
    Outside,
    /// The disk could not be read, or the process has no file descriptors left.
    Failed(io::Error),
}

impl SentFile {
    pub(crate) fn of_error(error: io::Error) -> Self {
        match error.kind() {
            _ if is_resource_error(&error) => Self::Failed(error),
            io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Forbidden,
        }
    }
}

impl PathLookup<'_> {
    /// See [`crate::SentFiles`].
    pub(crate) fn find_sent(&self, path: &RelPath) -> SentFile {
        if path.len() == 0 || path.has_slash() {
            return SentFile::Missing;
        }
        if deny::is_never_sent(path) {
            return SentFile::Forbidden;
        }
        let real = match self.node(path.text()) {
            Node::Regular(located) => located.real,
            Node::Directory | Node::Absent => return SentFile::Missing,
            Node::Special | Node::Refused => return SentFile::Forbidden,
            Node::Outside => return SentFile::Outside,
            Node::Failed(errno) => return SentFile::Failed(errno.into()),
        };
        let is_source = |real: &RealPath| {
            RelPath::from_relative(&real.text).is_none_or(|path| deny::is_never_sent(&path))
        };
        if real.as_ref().is_some_and(is_source) {
            return SentFile::Forbidden;
        }
        let (home, text) = self.located(path, real.as_ref());
        let opened = Asset::open_plain(&home.tree, text, path.last().unwrap_or_default());
        opened.map_or_else(SentFile::of_error, SentFile::File)
    }
}
