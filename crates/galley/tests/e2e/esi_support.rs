//! A site with ESI whose PHP prints the pages that a test has written to files.

use galley_testkit::client::{Request, Response};

use crate::support::{SiteBuilder, TestSite, note_name};

/// Announces ESI tags.
pub const SURROGATE_CONTROL: &str = "Surrogate-Control: content=\"ESI/1.0\"";

/// Keeps pages and parts fresh for the whole test.
pub const MAX_AGE: &str = "Cache-Control: max-age=600";

/// Prints the file of the requested path. Replaces placeholders such as `{cookie}` by values of the request, and flushes at `{flush}`.
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
$values = [
    '{run}' => $run,
    '{host}' => $_SERVER['HTTP_HOST'],
    '{query}' => $_SERVER['QUERY_STRING'],
    '{cookie}' => $_SERVER['HTTP_COOKIE'] ?? 'none',
    '{login}' => $_SERVER['HTTP_AUTHORIZATION'] ?? 'none',
    '{method}' => $_SERVER['REQUEST_METHOD'],
    '{can}' => $_SERVER['HTTP_SURROGATE_CAPABILITY'] ?? 'none',
];
foreach (explode('{flush}', strtr($body, $values)) as $number => $piece) {
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

/// A site with `esi = true`.
pub fn esi_builder() -> SiteBuilder {
    builder_without_esi().site("esi = true")
}

/// The same site without `esi`.
pub fn builder_without_esi() -> SiteBuilder {
    SiteBuilder::php().file("index.php", PRINTER)
}

/// Pages and requests of ESI tests.
pub trait EsiSite {
    /// Sets the response of PHP for a path.
    fn set_response(&self, path: &str, head: &[&str], body: &str);

    /// Adds a page with ESI tags.
    fn add_page(&self, path: &str, body: &str) {
        self.set_response(path, &[SURROGATE_CONTROL, MAX_AGE], &with_end_tag(body));
    }

    /// Adds a part without ESI tags.
    fn add_part(&self, path: &str, body: &str) {
        self.set_response(path, &[MAX_AGE], body);
    }

    /// Requests a page with status 200 and returns its [`without_end_tag`] text.
    fn get_text(&self, path: &str) -> String;

    /// Requests a page with the cookie of a logged-in user.
    fn get_logged_in(&self, path: &str) -> Response;
}

impl EsiSite for TestSite {
    fn set_response(&self, path: &str, head: &[&str], body: &str) {
        self.head(path, head);
        self.note(&format!("body{}", note_name(path)), body);
    }

    fn get_text(&self, path: &str) -> String {
        without_end_tag(&self.get(path).expect_status(200))
    }

    fn get_logged_in(&self, path: &str) -> Response {
        self.send(Request::get(path).cookie("wordpress_logged_in_1=secret"))
    }
}

/// Adds the end tag without which the WordPress preset treats a page as incomplete.
pub fn with_end_tag(body: &str) -> String {
    format!("{body}</html>")
}

/// The body without the end tags of [`with_end_tag`].
pub fn without_end_tag(response: &Response) -> String {
    response.text().replace("</html>", "")
}

/// An include tag.
pub fn include(src: &str) -> String {
    format!("<esi:include src=\"{src}\"/>")
}

/// An include tag with `onerror="continue"`.
pub fn optional_include(src: &str) -> String {
    format!("<esi:include src=\"{src}\" onerror=\"continue\"/>")
}
