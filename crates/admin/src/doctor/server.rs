//! Checks the running server: its privileged process, and the space for buffered bodies.
//!
//! The process is found in `/proc`, even if the server does not respond; the space is in its `status`.

use serde_json::Value;

use super::recent::RecentChanges;
use super::{DoctorFinding, MemoryPlan, ProcFs, Severity, percent, size};

/// Checks the process that keeps root; `None` if none is needed, or no server runs.
pub(super) fn privileged(machine: &ProcFs, plan: &MemoryPlan) -> Option<DoctorFinding> {
    const CHECK: &str = "privileged";
    if plan.other_users == 0 {
        return None;
    }
    let server = machine.server(&plan.file)?;
    let of = match plan.other_users {
        1 => "one site's PHP".to_owned(),
        many => format!("the PHP of {many} sites"),
    };
    let keeper = machine
        .processes(|name| name == "galley")
        .into_iter()
        .find(|process| {
            let second = machine.argument(process.id, 1);
            second.as_deref() == Some("privileged") && machine.parent(process.id) == Some(server)
        });
    if let Some(keeper) = keeper {
        let seen = format!(
            "process {} keeps root privileges for Galley, process {server}, to run {of} as other users",
            keeper.id
        );
        return Some(DoctorFinding::fine(CHECK, seen));
    }
    Some(DoctorFinding::bad(
        Severity::Wrong,
        CHECK,
        format!(
            "Galley, process {server}, has lost the privileged process that runs {of} as other users"
        ),
        "it has ended, and with it that PHP: only a restart starts it again, and pages of those sites that are not stored get an error",
        "systemctl restart galley   # and find out what ended it: journalctl -k | grep -i 'killed process'",
    ))
}

