//! What Galley's WordPress preset does without configuration, so that such rules of other servers are not needed; and which
//! alternatives of a condition remain.

use crate::words::WordList;
use std::cell::RefCell;
use std::collections::HashMap;

use galley_policy::pattern::PathPattern;
use galley_policy::wordpress;
use regex::Regex;

/// The cookies in a condition such as `comment_author|wordpress_[a-f0-9]+|my_member` that the preset does not know, as patterns for
/// `bypass_cookies`. `None`: an alternative does not begin with the name of a cookie.
pub(crate) fn cookies(pattern: &str) -> Option<Vec<String>> {
    let mut unknown = Vec::new();
    for one in alternatives(pattern) {
        // The cookie of administrators is `wordpress_` and an MD5.
        if one.starts_with("wordpress_[a-f0-9]+") {
            continue;
        }
        let (name, is_exact) = literal_start(&one);
        if name.is_empty()
            || !name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        {
            return None;
        }
        if !is_known_cookie(&name) {
            unknown.push(if is_exact { name } else { format!("{name}*") });
        }
    }
    Some(unknown)
}

/// Whether the preset lets every cookie bypass the cache whose name begins so.
fn is_known_cookie(name: &str) -> bool {
    let with = |end: &str| wordpress::is_bypass_cookie(format!("{name}{end}").as_bytes());
    COOKIE_PREFIXES.contains(name) || (with("") && with("_0")) || with("") && with("x")
}

/// The paths in a condition on the URL that the preset stores, as patterns.
pub(crate) fn paths(pattern: &str) -> Vec<String> {
    let mut patterns = alternatives(pattern);
    patterns.retain(|one| !is_known_path(one));
    patterns
}

/// Whether a pattern for a URL is about its query.
pub(crate) fn is_of_query(pattern: &str) -> bool {
    pattern.contains(['=', '&']) || pattern.contains("\\?") || pattern.contains("[?]")
}

/// Whether the preset stores nothing at the paths that contain a pattern.
fn is_known_path(pattern: &str) -> bool {
    let text = pattern
        .strip_prefix('^')
        .unwrap_or(pattern)
        .replace("\\.", ".");
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"/-_.".contains(&byte));
    let is_whole =
        text.starts_with('/') && (text.ends_with('/') || text.strip_suffix(".php").is_some());
    is_plain && is_whole && wordpress::is_bypass_path(text.as_bytes())
}

