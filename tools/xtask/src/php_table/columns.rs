//! The columns: which settings PHP runs with.

/// A pool of PHP-FPM, or the PHP that Galley manages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    /// The beginning of the host.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Settings of `php.ini`; `None`: Galley sets them.
    pub(super) ini: Option<&'static [(&'static str, &'static str)]>,
    /// What the command prepares: a script to preload, a folder for the file cache, connections.
    pub(super) extra: Extra,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extra {
    None,
    /// `opcache.preload`, with a script that compiles the files of core that every page needs.
    Preload,
    /// `opcache.file_cache`.
    FileCache,
    /// Persistent connections to the database.
    PersistentConnections,
    /// A TCP socket in place of a unix socket.
    Tcp,
}

/// The settings of Galley, of 1 GiB of memory for PHP. A further setting replaces one of them.
macro_rules! as_galley {
    ($($name:literal = $value:literal),*) => {
        Some(&[
            ("opcache.enable", "1"),
            ("opcache.memory_consumption", "256"),
            ("opcache.interned_strings_buffer", "32"),
            ("opcache.max_accelerated_files", "32000"),
            ("opcache.jit_buffer_size", "0"),
            ("realpath_cache_size", "2097152"),
            ("realpath_cache_ttl", "120"),
            $(($name, $value)),*
        ])
    };
}

const fn column(
    name: &'static str,
    title: &'static str,
    ini: Option<&'static [(&'static str, &'static str)]>,
    extra: Extra,
) -> Column {
    Column {
        name,
        title,
        ini,
        extra,
    }
}

/// The first is the one that the others are compared with.
pub(super) const COLUMNS: &[Column] = &[
    column(
        "same",
        "PHP-FPM with Galley's settings",
        as_galley!(),
        Extra::None,
    ),
    column("galley", "Galley's managed PHP", None, Extra::None),
    column("debian", "Debian's defaults", Some(&[]), Extra::None),
    column(
        "tuned",
        "tuned by hand: 256 MB, no time stamps, realpath cache of 10 minutes",
        Some(&[
            ("opcache.memory_consumption", "256"),
            ("opcache.interned_strings_buffer", "16"),
            ("opcache.max_accelerated_files", "20000"),
            ("opcache.validate_timestamps", "0"),
            ("realpath_cache_size", "4096K"),
            ("realpath_cache_ttl", "600"),
        ]),
        Extra::None,
    ),
    column(
        "off",
        "without opcache",
        Some(&[("opcache.enable", "0")]),
        Extra::None,
    ),
    column(
        "stamps",
        "`opcache.validate_timestamps = 0`",
        as_galley!("opcache.validate_timestamps" = "0"),
        Extra::None,
    ),
    column(
        "seldom",
        "`opcache.revalidate_freq = 60`",
        as_galley!("opcache.revalidate_freq" = "60"),
        Extra::None,
    ),
    column(
        "exists",
        "`opcache.enable_file_override = 1`",
        as_galley!("opcache.enable_file_override" = "1"),
        Extra::None,
    ),
    column(
        "jit",
        "JIT, tracing, 64 MB",
        as_galley!("opcache.jit_buffer_size" = "64M", "opcache.jit" = "tracing"),
        Extra::None,
    ),
    column(
        "function",
        "JIT, by function, 64 MB",
        as_galley!(
            "opcache.jit_buffer_size" = "64M",
            "opcache.jit" = "function"
        ),
        Extra::None,
    ),
    column(
        "huge",
        "`opcache.huge_code_pages = 1`",
        as_galley!("opcache.huge_code_pages" = "1"),
        Extra::None,
    ),
    column(
        "realpath",
        "realpath cache of 16 KB",
        as_galley!("realpath_cache_size" = "16K"),
        Extra::None,
    ),
    column("preload", "core preloaded", as_galley!(), Extra::Preload),
    column(
        "files",
        "`opcache.file_cache`",
        as_galley!(),
        Extra::FileCache,
    ),
    column(
        "persistent",
        "persistent connections to the database",
        as_galley!(),
        Extra::PersistentConnections,
    ),
    column(
        "tcp",
        "TCP in place of a unix socket",
        as_galley!(),
        Extra::Tcp,
    ),
];
