//! What Galley's WordPress preset does without configuration, so that such rules of other servers are not needed; and which
//! alternatives of a condition remain.

use galley_policy::wordpress;

/// The alternatives of a condition, compared with the preset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Alternatives {
    /// Alternatives that the preset does not cover, as names or patterns.
    pub unknown: Vec<String>,
    /// The number of alternatives that the preset covers.
    pub known: usize,
}

/// The cookies in a condition such as `comment_author|wordpress_[a-f0-9]+|wp-postpass`, as patterns for `bypass_cookies`.
pub(crate) fn cookies(pattern: &str) -> Alternatives {
    let mut found = Alternatives::default();
    for one in alternatives(pattern) {
        let (name, is_exact) = literal_start(&one);
        if name.is_empty() || is_known_cookie(&name) {
            found.known += usize::from(!name.is_empty());
        } else {
            found
                .unknown
                .push(if is_exact { name } else { format!("{name}*") });
        }
    }
    found
}

fn is_known_cookie(name: &str) -> bool {
    let bytes = name.as_bytes();
    // A condition may contain only a part of the cookie's prefix.
    let is_covered =
        |name: &[u8]| wordpress::is_bypass_cookie(name) || wordpress::is_vary_cookie(name);
    is_covered(bytes)
        || COOKIE_PREFIXES.contains(&name)
        || is_covered(format!("{name}_0").as_bytes())
        || is_covered(format!("{name}0").as_bytes())
}

/// The paths in a condition on the URL, as patterns for rules with `cache = false`.
pub(crate) fn paths(pattern: &str) -> Alternatives {
    let mut found = Alternatives::default();
    for one in alternatives(pattern) {
        if is_known_path(&one) {
            found.known += 1;
        } else {
            found.unknown.push(one);
        }
    }
    found
}

fn is_known_path(pattern: &str) -> bool {
    // The dot of `.php` means a literal dot, with or without a `\`.
    let pattern = pattern.replace("\\.php", ".php").replace(".php", "\\.php");
    let (text, _) = literal_start(&pattern);
    let text = text.trim_start_matches('/');
    if text.is_empty() {
        return false;
    }
    let path = format!("/{text}");
    KNOWN_PATHS.iter().any(|known| text.starts_with(known))
        || wordpress::is_bypass_path(path.as_bytes())
        || wordpress::is_bypass_path(format!("{path}/").as_bytes())
}

