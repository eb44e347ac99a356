//! The process: unix sockets, user, sandbox, and whether it watches its configuration.

use crate::options::ValueKind::{Flag, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "socket_mode", Word(&["0600", "0660", "0666"]), "The permissions of unix sockets in `listen`.")
        .or(r#""0660""#).needs_restart(),
    row(OptionSection::Server, "user", Text, "The user that Galley and its PHP run as after a start as root. This user needs access to logs, cache, tokens and PHP's socket.")
        .example(r#""www-data""#).needs_restart(),
    row(OptionSection::Server, "group", Text, "The primary group of the process.")
        .computed("the user's own").example(r#""www-data""#).needs_restart(),
    row(OptionSection::Server, "sandbox", Word(&["auto", "off"]), "`auto`: with Landlock, if the kernel has it, Galley confines the threads that handle clients and upstreams to the folders that they need.")
        .or(r#""auto""#),
    row(OptionSection::Server, "watch", Flag, "Whether Galley reloads when a file of the configuration changes. It checks every two seconds.")
        .or("false"),
];
