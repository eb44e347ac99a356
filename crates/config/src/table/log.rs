//! Logs, of all sites and of one.

use crate::options::ValueKind::{self, Later, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Log, "access", ValueKind::AccessLog, "Where one line per request goes.")
        .or(r#""stdout""#),
    row(OptionSection::Log, "format", Word(&["combined", "json"]), "The form of access lines: the combined line of NCSA and Apache with Galley's own words behind it, or one JSON object a line.")
        .or(r#""combined""#),
    row(OptionSection::Log, "error", ValueKind::ErrorLog, "Where messages go.")
        .or(r#""stderr""#),
    row(OptionSection::Log, "level", Word(&["error", "warn", "info", "debug", "trace"]), "The least severe message that is written.")
        .or(r#""info""#),
    row(OptionSection::SiteLog, "access", ValueKind::AccessLog, "Where access lines of the site go.")
        .computed("`log.access`").example(r#""/var/log/galley/example.com.log""#),
    row(OptionSection::SiteLog, "error", Later("a path"), "Where messages about the site go.")
        .example(r#""/var/log/galley/example.com.error.log""#)
        .later("`log.error` has the messages of all sites; each names its site"),
];