/// Checks the space for buffered bodies in the status of the running server; `Err`: the reason why there is none.
pub fn spool_findings(status: &Result<Value, String>) -> DoctorFinding {
    const CHECK: &str = "spools";
    let status = match status {
        Ok(status) => status,
        Err(why) => return DoctorFinding::unknown(CHECK, why),
    };
    let spools = &status["spools"];
    let number = |name: &str| spools[name].as_u64();
    let (Some(disk), Some(limit), Some(memory), Some(memory_limit)) = (
        number("disk_bytes"),
        number("disk_limit"),
        number("memory_bytes"),
        number("memory_limit"),
    ) else {
        return DoctorFinding::unknown(CHECK, "the server does not report it");
    };
    let Some(recent) = RecentChanges::of_status(&Ok(status.clone())) else {
        return DoctorFinding::unknown(CHECK, "the server does not report it");
    };
    let seen = format!(
        "{} of {} in files and {} of {} in memory; {} {} request bodies were rejected and {} responses occupied PHP",
        size(disk),
        size(limit),
        size(memory),
        size(memory_limit),
        recent.period(),
        recent.counts.spool_refused,
        recent.counts.spool_held_up
    );
    let level = match percent(disk, limit) {
        80.. => Severity::Wrong,
        _ if spools["folder"].is_null() => Severity::Wrong,
        _ if recent.counts.spool_refused > 0 || recent.counts.spool_held_up > 0 => Severity::Notice,
        _ => return DoctorFinding::fine(CHECK, seen),
    };
    let (why, remedy) = if spools["folder"].is_null() {
        (
            "no spool folder can be written: uploads above 64 KiB are rejected, and each slow visitor occupies a worker of PHP",
            "in [server]: spool = \"/var/lib/galley/spool\", a folder that belongs to Galley's user, then systemctl restart galley".to_owned(),
        )
    } else {
        let larger = limit.saturating_mul(2).max(1 << 30) >> 20;
        (
            "uploads without room get 503, and responses without room occupy a worker of PHP until their visitor has received them",
            format!(
                "in [server]: spool_size = \"{larger}MiB\", for long responses spool_response as well, then systemctl restart galley"
            ),
        )
    };
    DoctorFinding::bad(level, CHECK, seen, why, remedy)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::super::machine::stand_in::StandIn;
    use super::super::recent::{KernelCounters, RecentCounters};
    use super::*;

    /// A server with a child process, as in `/proc`.
    fn running(child: &str, parent: &str) -> StandIn {
        StandIn::new(&[
            ("proc/7/comm", "galley\n"),
            (
                "proc/7/cmdline",
                "galley\0run\0--config\0/etc/galley/galley.toml\0",
            ),
            ("proc/9/comm", "galley\n"),
            ("proc/9/cmdline", child),
            (
                "proc/9/stat",
                &format!("9 (galley) S {parent} 9 9 0 -1 4194560"),
            ),
        ])
    }

    #[test]
    fn a_missing_privileged_process_is_reported() {
        let plan = |other_users| MemoryPlan {
            other_users,
            file: PathBuf::from("/etc/galley/galley.toml"),
            ..MemoryPlan::default()
        };
        for (child, parent, other_users, wanted) in [
            ("galley\0privileged\0", "7", 2, Some(Severity::Fine)),
            ("galley\0privileged\0", "7", 0, None),
            // A child of another server, and another kind of child.
            ("galley\0privileged\0", "8", 1, Some(Severity::Wrong)),
            ("galley\0status\0", "7", 1, Some(Severity::Wrong)),
            // A process that has ended but was not reaped has no command line.
            ("", "7", 2, Some(Severity::Wrong)),
        ] {
            let stand_in = running(child, parent);
            let found = privileged(&stand_in.machine(), &plan(other_users));
            let level = found.as_ref().map(|finding| finding.level);
            assert_eq!(level, wanted, "{child:?} of {parent}: {found:?}");
            if let Some(finding) = found {
                assert!(finding.seen.contains("process 7"), "{}", finding.seen);
                assert_eq!(finding.level == Severity::Fine, finding.remedy.is_empty());
            }
        }
        let none = StandIn::new(&[]);
        assert_eq!(
            privileged(&none.machine(), &plan(1)),
            None,
            "no server runs"
        );
    }

    #[test]
    fn space_for_bodies_is_judged() {
        let status = |disk: u64, refused: u64, held_up: u64, folder: Option<&str>| {
            let mut counters = KernelCounters::default().with_spool(900, 900);
            let recent = RecentCounters::new(counters);
            counters = counters.with_spool(900 + refused, 900 + held_up);
            Ok(json!({
                "spools": {
                    "memory_bytes": 1 << 20, "memory_limit": 8 << 20, "disk_bytes": disk << 20, "disk_limit": 1000_u64 << 20,
                    "folder": folder, "refused": 900 + refused, "held_up": 900 + held_up,
                },
                "last_hour": recent.value(&counters),
            }))
        };
        let folder = Some("/var/tmp");
        for (status, level) in [
            (status(0, 0, 0, folder), Severity::Fine),
            (status(790, 0, 0, folder), Severity::Fine),
            (status(800, 0, 0, folder), Severity::Wrong),
            (status(0, 3, 0, folder), Severity::Notice),
            (status(0, 0, 3, folder), Severity::Notice),
            (status(0, 0, 0, None), Severity::Wrong),
            (Ok(json!({ "version": "1" })), Severity::Unknown),
            (Err("nobody answers".to_owned()), Severity::Unknown),
        ] {
            let finding = spool_findings(&status);
            assert_eq!(finding.level, level, "{status:?}: {finding:?}");
        }
        let full = spool_findings(&status(900, 2, 1, folder));
        assert!(full.seen.contains("900 MiB of 1000 MiB"), "{}", full.seen);
        assert!(
            full.seen.contains("2 request bodies were rejected"),
            "{}",
            full.seen
        );
        assert!(
            full.remedy.contains("spool_size = \"2000MiB\""),
            "{}",
            full.remedy
        );
    }
}
