//! Error pages with status 200, recognized by their content.
//!
//! `wp_die()` sends WordPress's error page with an error status, unless a part of the requested page was sent before: then the
//! error page follows that part, and the status is that of the part. The error page has a body element that no other page has;
//! a page that quotes the element escapes it. Drop-ins (`db-error.php`, `maintenance.php`) can contain anything, and have
//! status 200 unless their author sets another. They are recognized by WordPress's sentence, but only if the page contains
//! little else and does not announce the API, which WordPress does on every page of a theme: an article about the sentence is
//! longer, and has the announcement.

use http::HeaderMap;
use http::header::LINK;
use memchr::memmem;

/// Whether the body of a page with status 200 is an error page or contains one.
pub(super) fn is_error_page(fields: &HeaderMap, body: &[u8]) -> bool {
    memmem::find(body, WP_DIE).is_some()
        || FATAL
            .iter()
            .any(|beginning| body.trim_ascii_start().starts_with(beginning))
        || (body.len() <= MAX_NOTICE_BYTES && is_notice(fields, body))
}

fn is_notice(fields: &HeaderMap, body: &[u8]) -> bool {
    let is_announced = fields
        .get_all(LINK)
        .iter()
        .any(|link| memmem::find(link.as_bytes(), API).is_some())
        || memmem::find(body, API).is_some();
    if is_announced {
        return false;
    }
    let text = visible_text(body);
    text.len() <= MAX_TEXT_BYTES
        && SENTENCES
            .iter()
            .any(|sentence| memmem::find(&text, sentence).is_some())
}

/// The visible text in lower case: without tags, styles and scripts, and each run of white space as one space. At most a few
/// bytes longer than [`MAX_TEXT_BYTES`].
fn visible_text(body: &[u8]) -> Vec<u8> {
    let mut text: Vec<u8> = Vec::new();
    let mut rest = body;
    while let Some((&byte, behind)) = rest.split_first() {
        if text.len() > MAX_TEXT_BYTES {
            break;
        }
        if byte == b'<' {
            rest = after_tag(rest);
            if text.last() != Some(&b' ') {
                text.push(b' ');
            }
            continue;
        }
        rest = behind;
        match byte.is_ascii_whitespace() {
            true if text.last() == Some(&b' ') => {}
            true => text.push(b' '),
            false => text.push(byte.to_ascii_lowercase()),
        }
    }
    text
}

/// The text after the tag at the beginning of `html`, and after the element's content if that is invisible.
fn after_tag(html: &[u8]) -> &[u8] {
    let end_of = |from: &'_ [u8], mark: &[u8]| memmem::find(from, mark).map(|at| at + mark.len());
    for (begin, end) in INVISIBLE {
        let is_invisible = html
            .get(..begin.len())
            .is_some_and(|tag| tag.eq_ignore_ascii_case(begin));
        if is_invisible {
            return end_of(html, end).map_or(&[], |at| html.get(at..).unwrap_or_default());
        }
    }
    end_of(html, b">").map_or(&[], |at| html.get(at..).unwrap_or_default())
}

/// Part of every page of `wp_die()`, in this form since WordPress 3.0.
const WP_DIE: &[u8] = b"<body id=\"error-page\"";

/// The beginning of PHP's output if `display_errors` is on and nothing was printed before.
const FATAL: &[&[u8]] = &[
    b"<br />\n<b>Fatal error</b>:",
    b"<br />\n<b>Parse error</b>:",
    b"<b>Fatal error</b>:",
    b"Fatal error: ",
    b"PHP Fatal error: ",
];

/// WordPress's sentences, in lower case.
const SENTENCES: &[&[u8]] = &[
    b"establishing a database connection",
    b"unavailable for scheduled maintenance",
    b"there has been a critical error on",
];

/// Part of the head of every page of a theme, and of its `Link` field.
const API: &[u8] = b"api.w.org";