/// The top-level alternatives of a regular expression, without a group around all of it.
pub(crate) fn alternatives(pattern: &str) -> Vec<String> {
    let mut all = Vec::new();
    let (mut depth, mut is_escaped, mut one) = (0_usize, false, String::new());
    for c in ungrouped(pattern.trim()).chars() {
        match c {
            '|' if depth == 0 && !is_escaped => all.push(std::mem::take(&mut one)),
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
    all.push(one);
    all.retain(|one| !one.is_empty());
    all
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

/// Converts a PCRE to a regular expression of Galley. `None` if it has look-around or back references.
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
    // `.(jpg|png)$`: the dot probably means a literal one.
    let bare = text.strip_prefix(".(");
    let text = match bare.or_else(|| text.strip_prefix(".*.(")) {
        Some(rest) => format!("\\.({rest}"),
        None => text.to_owned(),
    };
    Some(if ignores_case && !text.starts_with("(?i)") {
        format!("(?i){text}")
    } else {
        text
    })
}

/// Converts a path with `*` to a pattern.
pub(crate) fn glob(path: &str) -> String {
    let mut pattern = String::new();
    for c in path.chars() {
        match c {
            '*' => pattern.push_str(".*"),
            c if c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_') => pattern.push(c),
            c => pattern.extend(['\\', c]),
        }
    }
    pattern
}

/// Whether a text is the status of an error.
pub(crate) fn is_error_status(text: &str) -> bool {
    text.parse::<u16>()
        .is_ok_and(|status| (400..600).contains(&status))
}

/// Whether a text contains a name that Galley never sends, in any spelling of a pattern.
pub(crate) fn is_private_name(text: &str) -> bool {
    let plain = text.replace('\\', "");
    let has_dot_name = plain.contains("/.") || plain.starts_with(".ht");
    let lower = plain.to_ascii_lowercase();
    has_dot_name || PRIVATE_NAMES.iter().any(|part| lower.contains(part))
}

/// Why rules that send AVIF and WebP files in place of pictures are not needed.
pub(crate) const PICTURES: &str =
    "Galley sends AVIF and WebP files that stand beside a picture, with Vary (`image_siblings`)";

/// Why a lifetime in browsers is not needed.
pub(crate) const ASKS_AGAIN: &str =
    "Galley lets browsers ask again, and answers 304 from the cache";

const OF_PCRE: &[&str] = &[
    "(?=", "(?!", "(?<", "(?>", "(?#", "*+", "++", "?+", "\\K", "\\G",
];

const PRIVATE_NAMES: &[&str] = &[
    "wp-config",
    ".git",
    ".svn",
    ".env",
    ".sql",
    ".bak",
    ".log",
    ".old",
    ".ini",
    "readme",
    "license",
    "composer",
    "install.php",
    "wp-includes",
    "changelog",
];

/// Whether a pattern is about scripts in folders for uploads and libraries, where Galley runs none.
pub(crate) fn is_script_of_folder(text: &str) -> bool {
    let folders = ["upload", "files", "wp-content", "wp-includes", "cache"];
    text.contains("php") && folders.iter().any(|part| text.contains(part))
}

/// Why a rule that denies such scripts is not needed.
pub(crate) const NO_SCRIPTS: &str = "Galley runs no scripts in folders for uploads";

/// A pattern for the usual paths of a media type.
pub(crate) fn paths_of_type(media_type: &str) -> Option<&'static str> {
    let known = PATHS_OF_TYPES
        .iter()
        .find(|(start, _)| media_type.starts_with(start));
    known.map(|(_, pattern)| *pattern)
}

/// Prefixes of media types, and patterns for their paths.
const PATHS_OF_TYPES: &[(&str, &str)] = &[
    ("text/css", r"(?i)\.css$"),
    ("application/javascript", r"(?i)\.m?js$"),
    ("text/javascript", r"(?i)\.m?js$"),
    ("application/x-javascript", r"(?i)\.m?js$"),
    ("image/svg", r"(?i)\.svgz?$"),
    ("image/x-icon", r"(?i)\.(ico|cur)$"),
    ("image/", r"(?i)\.(jpe?g|png|gif|webp|avif|svgz?|ico|bmp)$"),
    ("font/", r"(?i)\.(woff2?|ttf|otf|eot)$"),
    ("application/font", r"(?i)\.woff2?$"),
    ("application/vnd.ms-fontobject", r"(?i)\.eot$"),
    ("video/", r"(?i)\.(mp4|webm|ogv|mov|m4v)$"),
    ("audio/", r"(?i)\.(mp3|ogg|oga|m4a|wav|flac)$"),
];

/// Prefixes of cookie names in conditions that are shorter than those of the preset.
const COOKIE_PREFIXES: &[&str] = &[
    "comment_",
    "comment_author",
    "wordpress",
    "wordpress_",
    "wordpress_logged_in",
    "wordpress_sec",
    "wordpress_test_cookie",
    "wp-",
    "wp-postpass",
    "wp_woocommerce_session",
    "wordpresspass",
    "wordpressuser",
    "woocommerce",
    "woocommerce_",
    "woocommerce_items_in_cart",
    "woocommerce_cart",
    "woocommerce_recently_viewed",
];

/// Prefixes of paths, without the first `/`, that bypass Galley's cache, or that purges keep fresh.
const KNOWN_PATHS: &[&str] = &[
    "wp-admin",
    "wp-login",
    "wp-cron",
    "wp-",
    "xmlrpc",
    "index.php",
    "feed",
    "sitemap",
    "preview",
    "robots.txt",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_of_wordpress_need_no_rule() {
        let usual = "comment_author|wordpress_[a-f0-9]+|wp-postpass|wordpress_no_cache|wordpress_logged_in|my_member";
        let found = cookies(usual);
        assert_eq!(found.known, 5);
        assert_eq!(found.unknown, ["my_member*"]);
        assert_eq!(cookies("^.*(wordpress_logged_in).*$").known, 1);
        assert_eq!(cookies("(currency=)").unknown, ["currency"]);
    }

    #[test]
    fn paths_of_wordpress_need_no_rule() {
        let usual = "/wp-admin/|/xmlrpc.php|wp-.*.php|^/feed/*|/tag/.*/feed/*|index.php|/.*sitemap.*\\.(xml|xsl)|/members/";
        assert_eq!(
            paths(usual).unknown,
            ["/tag/.*/feed/*", "/.*sitemap.*\\.(xml|xsl)", "/members/"]
        );
    }

    #[test]
    fn only_top_level_alternatives_are_split() {
        assert_eq!(alternatives("(a|b(c|d)|e\\|f)"), ["a", "b(c|d)", "e\\|f"]);
        assert_eq!(alternatives("(a)|(b)"), ["(a)", "(b)"]);
        assert_eq!(alternatives(""), Vec::<String>::new());
    }

    #[test]
    fn patterns_are_converted() {
        assert_eq!(pattern("\\.(css|js)$", true).unwrap(), "(?i)\\.(css|js)$");
        assert_eq!(pattern(".(jpg|png)$", true).unwrap(), "(?i)\\.(jpg|png)$");
        assert_eq!(pattern("wordpress_(?!test_cookie)", false), None);
        assert_eq!(pattern("(a)\\1", false), None);
    }
}
