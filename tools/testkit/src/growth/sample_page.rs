//! Pages that compress like those of WordPress.

use std::fmt::Write as _;

use super::random::Random;

/// A complete page of 47 KB, because the cache does not store incomplete ones. It compresses to 8.5 KB in gzip and in br, like those
/// of WordPress: all pages have the same styles and different texts.
pub(super) fn page(number: u64) -> String {
    let mut random = Random(number | 1);
    let mut html = String::with_capacity(LENGTH + 1024);
    html.push_str(
        "<!doctype html>\n<html lang=\"en-US\"><head><meta charset=\"UTF-8\"/>\n<style>\n",
    );
    let mut styles = Random(7);
    for rule in 0..150 {
        let (property, color) = (styles.below(40), styles.below(1 << 24));
        let _ = writeln!(
            html,
            ".wp-block-{rule} .has-{property}-size{{color:#{color:06x};margin-block-start:{}px}}",
            styles.below(64)
        );
    }
    html.push_str("</style></head><body class=\"wp-singular post-template-default single\">\n");
    let mut entry = 0;
    while html.len() < LENGTH {
        entry += 1;
        let _ = write!(
            html,
            "<article id=\"post-{0}\" class=\"post-{0} post type-post status-publish format-standard hentry\"><h2 \
             class=\"entry-title\"><a href=\"https://example.test/{1}/\" rel=\"bookmark\">{1}</a></h2><div class=\"entry-content\"><p>",
            number * 40 + entry,
            word(&mut random),
        );
        for _ in 0..20 {
            html.push_str(&word(&mut random));
            html.push(' ');
        }
        html.push_str("</p>\n</div><!-- .entry-content --></article>\n");
    }
    html.truncate(LENGTH - END.len());
    html.push_str(END);
    html
}

/// Returns one of 1,600 words, the first ones more often.
fn word(random: &mut Random) -> String {
    let bound = 1 + random.below(1600);
    let mut rest = 40 + random.below(bound);
    let mut word = String::new();
    while rest > 0 {
        let letters = [
            "st", "an", "e", "ri", "o", "lat", "u", "me", "ing", "ca", "d",
        ];
        let index = usize::try_from(rest % 11).unwrap_or(0);
        word.push_str(letters[index]);
        rest /= 11;
    }
    word
}

/// Length of the body in bytes.
const LENGTH: usize = 47_000;

const END: &str = "</body></html>\n";
