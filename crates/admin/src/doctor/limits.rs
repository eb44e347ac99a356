//! Checks the open descriptors of the machine and of the running server.

use super::{DoctorFinding, MemoryPlan, ProcFs, Severity, percent};

pub(super) fn findings(machine: &ProcFs, plan: &MemoryPlan) -> Vec<DoctorFinding> {
    let mut findings = vec![of_machine(machine)];
    findings.extend(of_server(machine, plan));
    findings
}

fn of_machine(machine: &ProcFs) -> DoctorFinding {
    const CHECK: &str = "files";
    let text = machine.text("proc/sys/fs/file-nr").unwrap_or_default();
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (Some(Ok(open)), Some(Ok(_)), Some(Ok(limit))) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return DoctorFinding::unknown(CHECK, "the kernel does not report it");
    };
    let seen = if limit > UNLIMITED {
        format!("{open} open files on the machine, without a limit")
    } else {
        format!("{open} of {limit} open files on the machine")
    };
    if percent(open, limit) < 80 {
        return DoctorFinding::fine(CHECK, seen);
    }
    let why = "when no file can be opened, programs fail in unpredictable ways";
    let larger = limit.saturating_mul(4);
    let remedy = format!(
        "sysctl -w fs.file-max={larger}   # and find the processes that hold them: lsof -n | awk '{{print $1}}' | sort | uniq -c | sort -n | tail"
    );
    DoctorFinding::bad(Severity::Wrong, CHECK, seen, why, remedy)
}

/// Checks the server's descriptors; `None` if no server runs.
fn of_server(machine: &ProcFs, plan: &MemoryPlan) -> Option<DoctorFinding> {
    const CHECK: &str = "descriptors";
    let server = machine.server(&plan.file)?;
    let limits = machine.text(&format!("proc/{server}/limits"));
    let limit = limits.and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    });
    let open = machine.count(&format!("proc/{server}/fd"));
    let (Some(limit), Some(open)) = (limit, open) else {
        return Some(DoctorFinding::unknown(
            CHECK,
            "no permission to read the server's limits: run this as root or as its user",
        ));
    };
    Some(judge_server(machine, open, limit))
}

/// Judges the server's `open` descriptors of at most `limit`.
fn judge_server(machine: &ProcFs, open: u64, limit: u64) -> DoctorFinding {
    const CHECK: &str = "descriptors";
    let seen = format!("{open} of {limit} descriptors of the server");
    let level = match percent(open, limit) {
        80.. => Severity::Wrong,
        _ if limit < FEW => Severity::Notice,
        _ => return DoctorFinding::fine(CHECK, seen),
    };
    // With a higher limit than the kernel permits for one process, the service would not start.
    let most = machine.number("proc/sys/fs/nr_open").unwrap_or(PER_PROCESS);
    let larger = limit.saturating_mul(4).max(PER_PROCESS);
    let raise = if larger > most {
        format!("sysctl -w fs.nr_open={larger}, and ")
    } else {
        String::new()
    };
    let remedy = format!(
        "raise it for the service: {raise}LimitNOFILE={larger} below [Service] (systemctl edit galley), then systemctl restart galley"
    );
    DoctorFinding::bad(level, CHECK, seen, DESCRIPTORS_REASON, remedy)
}

const DESCRIPTORS_REASON: &str = "each connection uses one descriptor, or two while it waits for PHP; beyond the limit, new connections are not accepted";

/// Numbers above this mean that there is no limit.
const UNLIMITED: u64 = 1 << 40;

/// The kernel's default limit for one process (`fs.nr_open`).
const PER_PROCESS: u64 = 1_048_576;

/// Limits below this are too low for a few thousand browsers at one time.
const FEW: u64 = 8192;

#[cfg(test)]
mod tests {
    use super::super::machine::stand_in::StandIn;
    use super::*;

    #[test]
    fn open_files_of_the_machine_are_judged() {
        for (text, level) in [
            ("500\t0\t1000\n", Severity::Fine),
            ("800\t0\t1000\n", Severity::Wrong),
            ("500\t0\t9223372036854775807\n", Severity::Fine),
            ("nonsense", Severity::Unknown),
        ] {
            let stand_in = StandIn::new(&[("proc/sys/fs/file-nr", text)]);
            assert_eq!(of_machine(&stand_in.machine()).level, level, "{text}");
        }
    }

    #[test]
    fn descriptors_of_the_server_are_judged() {
        let stand_in = StandIn::new(&[
            ("proc/5/comm", "galley\n"),
            ("proc/5/cmdline", "galley\0status\0"),
            ("proc/7/comm", "galley\n"),
            ("proc/7/cmdline", "/usr/bin/galley\0run\0"),
            (
                "proc/7/limits",
                "Limit  Soft Limit\nMax open files            10                 20      files\n",
            ),
        ]);
        assert_eq!(
            of_server(&stand_in.machine(), &MemoryPlan::default()).map(|f| f.level),
            Some(Severity::Unknown)
        );
        for number in 0..7 {
            stand_in.write(&format!("proc/7/fd/{number}"), "");
        }
        assert_eq!(
            of_server(&stand_in.machine(), &MemoryPlan::default()).map(|f| f.level),
            Some(Severity::Notice)
        );
        stand_in.write("proc/7/fd/7", "");
        assert_eq!(
            of_server(&stand_in.machine(), &MemoryPlan::default()).map(|f| f.level),
            Some(Severity::Wrong)
        );
        assert_eq!(
            of_server(&StandIn::new(&[]).machine(), &MemoryPlan::default()),
            None
        );
    }
    #[test]
    fn advice_on_descriptors_changes_something() {
        for (limit, remedy) in [
            (10, "service: LimitNOFILE=1048576 below"),
            (
                1_048_576,
                "fs.nr_open=4194304, and LimitNOFILE=4194304 below",
            ),
        ] {
            let stand_in = StandIn::new(&[("proc/sys/fs/nr_open", "1048576\n")]);
            let finding = judge_server(&stand_in.machine(), limit, limit);
            assert!(finding.remedy.contains(remedy), "{}", finding.remedy);
        }
    }
}
