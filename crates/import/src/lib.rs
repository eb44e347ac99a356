//! Converts configurations of other web servers to a configuration of Galley.
//!
//! [`import`] reads the files of nginx, Varnish, Apache or Caddy through a [`Source`] and returns the text of a
//! `galley.toml`, in which each option names the line that it comes from, and a report with the [`StatementOutcome`] of every
//! statement: carried, not needed, or not carried with a remedy. A statement that no part of the import handles is reported
//! as not carried; nothing is dropped silently.
//!
//! `copy` makes a configuration that can run at the same time as the original, and `served` lists the parts that visitors may
//! notice: `galley import --try` sends the same requests to both servers.
//!
//! This crate does no I/O itself. It accepts any text, with limits on files, statements and nesting.

mod added_fields;
mod apache;
mod bounds;
mod caddy;
mod closed;
mod comparison;
mod copy;
mod directive;
mod draft;
mod evidence;
mod expectation;
mod gate;
mod grammar;
mod host_redirect;
mod imported;
mod known;
mod lost;
mod names;
mod nginx;
mod places;
#[cfg(test)]
mod planted;
mod report;
mod requests;
mod served;
mod source;
mod tree;
mod units;
mod vcl;
mod vcl_parts;
mod vcl_routes;
mod words;
mod write;

pub use apache::apache_directives;
pub use copy::{CopiedListener, CopyError, CopyWorkspace, ServerCopy, copy};
pub use directive::Directive;
pub use imported::{Imported, ServerKind, import};
pub use report::{ImportedStatement, StatementCounts, StatementOutcome};
pub use served::{
    ServedConfiguration, ServedHost, ServedListener, ServedStatement, StatementPaths,
    StatementSubject, served,
};
pub use source::{Source, StatementOrigin};
pub use tree::nginx_directives;
