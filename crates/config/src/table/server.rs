//! Files, listeners and limits towards clients.

use crate::options::ValueKind::{self, Count, Flag, List, Path, Size};
use crate::options::{OptionRow, OptionSection};
use crate::table::{DAY, GIB, HOUR, KIB, MIB, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Top, "include", List(&ValueKind::Glob),
        "Further files to read, as if they stood here: one file per site, for example. Relative paths start at the folder of this file. A pattern may match nothing; a plain path must exist.")
        .or("[]").example(r#"["sites.d/*.toml"]"#),
    row(OptionSection::Server, "listen", List(&ValueKind::Listen), "Where sites answer that name no `listen` of their own: an address, a unix socket, or a socket that systemd has opened, by its name or place. `[::]` takes no IPv4; name `0.0.0.0` beside it.")
        .or(r#"["0.0.0.0:8080"]"#),
    row(OptionSection::Server, "workers", Count { least: 0, most: 1024 }, "Threads that serve clients. 0: one per core.")
        .or("0").unit("threads"),
    row(OptionSection::Server, "request_body", Size { least: 0, most: 64 * GIB }, "The largest request body: uploads are at most so large.")
        .or(r#""32MiB""#),
    row(OptionSection::Server, "spool", Path, "A folder for bodies on their way that memory has no room for: large uploads, and answers whose client is slower than PHP. Its files have no names, so nothing stays behind.")
        .computed("`$TMPDIR`, else `/var/tmp`, else `/tmp`").example(r#""/var/lib/galley/spool""#),
    row(OptionSection::Server, "spool_size", Size { least: 0, most: 1024 * GIB }, "Budget for these files, of all requests together. An upload that finds no room gets 503; an answer holds PHP until its client has taken it. 0: only memory.")
        .computed("`1GiB`, or twice `request_body` where that is more").example(r#""1GiB""#),
    row(OptionSection::Server, "spool_answer", Size { least: 0, most: 1024 * GIB }, "The most of one answer that waits in a file for its client. 0: answers go at their clients' pace.")
        .or(r#""256MiB""#),
    row(OptionSection::Server, "spool_memory", Size { least: MIB, most: 1024 * GIB }, "Budget for bodies on their way in memory, of all requests together, beside `cache.memory`.")
        .computed("an eighth of `cache.memory`, at least 4MiB").example(r#""32MiB""#),
    row(OptionSection::Server, "head_size", Size { least: 4 * KIB, most: MIB }, "The largest request head: request line and fields together.")
        .or(r#""32KiB""#),
    row(OptionSection::Server, "head_timeout", time(ms(100), HOUR), "How long a client may take to send a request head, from its first byte.")
        .or(r#""10s""#),
    row(OptionSection::Server, "idle_timeout", time(ms(100), DAY), "How long a connection is kept that asks nothing.")
        .or(r#""60s""#),
    row(OptionSection::Server, "body_timeout", time(ms(100), HOUR), "The longest silence inside a request body.")
        .or(r#""30s""#),
    row(OptionSection::Server, "write_timeout", time(ms(100), HOUR), "How long a client may accept no byte of its answer.")
        .or(r#""30s""#),
    row(OptionSection::Server, "drain_timeout", time(ms(0), HOUR), "How long requests may take to end when Galley stops.")
        .or(r#""15s""#),
    row(OptionSection::Server, "lane", Flag, "Whether hits take the short way. `false` is for finding faults: answers are the same, and slower.")
        .or("true"),
    row(OptionSection::Server, "max_connections", Count { least: 0, most: 10_000_000 }, "Connections of clients at one time. 0: as many as the descriptor limit allows.")
        .or("0").unit("connections"),
];
