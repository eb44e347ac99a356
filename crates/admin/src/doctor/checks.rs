//! All checks, in the order in which their results are shown.

use serde_json::Value;

use super::finding::{DoctorFinding, Severity};
use super::machine::ProcFs;
use super::memory::MemoryPlan;
use super::recent::RecentChanges;
use super::{clock, disk, limits, memory, network, php, server, wordpress};
use galley_sys::connect::try_connect;

/// Runs all checks of the machine, in the order in which their results are shown. `status` is the status of the running server, or
/// the reason why there is none. Blocks on the disk for some tenths of a second.
pub fn machine(
    machine: &ProcFs,
    plan: &MemoryPlan,
    status: &Result<Value, String>,
) -> Vec<DoctorFinding> {
    let recent = RecentChanges::of_status(status);
    let mut findings = network::findings(machine, recent.as_ref());
    findings.extend(limits::findings(machine, plan));
    findings.extend(server::privileged(machine, plan));
    findings.extend(memory::findings(machine, plan, recent.as_ref()));
    findings.extend(plan.folders.iter().map(|folder| disk::free_space(folder)));
    findings.extend(plan.synced.as_deref().map(disk::speed));
    findings.push(clock::finding(machine));
    findings
}

/// A finding for each server of a site that accepts no connection.
pub fn unreachable(site: &str, servers: &[(&'static str, String)]) -> Vec<DoctorFinding> {
    let unreachable = servers.iter().filter_map(|(option, address)| {
        let failure = try_connect(address).err()?;
        let seen = format!(
            "{site}: cannot connect to {address}, which `{option}` names: {}",
            failure.cause
        );
        let why = "pages that are not stored get status 502";
        Some(DoctorFinding::bad(
            Severity::Wrong,
            "upstream",
            seen,
            why,
            failure.remedy,
        ))
    });
    unreachable.collect()
}

/// Runs the checks of PHP and WordPress on the result of [`super::ask`].
pub fn site(report: &Result<Value, String>) -> Vec<DoctorFinding> {
    match report {
        Ok(value) => {
            let mut findings = php::findings(value);
            findings.extend(wordpress::findings(value));
            findings
        }
        Err(error) => vec![DoctorFinding::unknown("php", error)],
    }
}
