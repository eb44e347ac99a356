//! Options for purge requests: the permitted clients, and the supported kinds.

use crate::options::ValueKind::{self, Flag, List, Path};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{lifetime, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "purge_allow", List(&ValueKind::Network), "Networks that may send `PURGE` and `BAN` to the site itself. A request that a proxy has forwarded needs the secret.")
        .or(r#"["127.0.0.1", "::1"]"#),
    row(OptionSection::Site, "purge_secret_file", Path, "A file with a secret. A client that sends the secret may purge from any address, also through a proxy. At least 16 bytes, readable by its owner only.")
        .example(r#""/etc/galley/example.com.purge.token""#),
    row(OptionSection::Site, "purge_get", Flag, "Whether `GET /purge/...` from WordPress purges, as Nginx Helper sends it.")
        .or("false"),
    row(OptionSection::Site, "purge_directory", Path, "A folder in which Galley keeps one file. When that file is removed, Galley purges the site: Nginx Helper empties this folder to purge everything. The user of PHP must be able to remove files there.")
        .example(r#""/var/run/nginx-cache""#),
    row(OptionSection::Site, "nginx_cache_path", Path, "A folder in which Galley keeps a small file for each stored page, named as nginx names its cache files (`levels=1:2`, key `$scheme$request_method$host$request_uri`). When a plugin removes the file, as Nginx Helper and SpinupWP do, Galley purges the page; when it removes a folder, the site. The user of PHP must be able to remove files there.")
        .example(r#""/var/cache/nginx/example.com""#).shapes_keys(),
    row(OptionSection::Site, "purge_forward", List(&ValueKind::PurgeForward), "Caches of other machines that get each purge of this site. In front: `{ cloudflare = \"ZONE\", token_file = \"...\" }`, `fastly = \"SERVICE\"`, `bunny = \"PULL ZONE\"`, or `purge` or `ban = \"http://host:port\"` for one that takes `PURGE` or `BAN`. Behind: `{ galley = \"http://host:port\", token_file = \"...\" }`, the admin interface of a Galley in `upstream`. With `by = \"tag\"` Galley purges by tag, which needs `tag_header`; otherwise a purge of a tag purges everything there. `api` is another address of an API.")
        .or("[]").example(r#"[{ cloudflare = "0123456789abcdef", token_file = "/etc/galley/cdn.token", by = "tag" }]"#),
    row(OptionSection::Site, "tag_header", ValueKind::FieldName, "A response field in which Galley sends the tags of pages to caches in front, so that these can purge by tag: `Cache-Tag` for Cloudflare and for a Galley in front, `Surrogate-Key` for Fastly, `CDN-Tag` for Bunny.")
        .example(r#""Cache-Tag""#).shapes_keys(),
    row(OptionSection::Site, "outer_ttl", lifetime(), "How long caches in front may use a stored page, in the field `CDN-Cache-Control`: no longer than Galley, and not for variants by cookie. Give it only if each such cache gets the purges of this site, and passes requests with the cookies of sessions and carts.")
        .example(r#""1h""#),
];
