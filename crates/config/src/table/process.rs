//! What the process may do: unix sockets.

use crate::options::Kind::Word;
use crate::options::{OptionRow, Section};
use crate::table::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(Section::Server, "socket_mode", Word(&["0600", "0660", "0666"]), "Who may connect to unix sockets in `listen`: their owner, the group too, or everybody who reaches their folder.")
        .or(r#""0660""#),
];
