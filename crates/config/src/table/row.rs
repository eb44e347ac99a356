//! The building blocks of rows: kinds of values and common bounds.

use std::time::Duration;

use crate::options::{OptionRow, OptionSection, ValueKind};

/// The name of the row for all statuses, in `[site.ttl]` and `[site.error_pages]`.
pub const STATUS: &str = "<status>";

/// The text of an option of a rule that is one of the site too; the reference lists these in a sentence.
pub const AS_IN_SITE: &str = "As in the site; replaces its value.";

/// The same for lists that add to the site's.
pub const ADDED_TO_SITE: &str = "As in the site; added to its value.";

pub(super) const fn row(
    section: OptionSection,
    name: &'static str,
    kind: ValueKind,
    text: &'static str,
) -> OptionRow {
    OptionRow::new(section, name, kind, text)
}

pub(super) const fn time(least: Duration, most: Duration) -> ValueKind {
    ValueKind::Time { least, most }
}

/// A lifetime. RFC 9111 section 1.2.2 lets a cache treat anything larger as infinite.
pub(super) const fn lifetime() -> ValueKind {
    time(Duration::ZERO, TEN_YEARS)
}

pub(super) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(super) const TEN_YEARS: Duration = Duration::from_secs(3_650 * 86_400);
pub(super) const HOUR: Duration = Duration::from_secs(3_600);
pub(super) const DAY: Duration = Duration::from_secs(86_400);
pub(super) const KIB: u64 = 1 << 10;
pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
