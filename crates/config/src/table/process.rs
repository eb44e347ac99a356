//! The process: unix sockets, user, sandbox, and whether it watches its configuration.

use crate::options::ValueKind::{Flag, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "socket_mode", Word(&["0600", "0660", "0666"]), "The permissions of unix sockets in `listen`.")
        .or(r#""0660""#).needs_restart(),
    row(OptionSection::Server, "user", Text, "The user of Galley and its PHP after a start as root. It needs access to logs, cache, tokens and PHP's socket.")
        .example(r#""www-data""#).needs_restart(),
    row(OptionSection::Server, "group", Text, "The primary group of the process.")
        .computed("the user's own").example(r#""www-data""#).needs_restart(),
    row(OptionSection::Server, "sandbox", Word(&["auto", "off"]), "`auto`: Landlock, if the kernel has it, [confines Galley](../how-to/users.md#the-sandbox) to the folders that it needs.")
        .or(r#""auto""#),
    row(OptionSection::Server, "watch", Flag, "Whether Galley reloads within two seconds after a file of the configuration changes.")
        .or("false"),
];