/// The top-level alternatives of a regular expression, without a group around all of it.
pub(crate) fn alternatives(pattern: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let (mut depth, mut is_escaped, mut one) = (0_usize, false, String::new());
    for c in ungrouped(pattern.trim()).chars() {
        match c {
            '|' if depth == 0 && !is_escaped => parts.push(std::mem::take(&mut one)),
            _ => one.push(c),
        }
        if !is_escaped {
            match c {
                '(' | '[' => depth += 1,
                ')' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    parts.push(one);
    parts.retain(|one| !one.is_empty());
    parts
}

/// A pattern without a group around all of it.
fn ungrouped(pattern: &str) -> &str {
    let groups = [("^.*(", ").*$"), (".*(", ").*"), ("^(", ")$"), ("(", ")")];
    let inner = groups.iter().find_map(|(start, end)| {
        let inner = pattern.strip_prefix(start)?.strip_suffix(end)?;
        is_balanced(inner).then_some(inner)
    });
    inner.unwrap_or(pattern)
}

fn is_balanced(text: &str) -> bool {
    let mut depth = 0_i64;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

/// The literal text at the start of a regular expression, and whether it is the whole expression.
fn literal_start(pattern: &str) -> (String, bool) {
    let mut text = String::new();
    let mut chars = pattern.trim_start_matches('^').chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(next) if !next.is_ascii_alphanumeric() => text.push(next),
                _ => return (text, false),
            },
            '[' | '(' | '.' | '^' => return (text, false),
            '*' | '+' | '?' | '{' => {
                text.pop();
                return (text, false);
            }
            '$' | '=' => return (text, true),
            c => text.push(c),
        }
    }
    (text, false)
}

/// The remedy for a section whose pattern [`pattern`] cannot convert.
pub(crate) const NO_LOOK_AROUND: &str = "Galley's patterns have no look-around and no back references: write the rule with `path` or another `pattern`";

/// Converts a PCRE to a regular expression of Galley. `None` if it has look-around, back references, or other parts that Galley refuses.
pub(crate) fn pattern(text: &str, ignores_case: bool) -> Option<String> {
    if OF_PCRE.iter().any(|part| text.contains(part)) {
        return None;
    }
    let has_back_reference = text
        .split('\\')
        .skip(1)
        .any(|after| after.starts_with(|c: char| c.is_ascii_digit()));
    if has_back_reference {
        return None;
    }
    let text = if ignores_case && !text.starts_with("(?i)") {
        format!("(?i){text}")
    } else {
        text.to_owned()
    };
    PathPattern::compile(&text).is_ok().then_some(text)
}

/// Whether a pattern, where it matches a path with its query, matches within the path.
pub(crate) fn is_within_path(pattern: &str) -> bool {
    pattern.starts_with("^/")
        && !pattern.replace("\\.", "").contains(['.', '|', '?'])
        && !["[^", "\\S", "\\W", "\\D"]
            .iter()
            .any(|part| pattern.contains(part))
}

/// Regular expressions that are compiled once.
#[derive(Default)]
pub(crate) struct Patterns(RefCell<HashMap<(String, bool), Option<Regex>>>);

impl Patterns {
    /// A PCRE. `None`: Galley has no such pattern.
    pub fn of(&self, text: &str, ignores_case: bool) -> Option<Regex> {
        let mut patterns = self.0.borrow_mut();
        let compiled = || Regex::new(&pattern(text, ignores_case)?).ok();
        let key = (text.to_owned(), ignores_case);
        patterns.entry(key).or_insert_with(compiled).clone()
    }
}

/// Whether a list of TLS versions, as nginx or Apache have it, has 1.3 and not 1.2.
pub(crate) fn is_tls_13_only(words: &[String]) -> bool {
    let (mut has_12, mut has_13) = (false, false);
    for word in words {
        let lower = word.to_ascii_lowercase();
        let name = lower.trim_start_matches(['+', '-']);
        let is_meant = !lower.starts_with('-');
        let is_of = |version: &str| name == version || name == "all";
        has_12 = if is_of("tlsv1.2") { is_meant } else { has_12 };
        has_13 = if is_of("tlsv1.3") { is_meant } else { has_13 };
    }
    has_13 && !has_12
}

/// A PCRE without its look-around.
pub(crate) fn without_look_around(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::new();
    while let Some(at) = LOOK_AROUND
        .iter()
        .filter_map(|start| rest.find(start))
        .min()
    {
        let (before, group) = rest.split_at(at);
        kept.push_str(before);
        let mut depth = 0_usize;
        let end = group.find(|c| {
            match c {
                '(' => depth += 1,
                ')' => depth = depth.saturating_sub(1),
                _ => {}
            }
            depth == 0
        });
        rest = end.map_or("", |end| group.get(end + 1..).unwrap_or_default());
    }
    kept + rest
}

const LOOK_AROUND: &[&str] = &["(?!", "(?=", "(?<!", "(?<="];

/// Converts a path with `*` to a pattern.
pub(crate) fn glob(path: &str) -> String {
    let mut pattern = String::new();
    for c in path.chars() {
        match c {
            '*' => pattern.push_str(".*"),
            '/' | '-' | '_' => pattern.push(c),
            c => pattern.push_str(&regex::escape(c.encode_utf8(&mut [0; 4]))),
        }
    }
    pattern
}

/// Whether a text is the status of an error.
pub(crate) fn is_error_status(text: &str) -> bool {
    text.parse::<u16>()
        .is_ok_and(|status| (400..600).contains(&status))
}

const OF_PCRE: &[&str] = &[
    "(?=", "(?!", "(?<", "(?>", "(?#", "*+", "++", "?+", "\\K", "\\G",
];

/// A pattern for the paths of a media type. `None`: other types have the same names, or none has.
pub(crate) fn paths_of_type(media_type: &str) -> Option<&'static str> {
    let mut lines = PATHS_OF_TYPES
        .lines()
        .filter_map(|line| line.split_once(' '));
    let line = lines.find(|(_, names)| names.split(' ').any(|name| name == media_type));
    line.map(|(pattern, _)| pattern)
}

