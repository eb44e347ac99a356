//! Patterns for the parts that vary between two generations of a page although a reader sees no difference.
//!
//! The exactness tests and `galley import --try` compare pages with them.
//!
//! At most six patterns are allowed, and each must state its reason. Anything else that varies counts as a difference.

use std::sync::LazyLock;

use regex::Regex;

/// The reason, the pattern, and the replacement.
pub const MASKS: &[(&str, &str, &str)] = &[
    (
        "one-time keys of forms: they change twice a day",
        r#"(name="_wpnonce" value=")[0-9a-f]{10}"#,
        "${1}nonce",
    ),
    (
        "one-time keys of scripts",
        r#"("nonce":"|createNonceMiddleware\( ")[0-9a-f]{10}"#,
        "${1}nonce",
    ),
    (
        "random numbers in the names of an embedded page's parts",
        r"(wp-embed-share-(?:tab|description)-[a-z]+-[0-9]+-)[0-9]+",
        "${1}number",
    ),
    (
        "random marks of embedded frames",
        r#"(data-secret=(?:\\*"|&quot;)|#\?secret=)[0-9A-Za-z]{10}"#,
        "${1}secret",
    ),
    (
        "the newest change of the whole site, which a feed without posts shows",
        r"<lastBuildDate>[^<]*</lastBuildDate>((?:\s*<(?:language|generator|sy:[A-Za-z]+)>[^<]*</[A-Za-z:]+>)*\s*</channel>)",
        "${1}",
    ),
    (
        "the link by which browsers prove their visit: Galley asks for it, and a page serves as well without",
        "<link [^>]*/galley-visit/style\\.css[^>]*>\n?",
        "",
    ),
];

/// The text with all varying parts masked.
pub fn masked(text: &str) -> String {
    let mut out = std::borrow::Cow::Borrowed(text);
    for (pattern, replacement) in COMPILED.iter() {
        if let std::borrow::Cow::Owned(changed) = pattern.replace_all(&out, *replacement) {
            out = changed.into();
        }
    }
    out.into_owned()
}

static COMPILED: LazyLock<Vec<(Regex, &str)>> = LazyLock::new(|| {
    let compile = |(_, pattern, replacement): &(&str, &str, &'static str)| {
        Some((Regex::new(pattern).ok()?, *replacement))
    };
    MASKS.iter().filter_map(compile).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_at_most_six_and_all_compile() {
        assert!(MASKS.len() <= 6);
        assert_eq!(COMPILED.len(), MASKS.len());
    }

    #[test]
    fn only_varying_parts_are_masked() {
        let rows = [
            (
                r#"<input type="hidden" name="_wpnonce" value="0123456789" />"#,
                r#"<input type="hidden" name="_wpnonce" value="nonce" />"#,
            ),
            (
                r#"data-secret=\"ceDumUCf1I\" src=x/#?secret=ceDumUCf1I"#,
                r#"data-secret=\"secret\" src=x/#?secret=secret"#,
            ),
            (r#"{"nonce":"abcdef0123"}"#, r#"{"nonce":"nonce"}"#),
            (
                "<lastBuildDate>Fri</lastBuildDate>\n<sy:updatePeriod>hourly</sy:updatePeriod>\n</channel>",
                "\n<sy:updatePeriod>hourly</sy:updatePeriod>\n</channel>",
            ),
            (
                "<lastBuildDate>Fri</lastBuildDate>\n<item></item></channel>",
                "<lastBuildDate>Fri</lastBuildDate>\n<item></item></channel>",
            ),
            (
                "<p>0123456789 abcdef0123</p>",
                "<p>0123456789 abcdef0123</p>",
            ),
        ];
        for (text, wanted) in rows {
            assert_eq!(masked(text), wanted);
        }
    }
}
