//! HTTP/2.

use crate::options::ValueKind::Flag;
use crate::options::{OptionRow, OptionSection};
use crate::table::row::row;

pub(super) static ROWS: &[OptionRow] = &[row(
    OptionSection::Server,
    "h2c",
    Flag,
    "Whether clients, such as a proxy in front, may begin with HTTP/2 without TLS.",
)
.or("false")];