/// Patterns for paths, and the media types, or the beginning of those of a kind, that have them.
const PATHS_OF_TYPES: &str = r"(?i)\.css$ text/css
(?i)\.m?js$ application/javascript text/javascript application/x-javascript
(?i)\.svgz?$ image/svg+xml
(?i)\.(ico|cur)$ image/x-icon image/vnd.microsoft.icon
(?i)\.jpe?g$ image/jpeg image/jpg
(?i)\.png$ image/png
(?i)\.gif$ image/gif
(?i)\.webp$ image/webp
(?i)\.avif$ image/avif
(?i)\.(jpe?g|png|gif|webp|avif|svgz?|ico|bmp)$ image/
(?i)\.woff2$ font/woff2
(?i)\.woff$ font/woff
(?i)\.(woff2?|ttf|otf|eot)$ font/
(?i)\.mp4$ video/mp4
(?i)\.webm$ video/webm
(?i)\.(mp4|webm|ogv|mov|m4v)$ video/
(?i)\.mp3$ audio/mpeg
(?i)\.(mp3|ogg|oga|m4a|wav|flac)$ audio/
(?i)\.pdf$ application/pdf";

/// Beginnings of the cookies of WordPress and `WooCommerce` that identify a visitor, without the separator behind them. The preset knows
/// all cookies of these names that they set.
const COOKIE_PREFIXES: WordList = WordList(
    "comment_author wordpress_logged_in wordpress_sec wp-postpass wp_postpass wp_woocommerce_session wordpresspass
    wordpressuser woocommerce_items_in_cart woocommerce_cart_hash",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_of_wordpress_need_no_rule() {
        let usual = "comment_author|wordpress_[a-f0-9]+|wp-postpass|wordpress_no_cache|wordpress_logged_in|my_member";
        // The preset knows `wordpress_no_cache` and no longer names that begin so.
        assert_eq!(
            cookies(usual).unwrap(),
            ["wordpress_no_cache*", "my_member*"]
        );
        assert_eq!(
            cookies("^.*(wordpress_logged_in).*$").unwrap(),
            Vec::<String>::new()
        );
        assert_eq!(cookies("(currency=)").unwrap(), ["currency"]);
        // The preset stores pages for some cookies of these names.
        assert_eq!(
            cookies("wordpress_|woocommerce_").unwrap(),
            ["wordpress_*", "woocommerce_*"]
        );
        assert_eq!(cookies(".+"), None);
    }

    #[test]
    fn paths_that_the_preset_does_not_store_need_no_rule() {
        let usual = "/wp-admin/|/xmlrpc.php|wp-.*.php|/wp-json/|^/feed/|index.php|/members/";
        assert_eq!(
            paths(usual),
            [
                "wp-.*.php",
                "/wp-json/",
                "^/feed/",
                "index.php",
                "/members/"
            ]
        );
    }

    #[test]
    fn only_top_level_alternatives_are_split() {
        assert_eq!(alternatives("(a|b(c|d)|e\\|f)"), ["a", "b(c|d)", "e\\|f"]);
        assert_eq!(alternatives("(a)|(b)"), ["(a)", "(b)"]);
        assert_eq!(alternatives(""), Vec::<String>::new());
    }

    #[test]
    fn paths_with_stars_are_patterns() {
        for path in ["/a.b+c/", "/ä ö<>~&#/", "/a-b_c,d;e@f/"] {
            let regex = Regex::new(&format!("^{}$", glob(path))).unwrap();
            assert!(regex.is_match(path), "{path}");
        }
        assert_eq!(glob("/a.b/*"), "/a\\.b/.*");
    }

    #[test]
    fn versions_of_tls_are_a_set() {
        let is_only = |text: &str| {
            let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
            is_tls_13_only(&words)
        };
        assert!(is_only("all -SSLv3 -TLSv1 -TLSv1.1 -TLSv1.2"));
        assert!(is_only("-all +TLSv1.3"));
        assert!(is_only("TLSv1.3"));
        assert!(!is_only("all -SSLv3 -TLSv1 -TLSv1.1"));
        assert!(!is_only("-all +TLSv1.2 +TLSv1.3"));
        assert!(!is_only("all -TLSv1.3"));
        assert!(!is_only("TLSv1.2 TLSv1.3"));
    }

    #[test]
    fn patterns_are_converted() {
        assert_eq!(pattern("\\.(css|js)$", true).unwrap(), "(?i)\\.(css|js)$");
        assert_eq!(pattern(".(jpg|png)$", true).unwrap(), "(?i).(jpg|png)$");
        assert_eq!(pattern("wordpress_(?!test_cookie)", false), None);
        assert_eq!(pattern("(a)\\1", false), None);
        assert_eq!(pattern("/a\\Z", false), None);
    }
}
