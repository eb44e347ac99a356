//! Connections that switch to another protocol.

use crate::options::ValueKind::{Count, List, Text};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{DAY, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(
        OptionSection::Server,
        "max_upgrades",
        Count {
            least: 0,
            most: 1_000_000,
        },
        "Concurrent WebSockets and other connections that switched protocol. Further ones get 503.",
    )
    .or("1000")
    .unit("connections"),
    row(
        OptionSection::Server,
        "upgrade_timeout",
        time(ms(100), DAY),
        "How long such a connection may carry no data in either direction.",
    )
    .or(r#""10m""#),
    row(
        OptionSection::Site,
        "upgrade",
        List(&Text),
        "Protocols that a connection to an HTTP upstream may switch to.",
    )
    .or(r#"["websocket"]"#),
];
