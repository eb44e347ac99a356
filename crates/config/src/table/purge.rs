//! Options for purge requests: the permitted clients, and the supported kinds.

use crate::options::ValueKind::{self, Flag, List, Path};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{lifetime, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "purge_allow", List(&ValueKind::Network), "Networks that [may send `PURGE` and `BAN`](../how-to/purge-plugins.md#who-may-purge) to the site itself.")
        .or(r#"["127.0.0.1", "::1"]"#),
    row(OptionSection::Site, "purge_secret_file", Path, "The secret file, at least 16 bytes, that lets a client purge from any address.")
        .example(r#""/etc/galley/example.com.purge.token""#),
    row(OptionSection::Site, "purge_get", Flag, "Whether `GET /purge/...` from WordPress purges, as Nginx Helper sends it.")
        .or("false"),
    row(OptionSection::Site, "purge_directory", Path, "A folder with one file. When PHP removes it, as [Nginx Helper](../how-to/purge-plugins.md#nginx-helper) does, Galley purges the site.")
        .example(r#""/var/run/nginx-cache""#),
    row(OptionSection::Site, "nginx_cache_path", Path, "A folder with [a small file for each page](../how-to/purge-plugins.md#plugins-that-remove-nginxs-files), named as by nginx. A removed file purges the page, a removed folder the site. PHP needs write access.")
        .example(r#""/var/cache/nginx/example.com""#).shapes_keys(),
    row(OptionSection::Site, "purge_forward", List(&ValueKind::PurgeForward), "[Other caches](../how-to/outer-caches.md) that get each purge. In front: `cloudflare = \"ZONE\"`, `fastly = \"SERVICE\"`, `bunny = \"PULL ZONE\"`, `purge` or `ban = \"http://host:port\"`; behind: `galley = \"http://host:port\"`. `by = \"tag\"` needs `tag_header`. `api`: another address of an API.")
        .or("[]").example(r#"[{ cloudflare = "0123456789abcdef", token_file = "/etc/galley/cdn.token", by = "tag" }]"#),
    row(OptionSection::Site, "tag_header", ValueKind::FieldName, "The response header with the tags of pages for caches in front: `Cache-Tag` (Cloudflare, Galley), `Surrogate-Key` (Fastly), `CDN-Tag` (Bunny).")
        .example(r#""Cache-Tag""#).shapes_keys(),
    row(OptionSection::Site, "outer_ttl", lifetime(), "How long [caches in front](../how-to/outer-caches.md) may use a stored page (`CDN-Cache-Control`).")
        .example(r#""1h""#),
];
