//! What is wrong with the machine: the limits that let a web server fall over although it does nothing wrong itself.
//!
//! Every check reads what the kernel, PHP and WordPress say of themselves, compares it with a limit, and gives a [`DoctorFinding`]:
//! the number seen, why it matters, and the command that mends it. Nothing is changed. What cannot be looked at is said to
//! be unknown, never taken for fine.

mod certificate;
mod clock;
mod disk;
mod limits;
mod machine;
mod memory;
mod network;
mod php;
mod recent;
mod server;
mod wordpress;

pub use certificate::{certificate, kept_certificate};
pub use machine::ProcFs;
pub use memory::MemoryPlan;
pub use php::{PhpProbe, ask};
pub use recent::{KernelCounters, RecentCounters};
pub use server::spools;

use recent::Recent;
use serde_json::Value;

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
    /// What was looked at, one word: `conntrack`, `memory`, `opcache` ...
    pub check: &'static str,
    /// How bad it is.
    pub level: Severity,
    /// The numbers seen.
    pub seen: String,
    /// Why it matters; empty where it is fine.
    pub why: String,
    /// What to do about it, a command where there is one; empty where it is fine.
    pub mend: String,
}

impl DoctorFinding {
    fn fine(check: &'static str, seen: impl Into<String>) -> Self {
        Self {
            check,
            level: Severity::Fine,
            seen: seen.into(),
            why: String::new(),
            mend: String::new(),
        }
    }

    fn unknown(check: &'static str, seen: impl Into<String>) -> Self {
        Self {
            level: Severity::Unknown,
            ..Self::fine(check, seen)
        }
    }

    fn bad(
        level: Severity,
        check: &'static str,
        seen: impl Into<String>,
        why: impl Into<String>,
        mend: impl Into<String>,
    ) -> Self {
        Self {
            check,
            level,
            seen: seen.into(),
            why: why.into(),
            mend: mend.into(),
        }
    }
}

/// Everything that the machine itself tells, in the order in which it is shown. `status` is what the running server reports, or
/// why it does not answer. Blocks on the disk for some tenths of a second.
pub fn machine(
    machine: &ProcFs,
    plan: &MemoryPlan,
    status: &Result<Value, String>,
) -> Vec<DoctorFinding> {
    let recent = Recent::of_status(status);
    let mut findings = network::findings(machine, recent.as_ref());
    findings.extend(limits::findings(machine, plan));
    findings.extend(server::privileged(machine, plan));
    findings.extend(memory::findings(machine, plan, recent.as_ref()));
    findings.extend(plan.folders.iter().map(|folder| disk::room(folder)));
    findings.extend(plan.synced.as_deref().map(disk::speed));
    findings.push(clock::finding(machine));
    findings
}

/// What PHP says of itself and of its WordPress, as [`ask`] gave it.
pub fn site(answer: &Result<Value, String>) -> Vec<DoctorFinding> {
    match answer {
        Ok(value) => {
            let mut findings = php::findings(value);
            findings.extend(wordpress::findings(value));
            findings
        }
        Err(error) => vec![DoctorFinding::unknown("php", error)],
    }
}

/// Hundredths of `whole` that `part` is; 0 of nothing.
fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

/// Bytes for people.
fn size(bytes: u64) -> String {
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
