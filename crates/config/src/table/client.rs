//! Who the client is: proxies in front.

use crate::options::Kind::Later;
use crate::options::{OptionRow, Section};
use crate::table::row;

pub(super) static ROWS: &[OptionRow] = &[row(
    Section::Server,
    "trusted_proxies",
    Later("a list of networks"),
    "Whose `X-Forwarded-*` fields tell the client's address and scheme.",
)
.example(r#"["10.0.0.0/8"]"#)
.later("leave it out: the peer of the connection counts as the client")];
