//! Managed PHP.

use crate::options::ValueKind::{Count, List, Path, Size, Text};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{DAY, GIB, MIB, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "php_workers", Count { least: 0, most: 4096 }, "The number of workers of a managed PHP. 0: as many as memory and cores allow, based on the measured size of a worker.")
        .or("0").unit("workers"),
    row(OptionSection::Site, "php_command", List(&Text), "A FastCGI program to run in place of PHP-FPM, with its arguments. Galley runs `php_workers` processes of it, gives each the socket as standard input, and restarts a process that ends.")
        .example(r#"["/usr/bin/php-cgi"]"#),
    row(OptionSection::Site, "php_timeout", time(ms(1_000), DAY), "How long a request may take in a managed PHP-FPM in total. Then PHP-FPM ends its worker. At least `first_byte_timeout`.")
        .computed("`5m`, or `first_byte_timeout` if that is longer").example(r#""5m""#),
    row(OptionSection::Site, "php_memory_limit", Size { least: 16 * MIB, most: 64 * GIB }, "The memory limit of a script in a managed PHP-FPM. Scripts cannot raise it.")
        .computed("half of the workers' share of the memory, 64MiB to 256MiB").example(r#""256MiB""#),
    row(OptionSection::Site, "php_user", Text, "The user that a managed PHP runs as.")
        .computed("`server.user` if set; otherwise, if Galley runs as root, the owner of `root`, or `www-data` if root owns it; otherwise Galley's own user").example(r#""www-data""#),
    row(OptionSection::Site, "php_binary", Path, "The PHP-FPM program that Galley runs.")
        .computed("the newest `php-fpm` on the machine").example(r#""/usr/sbin/php-fpm8.4""#),
];
