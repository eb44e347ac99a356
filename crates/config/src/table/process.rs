//! The process: unix sockets, user, sandbox, and whether it watches its configuration.

use crate::options::ValueKind::{Flag, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::row;

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Server, "socket_mode", Word(&["0600", "0660", "0666"]), "The permissions of unix sockets in `listen`: owner only, owner and group, or every user who can reach the folder.")
        .or(r#""0660""#).needs_restart(),
    row(OptionSection::Server, "user", Text, "The user that Galley switches to after it has bound its sockets, if it was started as root. This user needs access to logs, cache, tokens and PHP's socket. PHP that Galley runs belongs to this user too.")
        .example(r#""www-data""#).needs_restart(),
    row(OptionSection::Server, "group", Text, "The primary group of the process.")
        .computed("the user's own").example(r#""www-data""#).needs_restart(),
    row(OptionSection::Server, "sandbox", Word(&["auto", "off"]), "`auto`: if the kernel supports Landlock, Galley confines the threads that handle clients and upstreams to the folders that they need, and they cannot gain privileges.")
        .or(r#""auto""#),
    row(OptionSection::Server, "watch", Flag, "Whether Galley reloads when a file of the configuration changes, or a file that `include` matches is added or removed. It checks every two seconds.")
        .or("false"),
];
