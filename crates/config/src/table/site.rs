//! A site: its hosts, its files, and the server that generates its pages.

use crate::options::ValueKind::{self, Flag, List, Path, Size, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{DAY, GIB, MIB, ms, row};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::Site, "hosts", List(&ValueKind::Host), "The hosts of the site, without port. `*.example.com` matches every name below it, `*` matches every host. An exact name takes precedence over both.")
        .required().example(r#"["example.com", "www.example.com"]"#),
    row(OptionSection::Site, "name", Text, "The name of the site: for `--site`, in logs, metrics and the dashboard, and of its token file. The site's stored pages, purges and counters belong to the name, so set it before you replace the host from which it follows. Up to 64 lower-case letters, digits, `-`, `_` and `.`.")
        .computed("the shortest of `hosts` without `*`, the first by alphabet of equally long ones; `any` for `*`, `any.example.com` for `*.example.com`").example(r#""shop""#).shapes_keys(),
    row(OptionSection::Site, "listen", List(&ValueKind::Listen), "The listeners of the site.")
        .computed("`server.listen`").example(r#"["0.0.0.0:8081"]"#),
    row(OptionSection::Site, "root", Path, "The folder with the site's files. Needed with `php`.")
        .example(r#""/var/www/example.com""#),
    row(OptionSection::Site, "allow_files", List(&ValueKind::UrlPath), "Files below `root` that Galley sends although their name is on the list of names that it never sends: `/tool.zip` is that path, `/downloads/*` every path that begins so. PHP sources, names that begin with a dot, copies of `wp-config.php` and files that a `.htaccess` denies stay blocked.")
        .or("[]").example(r#"["/downloads/*"]"#),
    row(OptionSection::Site, "link_targets", List(&Path), "Folders outside `root` to which symbolic links below it may lead: `shared/uploads` of Capistrano, Deployer and Trellis, `/usr/share/javascript` of Debian. Files behind other links that lead out of `root` are not found.")
        .or("[]").example(r#"["/srv/www/example.com/shared/uploads"]"#),
    row(OptionSection::Site, "internal", List(&ValueKind::Internal), "Folders whose files visitors get only if a response of the upstream names them with `X-Accel-Redirect`, as with `internal` in nginx: a path below `root`, or a path with the folder that contains its files. `X-Sendfile` may name absolute paths in these folders. Requests for these paths get 404.")
        .or("[]").example(r#"["/wp-content/uploads/woocommerce_uploads/", { path = "/protected/", folder = "/srv/files" }]"#).shapes_keys(),
    row(OptionSection::Site, "image_siblings", Word(&["full-name", "all", "off"]), "Which AVIF and WebP files Galley sends in place of a picture below `root`, to clients whose `Accept` names the format. `full-name`: those whose name contains all of the picture's (`a.jpg.avif`, `a-jpg.webp`), beside it or in the folders of common plugins. `all`: also those with another ending (`a.webp` for `a.jpg`), which may be other pictures. `off`: none.")
        .or(r#""full-name""#),
    row(OptionSection::Site, "php", ValueKind::PhpAddress, "The PHP-FPM that generates the pages; with `managed`, Galley runs one. A list names several FastCGI servers, each as its address or as `{ address = \"10.0.0.1:9000\", weight = 2, backup = true, max = 50 }`. Excludes `upstream`.")
        .example(r#""unix:/run/php/php-fpm.sock""#),
    row(OptionSection::Site, "upstream", List(&ValueKind::UpstreamUrl), "The HTTP servers that generate the pages, such as Apache with mod_php; with `https://` Galley connects over TLS. A server may be a table: `{ url = \"http://10.0.0.2\", weight = 2, backup = true, max = 50 }`. `weight` (1 to 256) is its share of the requests, a `backup` server gets requests only while all others are out, and `max` limits its concurrent requests. Excludes `php`. A site with neither serves files only.")
        .example(r#"["http://127.0.0.1:8080"]"#),
    row(OptionSection::Site, "error_page", Path, "Your page for the errors 502, 503 and 504: HTML in UTF-8, at most 256KiB, read at start. Galley replaces `{status}` and `{request}` with the status and the request's id.")
        .computed("a plain built-in page").example(r#""/etc/galley/error.html""#),
    row(OptionSection::Site, "preset", Word(&["wordpress", "none"]), "Built-in rules for an application. `wordpress`: its cookies, its paths, tracking parameters, and lifetimes for responses without one. `none`: RFC 9111 and nothing else.")
        .or(r#""wordpress""#).shapes_keys(),
    row(OptionSection::Site, "early_hints", Flag, "Whether browsers get `103 Early Hints` while PHP generates a page: the `preload` and `preconnect` links of its last stored version. Only over HTTP/2 and for navigations.")
        .or("false"),
    row(OptionSection::Site, "multisite", Flag, "Whether WordPress runs as a network in sub-directories.")
        .or("false"),
    row(OptionSection::Site, "cron", ValueKind::TimeOrOff { least: ms(1_000), most: DAY }, "How often Galley runs WordPress's scheduled tasks (`wp-cron.php`). The site needs a host without `*`.")
        .computed(r#"`"60s"`; `"off"` without the preset, without an upstream, or if all hosts have a `*`"#)
        .example(r#""60s""#),
    row(OptionSection::Site, "crawl_shield", Flag, "Whether pages with a query get at most half of the slots of PHP for clients that have not loaded a file of the site within the last ten minutes. Further ones get 429. Needs the preset.")
        .or("true"),
    row(OptionSection::Site, "crawl_challenge", Flag, "Whether `crawl_shield` sends a small page that proves the visit and opens the wanted page after three seconds, in place of the 429: without script and cookie.")
        .or("false"),
    row(OptionSection::Site, "audit", Flag, "Whether Galley audits stored pages: while PHP is idle it has each generated again at least once a month, often requested ones daily, and purges those that are out of date although no purge touched them. Needs the preset and the plugin.")
        .computed("`true`; `false` without the preset or an upstream").example("false"),
    row(OptionSection::Site, "object_cache", ValueKind::SizeOrOff { least: MIB, most: 64 * GIB }, "The memory for WordPress's object cache, in addition to `cache.memory`; the plugin's drop-in stores there what WordPress reads from the database. It is used only after the drop-in is installed. Needs `token_file` and a unix socket as `admin.listen`, beside which Galley listens on `objects.sock`. Not available with `[cluster]`.")
        .computed("`\"64MiB\"`; `\"off\"` without the preset, and with `[cluster]`").example(r#""64MiB""#),
    row(OptionSection::Site, "request_body", Size { least: 0, most: 64 * GIB }, "The largest request body for this site.")
        .computed("`server.request_body`").example(r#""64MiB""#),
];
