//! The result of one check of the machine, and the format of numbers in it.

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Within its limits.
    Fine,
    /// Could not be looked at.
    Unknown,
    /// Worth knowing; nothing fails because of it now.
    Notice,
    /// Requests fail because of it, or will soon.
    Wrong,
}

impl Severity {
    /// One word, for people and scripts.
    pub fn word(self) -> &'static str {
        match self {
            Self::Fine => "fine",
            Self::Unknown => "unknown",
            Self::Notice => "notice",
            Self::Wrong => "wrong",
        }
    }
}

/// What one check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoctorFinding {
    /// The subject of the check, one word: `conntrack`, `memory`, `opcache` ...
    pub check: &'static str,
    /// How bad it is.
    pub level: Severity,
    /// The numbers seen.
    pub seen: String,
    /// Why it matters; empty if it is fine.
    pub why: String,
    /// The remedy, a command if there is one; empty if it is fine.
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

/// Hundredths of `whole` that `part` is; 0 of nothing.
pub(super) fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

/// Bytes for people.
pub(super) fn size(bytes: u64) -> String {
    match bytes {
        0..1_048_576 => format!("{} KiB", bytes / 1024),
        1_048_576..1_073_741_824 => format!("{} MiB", bytes / 1_048_576),
        _ => format!(
            "{}.{} GiB",
            bytes / 1_073_741_824,
            bytes % 1_073_741_824 * 10 / 1_073_741_824
        ),
    }
}
