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
    let rule = |(option, value): &PathOption| RuleDraft {
        length: value.len(),
        ..closed::rule_for(option, value.clone(), directive, RulePriority::Pattern)
    };
    paths.iter().map(rule).collect()
}

/// The option for a path of a matcher, with `*` anywhere. Caddy compares paths without regard to case.
pub(super) fn path_option(path: &str) -> PathOption {
    match path.strip_prefix('*') {
        Some(end) => ("pattern", format!("(?i){}$", known::glob(end))),
        None => ("pattern", format!("(?i)^{}$", known::glob(path))),
    }
}
