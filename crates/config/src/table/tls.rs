//! TLS towards clients.

use crate::options::Kind::Later;
use crate::options::{OptionRow, Section};
use crate::table::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(
        Section::Server,
        "listen_tls",
        Later("a list of addresses"),
        "Where sites answer over TLS.",
    )
    .example(r#"["0.0.0.0:8443"]"#)
    .later("let a proxy that speaks TLS stand in front, and listen in plain on an inner address"),
    row(
        Section::Site,
        "tls",
        Later(r#"`"auto"` or a certificate with its key"#),
        "How the site gets its certificate.",
    )
    .example(r#""auto""#)
    .later("let a proxy that speaks TLS stand in front, and listen in plain on an inner address"),
];
