//! Cache directories that become inaccessible while the server runs. The server must keep responding and report that storing is off.
//! Purges must stay in force, and storing must resume when the permissions are restored. Because permissions do not restrict
//! root, a test run by root starts the server as `nobody`.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    FaultSettings, TestLength,
    purges::{Editor, PurgeMethod, random_scope},
    random::Random,
    report::FaultReport,
    site_content::{Lengths, SiteContent},
    test_site::{SiteOptions, TestSite, public_copy},
};
use crate::{Scratch, TestkitError, error::Context, runs_as_root, wait::poll_until};

pub(super) fn run(settings: &FaultSettings) -> Result<FaultReport, TestkitError> {
    let rounds = match settings.length {
        TestLength::Short => 1,
        TestLength::Long => 6,
    };
    let scratch = Scratch::new()?;
    let binary = public_copy(&settings.galley, &scratch)?;
    let mut sum = FaultReport::default();
    for round in 0..rounds {
        sum += run_round(&binary, Random::new(settings.seed).fork(round))?;
    }
    Ok(sum)
}

fn run_round(binary: &Path, mut random: Random) -> Result<FaultReport, TestkitError> {
    let lengths = Lengths {
        usual: 1_000..100_000,
        long_every: 30,
        long: 200_000..900_000,
        last: vec![5_000_000],
    };
    let content = SiteContent::new(PAGES, random.number(), &lengths);
    let options = SiteOptions {
        user: runs_as_root().then_some(NOBODY),
        ..SiteOptions::default()
    };
    let mut site = TestSite::new(binary, content, &options)?;
    let mut report = FaultReport {
        rounds: 1,
        ..FaultReport::default()
    };
    site.start()?;
    report += site.compare()?;
    report += edit(&site, &mut random)?;
    report += site.compare()?;
    // Some files are already open, others are opened by a path through these directories.
    let names = ["pages/entries", "pages/tmp", "pages", "purges", "."];
    let denied = deny(&site, &names)?;
    for _ in 0..3 {
        report += edit(&site, &mut random)?;
        report += site.compare()?;
    }
    let is_off = poll_until(TIMEOUT, || reports_storing_off(&site));
    report.require(is_off, "the status does not report that storing is off");
    let galley = site.galley()?;
    let is_logged = poll_until(TIMEOUT, || galley.log().contains(DENIED));
    report.require(
        is_logged,
        "the log does not report that permission is denied",
    );
    restore(&denied)?;
    let mut outcome = Ok(());
    let is_on = poll_until(TIMEOUT, || {
        outcome = edit(&site, &mut random).and_then(|edited| {
            report += edited;
            report += site.compare()?;
            Ok(())
        });
        outcome.is_err() || site.is_storing()
    });
    outcome?;
    report.require(
        is_on,
        "storing stays off although the permissions are restored",
    );
    report += site.compare()?;
    site.wait_for_writes();
    site.kill();
    site.start()?;
    let after = site.compare()?;
    report.require(after.hits > 0, "no stored page survived a restart");
    report += after;
    for names in [&["pages"][..], &["purges"], &["."]] {
        restart_denied(&mut site, names, &mut random, &mut report)?;
    }
    Ok(report)
}

/// Starts the server with inaccessible directories, then with restored permissions. A page purged in between without a
/// warning must not return.
fn restart_denied(
    site: &mut TestSite,
    names: &[&str],
    random: &mut Random,
    report: &mut FaultReport,
) -> Result<(), TestkitError> {
    *report += site.compare()?;
    site.wait_for_writes();
    site.stop();
    let denied = deny(site, names)?;
    site.start()?;
    *report += site.compare()?;
    report.require(
        poll_until(TIMEOUT, || reports_storing_off(site)),
        "the status does not report that the directory was inaccessible at startup",
    );
    let mut editor = Editor::new(site)?;
    // Not by upstream responses, because they have no receipt that could carry the warning.
    for method in [PurgeMethod::Request, PurgeMethod::Admin] {
        editor.edit(site, random_scope(random, PAGES), method)?;
        report.purges += 1;
    }
    *report += site.compare()?;
    site.kill();
    restore(&denied)?;
    site.start()?;
    *report += site.compare()?;
    Ok(())
}

fn edit(site: &TestSite, random: &mut Random) -> Result<FaultReport, TestkitError> {
    let mut editor = Editor::new(site)?;
    Ok(FaultReport {
        purges: editor.edit_by_all_methods(site, random, PAGES, None)?,
        ..FaultReport::default()
    })
}

/// Removes all permissions of cache directories; returns their former modes.
fn deny(site: &TestSite, names: &[&str]) -> Result<Vec<(PathBuf, u32)>, TestkitError> {
    let mut denied = Vec::new();
    for name in names {
        let path = site.disk().join(name);
        let before = fs::metadata(&path).context(format_args!("stat {}", path.display()))?;
        set_mode(&path, 0)?;
        denied.push((path, before.permissions().mode()));
    }
    Ok(denied)
}

fn restore(denied: &[(PathBuf, u32)]) -> Result<(), TestkitError> {
    // Outermost first: an ordinary user cannot reach the inner directories before.
    denied
        .iter()
        .rev()
        .try_for_each(|(path, mode)| set_mode(path, *mode))
}

fn set_mode(path: &Path, mode: u32) -> Result<(), TestkitError> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .context(format_args!("change the mode of {}", path.display()))
}

fn reports_storing_off(site: &TestSite) -> bool {
    site.admin_get("/status")
        .is_ok_and(|status| status.to_lowercase().contains(DENIED))
}

const PAGES: usize = 150;
const DENIED: &str = "permission denied";
/// Debian's `nobody` and `nogroup`.
const NOBODY: (u32, u32) = (65_534, 65_534);
/// The server retries storing after five seconds, then ten, then twenty.
const TIMEOUT: Duration = Duration::from_secs(60);
