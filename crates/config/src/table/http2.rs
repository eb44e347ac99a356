//! HTTP/2.

use crate::options::ValueKind::Flag;
use crate::options::{OptionRow, OptionSection};
use crate::table::row::row;

pub(super) static ROWS: &[OptionRow] = &[row(
    OptionSection::Server,
    "h2c",
    Flag,
    "Whether clients may begin with HTTP/2 without TLS, for a proxy in front. Browsers never do.",
)
.or("false")];
