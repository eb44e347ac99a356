//! The cache: its size, lifetimes and keys.

use std::time::Duration;

use crate::options::ValueKind::{self, Flag, List, Path, Size, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{GIB, KIB, MIB, STATUS, lifetime, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Cache, "memory", Size { least: 16 * MIB, most: 1024 * GIB }, "The memory for pages, their compressed variants, and responses in progress.")
        .computed("a quarter of the memory of the machine or its control group, at least 16MiB").example(r#""256MiB""#).needs_restart(),
    row(OptionSection::Cache, "memory_per_site", Size { least: MIB, most: 1024 * GIB }, "The most that [one site](../how-to/many-sites.md#what-each-site-has-for-itself) may use.")
        .computed("all of `memory`").example(r#""64MiB""#),
    row(OptionSection::Cache, "max_object", Size { least: KIB, most: 1024 * GIB }, "The largest response body that Galley stores, at most `memory` or half of `disk_size`.")
        .computed("a quarter of `memory`, at most 64MiB").example(r#""64MiB""#).needs_restart(),
    row(OptionSection::Cache, "max_file", Size { least: 0, most: 16 * MIB }, "The largest file that Galley [keeps in memory](../how-to/files.md#files-in-memory). Files use at most an eighth of `memory` and never evict a page. 0: none.")
        .computed("`memory` / 128, at least 2MiB, at most 16MiB").example(r#""4MiB""#).needs_restart(),
    row(OptionSection::Cache, "disk", Path, "The folder for pages and purges that survive a restart: on a local disk, for one Galley.")
        .example(r#""/var/cache/galley""#).needs_restart(),
    row(OptionSection::Cache, "disk_size", Size { least: 16 * MIB, most: 1024 * GIB }, "The disk space for pages of all sites.")
        .or(r#""1GiB""#).needs_restart(),
    row(OptionSection::Cache, "disk_size_per_site", Size { least: 16 * MIB, most: 1024 * GIB }, "The most that one site may use.")
        .computed("all of `disk_size`").example(r#""256MiB""#).needs_restart(),
    row(OptionSection::Cache, "inactive", time(Duration::from_secs(60), ms(366 * 86_400_000)), "How long a page stays on disk without a request.")
        .or(r#""7d""#).needs_restart(),
    row(OptionSection::Site, "members", Word(&["pass", "fragments"]), "What members and visitors with a cart get: pages from PHP, or [stored pages with parts of their own](../how-to/members.md). Needs the plugin.")
        .or(r#""pass""#).shapes_keys(),
    row(OptionSection::Site, "esi", Flag, "Whether Galley puts pages together from [ESI parts](../how-to/esi.md).")
        .or("false").shapes_keys(),
    row(OptionSection::Site, "esi_hosts", List(&ValueKind::Host), "Further hosts in ESI includes, requested from the site's own upstream.")
        .or("[]").example(r#"["parts.example.com"]"#).shapes_keys(),
    row(OptionSection::Site, "litespeed", Flag, "Whether the plugin LiteSpeed Cache may control the site's cache.")
        .or("false").shapes_keys(),
    row(OptionSection::Site, "device_variants", Flag, "Whether phones and desktops get separate variants, for themes that send them different HTML.")
        .or("false").shapes_keys(),
    row(OptionSection::Site, "harmless_cookies", List(&ValueKind::Name), "Cookies of responses that Galley stores without them.")
        .or("[]").example(r#"["seen_banner"]"#).shapes_keys(),
    row(OptionSection::Site, "vary_cookies", List(&ValueKind::Name), "Cookies whose value selects a variant of the page, such as a currency.")
        .or("[]").example(r#"["currency"]"#).shapes_keys(),
    row(OptionSection::Site, "bypass_cookies", List(&ValueKind::NameOrAll), "Cookies that make a request bypass the cache.")
        .or("[]").example(r#"["my_session*"]"#),
    row(OptionSection::Site, "ignore_query", List(&ValueKind::NameOrAll), "Query parameters that Galley drops, because they do not change the page.")
        .or("[]").example(r#"["ref", "mc_*"]"#).shapes_keys(),
    row(OptionSection::SiteTtl, STATUS, lifetime(), "The lifetime of responses with this status, `200` to `599`.")
        .computed(r#"`"404" = "60s"`"#).example(r#""60s""#),
    row(OptionSection::SiteTtl, "default", lifetime(), "The lifetime for every other status that is cacheable by default.")
        .computed(r#"`"60s"`; without a preset none"#).example(r#""60s""#),
    row(OptionSection::SiteTtl, "stale_while_revalidate", lifetime(), "How long Galley may serve a stale page while it fetches the new one.")
        .computed(r#"`"10m"`; without a preset none"#).example(r#""10m""#),
    row(OptionSection::SiteTtl, "stale_if_error", lifetime(), "How long Galley may serve a stale page if the upstream fails.")
        .computed(r#"`"1d"`; without a preset none"#).example(r#""1d""#),
];
