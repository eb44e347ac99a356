//! Cache files with flipped bits, truncated, swapped, replaced or restored from before a purge, while the server runs and while
//! it is stopped. Responses must be correct with any damage to entries; a damaged purge log must never lose a purge.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    FaultSettings, TestLength,
    purges::{Editor, PurgeMethod},
    random::Random,
    report::FaultReport,
    site_content::{Lengths, Scope, SiteContent},
    test_site::{SiteOptions, TestSite},
};
use crate::{TestkitError, error::Context, wait::pause};

pub(super) fn run(settings: &FaultSettings) -> Result<FaultReport, TestkitError> {
    let (rounds, running) = match settings.length {
        TestLength::Short => (6, Duration::from_millis(1_500)),
        TestLength::Long => (80, Duration::from_secs(20)),
    };
    // More than fits in memory, so that the server reads from the disk all the time.
    let lengths = Lengths {
        usual: 2_000..150_000,
        long_every: 30,
        long: 200_000..1_200_000,
        last: vec![5_000_000],
    };
    let random = Random::new(settings.seed);
    let content = SiteContent::new(PAGES, settings.seed, &lengths);
    let mut site = TestSite::new(&settings.galley, content, &SiteOptions::default())?;
    let mut sum = FaultReport::default();
    site.start()?;
    sum += site.compare_with_retry(VERIFIED_BYTES)?;
    damage_while_running(&site, &random.fork(1), running, &mut sum)?;
    for round in 0..rounds {
        damage_entries(&mut site, &mut random.fork(1_000 + round), &mut sum)?;
        damage_log(&mut site, &mut random.fork(2_000 + round), &mut sum)?;
        sum.rounds += 1;
    }
    sum.require(
        !site.galley()?.log().contains("panicked"),
        "the server panicked",
    );
    Ok(sum)
}

/// Damages entries while clients verify pages and an editor purges.
fn damage_while_running(
    site: &TestSite,
    random: &Random,
    duration: Duration,
    sum: &mut FaultReport,
) -> Result<(), TestkitError> {
    let is_over = AtomicBool::new(false);
    let mut report = FaultReport::default();
    let mut damaged = 0;
    thread::scope(|scope| {
        let damager = scope.spawn(|| {
            let mut random = random.fork(1);
            let mut damaged = 0;
            while !is_over.load(Ordering::SeqCst) {
                let files = site.entries();
                for _ in 0..20 {
                    damaged += usize::from(damage_one(&files, &mut random).is_ok());
                    pause(random.time(Duration::from_millis(4)));
                }
            }
            damaged
        });
        let mut random = random.fork(2);
        let until = Instant::now() + duration;
        let outcome = (|| {
            let mut editor = Editor::new(site)?;
            while Instant::now() < until {
                // A file of any length may be damaged after it was verified and before it is sent.
                report += site.compare_with_retry(0)?;
                report.purges += edit(site, &mut editor, &mut random)?;
            }
            Ok(())
        })();
        is_over.store(true, Ordering::SeqCst);
        damaged = damager.join().unwrap_or(0);
        outcome
    })?;
    report.require(damaged > 0, "no file was damaged while the server ran");
    report.require(report.hits > 0, "no response was a hit during the damage");
    report.measurement(format!(
        "{damaged} files damaged while the server ran, {} of {} responses were hits",
        report.hits, report.pages
    ));
    *sum += report;
    Ok(())
}

/// Damages entries while the server is stopped, and restores some from before a purge.
fn damage_entries(
    site: &mut TestSite,
    random: &mut Random,
    sum: &mut FaultReport,
) -> Result<(), TestkitError> {
    *sum += site.compare_with_retry(VERIFIED_BYTES)?;
    let backup = back_up_some(site, random);
    let mut editor = Editor::new(site)?;
    sum.purges += edit(site, &mut editor, random)?;
    *sum += site.compare_with_retry(VERIFIED_BYTES)?;
    if random.once_in(2) {
        site.kill();
    } else {
        site.stop();
    }
    for (path, bytes) in backup {
        fs::write(&path, bytes).context("restore an old file")?;
    }
    let files = site.entries();
    for _ in 0..files.len() / 4 {
        let _ = damage_one(&files, random);
    }
    for name in ["pages/index", "pages/key"] {
        if random.once_in(6) {
            let _ = flip_bit(&site.disk().join(name), random);
        }
    }
    site.start()?;
    *sum += site.compare_with_retry(VERIFIED_BYTES)?;
    Ok(())
}

/// Reads one entry in five.
fn back_up_some(site: &TestSite, random: &mut Random) -> Vec<(PathBuf, Vec<u8>)> {
    let files = site.entries();
    let chosen = files.into_iter().filter(|_| random.once_in(5));
    chosen
        .filter_map(|path| fs::read(&path).ok().map(|bytes| (path, bytes)))
        .collect()
}

/// A kind of damage to the purge log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogDamage {
    /// An incomplete last record, as after a crash. No entry may be lost.
    Torn,
    Flipped,
    Truncated,
    Emptied,
    Removed,
    Overwritten,
}

