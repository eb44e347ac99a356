//! The requests that a directive applies to.

use crate::closed;
use crate::directive::ParsedDirective;
use crate::draft::{RuleDraft, RulePriority};
use crate::known;

/// `path` or `pattern`, and its value.
pub(super) type PathOption = (&'static str, String);

/// The requests that a directive applies to.
pub(super) enum Reach {
    All,
    Paths(Vec<PathOption>),
    Unknown,
}

/// A rule without other options for each path.
pub(super) fn rules(paths: &[PathOption], directive: &ParsedDirective) -> Vec<RuleDraft> {
    let rule = |(option, value): &PathOption| {
        let priority = if *option == "path" {
            RulePriority::Prefix
        } else {
            RulePriority::Pattern
        };
        let length = if *option == "path" { value.len() } else { 0 };
        RuleDraft {
            length,
            ..closed::rule_for(option, value.clone(), directive, priority)
        }
    };
    paths.iter().map(rule).collect()
}

/// The option for a path of a matcher, with `*` anywhere.
pub(super) fn path_option(path: &str) -> PathOption {
    let inner = path.strip_suffix('*').unwrap_or(path);
    if !inner.contains('*') && inner.starts_with('/') {
        return ("path", path.to_owned());
    }
    match path.strip_prefix('*') {
        Some(end) => ("pattern", format!("(?i){}$", known::glob(end))),
        None => ("pattern", format!("(?i)^{}$", known::glob(path))),
    }
}
