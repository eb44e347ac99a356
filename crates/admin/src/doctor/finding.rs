//! The result of one check, and the format of its numbers.

use galley_policy::outcome::words;

words! {
    /// The severity of a finding.
    #[derive(PartialOrd, Ord)]
    Severity {
        /// No problem.
        Fine = "fine",
        /// The check was not possible.
        Unknown = "unknown",
        /// Noteworthy, but no requests fail because of it now.
        Notice = "notice",
        /// Requests fail because of it, or soon will.
        Wrong = "wrong",
    }
}

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorFinding {
    /// The subject, in one word: `conntrack`, `memory`, `opcache` ...
    pub check: &'static str,
    /// The severity.
    pub level: Severity,
    /// The measured values.
    pub seen: String,
    /// Why it matters; empty for [`Severity::Fine`].
    pub why: String,
    /// The remedy, a command if possible; empty for [`Severity::Fine`].
    pub remedy: String,
}

impl DoctorFinding {
    pub(super) fn fine(check: &'static str, seen: impl Into<String>) -> Self {
        Self {
            check,
            level: Severity::Fine,
            seen: seen.into(),
            why: String::new(),
            remedy: String::new(),
        }
    }

    pub(super) fn unknown(check: &'static str, seen: impl Into<String>) -> Self {
        Self {
            level: Severity::Unknown,
            ..Self::fine(check, seen)
        }
    }

    pub(super) fn bad(
        level: Severity,
        check: &'static str,
        seen: impl Into<String>,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            check,
            level,
            seen: seen.into(),
            why: why.into(),
            remedy: remedy.into(),
        }
    }
}

/// `part` as a percentage of `whole`; 0 if `whole` is 0.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}
