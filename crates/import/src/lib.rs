//! Configurations of other web servers as a configuration of Galley.
//!
//! [`import`] reads the files of nginx, Varnish, Apache or Caddy through a [`Source`] and returns the text of a `galley.toml`, in which
//! each option names the line that it comes from, and a report with the [`StatementFate`] of every statement: carried, not needed, or not carried
//! with a remedy. A statement that no part of the import knows is reported as not carried; nothing is dropped silently.
//!
//! Pure: no I/O of its own. Total: any text is read, with limits on files, statements and nesting.

mod apache;
mod caddy;
mod draft;
mod imported;
mod known;
mod ledger;
mod nginx;
mod source;
mod tree;
mod units;
mod vcl;
mod write;

pub use imported::{Imported, ServerKind, import};
pub use ledger::{ImportedStatement, Shares, StatementFate};
pub use source::{Source, StatementOrigin};
