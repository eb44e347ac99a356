//! `.htaccess`: Galley does not execute it, but applies its restrictions of access.
//!
//! Plugins keep backups, logs and orders in directories that only a `.htaccess` closes. So Galley reads what such a file
//! says about *access*: `Require`, `Order`/`Allow`/`Deny`, `Satisfy`, the sections around them, and rewrite or redirect
//! rules that only deny. Everything else is ignored. Three rules apply where Apache cannot be followed exactly:
//! - a condition that cannot be checked here (addresses, logins, expressions, `<If>`) is not public;
//! - `<IfModule>` and similar sections apply whatever they test, and if both branches speak, denial wins;
//! - a denial whose names cannot be computed (a pattern in a dialect that is not supported) covers every name.
//!
//! [`access`] holds the verdicts, [`rules`] how directories and sections override each other, [`parse`] reads the text,
//! [`pattern`] and [`rewrite`] do the matching, [`cache`] keeps the files that have been read.

mod access;
mod cache;
mod parse;
mod pattern;
mod rewrite;
mod rules;

pub(crate) use access::{PublicAccess, Subject};
pub(crate) use cache::HtaccessCache;
#[cfg(fuzzing)]
pub(crate) use parse::parse as read;
pub(crate) use rules::{Rules, judge};

#[cfg(test)]
mod tests;
