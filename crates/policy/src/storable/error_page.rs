//! Error pages with a status of success, recognised by their content.
//!
//! `wp_die()` sends WordPress's own with an error status, unless a part of the page was sent before; then they follow that
//! part, with its status. They have a body element that nothing else has; text that quotes it is escaped. Drop-ins
//! (`db-error.php`, `maintenance.php`) can contain anything, and have status 200 unless their author has set another. They
//! are recognised by WordPress's sentence only if there is hardly anything else on the page and WordPress has not announced
//! its API, which it does with every page of a theme: an article about the sentence is longer, and has the announcement.

use http::HeaderMap;
use http::header::LINK;
use memchr::memmem;

/// Whether the body of a page with status 200 tells of an error.
pub(super) fn is_one(fields: &HeaderMap, body: &[u8]) -> bool {
    memmem::find(body, WP_DIE).is_some()
        || FATAL
            .iter()
            .any(|beginning| body.trim_ascii_start().starts_with(beginning))
        || (body.len() <= MOST_OF_NOTICE && is_notice(fields, body))
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
    let text = visible(body);
    text.len() <= MOST_OF_TEXT
        && SENTENCES
            .iter()
            .any(|sentence| memmem::find(&text, sentence).is_some())
}

/// What a reader sees, in lower case: without tags, styles and scripts, white space made one. Not longer than
/// [`MOST_OF_TEXT`] and a bit.
fn visible(body: &[u8]) -> Vec<u8> {
    let mut text: Vec<u8> = Vec::new();
    let mut rest = body;
    while let Some((&byte, behind)) = rest.split_first() {
        if text.len() > MOST_OF_TEXT {
            break;
        }
        if byte == b'<' {
            rest = behind_tag(rest);
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

/// The text after the tag that `html` begins with, and after its content if that is not for readers.
fn behind_tag(html: &[u8]) -> &[u8] {
    let end_of = |from: &'_ [u8], mark: &[u8]| memmem::find(from, mark).map(|at| at + mark.len());
    for (begin, end) in UNSEEN {
        let is_it = html
            .get(..begin.len())
            .is_some_and(|tag| tag.eq_ignore_ascii_case(begin));
        if is_it {
            return end_of(html, end).map_or(&[], |at| html.get(at..).unwrap_or_default());
        }
    }
    end_of(html, b">").map_or(&[], |at| html.get(at..).unwrap_or_default())
}

/// In every page of `wp_die()`, in this form since WordPress 3.0.
const WP_DIE: &[u8] = b"<body id=\"error-page\"";

/// What PHP prints where `display_errors` is on and nothing came before.
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

/// In the head of every page of a theme, and in the field beside it.
const API: &[u8] = b"api.w.org";

/// A notice with its styles and a picture.
const MOST_OF_NOTICE: usize = 64 * 1024;

/// Its words: the sentence, an apology, an address.
const MOST_OF_TEXT: usize = 600;

/// Elements whose content is not text, with their ends.
const UNSEEN: &[(&[u8], &[u8])] = &[
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
        is_one(&HeaderMap::new(), body.as_bytes())
    }

    /// An article about the sentence, on a theme that says nothing else.
    fn article(words: usize) -> String {
        let text = "lorem ipsum dolor ".repeat(words / 3);
        format!(
            "<!DOCTYPE html><html><head><title>Error establishing a database connection</title></head><body>\
             <h1>Error establishing a database connection</h1><p>{text}</p></body></html>"
        )
    }

    #[test]
    fn pages_of_wordpress_and_php_that_tell_of_an_error() {
        let die = "<!DOCTYPE html>\n<html lang=\"en-US\">\n<head><title>Database Error</title></head>\n<body id=\"error-page\">\n\
                   \t<div class=\"wp-die-message\"><h1>Fehler beim Aufbau</h1></div></body>\n</html>\n";
        assert!(is_error(die));
        // Behind half a page, whose head has left with status 200.
        let half = format!("<!doctype html><html><body>{}{die}", "text ".repeat(30_000));
        assert!(is_error(&half));
        assert!(is_error(
            "<br />\n<b>Fatal error</b>:  Uncaught Error: Call to undefined function x() in /var/www/x.php:3"
        ));
    }

    #[test]
    fn drop_ins_are_known_by_the_sentence() {
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
    fn who_quotes_the_sentence_is_no_error() {
        assert!(!is_error(&article(200)), "an article");
        // A short one of a WordPress says where its API is, in its head or beside it.
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
        assert!(!is_one(&fields, short.as_bytes()));
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
            is_one(&HeaderMap::new(), &bytes);
            prop_assert!(visible(&bytes).len() <= MOST_OF_TEXT + 2);
        }

        #[test]
        fn any_tags_are_read(text in "(<|</|style|script|!--|-->|>| |title|a){0,60}") {
            visible(text.as_bytes());
        }
    }
}
