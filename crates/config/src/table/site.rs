//! A site: its hosts, its files, and the server that generates its pages.

use crate::options::ValueKind::{self, Flag, List, Path, Size, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{DAY, GIB, MIB, ms, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "hosts", List(&ValueKind::Host), "The hosts of the site, without port. `*.example.com` matches every name below it, `*` every host. Exact names come first.")
        .required().example(r#"["example.com", "www.example.com"]"#),
    row(OptionSection::Site, "name", Text, "The [name](../how-to/admin-interface.md#names-of-sites) for `--site`, logs, metrics and the token file: up to 64 lower-case letters, digits, `-`, `_` and `.`.")
        .computed("the shortest of `hosts` without `*`, the first by alphabet of equally long ones; `any` for `*`, `any.example.com` for `*.example.com`").example(r#""shop""#).shapes_keys(),
    row(OptionSection::Site, "listen", List(&ValueKind::Listen), "The listeners of the site.")
        .computed("`server.listen`").example(r#"["0.0.0.0:8081"]"#),
    row(OptionSection::Site, "root", Path, "The folder with the site's files. Needed with `php`.")
        .example(r#""/var/www/example.com""#),
    row(OptionSection::Site, "allow_files", List(&ValueKind::UrlPath), "Files to send although [their name is blocked](../how-to/files.md#what-is-never-sent): `/tool.zip`, `/downloads/*`.")
        .or("[]").example(r#"["/downloads/*"]"#),
    row(OptionSection::Site, "link_targets", List(&Path), "Folders outside `root` to which symbolic links below it may lead, such as `shared/uploads` of Deployer.")
        .or("[]").example(r#"["/srv/www/example.com/shared/uploads"]"#),
    row(OptionSection::Site, "internal", List(&ValueKind::Internal), "Folders whose files visitors get only if [the upstream names them](../how-to/files.md#files-that-php-names): a path below `root`, or a path with the folder of its files.")
        .or("[]").example(r#"["/wp-content/uploads/woocommerce_uploads/", { path = "/protected/", folder = "/srv/files" }]"#).shapes_keys(),
    row(OptionSection::Site, "image_siblings", Word(&["full-name", "all", "off"]), "Which [AVIF and WebP files](../how-to/files.md#avif-and-webp) replace a picture: those whose name contains the picture's (`a.jpg.avif`), or `all`, also those with another ending (`a.webp`).")
        .or(r#""full-name""#),
    row(OptionSection::Site, "php", ValueKind::PhpAddress, "The PHP-FPM of the site; `managed`: Galley runs one. A server in a list may be `{ address = \"10.0.0.1:9000\", max = 50 }`, with the keys of `upstream`, which it excludes.")
        .example(r#""unix:/run/php/php-fpm.sock""#),
    row(OptionSection::Site, "upstream", List(&ValueKind::UpstreamUrl), "The HTTP servers of the site, such as Apache. Further keys of a server: `backup = true` (only while all others are out), `max` (concurrent requests); `weight` is its share, 1 to 256. Excludes `php`. With neither, the site has files only.")
        .example(r#"["http://127.0.0.1:8080"]"#),
    row(OptionSection::Site, "error_page", Path, "[Your page](../how-to/outages.md#your-own-error-page) for 502, 503 and 504: HTML in UTF-8, at most 256KiB.")
        .computed("a plain built-in page").example(r#""/etc/galley/error.html""#),
    row(OptionSection::Site, "preset", Word(&["wordpress", "none"]), "WordPress's cookies, paths and tracking parameters, and lifetimes for responses without one; the lists of a site add to it. `none`: RFC 9111 alone.")
        .or(r#""wordpress""#).shapes_keys(),
    row(OptionSection::Site, "early_hints", Flag, "Whether navigations over HTTP/2 get [`103 Early Hints`](../how-to/caching.md#early-hints).")
        .or("false"),
    row(OptionSection::Site, "multisite", Flag, "Whether WordPress runs as [a network in sub-directories](../how-to/recipes.md#multisite).")
        .or("false"),
    row(OptionSection::Site, "cron", ValueKind::TimeOrOff { least: ms(1_000), most: DAY }, "How often Galley runs `wp-cron.php`. The site needs a host without `*`.")
        .computed(r#"`"60s"`; `"off"` without the preset, without an upstream, or if all hosts have a `*`"#)
        .example(r#""60s""#),
    row(OptionSection::Site, "crawl_shield", Flag, "Whether clients that [have loaded no file](../how-to/bots.md) for ten minutes get at most half of PHP's slots for pages with a query. Further requests get 429. Needs the preset.")
        .or("true"),
    row(OptionSection::Site, "crawl_challenge", Flag, "Whether these get [a small page](../how-to/bots.md#a-page-in-place-of-the-refusal) in place of the refusal, which opens the wanted page after three seconds.")
        .or("false"),
    row(OptionSection::Site, "audit", Flag, "Whether Galley [audits stored pages](../how-to/audit.md) while PHP is idle. Needs the preset and the plugin.")
        .computed("`true`; `false` without the preset or an upstream").example("false"),
    row(OptionSection::Site, "object_cache", ValueKind::SizeOrOff { least: MIB, most: 64 * GIB }, "The memory for WordPress's [object cache](../how-to/object-cache.md), in addition to `cache.memory`. Needs `token_file` and a unix socket as `admin.listen`.")
        .computed("`\"64MiB\"`, at most `cache.memory`; `\"off\"` without the preset, and with `on_partition = \"serve\"`").example(r#""64MiB""#),
    row(OptionSection::Site, "request_body", Size { least: 0, most: 64 * GIB }, "The largest request body for this site.")
        .computed("`server.request_body`").example(r#""64MiB""#),
];
