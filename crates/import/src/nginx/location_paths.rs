//! The paths of a `location`, and the rule for them.

use crate::closed;
use crate::directive::Directive;
use crate::draft::{RuleDraft, RulePriority, Section};
use crate::known;
use crate::served::StatementPaths;

/// The paths of a location.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LocationPaths {
    Exact(String),
    /// `^~`: before all patterns.
    FirstPrefix(String),
    Prefix(String),
    Pattern {
        text: String,
        ignores_case: bool,
    },
    Named,
}

impl LocationPaths {
    pub fn of(directive: &Directive) -> Self {
        let (modifier, path) = match directive.arguments() {
            [path] => match path.strip_prefix('=') {
                Some(path) => ("=", path),
                None => ("", path.as_str()),
            },
            [modifier, path, ..] => (modifier.as_str(), path.as_str()),
            [] => ("", ""),
        };
        let path = path.to_owned();
        match modifier {
            "=" => Self::Exact(path),
            "^~" => Self::FirstPrefix(path),
            "~" | "~*" => Self::Pattern {
                text: path,
                ignores_case: modifier == "~*",
            },
            _ if path.starts_with('@') => Self::Named,
            _ => Self::Prefix(path),
        }
    }

    pub fn text(&self) -> &str {
        match self {
            Self::Exact(text)
            | Self::FirstPrefix(text)
            | Self::Prefix(text)
            | Self::Pattern { text, .. } => text,
            Self::Named => "",
        }
    }

    pub fn is_pattern(&self) -> bool {
        matches!(self, Self::Pattern { .. })
    }

    /// For requests that show the effect of the location.
    pub fn samples(&self) -> StatementPaths {
        match self {
            Self::Exact(path) => StatementPaths::Exact(path.clone()),
            Self::FirstPrefix(path) | Self::Prefix(path) => StatementPaths::Prefix(path.clone()),
            Self::Pattern { text, ignores_case } => StatementPaths::pattern(text, *ignores_case),
            Self::Named => StatementPaths::Unknown,
        }
    }

    /// A rule without options. `None` if Galley does not support the pattern.
    pub fn rule(&self, directive: &Directive) -> Option<RuleDraft> {
        if let Self::Pattern {
            text,
            ignores_case: false,
        } = self
            && let Some(prefix) = closed::plain_prefix(text)
        {
            let rule = closed::rule_for(
                "path",
                format!("{prefix}*"),
                directive,
                RulePriority::Pattern,
            );
            return Some(rule);
        }
        let (option, value) = match self {
            Self::Exact(path) => ("path", path.clone()),
            Self::FirstPrefix(path) | Self::Prefix(path) => ("path", format!("{path}*")),
            Self::Pattern { text, ignores_case } => {
                ("pattern", known::pattern(text, *ignores_case)?)
            }
            Self::Named => return None,
        };
        if !self.is_pattern() && (!self.text().starts_with('/') || self.text().contains('*')) {
            return None;
        }
        let (priority, length) = match self {
            Self::FirstPrefix(path) => (RulePriority::FirstPrefix, path.len()),
            Self::Prefix(path) => (RulePriority::Prefix, path.len()),
            Self::Pattern { .. } => (RulePriority::Pattern, 0),
            Self::Exact(_) | Self::Named => (RulePriority::Exact, 0),
        };
        let mut section = Section::default();
        section.set(option, value, &directive.origin);
        Some(RuleDraft {
            section,
            priority,
            length,
        })
    }
}
