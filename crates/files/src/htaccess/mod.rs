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
//! [`access`] holds the verdicts and how directories and sections override each other, [`parse`]
//! reads the text, [`pattern`] and [`rewrite`] are the matching parts, [`shelf`] keeps what was
//! read.

mod access;
mod parse;
mod pattern;
mod rewrite;
mod shelf;

pub(crate) use access::{PublicAccess, Subject, judge};
#[cfg(fuzzing)]
pub(crate) use parse::parse as read;
pub(crate) use shelf::{HtaccessCache, rules_of};

use access::HtaccessSection;
use pattern::HtaccessPattern;
use rewrite::Rewrite;

/// What one `.htaccess` says about access.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    /// What holds for the directory; always there once something was read.
    base: HtaccessSection,
    /// `<Files>`, `<FilesMatch>` and `<If>`, in file order.
    sections: Vec<HtaccessSection>,
    /// Rewrite rules that may refuse, with those that decide whether they are reached.
    rewrites: Vec<Rewrite>,
    /// Paths of the URL that `Redirect` and `RedirectMatch` answer with 403, 404 or 410.
    refused: Vec<HtaccessPattern>,
}

impl Rules {
    /// Of a file that is there and cannot be read: nothing is public.
    fn closed() -> Self {
        Self {
            base: HtaccessSection::denying(),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
