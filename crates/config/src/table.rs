//! The table of options, in the order of the reference page.
//!
//! Adding an option is adding a row here and reading it in `assemble` or `site`; the tests walk all rows. An option whose
//! feature does not exist yet has a row too, so that it is refused with its reason instead of as an unknown word.

use std::time::Duration;

use crate::options::Kind::{self, Count, Flag, Later, List, Path, Size, Text, Word};
use crate::options::{OptionRow, Section};

/// All options.
pub(crate) static TABLE: &[OptionRow] = &[
    row(Section::Top, "include", List(&Kind::Glob),
        "Further files to read, as if they stood here: one file per site, for example. Relative paths start at the folder of this file. A pattern may match nothing; a plain path must exist.")
        .or("[]").example(r#"["sites.d/*.toml"]"#),

    row(Section::Server, "listen", List(&Kind::Address), "Where sites answer that name no `listen` of their own.")
        .or(r#"["0.0.0.0:8080"]"#),
    row(Section::Server, "listen_tls", Later("a list of addresses"), "Where sites answer over TLS.")
        .example(r#"["0.0.0.0:8443"]"#)
        .later("let a proxy that speaks TLS stand in front, and listen in plain on an inner address"),
    row(Section::Server, "trusted_proxies", Later("a list of networks"), "Whose `X-Forwarded-*` fields tell the client's address and scheme.")
        .example(r#"["10.0.0.0/8"]"#)
        .later("leave it out: the peer of the connection counts as the client"),
    row(Section::Server, "workers", Count { least: 0, most: 1024 }, "Threads that serve clients. 0: one per core.")
        .or("0").unit("threads"),
    row(Section::Server, "request_body", Size { least: 0, most: 64 * GIB }, "The largest request body: uploads are at most so large.")
        .or(r#""32MiB""#),
    row(Section::Server, "spool", Path, "A folder for bodies on their way that memory has no room for: large uploads, and answers whose client is slower than PHP. Its files have no names, so nothing stays behind.")
        .computed("`$TMPDIR`, else `/var/tmp`, else `/tmp`").example(r#""/var/lib/galley/spool""#),
    row(Section::Server, "spool_size", Size { least: 0, most: 1024 * GIB }, "Budget for these files, of all requests together. An upload that finds no room gets 503; an answer holds PHP until its client has taken it. 0: only memory.")
        .computed("`1GiB`, or twice `request_body` where that is more").example(r#""1GiB""#),
    row(Section::Server, "spool_answer", Size { least: 0, most: 1024 * GIB }, "The most of one answer that waits in a file for its client. 0: answers go at their clients' pace.")
        .or(r#""256MiB""#),
    row(Section::Server, "spool_memory", Size { least: MIB, most: 1024 * GIB }, "Budget for bodies on their way in memory, of all requests together, beside `cache.memory`.")
        .computed("an eighth of `cache.memory`, at least 4MiB").example(r#""32MiB""#),
    row(Section::Server, "head_size", Size { least: 4 * KIB, most: MIB }, "The largest request head: request line and fields together.")
        .or(r#""32KiB""#),
    row(Section::Server, "head_timeout", time(ms(100), HOUR), "How long a client may take to send a request head, from its first byte.")
        .or(r#""10s""#),
    row(Section::Server, "idle_timeout", time(ms(100), DAY), "How long a connection is kept that asks nothing.")
        .or(r#""60s""#),
    row(Section::Server, "body_timeout", time(ms(100), HOUR), "The longest silence inside a request body.")
        .or(r#""30s""#),
    row(Section::Server, "write_timeout", time(ms(100), HOUR), "How long a client may accept no byte of its answer.")
        .or(r#""30s""#),
    row(Section::Server, "drain_timeout", time(ms(0), HOUR), "How long requests may take to end when Galley stops.")
        .or(r#""15s""#),
    row(Section::Server, "lane", Flag, "Whether hits take the short way. `false` is for finding faults: answers are the same, and slower.")
        .or("true"),
    row(Section::Server, "max_connections", Count { least: 0, most: 10_000_000 }, "Connections of clients at one time. 0: as many as the descriptor limit allows.")
        .or("0").unit("connections"),

    row(Section::Admin, "listen", Kind::AdminAddress, "Where the admin interface listens. An address needs `token_file`; a unix socket is protected by its folder.")
        .computed("`admin.sock` in `$RUNTIME_DIRECTORY`, else in `$XDG_RUNTIME_DIR/galley`, else in `/run/galley` for root, else in `/tmp/galley-<uid>`")
        .example(r#""unix:/run/galley/admin.sock""#),
    row(Section::Admin, "token_file", Path, "A file with the token that admin requests must carry: at least 16 bytes, readable by its owner only.")
        .example(r#""/etc/galley/admin.token""#),

    row(Section::Cache, "memory", Size { least: 16 * MIB, most: 1024 * GIB }, "Budget for everything that is kept in memory: pages, their compressed forms, pages being received.")
        .computed("a quarter of what the machine or its control group has, at least 16MiB").example(r#""256MiB""#),
    row(Section::Cache, "max_object", Size { least: KIB, most: 1024 * GIB }, "The largest body that is kept; larger ones pass through. At most `memory`, or half of `disk_size` where that is more.")
        .computed("a quarter of `memory`, at most 64MiB").example(r#""64MiB""#),
    row(Section::Cache, "max_file", Size { least: 0, most: 16 * MIB }, "The largest file below a `root` that answers from memory; larger ones are sent from the system's own file cache. Files have at most an eighth of `memory`, and push no page out. 0: none does.")
        .or(r#""256KiB""#),
    row(Section::Cache, "disk", Path, "A folder in which pages survive a restart, and the purges that concern them: Galley's alone, on a local disk. Without it pages are kept in memory only.")
        .example(r#""/var/cache/galley""#),
    row(Section::Cache, "disk_size", Size { least: 16 * MIB, most: 1024 * GIB }, "Budget for the pages on disk, of all sites together.")
        .or(r#""1GiB""#),
    row(Section::Cache, "disk_size_per_site", Size { least: 16 * MIB, most: 1024 * GIB }, "What one site may take of it.")
        .computed("all of `disk_size`").example(r#""256MiB""#),
    row(Section::Cache, "inactive", time(Duration::from_secs(60), ms(366 * 86_400_000)), "How long a page stays on disk that nobody asks for.")
        .or(r#""7d""#),

    row(Section::Log, "access", Kind::AccessLog, "Where one line per request goes.")
        .or(r#""stdout""#),
    row(Section::Log, "format", Word(&["combined", "json"]), "The form of access lines: the combined line of NCSA and Apache with Galley's own words behind it, or one JSON object a line.")
        .or(r#""combined""#),
    row(Section::Log, "error", Kind::ErrorLog, "Where messages go.")
        .or(r#""stderr""#),
    row(Section::Log, "level", Word(&["error", "warn", "info", "debug", "trace"]), "The least severe message that is written.")
        .or(r#""info""#),

    row(Section::Site, "hosts", List(&Kind::Host), "The hosts of the site, without port. `*.example.com` is every name below it, `*` every host; an exact name wins over both.")
        .required().example(r#"["example.com", "www.example.com"]"#),
    row(Section::Site, "listen", List(&Kind::Address), "Where the site answers.")
        .computed("`server.listen`").example(r#"["0.0.0.0:8081"]"#),
    row(Section::Site, "root", Path, "The folder with the site's files. Needed with `php`.")
        .example(r#""/var/www/example.com""#),
    row(Section::Site, "php", Kind::PhpAddress, "The PHP-FPM that composes the pages; `managed`: Galley runs one. Not together with `upstream`.")
        .example(r#""unix:/run/php/php-fpm.sock""#),
    row(Section::Site, "upstream", List(&Kind::UpstreamUrl), "The HTTP servers that compose the pages, such as Apache with mod_php. Not together with `php`. With neither, only files are served.")
        .example(r#"["http://127.0.0.1:8080"]"#),
    row(Section::Site, "error_page", Path, "A page of the site's own for visitors whom PHP cannot answer: 502, 503 and 504. HTML in UTF-8, at most 256KiB, read at start; `{status}` and `{request}` in it become the status and the request's id.")
        .computed("a plain page of Galley's").example(r#""/etc/galley/error.html""#),
    row(Section::Site, "preset", Word(&["wordpress", "none"]), "Built-in knowledge. `wordpress`: its cookies, its paths, tracking parameters, lifetimes where it is silent. `none`: RFC 9111 and nothing else.")
        .or(r#""wordpress""#),
    row(Section::Site, "tls", Later(r#"`"auto"` or a certificate with its key"#), "How the site gets its certificate.")
        .example(r#""auto""#)
        .later("let a proxy that speaks TLS stand in front, and listen in plain on an inner address"),
    row(Section::Site, "token_file", Path, "A file with a token that reaches this site, and no other, over the admin interface: at least 16 bytes, readable by its owner only.")
        .computed("`tokens/HOST.token` beside the configuration file, where there is one: HOST is the first of `hosts`, `any` for `*`")
        .example(r#""/etc/galley/example.com.token""#),
    row(Section::Site, "purge_allow", List(&Kind::Network), "Networks that may send `PURGE` and `BAN` to the site itself. What a proxy has passed on is refused without a secret.")
        .or(r#"["127.0.0.1", "::1"]"#),
    row(Section::Site, "purge_secret_file", Path, "A file with a secret: whoever sends it may purge from any address, also through a proxy. At least 16 bytes, readable by its owner only.")
        .example(r#""/etc/galley/example.com.purge.token""#),
    row(Section::Site, "purge_get", Flag, "Whether `GET /purge/...` of WordPress purges, as Nginx Helper sends it.")
        .or("false"),
    row(Section::Site, "purge_directory", Path, "A folder with a file whose removal purges the site: what Nginx Helper empties when it purges everything. The user of PHP must be able to remove files there.")
        .example(r#""/var/run/nginx-cache""#),
    row(Section::Site, "litespeed", Flag, "Whether LiteSpeed Cache is to drive the site's cache: PHP is told that there is one that understands it.")
        .or("false"),
    row(Section::Site, "device_variants", Flag, "Whether phones and desktops get copies of their own. Only for themes that send them different HTML.")
        .or("false"),
    row(Section::Site, "compress", List(&Word(&["br", "gzip", "zstd"])), "Codings in which stored pages are kept beside the plain one, for clients that take them, and in which other pages are sent. `[]`: none.")
        .computed(r#"`["br", "gzip"]`; without a preset none"#).example(r#"["br", "gzip", "zstd"]"#),
    row(Section::Site, "compress_types", List(&Text), "Media types that are compressed; `text/*` is every type of text.")
        .or(r#"["text/*", "application/json", "application/javascript", "application/xml", "application/rss+xml", "application/atom+xml", "application/ld+json", "application/manifest+json", "application/xhtml+xml", "application/wasm", "image/svg+xml", "font/ttf", "font/otf"]"#),
    row(Section::Site, "compress_min", Size { least: 64, most: MIB }, "The shortest body that is compressed.")
        .or(r#""512B""#),
    row(Section::Site, "compress_passed", Flag, "Whether answers for one client alone, such as pages of users who are logged in, are compressed on their way.")
        .or("true"),
    row(Section::Site, "gzip_level", Count { least: 1, most: 9 }, "How hard gzip tries when a page was just stored.")
        .or("5"),
    row(Section::Site, "brotli_level", Count { least: 0, most: 11 }, "How hard br tries when a page was just stored.")
        .or("4"),
    row(Section::Site, "zstd_level", Count { least: 1, most: 9 }, "How hard zstd tries when a page was just stored.")
        .or("6"),
    row(Section::Site, "dense_after", Count { least: 0, most: 10_000 }, "After so many hits a page is compressed again, at the densest levels that pay. 0: never.")
        .or("100").unit("hits"),
    row(Section::Site, "harmless_cookies", List(&Kind::Name), "Cookies that a response may set and still be stored. With the WordPress preset the stored copy goes without them.")
        .or("[]").example(r#"["seen_banner"]"#),
    row(Section::Site, "vary_cookies", List(&Kind::Name), "Cookies whose value makes a copy of its own, such as a currency. Added to the preset's.")
        .or("[]").example(r#"["currency"]"#),
    row(Section::Site, "bypass_cookies", List(&Kind::NameOrAll), "Cookies that send a request past the cache. Added to the preset's.")
        .or("[]").example(r#"["my_session*"]"#),
    row(Section::Site, "ignore_query", List(&Kind::NameOrAll), "Query parameters that make no difference: neither a copy of their own nor sent upstream. Added to the preset's.")
        .or("[]").example(r#"["ref", "mc_*"]"#),
    row(Section::Site, "multisite", Flag, "Whether WordPress runs as a network in sub-directories.")
        .or("false"),
    row(Section::Site, "cron", Kind::TimeOrOff { least: ms(1_000), most: DAY }, "How often Galley runs WordPress's scheduled tasks (`wp-cron.php`). It needs a host without `*`.")
        .computed(r#"`"60s"`; `"off"` without the preset, without an upstream, or where all hosts have a `*`"#)
        .example(r#""60s""#),
    row(Section::Site, "php_workers", Count { least: 0, most: 4096 }, "Workers of a managed PHP. 0: as many as memory and cores allow, by what a worker is seen to take.")
        .or("0").unit("workers"),
    row(Section::Site, "php_command", List(&Text), "Another FastCGI program in place of PHP-FPM, with its arguments: `php_workers` processes of it, each with the socket as its standard input, and started again whenever one ends.")
        .example(r#"["/usr/bin/php-cgi"]"#),
    row(Section::Site, "php_timeout", time(ms(1_000), DAY), "How long a request may take in a managed PHP-FPM, all in all; then its worker is ended. At least `first_byte_timeout`.")
        .computed("`5m`, or `first_byte_timeout` where that is longer").example(r#""5m""#),
    row(Section::Site, "php_memory_limit", Size { least: 16 * MIB, most: 64 * GIB }, "The memory that a script may take in a managed PHP-FPM. Scripts cannot raise it.")
        .computed("half of what all workers may take together, from 64MiB to 256MiB").example(r#""256MiB""#),
    row(Section::Site, "php_user", Text, "The user that a managed PHP runs as.")
        .computed("when Galley runs as root, the owner of `root`, or `www-data` where root owns it; else the same user").example(r#""www-data""#),
    row(Section::Site, "php_binary", Path, "The program of a managed PHP.")
        .computed("the newest php-fpm found").example(r#""/usr/sbin/php-fpm8.4""#),
    row(Section::Site, "in_flight", Count { least: 0, most: 65_536 }, "Requests at the upstream at one time, at most: fewer where more make it no faster. It should fit the number of PHP workers. 0: as many as workers of a managed PHP, else 20.")
        .or("0").unit("requests"),
    row(Section::Site, "queue", Count { least: 0, most: 1_000_000 }, "Requests that may wait for a place at the upstream. One more takes the place of one of the client that has most waiting, or is that one; it gets a stale copy or 503.")
        .or("200").unit("requests"),
    row(Section::Site, "queue_timeout", time(ms(0), HOUR), "How long a request may wait for a place at the upstream; a tenth of it where the queue stays long.")
        .or(r#""10s""#),
    row(Section::Site, "lock_age", time(ms(10), DAY), "How long a page being composed may show no sign of life before the next request for it goes to the upstream too. Each further one waits twice as long. From `first_byte_timeout` on it has no effect.")
        .or(r#""5s""#),
    row(Section::Site, "waiters", Count { least: 1, most: 1_000_000 }, "Requests that may wait for one page being composed; one more gets a stale copy or 503.")
        .or("10000").unit("requests"),
    row(Section::Site, "connect_timeout", time(ms(10), HOUR), "How long a connection to the upstream may take to stand.")
        .or(r#""5s""#),
    row(Section::Site, "first_byte_timeout", time(ms(10), DAY), "How long the upstream may compose before its first byte.")
        .or(r#""60s""#),
    row(Section::Site, "read_timeout", time(ms(10), DAY), "The longest silence inside an answer of the upstream.")
        .or(r#""60s""#),
    row(Section::Site, "idle_share", Count { least: 0, most: 100 }, "What part of `in_flight` may be connections to an HTTP upstream that are kept without a request, in hundredths, for all sites of that server together. Each occupies a child of a prefork Apache. 0: none is kept.")
        .or("25").unit("hundredths"),
    row(Section::Site, "idle_age", time(ms(10), HOUR), "How long a connection to an HTTP upstream is kept without a request. It should be shorter than the upstream's own `KeepAliveTimeout`.")
        .or(r#""4s""#),

    row(Section::SiteTtl, STATUS, lifetime(), "Lifetime of responses with this status, from `200` to `599`; as many as needed.")
        .computed(r#"`"404" = "60s"`"#).example(r#""60s""#),
    row(Section::SiteTtl, "default", lifetime(), "Lifetime for every other status that is cacheable by default.")
        .computed(r#"`"60s"`; without a preset none"#).example(r#""60s""#),
    row(Section::SiteTtl, "stale_while_revalidate", lifetime(), "How long after its lifetime a copy still answers while one refresh runs.")
        .computed(r#"`"10m"`; without a preset none"#).example(r#""10m""#),
    row(Section::SiteTtl, "stale_if_error", lifetime(), "How long after its lifetime a copy still answers when the upstream fails.")
        .computed(r#"`"1d"`; without a preset none"#).example(r#""1d""#),

    row(Section::SiteRule, "path", Kind::UrlPath, "Which paths: `/form` is that path, `/form*` everything that begins so.")
        .required().example(r#""/form-example*""#),
    row(Section::SiteRule, "methods", List(&Word(METHODS)), "Which methods.")
        .computed("all").example(r#"["GET", "HEAD"]"#),
    row(Section::SiteRule, "cache", Flag, "`false`: never from the cache, never into it.")
        .computed("as the preset decides").example("false"),
    row(Section::SiteRule, "ttl", lifetime(), "Lifetime where the response says nothing; with `ignore` also where it says something else.")
        .example(r#""7d""#),
    row(Section::SiteRule, "ignore", List(&Word(&["cache-control", "expires", "set-cookie", "cookie", "vary"])), "What to ignore: these fields of the response, and with `cookie` the cookies of the request.")
        .or("[]").example(r#"["cache-control", "expires"]"#),
    row(Section::SiteRule, "php", Kind::PhpAddress, "Another FastCGI server for these paths. A file there without a known media type is its program; what is not there goes to `/index.php` as everywhere. Not together with `upstream`.")
        .example(r#""127.0.0.1:9001""#),
    row(Section::SiteRule, "php_command", List(&Text), "With `php = \"managed\"`: a FastCGI program that is run for these paths, as in the site.")
        .example(r#"["/usr/sbin/fcgiwrap"]"#),
    row(Section::SiteRule, "php_workers", Count { least: 0, most: 4096 }, "Processes of `php_command`. 0: from memory and cores.")
        .or("0").unit("workers"),
    row(Section::SiteRule, "upstream", List(&Kind::UpstreamUrl), "Other HTTP servers for these paths. Not together with `php`.")
        .example(r#"["http://127.0.0.1:8090"]"#),
    row(Section::SiteRule, "allow", Later("a list of networks"), "Who may ask for these paths.")
        .example(r#"["10.0.0.0/8"]"#)
        .later("refuse strangers in PHP, or in the proxy or firewall in front"),
    row(Section::SiteRule, "stream", Flag, "Whether answers go on as they come, at their client's pace: PHP then notices a client that is slow or has left, and is held by it. An answer may ask for it with `X-Accel-Buffering: no`.")
        .or("false"),

    row(Section::SiteLog, "access", Kind::AccessLog, "Where access lines of the site go.")
        .computed("`log.access`").example(r#""/var/log/galley/example.com.log""#),
    row(Section::SiteLog, "error", Later("a path"), "Where messages about the site go.")
        .example(r#""/var/log/galley/example.com.error.log""#)
        .later("`log.error` has the messages of all sites; each names its site"),
];

/// The name of the row that stands for every status in `[site.ttl]`.
pub(crate) const STATUS: &str = "<status>";

/// The row of an option, if there is one.
pub(crate) fn find(section: Section, name: &str) -> Option<&'static OptionRow> {
    TABLE
        .iter()
        .find(|row| row.section == section && row.name == name)
}

/// The rows of one section.
pub(crate) fn rows(section: Section) -> impl Iterator<Item = &'static OptionRow> {
    TABLE.iter().filter(move |row| row.section == section)
}

const fn row(section: Section, name: &'static str, kind: Kind, text: &'static str) -> OptionRow {
    OptionRow::new(section, name, kind, text)
}

const fn time(least: Duration, most: Duration) -> Kind {
    Kind::Time { least, most }
}

/// Ten years: RFC 9111 section 1.2.2 lets a cache take anything larger for infinite.
const fn lifetime() -> Kind {
    time(Duration::ZERO, Duration::from_secs(3_650 * 86_400))
}

const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(86_400);
const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const METHODS: &[&str] = &[
    "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PURGE", "BAN",
];
