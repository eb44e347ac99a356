//! One rule in folded form, and what it may close.

use super::slug;

use crate::pattern::PathPattern;
use crate::site::Rule;

#[derive(Clone, Debug)]
pub(super) struct Shape {
    matches: Matches,
    /// Whether it has any setting about access, even the explicit absence of one.
    pub(super) decides_access: bool,
    /// Whether it restricts access.
    pub(super) closes: bool,
    may_be_page: bool,
}

#[derive(Clone, Debug)]
enum Matches {
    /// A path; both without a slash at the end.
    Path {
        lower: Vec<u8>,
        slug: Vec<u8>,
        reach: RuleReach,
    },
    /// A regular expression, compared without regard to case.
    Pattern {
        pattern: PathPattern,
        /// Whether it matches names of files only, which no page has.
        is_of_files: bool,
        /// Each path that it matches begins with one of these; `None`: nobody knows how.
        prefixes: Option<Vec<Vec<u8>>>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RuleReach {
    /// This path.
    Exact,
    /// This path and those below it: `/form/*`.
    Below,
    /// All that begin with it: `/form*`.
    Prefix,
}

/// How a rule and a spelling are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    /// But for case and the slash at the end.
    Same,
    /// As slugs.
    Slug,
}

impl Shape {
    pub(super) fn of(rule: &Rule) -> Self {
        let matches = if let Some(pattern) = &rule.pattern {
            Matches::Pattern {
                pattern: pattern.without_case(),
                is_of_files: pattern.names_files(),
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
        let closes = rule.access.closes();
        Self {
            may_be_page: matches.may_be_page(),
            matches,
            decides_access: !rule.access.is_silent(),
            closes,
        }
    }

    /// Whether a path matches. Both forms end with `/`.
    pub(super) fn likeness(&self, lower: &[u8], slug: &[u8]) -> Option<Likeness> {
        match &self.matches {
            Matches::Path {
                lower: mine,
                slug: my_slug,
                reach,
            } => {
                if reach.has(mine, bare(lower)) {
                    Some(Likeness::Same)
                } else if reach.has(my_slug, bare(slug)) {
                    Some(Likeness::Slug)
                } else {
                    None
                }
            }
            Matches::Pattern { pattern, .. } => {
                let is_it = |path: &[u8]| {
                    let whole = bare(path);
                    pattern.matches(path) || (!whole.is_empty() && pattern.matches(whole))
                };
                if is_it(lower) {
                    Some(Likeness::Same)
                } else if is_it(slug) {
                    Some(Likeness::Slug)
                } else {
                    None
                }
            }
        }
    }

    pub(super) fn may_close_a_page(&self) -> bool {
        self.closes && self.may_be_page
    }

    /// Whether it may close something below a path, which ends with `/` if that is a folder.
    pub(super) fn may_close_below(&self, base: &[u8]) -> bool {
        self.closes
            && match &self.matches {
                Matches::Path { lower, reach, .. } => {
                    let is_below = lower.starts_with(bare(base));
                    is_below
                        || reach.has(lower, bare(base))
                        || (*reach == RuleReach::Prefix && base.starts_with(lower))
                }
                // A batch of the REST API may name any route.
                Matches::Pattern { is_of_files, .. } if *is_of_files && base != REST => false,
                Matches::Pattern { prefixes, .. } => prefixes
                    .as_ref()
                    .is_none_or(|all| all.iter().any(|one| may_be_below(one, base))),
            }
    }

    /// Whether it may close an archive of a date: `/2030/`.
    pub(super) fn may_close_a_date(&self) -> bool {
        self.closes
            && match &self.matches {
                Matches::Path { lower, reach, .. } => match lower.get(1) {
                    Some(first) => first.is_ascii_digit(),
                    None => *reach != RuleReach::Exact,
                },
                Matches::Pattern { is_of_files, .. } => !is_of_files,
            }
    }
}

impl Matches {
    fn may_be_page(&self) -> bool {
        let (lower, reach) = match self {
            Self::Path { lower, reach, .. } => (lower, reach),
            Self::Pattern { is_of_files, .. } => return !is_of_files,
        };
        let below = lower.get(1..).unwrap_or_default();
        let first = below.split(|&b| b == b'/').next().unwrap_or_default();
        let is_whole = *reach != RuleReach::Prefix || first.len() < below.len();
        let is_script = memchr::memmem::find(lower, b".php").is_some();
        let is_no_page = is_whole && NO_PAGES.contains(&first);
        !is_script && !is_no_page
    }
}

impl RuleReach {
    fn has(self, mine: &[u8], path: &[u8]) -> bool {
        let rest = path.strip_prefix(mine);
        match self {
            Self::Exact => rest == Some(b""),
            Self::Below => rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'/'))),
            Self::Prefix => rest.is_some(),
        }
    }
}

/// Whether a path that begins with `beginning` may stand below `base`, which ends with `/` if that is a folder, in one of the folders
/// in which WordPress may live.
fn may_be_below(beginning: &[u8], base: &[u8]) -> bool {
    let is_below = |path: &[u8]| path.starts_with(bare(base)) || base.starts_with(path);
    let mut folders = memchr::memchr_iter(b'/', beginning).take(BASES);
    // What ends with a folder says nothing of what stands in it.
    let in_folder = |at: usize| beginning.get(at..).filter(|path| path.len() > 1);
    is_below(beginning) || folders.any(|at| in_folder(at).is_some_and(is_below))
}

/// Without the slash at the end.
fn bare(path: &[u8]) -> &[u8] {
    path.strip_suffix(b"/").unwrap_or(path)
}

/// First segments below which there are no pages.
const NO_PAGES: [&[u8]; 9] = [
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

/// Directories in which WordPress may live: up to three deep.
pub(super) const BASES: usize = 4;

pub(super) const REST: &[u8] = b"/wp-json/";
