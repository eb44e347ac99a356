//! A PHP that Galley runs.

use crate::options::ValueKind::{Count, List, Path, Size, Text};
use crate::options::{OptionRow, OptionSection};
use crate::table::{DAY, GIB, MIB, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "php_workers", Count { least: 0, most: 4096 }, "Workers of a managed PHP. 0: as many as memory and cores allow, by what a worker is seen to take.")
        .or("0").unit("workers"),
    row(OptionSection::Site, "php_command", List(&Text), "Another FastCGI program in place of PHP-FPM, with its arguments: `php_workers` processes of it, each with the socket as its standard input, and started again whenever one ends.")
        .example(r#"["/usr/bin/php-cgi"]"#),
    row(OptionSection::Site, "php_timeout", time(ms(1_000), DAY), "How long a request may take in a managed PHP-FPM, all in all; then its worker is ended. At least `first_byte_timeout`.")
        .computed("`5m`, or `first_byte_timeout` where that is longer").example(r#""5m""#),
    row(OptionSection::Site, "php_memory_limit", Size { least: 16 * MIB, most: 64 * GIB }, "The memory that a script may take in a managed PHP-FPM. Scripts cannot raise it.")
        .computed("half of what all workers may take together, from 64MiB to 256MiB").example(r#""256MiB""#),
    row(OptionSection::Site, "php_user", Text, "The user that a managed PHP runs as.")
        .computed("`server.user` where that is given; else, when Galley runs as root, the owner of `root`, or `www-data` where root owns it; else the same user").example(r#""www-data""#),
    row(OptionSection::Site, "php_binary", Path, "The program of a managed PHP.")
        .computed("the newest php-fpm found").example(r#""/usr/sbin/php-fpm8.4""#),
];