/// Damages the purge log: purged pages must stay purged, at the price of the whole cache if necessary.
fn damage_log(
    site: &mut TestSite,
    random: &mut Random,
    sum: &mut FaultReport,
) -> Result<(), TestkitError> {
    *sum += site.compare_with_retry(VERIFIED_BYTES)?;
    let mut editor = Editor::new(site)?;
    // No request follows this purge, so the purged entries are still on the disk.
    sum.purges += edit(site, &mut editor, random)?;
    let before = fs::read(site.log_file()).context("read the log")?;
    // This last record covers no page, so losing it is not noticed.
    editor.purge(Scope::Url(UNKNOWN_PAGE), PurgeMethod::Request)?;
    site.kill();
    let damage = match random.below(8) {
        0 | 1 => LogDamage::Torn,
        2 | 3 => LogDamage::Flipped,
        4 => LogDamage::Truncated,
        5 => LogDamage::Emptied,
        6 => LogDamage::Removed,
        _ => LogDamage::Overwritten,
    };
    apply(damage, &site.log_file(), &before, random).context("damage the log")?;
    site.start()?;
    let after = site.compare_with_retry(VERIFIED_BYTES)?;
    if damage == LogDamage::Torn {
        sum.require(
            after.hits > 0,
            "an incomplete last record lost all stored pages",
        );
    } else {
        sum.require(
            after.hits == 0,
            &format!("the log was {damage:?}, and pages stored before were hits"),
        );
    }
    *sum += after;
    Ok(())
}

/// Damages the log; `before` is its content without the last record.
fn apply(damage: LogDamage, log: &Path, before: &[u8], random: &mut Random) -> io::Result<()> {
    let length = usize::try_from(fs::metadata(log)?.len()).unwrap_or(0);
    let truncate = |length: usize| {
        let file = OpenOptions::new().write(true).open(log)?;
        file.set_len(u64::try_from(length).unwrap_or(0))
    };
    match damage {
        LogDamage::Torn => {
            let current = fs::read(log)?;
            let last = current.get(before.len()..).unwrap_or_default();
            let cut = random.below(last.len());
            fs::write(log, [before, last.get(..cut).unwrap_or_default()].concat())
        }
        LogDamage::Flipped => flip_bit(log, random),
        LogDamage::Truncated => truncate(random.below(length.saturating_sub(1))),
        LogDamage::Emptied => truncate(0),
        LogDamage::Removed => fs::remove_file(log),
        LogDamage::Overwritten => {
            let mut bytes = fs::read(log)?;
            let from = random.below(bytes.len());
            for byte in bytes.iter_mut().skip(from).take(64) {
                *byte = byte.wrapping_add(1);
            }
            fs::write(log, bytes)
        }
    }
}

/// Damages a random file in a random way. Fails if the server has removed the file.
fn damage_one(files: &[PathBuf], random: &mut Random) -> io::Result<()> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let one = files.get(random.below(files.len())).ok_or_else(gone)?;
    let other = files.get(random.below(files.len())).ok_or_else(gone)?;
    let length = usize::try_from(fs::metadata(one)?.len()).unwrap_or(0);
    match random.below(10) {
        0..=2 => flip_bit(one, random),
        3 => File::options()
            .write(true)
            .open(one)?
            .set_len(u64::try_from(random.below(length)).unwrap_or(0)),
        4 => {
            let aside = one.with_extension("aside");
            fs::rename(one, &aside)?;
            let swapped = fs::rename(other, one);
            fs::rename(&aside, other).and(swapped)
        }
        5 => fs::copy(other, one).map(drop),
        6 => File::options()
            .append(true)
            .open(one)
            .and_then(|mut file| io::Write::write_all(&mut file, b"more")),
        7 => {
            let file = File::options().write(true).open(one)?;
            let zeros = vec![0; 1 + random.below(5_000)];
            let at = random.below(length);
            let count = length.saturating_sub(at).min(zeros.len());
            let zeros = zeros.get(..count).unwrap_or_default();
            file.write_all_at(zeros, u64::try_from(at).unwrap_or(0))
        }
        8 => fs::write(one, b"GLYE, but not one of ours"),
        _ => fs::remove_file(one),
    }
}

/// Flips one bit, half of the time within the first 300 bytes.
fn flip_bit(path: &Path, random: &mut Random) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let range = if random.once_in(2) {
        length.min(300)
    } else {
        length
    };
    let at = u64::try_from(random.below(range)).unwrap_or(0);
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    byte[0] ^= 1 << random.below(8);
    file.write_all_at(&byte, at)
}

fn edit(site: &TestSite, editor: &mut Editor, random: &mut Random) -> Result<u64, TestkitError> {
    editor.edit_by_all_methods(site, random, PAGES, Some(Scope::Tag(0)))
}

const PAGES: usize = 260;
/// The server verifies at least this much of a file before it sends the first byte, however little memory is available.
const VERIFIED_BYTES: usize = 1024 * 1024;
/// A page that does not exist.
const UNKNOWN_PAGE: usize = 9_999;
