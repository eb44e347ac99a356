//! What is kept, where, for how long, and under which key.

use std::time::Duration;

use crate::options::ValueKind::{self, Flag, List, Path, Size};
use crate::options::{OptionRow, OptionSection};
use crate::table::{GIB, KIB, MIB, STATUS, lifetime, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Cache, "memory", Size { least: 16 * MIB, most: 1024 * GIB }, "Budget for everything that is kept in memory: pages, their compressed forms, pages being received.")
        .computed("a quarter of what the machine or its control group has, at least 16MiB").example(r#""256MiB""#),
    row(OptionSection::Cache, "max_object", Size { least: KIB, most: 1024 * GIB }, "The largest body that is kept; larger ones pass through. At most `memory`, or half of `disk_size` where that is more.")
        .computed("a quarter of `memory`, at most 64MiB").example(r#""64MiB""#),
    row(OptionSection::Cache, "max_file", Size { least: 0, most: 16 * MIB }, "The largest file below a `root` that answers from memory; larger ones are sent from the system's own file cache. Files have at most an eighth of `memory`, and push no page out. 0: none does.")
        .or(r#""256KiB""#),
    row(OptionSection::Cache, "disk", Path, "A folder in which pages survive a restart, and the purges that concern them: Galley's alone, on a local disk. Without it pages are kept in memory only.")
        .example(r#""/var/cache/galley""#),
    row(OptionSection::Cache, "disk_size", Size { least: 16 * MIB, most: 1024 * GIB }, "Budget for the pages on disk, of all sites together.")
        .or(r#""1GiB""#),
    row(OptionSection::Cache, "disk_size_per_site", Size { least: 16 * MIB, most: 1024 * GIB }, "What one site may take of it.")
        .computed("all of `disk_size`").example(r#""256MiB""#),
    row(OptionSection::Cache, "inactive", time(Duration::from_secs(60), ms(366 * 86_400_000)), "How long a page stays on disk that nobody asks for.")
        .or(r#""7d""#),
    row(OptionSection::Site, "litespeed", Flag, "Lets the plugin LiteSpeed Cache control the site's cache: Galley announces to PHP that it supports the plugin's headers.")
        .or("false"),
    row(OptionSection::Site, "device_variants", Flag, "Whether phones and desktops get copies of their own. Only for themes that send them different HTML.")
        .or("false"),
    row(OptionSection::Site, "harmless_cookies", List(&ValueKind::Name), "Cookies that a response may set and still be stored. With the WordPress preset the stored copy goes without them.")
        .or("[]").example(r#"["seen_banner"]"#),
    row(OptionSection::Site, "vary_cookies", List(&ValueKind::Name), "Cookies whose value makes a copy of its own, such as a currency. Added to the preset's.")
        .or("[]").example(r#"["currency"]"#),
    row(OptionSection::Site, "bypass_cookies", List(&ValueKind::NameOrAll), "Cookies that send a request past the cache. Added to the preset's.")
        .or("[]").example(r#"["my_session*"]"#),
    row(OptionSection::Site, "ignore_query", List(&ValueKind::NameOrAll), "Query parameters that make no difference: neither a copy of their own nor sent upstream. Added to the preset's.")
        .or("[]").example(r#"["ref", "mc_*"]"#),
    row(OptionSection::SiteTtl, STATUS, lifetime(), "Lifetime of responses with this status, from `200` to `599`; as many as needed.")
        .computed(r#"`"404" = "60s"`"#).example(r#""60s""#),
    row(OptionSection::SiteTtl, "default", lifetime(), "Lifetime for every other status that is cacheable by default.")
        .computed(r#"`"60s"`; without a preset none"#).example(r#""60s""#),
    row(OptionSection::SiteTtl, "stale_while_revalidate", lifetime(), "How long after its lifetime a copy still answers while one refresh runs.")
        .computed(r#"`"10m"`; without a preset none"#).example(r#""10m""#),
    row(OptionSection::SiteTtl, "stale_if_error", lifetime(), "How long after its lifetime a copy still answers when the upstream fails.")
        .computed(r#"`"1d"`; without a preset none"#).example(r#""1d""#),
];
