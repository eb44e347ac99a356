//! A file system of 20 MB, filled to the last byte. The server must keep responding and report that storing is off. Purges must
//! stay in force, also after a restart with the full disk. Storing must resume when space is available again.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    time::Duration,
};

use super::{
    FaultSettings, TestLength,
    mount::{Kind, Mount},
    purges::Editor,
    random::Random,
    report::FaultReport,
    site_content::{Lengths, Scope, SiteContent},
    test_site::{SiteOptions, TestSite},
};
use crate::{Scratch, TestkitError, error::Context, wait::poll_until};

pub(super) fn run(settings: &FaultSettings) -> Result<FaultReport, TestkitError> {
    let rounds = match settings.length {
        TestLength::Short => 1,
        TestLength::Long => 4,
    };
    let mut sum = FaultReport::default();
    for round in 0..rounds {
        for kind in Kind::ALL {
            let scratch = Scratch::new()?;
            match Mount::new(&scratch, kind)? {
                Ok(mount) => {
                    let random = Random::new(settings.seed).fork(round);
                    sum += run_on(settings, random, kind, &mount)?;
                }
                Err(why) => sum.skip(&format!("a full {}: {why}", kind.name())),
            }
        }
    }
    Ok(sum)
}

fn run_on(
    settings: &FaultSettings,
    mut random: Random,
    kind: Kind,
    mount: &Mount,
) -> Result<FaultReport, TestkitError> {
    let lengths = Lengths {
        usual: 20_000..120_000,
        long_every: 20,
        long: 200_000..1_500_000,
        last: vec![6_000_000],
    };
    let content = SiteContent::new(PAGES, random.number(), &lengths);
    let options = SiteOptions {
        disk: Some(mount.path().join("cache")),
        ..SiteOptions::default()
    };
    let mut site = TestSite::new(&settings.galley, content, &options)?;
    let mut report = FaultReport {
        rounds: 1,
        ..FaultReport::default()
    };
    site.start()?;
    report += site.compare()?;
    let filler = mount.path().join("ballast");
    fill_until_storing_is_off(&site, &filler, &mut random, kind, &mut report)?;
    // Many purges, so that the purge log runs out of space too.
    let mut log_was_full = false;
    for _ in 0..PURGE_ROUNDS {
        // Purged entries free space; fill it again.
        fill_up(&filler)?;
        edit(&site, &mut random, &mut report)?;
        log_was_full |= !site.stores_purges();
    }
    report.require(log_was_full, "the purge log never ran out of space");
    report += site.compare()?;
    restart_full(&mut site, settings.length, &mut report)?;
    edit(&site, &mut random, &mut report)?;
    report += site.compare()?;
    free_space(&mut site, &filler, &mut random, &mut report)?;
    Ok(report)
}

/// Edits with a full disk until status and log report that storing is off. Pages stored earlier remain.
fn fill_until_storing_is_off(
    site: &TestSite,
    filler: &Path,
    random: &mut Random,
    kind: Kind,
    report: &mut FaultReport,
) -> Result<(), TestkitError> {
    let mut outcome = Ok(());
    let is_off = poll_until(TIMEOUT, || {
        // Purged entries may free as much space as the new pages need.
        outcome = fill_up(filler)
            .and_then(|()| edit(site, random, report))
            .and_then(|()| {
                *report += site.compare()?;
                Ok(())
            });
        outcome.is_err() || reports_storing_off(site)
    });
    outcome?;
    report.require(
        is_off,
        &format!(
            "{}: status and metrics do not report that storing is off",
            kind.name()
        ),
    );
    let galley = site.galley()?;
    let is_logged = poll_until(TIMEOUT, || galley.log().contains(FULL));
    report.require(is_logged, "the log does not report that the disk is full");
    Ok(())
}

/// Kills and restarts the server with the full disk.
fn restart_full(
    site: &mut TestSite,
    length: TestLength,
    report: &mut FaultReport,
) -> Result<(), TestkitError> {
    let filler = site.disk().with_file_name("ballast");
    site.kill();
    fill_up(&filler)?;
    site.start()?;
    *report += site.compare()?;
    if length == TestLength::Long {
        site.stop();
        site.start()?;
        *report += site.compare()?;
    }
    Ok(())
}

/// Frees the disk and checks that pages are stored again and survive a restart.
fn free_space(
    site: &mut TestSite,
    filler: &Path,
    random: &mut Random,
    report: &mut FaultReport,
) -> Result<(), TestkitError> {
    fs::remove_file(filler).context("free the disk")?;
    let mut outcome = Ok(());
    let is_on = poll_until(TIMEOUT, || {
        // Storing is retried only with newly requested pages.
        outcome = edit(site, random, report).and_then(|()| {
            *report += site.compare()?;
            Ok(())
        });
        outcome.is_err() || site.is_storing()
    });
    outcome?;
    if !is_on {
        let log = site.galley()?.log();
        let end: Vec<&str> = log.lines().rev().take(6).collect();
        let end = end.join(" | ");
        report.broken(&format!(
            "storing stays off although space is available again: {end}"
        ));
    }
    *report += site.compare()?;
    site.wait_for_writes();
    site.kill();
    site.start()?;
    let after = site.compare()?;
    report.require(
        after.hits > 0,
        "no page stored after space became available survived a restart",
    );
    *report += after;
    Ok(())
}

fn edit(
    site: &TestSite,
    random: &mut Random,
    report: &mut FaultReport,
) -> Result<(), TestkitError> {
    let mut editor = Editor::new(site)?;
    report.purges += editor.edit_by_all_methods(site, random, PAGES, Some(Scope::Url(0)))?;
    Ok(())
}

/// Whether status and metrics report that storing is off.
fn reports_storing_off(site: &TestSite) -> bool {
    let body_matches =
        |path, matches: fn(&str) -> bool| site.admin_get(path).is_ok_and(|body| matches(&body));
    body_matches("/status", |status| status.contains(FULL))
        && body_matches("/metrics", |metrics| {
            metrics
                .lines()
                .any(|line| line.starts_with("galley_disk_storing") && line.ends_with(" 0"))
        })
}

/// Extends a file until the file system is full, to the last byte.
fn fill_up(path: &Path) -> Result<(), TestkitError> {
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .context("create the filler file")?;
    for size in [64 * 1024, 4096, 1] {
        let chunk = vec![b'x'; size];
        while file.write_all(&chunk).is_ok() {}
    }
    // Delayed allocation and a partial last block may leave space, which the sync makes visible.
    let _ = file.sync_all();
    while file.write_all(b"x").is_ok() {}
    Ok(())
}

const PAGES: usize = 120;
const PURGE_ROUNDS: usize = 60;
/// The reason in status and log.
const FULL: &str = "the disk is full";
/// The server retries storing after five seconds, then ten, then twenty.
const TIMEOUT: Duration = Duration::from_secs(60);
