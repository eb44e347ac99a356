//! A rule in folded form, and the paths that it may restrict.

use super::slug;

use crate::pattern::PathPattern;
use crate::site::Rule;

#[derive(Clone, Debug)]
pub(super) struct FoldedRule {
    matches: Matches,
    /// Whether the rule has any access setting, including an explicit `off`.
    pub(super) decides_access: bool,
    /// Whether the rule restricts access.
    pub(super) restricts: bool,
    /// Whether the rule covers no other spellings, and leaves them to the rules after it.
    pub(super) is_exact: bool,
    may_be_page: bool,
}

#[derive(Clone, Debug)]
enum Matches {
    /// A path; both forms are without a final slash.
    Path {
        lower: Vec<u8>,
        slug: Vec<u8>,
        reach: RuleReach,
    },
    /// A regular expression, compared case-insensitively.
    Pattern {
        pattern: PathPattern,
        /// Whether the pattern matches only names of files, which no page has.
        names_files: bool,
        /// Each matching path begins with one of these; `None`: not known.
        prefixes: Option<Vec<Vec<u8>>>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleReach {
    /// This path only.
    Exact,
    /// This path and those below it: `/form/*`.
    Below,
    /// All paths that begin with this one: `/form*`.
    Prefix,
}

/// How closely a rule matches a spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchKind {
    /// Except for case and a final slash.
    Same,
    /// As slugs only.
    Slug,
}

impl FoldedRule {
    pub(super) fn of(rule: &Rule) -> Self {
        let matches = if let Some(pattern) = &rule.pattern {
            Matches::Pattern {
                pattern: pattern.without_case(),
                names_files: pattern.names_files(),
                prefixes: pattern.prefixes(),
            }
        } else {
            let (text, reach) = match rule.path.strip_suffix('*') {
                Some(text) if text.ends_with('/') => (text, RuleReach::Below),
                Some(text) => (text, RuleReach::Prefix),
                None => (rule.path.as_str(), RuleReach::Exact),
            };
            let (mut lower, mut slugs) = (Vec::new(), Vec::new());
            slug::lower(text.as_bytes(), &mut lower);
            slug::slug(text.as_bytes(), &mut slugs);
            lower.pop();
            slugs.pop();
            Matches::Path {
                lower,
                slug: slugs,
                reach,
            }
        };
        let is_exact = rule.exact_access && !rule.access.is_silent();
        let restricts = rule.access.closes() && !is_exact;
        Self {
            may_be_page: matches.may_be_page(),
            matches,
            decides_access: !rule.access.is_silent(),
            restricts,
            is_exact,
        }
    }

    /// How closely the rule matches a path. Both forms end with `/`.
    pub(super) fn match_kind(&self, lower: &[u8], slug: &[u8]) -> Option<MatchKind> {
        match &self.matches {
            Matches::Path {
                lower: rule_path,
                slug: rule_slug,
                reach,
            } => {
                if reach.has(rule_path, without_slash(lower)) {
                    Some(MatchKind::Same)
                } else if reach.has(rule_slug, without_slash(slug)) {
                    Some(MatchKind::Slug)
                } else {
                    None
                }
            }
            Matches::Pattern { pattern, .. } => {
                let is_match = |path: &[u8]| {
                    let whole = without_slash(path);
                    pattern.matches(path) || (!whole.is_empty() && pattern.matches(whole))
                };
                if is_match(lower) {
                    Some(MatchKind::Same)
                } else if is_match(slug) {
                    Some(MatchKind::Slug)
                } else {
                    None
                }
            }
        }
    }

    pub(super) fn may_restrict_a_page(&self) -> bool {
        self.restricts && self.may_be_page
    }

    /// Whether the rule may restrict a path below `base`, which ends with `/` if it is a folder, in a WordPress in `folder`: `/blog`,
    /// in lower case. `None`: in any folder.
    pub(super) fn may_restrict_below(&self, base: &[u8], folder: Option<&[u8]>) -> bool {
        self.restricts
            && match &self.matches {
                Matches::Path { lower, reach, .. } => {
                    let is_below = |path: &[u8]| reach.may_be_below(path, base);
                    match folder.map(|folder| lower.strip_prefix(folder)) {
                        Some(path) => path.is_some_and(is_below),
                        None => is_below(lower) || paths_in_folders(lower).any(is_below),
                    }
                }
                // A batch of the REST API may name any route.
                Matches::Pattern { names_files, .. } if *names_files && base != REST => false,
                Matches::Pattern { prefixes, .. } => prefixes
                    .as_ref()
                    .is_none_or(|all| all.iter().any(|one| may_be_below(one, base))),
            }
    }

    /// Whether the rule may restrict an archive of a date: `/2030/`.
    pub(super) fn may_restrict_a_date(&self) -> bool {
        self.restricts
            && match &self.matches {
                Matches::Path { lower, reach, .. } => match lower.get(1) {
                    Some(first) => first.is_ascii_digit(),
                    None => *reach != RuleReach::Exact,
                },
                Matches::Pattern { names_files, .. } => !names_files,
            }
    }
}

impl Matches {
    fn may_be_page(&self) -> bool {
        let (lower, reach) = match self {
            Self::Path { lower, reach, .. } => (lower, reach),
            Self::Pattern { names_files, .. } => return !names_files,
        };
        let below = lower.get(1..).unwrap_or_default();
        let first = below.split(|&b| b == b'/').next().unwrap_or_default();
        let is_whole = *reach != RuleReach::Prefix || first.len() < below.len();
        let is_script = memchr::memmem::find(lower, b".php").is_some();
        let cannot_be_page = is_whole && SEGMENTS_WITHOUT_PAGES.contains(&first);
        !is_script && !cannot_be_page
    }
}

impl RuleReach {
    fn has(self, rule_path: &[u8], path: &[u8]) -> bool {
        let rest = path.strip_prefix(rule_path);
        match self {
            Self::Exact => rest == Some(b""),
            Self::Below => rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/'))),
            Self::Prefix => rest.is_some(),
        }
    }

    fn may_be_below(self, rule_path: &[u8], base: &[u8]) -> bool {
        rule_path.starts_with(without_slash(base))
            || self.has(rule_path, without_slash(base))
            || (self == Self::Prefix && base.starts_with(rule_path))
    }
}

/// Whether a path that begins with `beginning` may be below `base`, which ends with `/` if it is a folder, in one of the folders
/// that may contain WordPress.
fn may_be_below(beginning: &[u8], base: &[u8]) -> bool {
    let is_below = |path: &[u8]| path.starts_with(without_slash(base)) || base.starts_with(path);
    // A prefix that ends with a folder does not determine the paths in it.
    is_below(beginning) || paths_in_folders(beginning).any(|path| path.len() > 1 && is_below(path))
}

/// The rest of a path in each folder that may contain WordPress, from `/`.
fn paths_in_folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let folders = memchr::memchr_iter(b'/', path).take(BASES);
    folders.filter_map(|at| path.get(at..))
}

/// The path without a final slash.
fn without_slash(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

/// First segments without pages below them.
const SEGMENTS_WITHOUT_PAGES: [&[u8]; 9] = [
    b"wp-admin",
    b"wp-json",
    b"wp-content",
    b"wp-includes",
    b"wp-sitemap.xml",
    b"robots.txt",
    b"favicon.ico",
    b".well-known",
    b"feed",
];

/// The number of directories that may contain WordPress: the root, and up to three levels below.
pub(super) const BASES: usize = 4;

pub(super) const REST: &[u8] = b"/wp-json/";
