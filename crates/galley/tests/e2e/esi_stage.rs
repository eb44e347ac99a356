//! A site with ESI, before a PHP that prints what the tests put into files.

use galley_testkit::client::{Request, Response};

use crate::support::{SiteBuilder, TestSite, note_name};

/// Announces tags.
pub const TAGS: &str = "Surrogate-Control: content=\"ESI/1.0\"";

/// For pages and parts that stay fresh during a test.
pub const LONG: &str = "Cache-Control: max-age=600";

/// Prints the file of its path, with what it was asked in it, in as many pieces as the file says.
const PRINTER: &str = r#"<?php
$notes = __DIR__ . '/../notes';
$name = str_replace('/', '_', explode('?', $_SERVER['REQUEST_URI'])[0]);
$file = fopen("$notes/runs$name", 'c+');
flock($file, LOCK_EX);
$run = (int) stream_get_contents($file) + 1;
rewind($file);
fwrite($file, (string) $run);
fflush($file);
flock($file, LOCK_UN);
fclose($file);
foreach (@file("$notes/head$name", FILE_IGNORE_NEW_LINES) ?: [] as $line) {
    if (preg_match('/^Status: (\d+)/', $line, $found)) {
        http_response_code((int) $found[1]);
    } else {
        header($line, false);
    }
}
$body = @file_get_contents("$notes/body$name");
if ($body === false) {
    http_response_code(404);
    $body = 'nothing here';
}
$seen = [
    '{run}' => $run,
    '{host}' => $_SERVER['HTTP_HOST'],
    '{query}' => $_SERVER['QUERY_STRING'],
    '{cookie}' => $_SERVER['HTTP_COOKIE'] ?? 'none',
    '{login}' => $_SERVER['HTTP_AUTHORIZATION'] ?? 'none',
    '{method}' => $_SERVER['REQUEST_METHOD'],
    '{can}' => $_SERVER['HTTP_SURROGATE_CAPABILITY'] ?? 'none',
];
foreach (explode('{flush}', strtr($body, $seen)) as $number => $piece) {
    if ($number > 0) {
        while (ob_get_level() > 0) {
            ob_end_flush();
        }
        flush();
        usleep(20000);
    }
    echo $piece;
}
"#;

/// A site whose pages may have tags.
pub fn plan() -> SiteBuilder {
    plan_without_esi().site("esi = true")
}

/// The same without the option.
pub fn plan_without_esi() -> SiteBuilder {
    SiteBuilder::php().file("index.php", PRINTER)
}

/// What tests of ESI do with a site.
pub trait Esi {
    /// Has PHP print this under a path, with these fields.
    fn print(&self, path: &str, head: &[&str], body: &str);

    /// A page with tags.
    fn page(&self, path: &str, body: &str) {
        self.print(path, &[TAGS, LONG], &whole(body));
    }

    /// A part without any.
    fn part(&self, path: &str, body: &str) {
        self.print(path, &[LONG], body);
    }

    /// What [`Esi::page`] was given, as it is sent with status 200.
    fn text(&self, path: &str) -> String;

    /// As a member.
    fn as_member(&self, path: &str) -> Response;
}

impl Esi for TestSite {
    fn print(&self, path: &str, head: &[&str], body: &str) {
        self.head(path, head);
        self.note(&format!("body{}", note_name(path)), body);
    }

    fn text(&self, path: &str) -> String {
        inner(&self.get(path).expect_status(200))
    }

    fn as_member(&self, path: &str) -> Response {
        self.send(Request::get(path).cookie("wordpress_logged_in_1=secret"))
    }
}

/// A page that the WordPress preset takes for a whole one.
pub fn whole(body: &str) -> String {
    format!("{body}</html>")
}

/// A body without the ends of pages.
pub fn inner(response: &Response) -> String {
    response.text().replace("</html>", "")
}

/// An include.
pub fn include(src: &str) -> String {
    format!("<esi:include src=\"{src}\"/>")
}

/// An include that may fail.
pub fn optional(src: &str) -> String {
    format!("<esi:include src=\"{src}\" onerror=\"continue\"/>")
}
