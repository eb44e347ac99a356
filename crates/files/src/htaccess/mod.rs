//! `.htaccess`: Galley does not execute it, but applies its access restrictions.
//!
//! Plugins keep backups, logs and orders in directories that are protected only by a `.htaccess`. So Galley reads the
//! directives about *access*: `Require`, `Order`/`Allow`/`Deny`, `Satisfy`, the sections around them, and rewrite or
//! redirect rules that only deny. Everything else is ignored. Three rules apply where Apache cannot be followed exactly:
//! - a path with a condition that cannot be checked here (addresses, logins, expressions, `<If>`) is not public;
//! - `<IfModule>` and similar sections apply whatever they test, and if both branches have directives, denial wins;
//! - a denial whose names cannot be computed (a pattern in a dialect that is not supported) covers every name.
//!
//! [`access`] contains the access levels, [`rules`] how directories and sections override each other, [`parse`] reads the
//! text, [`pattern`] and [`rewrite`] do the matching, [`cache`] keeps the parsed files.

mod access;
mod cache;
mod parse;
mod pattern;
mod rewrite;
mod rules;

pub(crate) use access::{AccessSubject, PublicAccess};
pub(crate) use cache::HtaccessCache;
#[cfg(fuzzing)]
pub(crate) use parse::parse as read;
pub(crate) use rules::{Rules, evaluate};

#[cfg(test)]
mod tests;
