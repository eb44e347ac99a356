//! The problems of the disk cache: off, without its purges, or about to run out of space.

use std::path::Path;

use galley_cache::disk::Health;
use galley_cache::log::Durability;
use galley_config::rounded_size as size;

use super::AdminState;
use super::health_problem::{HealthProblem, ProblemKind};

pub(super) fn problems(state: &AdminState) -> Vec<HealthProblem> {
    let durable = &state.services.durable;
    let mut problems = Vec::new();
    let off = match durable.disk_cache().map(|disk| disk.health()) {
        Some(Health::Off { reason, .. }) => Some(reason.to_string()),
        Some(Health::Storing | Health::Scanning | Health::Closed) => None,
        None => durable.unusable().map(ToString::to_string),
    };
    let is_off = off.is_some();
    if let Some(reason) = off {
        let text = format!("The disk cache{} is off: {reason}", place(state));
        let remedy = "Check the space and the permissions of the folder; until then pages are stored in memory only";
        problems.push(HealthProblem::degraded(ProblemKind::Disk, text, remedy).of("cache"));
    }
    if let Some(Durability::Lost(loss)) = durable.durability() {
        let text = format!(
            "Purges cannot be written to the disk{}: {}",
            place(state),
            loss.reason
        );
        let remedy = "Check the space and the permissions of the folder; until then no page on disk survives a restart";
        problems.push(HealthProblem::degraded(ProblemKind::Disk, text, remedy).of("purges"));
    }
    if let (false, Some(disk)) = (is_off, &state.config.cache.disk) {
        problems.extend(space(&disk.path));
    }
    problems
}

/// The folder of the disk cache, within a sentence.
fn place(state: &AdminState) -> String {
    let disk = state.config.cache.disk.as_ref();
    disk.map_or_else(String::new, |disk| format!(" in {}", disk.path.display()))
}

/// The problem of a file system that is almost full. One that cannot be examined is none: writing to it would fail.
fn space(folder: &Path) -> Option<HealthProblem> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    judge(folder, free, stat.f_blocks.saturating_mul(stat.f_frsize))
}

fn judge(folder: &Path, free: u64, all: u64) -> Option<HealthProblem> {
    if free >= LOW_SPACE.min(all / LOW_SHARE) {
        return None;
    }
    let text = format!(
        "The disk of `cache.disk` is almost full: {} of {} are free at {}",
        size(free),
        size(all),
        folder.display()
    );
    let remedy = "Delete files there, or lower `size` of `cache.disk`; a full disk switches the disk cache off and stops the database";
    Some(HealthProblem::degraded(ProblemKind::Disk, text, remedy).of("space"))
}

/// A disk is almost full below both this size and this share: a large disk has room left at 5 %, and a small one never has 1 GiB.
const LOW_SPACE: u64 = 1 << 30;
const LOW_SHARE: u64 = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_almost_full_by_share_and_size() {
        const GB: u64 = 1 << 30;
        for (free, all, is_low) in [
            (0, 10 * GB, true),
            (GB / 3, 10 * GB, true),
            (GB / 3, GB, false),
            (2 * GB, 100 * GB, false),
            (0, 0, false),
        ] {
            let found = judge(Path::new("/cache"), free, all);
            assert_eq!(found.is_some(), is_low, "{free} {all}");
        }
        assert!(space(Path::new("/no/such/folder")).is_none());
    }
}
