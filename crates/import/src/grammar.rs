//! The grammars of files with statements and blocks.

/// What separates statements, and what begins a comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grammar {
    /// `;` ends a statement, `#` begins a comment.
    Nginx,
    /// As nginx, with the comments of C.
    Vcl,
    /// A line ends a statement, and `{` opens a block only at the end of a line.
    Caddy,
}
