//! The grammars of files with statements and blocks.

/// A grammar: the separators of statements, and the comments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grammar {
    /// `;` ends a statement, `#` begins a comment.
    Nginx,
    /// As nginx, and also the comments of C.
    Vcl,
    /// A line ends a statement, and `{` opens a block only at the end of a line.
    Caddy,
}
