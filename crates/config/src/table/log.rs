//! Logs of all sites and of one site.

use crate::options::ValueKind::{self, Count, List, UpstreamUrl, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Log, "access", ValueKind::AccessLog, "Where Galley writes a line per request.")
        .or(r#""stdout""#),
    row(OptionSection::Log, "format", Word(&["combined", "json", "ecs"]), "The [format](../how-to/logs.md#access-lines) of access lines.")
        .or(r#""combined""#),
    row(OptionSection::Log, "fields", List(&ValueKind::LogField), "The [fields](../how-to/logs.md#access-lines) of `json` and `ecs`, in this order, after the time. The last five: `tls_version`, `country`, `trace_id`, and the two with `NAME`. Galley never logs headers with secrets.")
        .computed("all fields but the last five").example(r#"["client", "host", "target", "status", "trace_id", "request_header:accept-language"]"#),
    row(OptionSection::Log, "error", ValueKind::ErrorLog, "Where Galley writes its messages.")
        .or(r#""stderr""#),
    row(OptionSection::Log, "level", Word(&["error", "warn", "info", "debug", "trace"]), "The lowest severity in the error log.")
        .or(r#""info""#),
    row(OptionSection::Log, "otlp", UpstreamUrl, "The collector of [traces](../how-to/logs.md#traces): OTLP over HTTP at `/v1/traces`.")
        .example(r#""http://127.0.0.1:4318""#),
    row(OptionSection::Log, "otlp_sample", Count { least: 0, most: 100 }, "The recorded part of the traces that begin here. A continued trace follows its `traceparent`.")
        .or("100").unit("percent"),
    row(OptionSection::Log, "trace_parent", Word(&["trusted", "any"]), "Whose `traceparent` Galley continues: that of `trusted_proxies`, or every client's.")
        .or(r#""trusted""#),
    row(OptionSection::SiteLog, "access", ValueKind::AccessLog, "Where Galley writes the access lines of the site.")
        .computed("`log.access`").example(r#""/var/log/galley/example.com.log""#),
    row(OptionSection::SiteLog, "error", ValueKind::ErrorLog, "Where Galley writes messages about the site.")
        .computed("`log.error`").example(r#""/var/log/galley/example.com.error.log""#),
];
