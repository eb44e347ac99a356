//! What the process may do: unix sockets, user, sandbox.

use crate::options::ValueKind::{Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "socket_mode", Word(&["0600", "0660", "0666"]), "Who may connect to unix sockets in `listen`: their owner, the group too, or everybody who reaches their folder.")
        .or(r#""0660""#),
    row(OptionSection::Server, "user", Text, "The user Galley becomes once its sockets are bound, where it is started as root. Everything else is done as this user: logs, cache, tokens and PHP's socket must be within reach, and PHP that Galley runs is this user's.")
        .example(r#""www-data""#),
    row(OptionSection::Server, "group", Text, "The group of that user's that counts first.")
        .computed("the user's own").example(r#""www-data""#),
    row(OptionSection::Server, "sandbox", Word(&["auto", "off"]), "`auto`: where the kernel can, the threads that deal with clients and upstreams are confined to the folders that they need (Landlock), and may gain no privileges.")
        .or(r#""auto""#),
];
