//! Exceptions for some paths of a site.

use crate::options::Kind::{self, Count, Flag, List, Text, Word};
use crate::options::{OptionRow, Section};
use crate::table::{METHODS, lifetime, row};

pub(super) static ROWS: &[OptionRow] = &[
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
    row(Section::SiteRule, "stream", Flag, "Whether answers go on as they come, at their client's pace: PHP then notices a client that is slow or has left, and is held by it. An answer may ask for it with `X-Accel-Buffering: no`.")
        .or("false"),
];