/// The maximum size of a notice in bytes, with styles and a picture.
const MAX_NOTICE_BYTES: usize = 64 * 1024;

/// The maximum size of a notice's text in bytes: the sentence, an apology, an address.
const MAX_TEXT_BYTES: usize = 600;

/// Elements whose content is invisible, with their end tags.
const INVISIBLE: &[(&[u8], &[u8])] = &[
    (b"<style", b"</style>"),
    (b"<script", b"</script>"),
    (b"<!--", b"-->"),
    (b"<title", b"</title>"),
];

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    fn is_error(body: &str) -> bool {
        is_error_page(&HeaderMap::new(), body.as_bytes())
    }

    /// An article about the sentence, in a theme without an announcement.
    fn article(words: usize) -> String {
        let text = "lorem ipsum dolor ".repeat(words / 3);
        format!(
            "<!DOCTYPE html><html><head><title>Error establishing a database connection</title></head><body>\
             <h1>Error establishing a database connection</h1><p>{text}</p></body></html>"
        )
    }

    #[test]
    fn error_pages_of_wordpress_and_php_are_recognized() {
        let die = "<!DOCTYPE html>\n<html lang=\"en-US\">\n<head><title>Database Error</title></head>\n<body id=\"error-page\">\n\
                   \t<div class=\"wp-die-message\"><h1>Fehler beim Aufbau</h1></div></body>\n</html>\n";
        assert!(is_error(die));
        // After half a page, whose head was sent with status 200.
        let half = format!("<!doctype html><html><body>{}{die}", "text ".repeat(30_000));
        assert!(is_error(&half));
        assert!(is_error(
            "<br />\n<b>Fatal error</b>:  Uncaught Error: Call to undefined function x() in /var/www/x.php:3"
        ));
    }

    #[test]
    fn drop_ins_are_recognized_by_the_sentence() {
        let style = format!("<style>{}</style>", "p { color: red } ".repeat(500));
        let picture = "<img src=\"/wp-content/uploads/logo.png\">";
        for words in [
            "Error establishing a database connection",
            "ERROR <b>establishing</b>\n a database  connection. We are working on it.",
            "Briefly unavailable for scheduled maintenance. Check back in a minute.",
            "There has been a critical error on this website.",
        ] {
            let page = format!(
                "<html><head><title>Oh no</title>{style}</head><body>{picture}<h1>{words}</h1></body></html>"
            );
            assert!(is_error(&page), "{words}");
        }
        assert!(!is_error("<html><body><h1>Welcome</h1></body></html>"));
    }

    #[test]
    fn pages_that_quote_the_sentence_are_not_errors() {
        assert!(!is_error(&article(200)), "an article");
        // A short article of a WordPress announces the API in its HTML or in a field.
        let short = article(10);
        assert!(is_error(&short), "hardly anything but the sentence");
        let link =
            "<link rel=\"https://api.w.org/\" href=\"https://example.com/wp-json/\" /></head>";
        assert!(!is_error(&short.replace("</head>", link)));
        let mut fields = HeaderMap::new();
        fields.insert(
            LINK,
            HeaderValue::from_static("<https://example.com/wp-json/>; rel=\"https://api.w.org/\""),
        );
        assert!(!is_error_page(&fields, short.as_bytes()));
        // Displayed code is escaped; a title alone is not text.
        assert!(!is_error(
            "<html><body><pre>&lt;body id=\"error-page\"&gt;</pre></body></html>"
        ));
        assert!(!is_error(
            "<html><head><title>Error establishing a database connection</title></head><body>Solved</body></html>"
        ));
        assert!(!is_error("<p>PHP: Fatal error: what now?</p>"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            is_error_page(&HeaderMap::new(), &bytes);
            prop_assert!(visible_text(&bytes).len() <= MAX_TEXT_BYTES + 2);
        }

        #[test]
        fn any_tags_are_read(text in "(<|</|style|script|!--|-->|>| |title|a){0,60}") {
            visible_text(text.as_bytes());
        }
    }
}
