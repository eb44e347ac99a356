//! Managed PHP.

use crate::options::ValueKind::{Count, List, Path, Size, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{DAY, GIB, MIB, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "php_workers", Count { least: 0, most: 4096 }, "The workers of a managed PHP. 0: as many as memory and cores allow.")
        .or("0").unit("workers"),
    row(OptionSection::Site, "php_command", List(&Text), "A FastCGI program with its arguments, in place of PHP-FPM, in `php_workers` processes with the socket as standard input.")
        .example(r#"["/usr/bin/php-cgi"]"#),
    row(OptionSection::Site, "php_timeout", time(ms(1_000), DAY), "The time for a request in a managed PHP; then its worker ends. At least `first_byte_timeout`.")
        .computed("`5m`, or `first_byte_timeout` if that is longer").example(r#""5m""#),
    row(OptionSection::Site, "php_memory_limit", Size { least: 16 * MIB, most: 64 * GIB }, "The memory of a script in a managed PHP. Scripts cannot raise it.")
        .computed("half of the workers' share of the memory, 64MiB to 256MiB").example(r#""256MiB""#),
    row(OptionSection::Site, "php_user", Text, "The user that a managed PHP runs as.")
        .computed("`server.user` if set; otherwise, if Galley runs as root, the owner of `root`, or `www-data` if root owns it; otherwise Galley's own user").example(r#""www-data""#),
    row(OptionSection::Site, "php_binary", Path, "The PHP-FPM program that Galley runs.")
        .computed("the newest `php-fpm` on the machine").example(r#""/usr/sbin/php-fpm8.4""#),
    row(OptionSection::Site, "php_sandbox", Word(&["off", "root", "wp-content"]), "[What a managed PHP may write](../how-to/users.md#confine-php) below `root`: all, or `wp-content` only, which prevents updates of WordPress.")
        .or(r#""off""#),
    row(OptionSection::Site, "php_paths", List(&Path), "Further paths that a PHP with `php_sandbox` may read and write.")
        .or("[]").example(r#"["/srv/shared/uploads"]"#),
    row(OptionSection::Site, "php_connect_ports", List(&Count { least: 1, most: 65_535 }), "The TCP ports that a PHP with `php_sandbox` may connect to. Unix sockets and UDP are not restricted.")
        .computed("all").example("[443, 3306]"),
    row(OptionSection::Site, "php_memory_high", Size { least: 64 * MIB, most: 1024 * GIB }, "`memory.high` of a managed PHP, above which the kernel slows it. Needs [a control group](../how-to/php.md#limits-of-the-kernel).")
        .example(r#""1GiB""#),
    row(OptionSection::Site, "php_pids_max", Count { least: 16, most: 4_194_304 }, "`pids.max` of a managed PHP: processes and threads, with the programs that workers start. Needs the same.")
        .unit("processes").example("100"),
];
