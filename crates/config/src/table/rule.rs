//! Rules for some paths of a site.

use crate::options::ValueKind::{self, Count, Flag, List, Size, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::row::{ADDED_TO_SITE, AS_IN_SITE, DAY, GIB, lifetime, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::SiteRule, "path", ValueKind::UrlPath, "The paths of the rule: `/form`, or with `/form*` every path that begins so.")
        .example(r#""/form-example*""#),
    row(OptionSection::SiteRule, "pattern", ValueKind::Pattern, "In place of `path`, for the decoded path without the query. It matches anywhere; `^` and `$` anchor it, `(?i)` ignores case.")
        .example("'^/form-(.*)$'"),
    row(OptionSection::SiteRule, "methods", List(&ValueKind::Method), "The methods of the rule. [Unknown ones](../how-to/rules.md#unknown-methods) get 501 unless a rule names them.")
        .computed("all").example(r#"["GET", "HEAD"]"#),
    row(OptionSection::SiteRule, "countries", List(&ValueKind::Country), "The [countries](../how-to/rules.md#rules-for-some-countries) of the rule's clients. Needs `server.geoip`.")
        .computed("all, and clients without a country").example(r#"["DE", "AT"]"#).shapes_keys(),
    row(OptionSection::SiteRule, "cache", Flag, "`false`: these paths are neither stored nor served from the cache.")
        .computed("as the preset decides").example("false"),
    row(OptionSection::SiteRule, "ttl", lifetime(), "The lifetime if the response has none, or if `ignore` drops it.")
        .example(r#""7d""#),
    row(OptionSection::SiteRule, "ignore", List(&Word(&["cache-control", "expires", "set-cookie", "cookie", "vary"])), "Headers of the response to ignore, or the cookies of the request.")
        .or("[]").example(r#"["cache-control", "expires"]"#).shapes_keys(),
    row(OptionSection::SiteRule, "php", ValueKind::PhpAddress, "[Another FastCGI server](../how-to/php.md#other-upstreams-for-some-paths) for these paths. Excludes `upstream`.")
        .example(r#""127.0.0.1:9001""#),
    row(OptionSection::SiteRule, "php_command", List(&Text), "With `php = \"managed\"`: a FastCGI program for these paths.")
        .example(r#"["/usr/sbin/fcgiwrap"]"#),
    row(OptionSection::SiteRule, "php_workers", Count { least: 0, most: 4096 }, "The processes of `php_command`. 0: by memory and cores.")
        .or("0").unit("workers"),
    row(OptionSection::SiteRule, "upstream", List(&ValueKind::UpstreamUrl), "Other HTTP servers for these paths. Excludes `php`.")
        .example(r#"["http://127.0.0.1:8090"]"#),
    row(OptionSection::SiteRule, "stream", Flag, "Whether responses pass [at the client's pace](../how-to/uploads.md#stream-responses-at-the-clients-pace). A slow client then occupies a worker.")
        .or("false"),
    row(OptionSection::SiteRule, "stream_request", Flag, "Whether [request bodies pass while they arrive](../how-to/uploads.md#stream-uploads-at-the-clients-pace). A slow upload then occupies a worker.")
        .or("false"),
    row(OptionSection::SiteRule, "redirect", Text, "The [target](../how-to/rules.md#rules): a path, or a URL with its host. `$1` to `$9` are the groups of `pattern`, or what the `*` of `path` matches.")
        .example(r#""/new/$1""#),
    row(OptionSection::SiteRule, "redirect_status", Count { least: 301, most: 308 }, "301 and 308 are permanent, 302, 303 and 307 temporary.")
        .computed("301, or 308 if the method must not change").unit("status").example("302"),
    row(OptionSection::SiteRule, "redirect_query", Flag, "Whether the redirect keeps the query.")
        .or("true"),
    row(OptionSection::SiteRule, "remove_headers", List(&ValueKind::FieldName), ADDED_TO_SITE)
        .or("[]").example(r#"["X-Redirect-By"]"#),
    row(OptionSection::SiteRule, "set_headers", List(&ValueKind::FieldLine), ADDED_TO_SITE)
        .or("[]").example(r#"["Cache-Control: no-store"]"#),
    row(OptionSection::SiteRule, "add_headers", List(&ValueKind::FieldLine), ADDED_TO_SITE)
        .or("[]").example(r#"["Access-Control-Allow-Origin: *"]"#),
    row(OptionSection::SiteRule, "request_body", Size { least: 0, most: 64 * GIB }, AS_IN_SITE)
        .computed("the site's").example(r#""256MiB""#),
    row(OptionSection::SiteRule, "first_byte_timeout", time(ms(10), DAY), AS_IN_SITE)
        .computed("the site's").example(r#""5m""#),
    row(OptionSection::SiteRule, "read_timeout", time(ms(10), DAY), AS_IN_SITE)
        .computed("the site's").example(r#""5m""#),
];
