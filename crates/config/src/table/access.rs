//! Who may come in.

use crate::options::Kind::Later;
use crate::options::{OptionRow, Section};
use crate::table::row;

pub(super) static ROWS: &[OptionRow] = &[row(
    Section::SiteRule,
    "allow",
    Later("a list of networks"),
    "Who may ask for these paths.",
)
.example(r#"["10.0.0.0/8"]"#)
.later("refuse strangers in PHP, or in the proxy or firewall in front")];
