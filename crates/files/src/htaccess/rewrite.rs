//! Rewrite rules, as far as they deny access.
//!
//! Nothing is rewritten here. A rule is applied if it denies (`[F]`, `[G]`, `[R=403]` and similar flags) without conditions, or
//! with conditions that depend only on whether the file exists. Earlier rules matter only if they end the pass or skip rules.
//! Conditions about the visitor (referer, agent, cookie) deny some clients and not the public, so a rule with one is
//! ignored. If every request for a file is rewritten to a script (`RewriteRule ^(.*)$ guard.php?file=$1`), the script
//! guards that file: sending it directly would bypass the guard, so it is denied.

use super::access::AccessSubject;
use super::pattern::{CaseSensitivity, HtaccessPattern};

/// One `RewriteRule` with its conditions.
#[derive(Debug)]
pub(super) struct Rewrite {
    /// `None`: the pattern did not compile.
    pattern: Option<HtaccessPattern>,
    is_negated: bool,
    condition: ConditionResult,
    action: Action,
}

/// The result of conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionResult {
    /// There are no conditions.
    None,
    /// The conditions are true for a regular file that exists.
    TrueForFile,
    /// The conditions are false for such a file, or depend on something unknown here.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Refuse,
    End,
    Skip(usize),
    /// Rewrites to a script of this site.
    ToScript,
    Nothing,
}

/// Whether `rules` deny the subject. `path` is relative to their directory.
pub(super) fn refuses(rules: &[Rewrite], path: &[u8], subject: AccessSubject) -> bool {
    let mut at = 0;
    while let Some(rule) = rules.get(at) {
        at += 1;
        if !rule.condition.is_true_for(subject) || !rule.matches(path) {
            continue;
        }
        match rule.action {
            Action::Refuse => return true,
            Action::End => return false,
            Action::Skip(count) => at = at.saturating_add(count),
            Action::ToScript if subject == AccessSubject::File => return true,
            Action::ToScript | Action::Nothing => {}
        }
    }
    false
}

impl ConditionResult {
    fn is_true_for(self, subject: AccessSubject) -> bool {
        match self {
            Self::None => true,
            Self::TrueForFile => subject != AccessSubject::Requested,
            Self::Other => false,
        }
    }
}

impl Rewrite {
    /// Parses the arguments of a `RewriteRule`; `None` if there are too few.
    pub(super) fn parse(arguments: &[String], condition: ConditionResult) -> Option<Self> {
        let [pattern, substitution, flags @ ..] = arguments else {
            return None;
        };
        let flags = Flags::parse(&flags.join(" "));
        let (pattern, is_negated) = match pattern.strip_prefix('!') {
            Some(pattern) => (pattern, true),
            None => (pattern.as_str(), false),
        };
        let action = if flags.refuses {
            Action::Refuse
        } else if is_script(substitution) {
            Action::ToScript
        } else if substitution != "-" {
            Action::Nothing
        } else if flags.skip > 0 {
            Action::Skip(flags.skip)
        } else if flags.ends {
            Action::End
        } else {
            Action::Nothing
        };
        Some(Self {
            pattern: HtaccessPattern::regex(pattern, flags.case),
            is_negated,
            condition,
            action,
        })
    }

    /// Whether the rule has the flag that chains the next rule to it.
    pub(super) fn is_chained(arguments: &[String]) -> bool {
        arguments
            .get(2..)
            .is_some_and(|flags| Flags::parse(&flags.join(" ")).is_chained)
    }

    fn matches(&self, path: &[u8]) -> bool {
        match &self.pattern {
            Some(pattern) => pattern.matches(path) != self.is_negated,
            None => self.action == Action::Refuse,
        }
    }
}

struct Flags {
    refuses: bool,
    ends: bool,
    is_chained: bool,
    skip: usize,
    case: CaseSensitivity,
}

impl Flags {
    fn parse(text: &str) -> Self {
        let mut flags = Self {
            refuses: false,
            ends: false,
            is_chained: false,
            skip: 0,
            case: CaseSensitivity::Exact,
        };
        let list = text
            .trim()
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_ascii_lowercase();
        for flag in list.split(',').map(str::trim) {
            let (name, value) = flag.split_once('=').unwrap_or((flag, ""));
            match name {
                "f" | "forbidden" | "g" | "gone" => flags.refuses = true,
                "r" | "redirect" if ["403", "404", "410"].contains(&value) => flags.refuses = true,
                "l" | "last" | "end" => flags.ends = true,
                "c" | "chain" => flags.is_chained = true,
                "s" | "skip" => flags.skip = value.parse().unwrap_or(0),
                "nc" | "nocase" => flags.case = CaseSensitivity::Ignored,
                _ => {}
            }
        }
        flags
    }
}

/// Whether a substitution is a script of this site.
fn is_script(substitution: &str) -> bool {
    let path = substitution.split('?').next().unwrap_or_default();
    path.as_bytes().ends_with(b".php") && !path.contains("://")
}

/// The `RewriteCond` lines before a rule: groups joined by `[OR]`, all of which must hold.
#[derive(Debug, Default)]
pub(super) struct Conditions {
    /// Whether each line is true for a regular file that exists, and whether `[OR]` joins it to the next line.
    lines: Vec<(bool, bool)>,
}

impl Conditions {
    /// Adds one `RewriteCond`.
    pub(super) fn push(&mut self, arguments: &[String]) {
        let is_or = arguments.get(2..).is_some_and(|flags| {
            let flags = flags.join(" ").to_ascii_lowercase();
            let mut flags = flags.trim_matches(['[', ']', ' ']).split(',');
            flags.any(|flag| ["or", "ornext"].contains(&flag.trim()))
        });
        self.lines.push((is_true_for_file(arguments), is_or));
    }

    /// Returns the result of the conditions, and removes them.
    pub(super) fn take(&mut self) -> ConditionResult {
        let lines = std::mem::take(&mut self.lines);
        if lines.is_empty() {
            return ConditionResult::None;
        }
        let mut groups = lines.split_inclusive(|(_, is_or)| !is_or);
        if groups.all(|group| group.iter().any(|(is_true, _)| *is_true)) {
            return ConditionResult::TrueForFile;
        }
        ConditionResult::Other
    }
}

/// Whether a condition is true for every request for a regular file that exists.
fn is_true_for_file(arguments: &[String]) -> bool {
    let [subject, test, ..] = arguments else {
        return false;
    };
    let is_about_the_file = FILE_VARIABLES.contains(&subject.to_ascii_uppercase().as_str());
    // `-s` is true for all but empty files, which need no guard.
    is_about_the_file && ["-f", "-e", "-s", "!-d"].contains(&test.as_str())
}

/// Expressions for the path of the requested file.
const FILE_VARIABLES: [&str; 4] = [
    "%{REQUEST_FILENAME}",
    "%{SCRIPT_FILENAME}",
    "%{DOCUMENT_ROOT}%{REQUEST_URI}",
    "%{DOCUMENT_ROOT}/%{REQUEST_URI}",
];
