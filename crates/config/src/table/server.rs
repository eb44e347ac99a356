//! Files, listeners and limits for clients.

use crate::options::ValueKind::{self, Count, Flag, List, Path, Size};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{DAY, GIB, HOUR, KIB, MIB, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Top, "include", List(&ValueKind::Glob),
        "Further files to read here. A pattern may match nothing; a plain path must exist.")
        .or("[]").example(r#"["sites.d/*.toml"]"#),
    row(OptionSection::Server, "listen", List(&ValueKind::Listen), "The [listeners](../how-to/listeners.md) of sites without a `listen`. `[::]` accepts no IPv4; add `0.0.0.0`.")
        .or(r#"["0.0.0.0:8080"]"#),
    row(OptionSection::Server, "workers", Count { least: 0, most: 1024 }, "Threads for clients. 0: one per core.")
        .or("0").unit("threads").needs_restart(),
    row(OptionSection::Server, "request_body", Size { least: 0, most: 64 * GIB }, "The largest request body, and so the largest upload.")
        .or(r#""32MiB""#),
    row(OptionSection::Server, "spool", Path, "The folder for bodies in transit that do not fit in memory. A crash leaves no files.")
        .computed("`$TMPDIR`, else `/var/tmp`, else `/tmp`").example(r#""/var/lib/galley/spool""#).needs_restart(),
    row(OptionSection::Server, "spool_size", Size { least: 0, most: 1024 * GIB }, "The disk space for [these bodies](../how-to/uploads.md#the-spool). 0: memory only.")
        .computed("`1GiB`, or twice `request_body` if that is more").example(r#""1GiB""#).needs_restart(),
    row(OptionSection::Server, "spool_response", Size { least: 0, most: 1024 * GIB }, "How much of one response may wait in a file for its client. 0: none.")
        .or(r#""256MiB""#).needs_restart(),
    row(OptionSection::Server, "spool_memory", Size { least: MIB, most: 1024 * GIB }, "The memory for bodies in transit, in addition to `cache.memory`.")
        .computed("an eighth of `cache.memory`, at least 4MiB").example(r#""32MiB""#).needs_restart(),
    row(OptionSection::Server, "head_size", Size { least: 4 * KIB, most: MIB }, "The largest request head: request line and headers.")
        .or(r#""32KiB""#),
    row(OptionSection::Server, "head_timeout", time(ms(100), HOUR), "The time for a request head, from its first byte.")
        .or(r#""10s""#),
    row(OptionSection::Server, "idle_timeout", time(ms(100), DAY), "The life of a connection without a request.")
        .or(r#""60s""#),
    row(OptionSection::Server, "body_timeout", time(ms(100), HOUR), "The wait between two parts of a request body.")
        .or(r#""30s""#),
    row(OptionSection::Server, "write_timeout", time(ms(100), HOUR), "The time in which a client must accept a byte of its response.")
        .or(r#""30s""#),
    row(OptionSection::Server, "drain_timeout", time(ms(0), HOUR), "The time for requests in progress when Galley stops.")
        .or(r#""15s""#),
    row(OptionSection::Server, "fast_path", Flag, "Whether hits use the fast path; `false` helps to find faults.")
        .or("true"),
    row(OptionSection::Server, "max_connections", Count { least: 0, most: 10_000_000 }, "Client connections. 0: as many as the descriptor limit allows.")
        .or("0").unit("connections"),
];
