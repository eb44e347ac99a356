//! The paths that a statement applies to.

use regex::Regex;

use crate::known;
use crate::served::samples;

/// The paths that a statement applies to.
#[derive(Clone, Debug, Default)]
pub enum StatementPaths {
    /// Every path.
    #[default]
    All,
    /// This path.
    Exact(String),
    /// Every path with this prefix.
    Prefix(String),
    /// Paths that match a regular expression.
    Pattern(Regex),
    /// A regular expression that the import does not support.
    Unknown,
}

impl StatementPaths {
    /// The paths of the option `path` of a rule of Galley.
    pub fn of_rule_path(path: &str) -> Self {
        match path.strip_suffix('*') {
            Some(start) => Self::Prefix(start.to_owned()),
            None => Self::Exact(path.to_owned()),
        }
    }

    /// The paths of the option `pattern` of a rule of Galley.
    pub fn of_rule_pattern(pattern: &str) -> Self {
        Regex::new(pattern).map_or(Self::Unknown, Self::Pattern)
    }

    /// The paths of a regular expression of the other server.
    pub(crate) fn pattern(text: &str, ignores_case: bool) -> Self {
        let regex = known::pattern(text, ignores_case).and_then(|text| Regex::new(&text).ok());
        regex.map_or(Self::Unknown, Self::Pattern)
    }

    /// Whether a path without its query is one of these paths.
    pub fn matches(&self, path: &str) -> bool {
        match self {
            Self::All => true,
            Self::Exact(text) => path == text,
            Self::Prefix(text) => path.starts_with(text.as_str()),
            Self::Pattern(regex) => regex.is_match(path),
            Self::Unknown => false,
        }
    }

    /// How specific the paths are: of several statements for a path, the most specific one has the largest number.
    pub fn weight(&self) -> usize {
        match self {
            Self::All | Self::Unknown => 0,
            Self::Prefix(text) => text.len(),
            Self::Pattern(_) => 1_000,
            Self::Exact(_) => 10_000,
        }
    }

    /// A few paths that match, or nearly match: requests for them may show the effect of the statement.
    pub fn samples(&self) -> Vec<String> {
        match self {
            Self::All | Self::Unknown => Vec::new(),
            Self::Exact(text) => vec![
                text.clone(),
                format!("{}/", text.trim_end_matches('/')),
                format!("{text}x"),
            ],
            Self::Prefix(text) => {
                let bare = text.trim_end_matches('/');
                let below = format!("{bare}/galley-try");
                let mut samples = vec![text.clone(), below, format!("{bare}/galley-try.php")];
                if !bare.is_empty() {
                    samples.push(bare.to_owned());
                }
                samples
            }
            Self::Pattern(regex) => samples::of(regex.as_str())
                .into_iter()
                .filter(|path| regex.is_match(path))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_match_the_paths() {
        for (text, wanted) in [
            ("\\.(css|js)$", "/a.css"),
            ("^/old/(.*)$", "/old/a"),
            ("^/(\\d{4})/post-([a-z]+)$", "/0000/post-a"),
            ("/wp-content/uploads/.*\\.php$", "/wp-content/uploads/a.php"),
            ("^/a/?$", "/a/"),
        ] {
            let paths = StatementPaths::pattern(text, false);
            let samples = paths.samples();
            assert!(
                samples.iter().any(|one| one == wanted),
                "{text}: {samples:?}"
            );
            assert!(samples.iter().all(|one| paths.matches(one)), "{text}");
        }
        assert!(matches!(
            StatementPaths::pattern("(?=a)", false),
            StatementPaths::Unknown
        ));
        assert!(
            StatementPaths::Prefix("/a/".to_owned())
                .samples()
                .contains(&"/a".to_owned())
        );
    }
}
