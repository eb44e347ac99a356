//! Exceptions for some paths of a site.

use crate::options::ValueKind::{self, Count, Flag, List, Size, Text, Word};
use crate::options::{OptionRow, OptionSection};
use crate::table::{DAY, GIB, lifetime, ms, row, time};

pub(super) static ROWS: &[OptionRow] = &[
    row(OptionSection::SiteRule, "path", ValueKind::UrlPath, "Which paths: `/form` is that path, `/form*` everything that begins so.")
        .example(r#""/form-example*""#),
    row(OptionSection::SiteRule, "pattern", ValueKind::Pattern, "Which paths, in place of `path`: those in which this regular expression is found. `^` and `$` tie it to the beginning and the end, `(?i)` in front ignores case. It sees the path with its escapes undone, and not the query.")
        .example("'^/form-(.*)$'"),
    row(OptionSection::SiteRule, "methods", List(&ValueKind::Method), "Which methods, in upper case as they are sent. One that Galley does not know, such as `PROPFIND`, is answered with 501 unless a rule names it here.")
        .computed("all").example(r#"["GET", "HEAD"]"#),
    row(OptionSection::SiteRule, "cache", Flag, "`false`: never from the cache, never into it.")
        .computed("as the preset decides").example("false"),
    row(OptionSection::SiteRule, "ttl", lifetime(), "Lifetime where the response says nothing; with `ignore` also where it says something else.")
        .example(r#""7d""#),
    row(OptionSection::SiteRule, "ignore", List(&Word(&["cache-control", "expires", "set-cookie", "cookie", "vary"])), "What to ignore: these fields of the response, and with `cookie` the cookies of the request.")
        .or("[]").example(r#"["cache-control", "expires"]"#),
    row(OptionSection::SiteRule, "php", ValueKind::PhpAddress, "Another FastCGI server for these paths. A file there without a known media type is its program; what is not there goes to `/index.php` as everywhere. Not together with `upstream`.")
        .example(r#""127.0.0.1:9001""#),
    row(OptionSection::SiteRule, "php_command", List(&Text), "With `php = \"managed\"`: a FastCGI program that is run for these paths, as in the site.")
        .example(r#"["/usr/sbin/fcgiwrap"]"#),
    row(OptionSection::SiteRule, "php_workers", Count { least: 0, most: 4096 }, "Processes of `php_command`. 0: from memory and cores.")
        .or("0").unit("workers"),
    row(OptionSection::SiteRule, "upstream", List(&ValueKind::UpstreamUrl), "Other HTTP servers for these paths. Not together with `php`.")
        .example(r#"["http://127.0.0.1:8090"]"#),
    row(OptionSection::SiteRule, "stream", Flag, "Whether answers go on as they come, at their client's pace: PHP then notices a client that is slow or has left, and is held by it. An answer may ask for it with `X-Accel-Buffering: no`.")
        .or("false"),
    row(OptionSection::SiteRule, "redirect", Text, "Where these requests are sent to in place of an answer: a path, or an address with its host. `$1` to `$9` are groups of `pattern`, or what the `*` of `path` stands for.")
        .example(r#""/new/$1""#),
    row(OptionSection::SiteRule, "redirect_status", Count { least: 301, most: 308 }, "With which status: 301 and 308 for good, 302, 303 and 307 for now.")
        .computed("301; 308 for methods that have to stay").unit("status").example("302"),
    row(OptionSection::SiteRule, "redirect_query", Flag, "Whether the query goes along.")
        .or("true"),
    row(OptionSection::SiteRule, "remove_headers", List(&ValueKind::FieldName), "Fields that these answers go without, beside those of the site.")
        .or("[]").example(r#"["X-Redirect-By"]"#),
    row(OptionSection::SiteRule, "set_headers", List(&ValueKind::FieldLine), "As in the site, and on top of it.")
        .or("[]").example(r#"["Cache-Control: no-store"]"#),
    row(OptionSection::SiteRule, "add_headers", List(&ValueKind::FieldLine), "As in the site, and on top of it.")
        .or("[]").example(r#"["Access-Control-Allow-Origin: *"]"#),
    row(OptionSection::SiteRule, "request_body", Size { least: 0, most: 64 * GIB }, "The largest request body for these paths.")
        .computed("that of the site").example(r#""256MiB""#),
    row(OptionSection::SiteRule, "first_byte_timeout", time(ms(10), DAY), "How long the upstream may compose here before its first byte.")
        .computed("that of the site").example(r#""5m""#),
    row(OptionSection::SiteRule, "read_timeout", time(ms(10), DAY), "The longest silence inside an answer of the upstream here.")
        .computed("that of the site").example(r#""5m""#),
];
