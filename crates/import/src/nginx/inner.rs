//! Statements inside of locations, whose meaning follows from the location around them.

use crate::directive::Directive;
use crate::draft::ImportedSite;
use crate::known;
use crate::names::NGINX;
use crate::nginx::common::{closes, is_of_address};
use crate::nginx::context::Context;
use crate::nginx::location_paths::LocationPaths;
use crate::requests::flat;
use crate::words::WordList;

/// The status with which a block refuses all requests. `None`: it serves some.
pub(super) fn denial_status(block: &[Directive]) -> Option<&str> {
    // `return` comes before access control.
    let mut returns = block.iter().filter(|one| one.name() == "return");
    if let Some(first) = returns.next() {
        let status = first.argument(0);
        return (known::is_error_status(status) && !block.iter().any(|one| one.name() == "if"))
            .then_some(status);
    }
    let mut access = block
        .iter()
        .filter(|one| matches!(one.name(), "allow" | "deny"));
    let is_either = block.iter().any(|one| one.name() == "satisfy");
    let denies = access
        .next()
        .is_some_and(|one| one.name() == "deny" && one.argument(0) == "all");
    (denies && !is_either).then_some("403")
}

/// A location inside another one. Its access control is at least that of the outer one, which becomes a rule for more paths.
pub(super) fn nested(directive: &Directive) {
    if flat(directive.inner()).into_iter().any(closes) {
        return directive.undecided(NESTED);
    }
    let passes = |one: &Directive| {
        one.name() == "fastcgi_pass"
            || one.name().starts_with("fastcgi_")
                && NGINX.is_not_needed(one)
                && (one.name() != "fastcgi_cache_key" || is_of_address(one.argument(0)))
            || one.name() == "try_files" && one.argument(1) == "=404"
    };
    if OF_PHP.contains(LocationPaths::of(directive).text()) && directive.inner().iter().all(passes)
    {
        return directive.not_needed("PHP runs the scripts of all paths");
    }
    directive.not_carried(NESTED);
}

/// Converts `try_files` of the paths below `prefix`.
pub(super) fn try_files(
    directive: &Directive,
    prefix: &str,
    site: &ImportedSite,
    context: &mut Context<'_>,
) {
    let Some((last, tried)) = directive.arguments().split_last() else {
        return;
    };
    let is_plain = tried
        .iter()
        .all(|one| matches!(one.as_str(), "$uri" | "$uri/"));
    // Galley sends index.php for a folder, and only then asks WordPress.
    let tries_folders = tried.iter().any(|one| one == "$uri/") && context.server.has_index;
    let has_pages = site.section.has("root") && !context.server.is_files_only;
    let query = [
        "?$args",
        "$is_args$args",
        "?$query_string",
        "?$is_args$args",
    ];
    let front = query.iter().find_map(|query| last.strip_suffix(query));
    match front {
        Some("/index.php") if is_plain && tries_folders && has_pages => {
            directive.not_needed(FALLBACK);
        }
        Some(front)
            if is_plain
                && tries_folders
                && has_pages
                && front == format!("{}/index.php", prefix.trim_end_matches('/')) =>
        {
            let root = site.section.text("root").unwrap_or_default();
            let folder = format!("{root}{}", prefix.trim_end_matches('/'));
            if context.is_wordpress(&folder) {
                directive.not_needed("the nearest index.php beside a wp-blog-header.php runs");
            } else {
                directive.not_carried(FOLDER);
            }
        }
        None if is_plain
            && last == "=404"
            && context.server.is_files_only
            && !site.section.has("upstream") =>
        {
            directive.not_needed("Galley sends files of the site only");
        }
        _ => directive.not_carried(FALLS_BACK),
    }
}

/// Patterns of all scripts.
pub(super) const OF_PHP: WordList = WordList(
    r"\.php$ \.php \.php(/|$) \.php(?:/|$) \.php($|/) \.php(?:$|/) [^/]\.php(/|$) ^(.+\.php)(.*)$ ^.+\.php$ ^/.+\.php(/|$)
    .php$",
);

/// Patterns of all scripts, and of others that Galley runs nowhere.
pub(super) const OF_OTHER_SCRIPTS: WordList =
    WordList(r"\.(php|phtml)$ \.(php|php5|phtml)$ \.php[345]?$ \.ph(p|tml)$");

pub(super) const FALLBACK: &str =
    "Galley sends a file that exists, and forwards everything else to index.php";

const NESTED: &str =
    "a location inside another one: write a rule for its paths before the rule of the outer one";

pub(super) const ONE_PATH: &str =
    "it applies to some requests of the site, not to all: write a rule for their paths";

pub(super) const FALLS_BACK: &str =
    "Galley forwards what is no file to index.php: other ways to answer need a rule, or WordPress";

const FOLDER: &str = "Galley does this if the folder has a WordPress of its own (wp-blog-header.php beside index.php), which is not so here";

/// Patterns that match every path.
pub(super) const WHOLE: &[&str] = &["^", ".*", "^.*$", "^.*", "^(.*)$", "^(.*)", "^/(.*)$", "."];
