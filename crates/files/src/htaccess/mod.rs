//! `.htaccess`: not obeyed, but what it closes to the public is closed.
//!
//! Plugins keep backups, logs and orders in directories that only a `.htaccess` closes. So what
//! such a file says about *access* is read: `Require`, `Order`/`Allow`/`Deny`, `Satisfy`, the
//! sections around them, and rewrite or redirect rules that only refuse. Everything else in it is
//! ignored. Three rules where Apache cannot be followed exactly:
//! - what cannot be checked here (addresses, logins, expressions, `<If>`) is not public;
//! - `<IfModule>` and its kin hold whatever they ask, and where both branches speak, denial wins;
//! - a denial whose names cannot be computed (a pattern in a dialect that we do not have) covers
//!   every name.
//!
//! [`access`] holds the verdicts, [`rules`] how directories and sections override each other,
//! [`parse`] reads the text, [`pattern`] and [`rewrite`] are the matching parts, [`cache`] keeps the
//! files that have been read.

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
