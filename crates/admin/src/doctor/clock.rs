//! Checks the clock, on which lifetimes, `Age`, scheduled posts and certificates depend.

use super::{DoctorFinding, ProcFs, Severity};

pub(super) fn finding(machine: &ProcFs) -> DoctorFinding {
    judge(machine, jiff::Timestamp::now().as_second())
}

fn judge(machine: &ProcFs, now: i64) -> DoctorFinding {
    const CHECK: &str = "clock";
    if now < BUILT_AFTER {
        let time = jiff::Timestamp::from_second(now).unwrap_or_default();
        return DoctorFinding::bad(
            Severity::Wrong,
            CHECK,
            format!("it is {time}"),
            "the clock is earlier than the build of this program: stored pages appear to come from the future, and certificates are not valid yet",
            INSTALL,
        );
    }
    if let Some(keeper) = keeper(machine) {
        return DoctorFinding::fine(CHECK, format!("kept by {keeper}"));
    }
    DoctorFinding::bad(
        Severity::Notice,
        CHECK,
        "no time synchronization is running",
        "clocks of virtual machines drift by seconds a day, and with them scheduled posts, lifetimes and certificates",
        INSTALL,
    )
}

/// The program that synchronizes the clock; a container uses the host's clock.
fn keeper(machine: &ProcFs) -> Option<String> {
    let keepers = machine.processes(|name| KEEPERS.contains(&name));
    let in_container = [".dockerenv", "run/.containerenv", "run/systemd/container"];
    if let Some(keeper) = keepers.into_iter().next() {
        Some(keeper.name)
    } else if machine.has("run/systemd/timesync/synchronized") {
        Some("systemd-timesyncd".to_owned())
    } else if in_container.iter().any(|file| machine.has(file)) {
        Some("the container's host".to_owned())
    } else {
        None
    }
}

const INSTALL: &str = "apt install systemd-timesyncd && timedatectl set-ntp true";

/// Names as in `comm`, which has 15 bytes.
const KEEPERS: &[&str] = &[
    "chronyd",
    "ntpd",
    "ntpd-rs",
    "openntpd",
    "systemd-timesyn",
    "ptp4l",
];

/// 2026-01-01.
const BUILT_AFTER: i64 = 1_767_225_600;

#[cfg(test)]
mod tests {
    use super::super::machine::stand_in::StandIn;
    use super::*;

    #[test]
    fn clock_synchronization_is_detected() {
        const NOW: i64 = BUILT_AFTER + 1;
        let level = |files: &[(&str, &str)], now| judge(&StandIn::new(files).machine(), now).level;
        assert_eq!(level(&[], NOW), Severity::Notice);
        assert_eq!(level(&[("proc/9/comm", "chronyd\n")], NOW), Severity::Fine);
        assert_eq!(
            level(&[("run/systemd/timesync/synchronized", "")], NOW),
            Severity::Fine
        );
        assert_eq!(level(&[(".dockerenv", "")], NOW), Severity::Fine);
        assert_eq!(level(&[("proc/9/comm", "chronyd\n")], 0), Severity::Wrong);
    }
}
