//! HTTP/2.

use crate::options::ValueKind::Flag;
use crate::options::{OptionRow, OptionSection};
use crate::table::row::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "h2c", Flag, "Whether clients may use HTTP/2 without TLS if they begin with it, for a proxy in front and for tests. Browsers never do.")
        .or("false"),
];
