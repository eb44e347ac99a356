//! Hits among 100, 10,000 and 1,000,000 entries: the cost of a hit, the memory of all entries, and the purge of one tag.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use super::load::{browser_request, connect, connect_many, latencies, percentile, send_all};
use super::random::Random;
use super::site::{GrowthSite, TAGS};
use super::{Goal, GrowthSettings, MB, Measurement, RunLength, count_as_f64};
use crate::TestkitError;
use crate::error::Context;

pub(super) fn run(settings: &GrowthSettings) -> Result<Vec<Measurement>, TestkitError> {
    let mut measurements = Vec::new();
    for entries in settings
        .length
        .pick(vec![100, 3_000], vec![100, 10_000, 1_000_000])
    {
        (settings.progress)(&format!("{entries} entries"));
        measure(settings, entries, &mut measurements)?;
    }
    Ok(measurements)
}

fn measure(
    settings: &GrowthSettings,
    entries: u64,
    measurements: &mut Vec<Measurement>,
) -> Result<(), TestkitError> {
    let case = format!("{entries} entries");
    // The purge log is on disk, and so are the pages. The queue of pages to write may fall behind without harm to this measurement.
    let memory = (entries * 4096).max(64 << 20);
    let cache = format!("memory = {memory}\ndisk = \"{{dir}}/cache\"\ndisk_size = \"64MiB\"");
    let site = GrowthSite::start(settings, &cache, Vec::new())?;
    let mut connections = connect_many(site.addr(), 64)?;
    let empty = site.memory("VmRSS");
    let filled = send_all(&mut connections, entries, &mut |number| {
        format!("/e/{number}")
    })?;
    measurements.push(Measurement::wrong_responses(&case, filled.wrong));
    let resident = site.stored("entries")?;
    // The last pages may be stored after their responses have been sent.
    measurements.push(
        Measurement::new("entries stored", &case, count_as_f64(resident), "")
            .with_goal(Goal::AtMost(count_as_f64(entries))),
    );

    let requests = settings.length.pick(2_000, 200_000);
    let mut random = Random(entries | 1);
    let before = site.processor_time();
    let counts = send_all(&mut connections, requests, &mut |_| {
        format!("/e/{}", random.below(entries))
    })?;
    let spent = site.processor_time().saturating_sub(before);
    measurements.push(Measurement::wrong_responses(&case, counts.wrong));
    measurements.push(Measurement::misses(&case, counts.misses()));
    measurements.push(Measurement::processor_per_hit(&case, spent, requests));

    let growth = site.memory("VmRSS").saturating_sub(empty);
    let bytes = site.stored("bytes")?;
    measurements.push(Measurement::new(
        "bytes stored",
        &case,
        count_as_f64(bytes) / MB,
        "MB",
    ));
    let max = count_as_f64(bytes) * 1.15 / MB + 30.0;
    measurements.push(
        Measurement::new("memory growth", &case, count_as_f64(growth) / MB, "MB")
            .with_goal(Goal::AtMost(max)),
    );
    measurements.push(Measurement::new(
        "memory for an entry",
        &case,
        count_as_f64(growth) / count_as_f64(resident.max(1)),
        "bytes",
    ));
    purge(settings, &site, (entries, &case), measurements)
}

/// Purges single tags and checks that only the pages with these tags are generated again.
fn purge(
    settings: &GrowthSettings,
    site: &GrowthSite,
    (entries, case): (u64, &str),
    measurements: &mut Vec<Measurement>,
) -> Result<(), TestkitError> {
    let purges = settings.length.pick(3, 30);
    time_purges(site, purges, case, measurements)?;
    let requests = settings.length.pick(entries, entries.min(100_000));
    let purged = (0..requests)
        .filter(|number| number % TAGS < purges)
        .count() as u64;
    let mut connections = connect_many(site.addr(), 64)?;
    let counts = send_all(&mut connections, requests, &mut |number| {
        format!("/e/{number}")
    })?;
    measurements.push(
        Measurement::new(
            "pages generated again after the purges",
            case,
            count_as_f64(counts.misses()),
            "",
        )
        .with_goal(Goal::Exactly(count_as_f64(purged))),
    );
    measurements.push(Measurement::wrong_responses(case, counts.wrong));
    if settings.length == RunLength::Long {
        hits_after_purges(site, case, measurements)?;
    }
    Ok(())
}

/// Measures how long the server takes to acknowledge a purge, and the disk to sync.
fn time_purges(
    site: &GrowthSite,
    purges: u64,
    case: &str,
    measurements: &mut Vec<Measurement>,
) -> Result<(), TestkitError> {
    let mut editor = connect(site.addr())?;
    let (mut purge_times, mut sync_times) = (Vec::new(), Vec::new());
    for tag in 0..purges {
        sync_times.push(sync_time(site)?);
        let request = browser_request("PURGE", "/", &format!("Cache-Tag: t{tag}\r\n"));
        let started = Instant::now();
        editor.write(&request)?;
        let response = editor.receive("PURGE")?;
        purge_times.push(started.elapsed());
        if response.status != 200 {
            return Err(TestkitError::Malformed(format!(
                "a purge was rejected: {}",
                response.excerpt()
            )));
        }
    }
    purge_times.sort_unstable();
    sync_times.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (purge, sync) = (
        ms(percentile(&purge_times, 50)),
        ms(percentile(&sync_times, 50)),
    );
    measurements.push(Measurement::new(
        "fdatasync of the disk, median",
        case,
        sync,
        "ms",
    ));
    measurements.push(
        Measurement::new(
            "purge of a tag until acknowledged, median",
            case,
            purge,
            "ms",
        )
        .with_goal(Goal::TimeAtMost(sync + 2.0)),
    );
    Ok(())
}

/// Measures hits while the server removes purged entries in the background.
fn hits_after_purges(
    site: &GrowthSite,
    case: &str,
    measurements: &mut Vec<Measurement>,
) -> Result<(), TestkitError> {
    if site.stored("entries")? <= 900 {
        return Ok(());
    }
    let mut connection = connect(site.addr())?;
    let mut path = |number: u64| format!("/e/{}", 500 + number % 400);
    let (times, _) = latencies(&mut connection, 20_000, &mut path)?;
    measurements.push(Measurement::new(
        "p99 of a hit after purges",
        case,
        percentile(&times, 99).as_secs_f64() * 1e6,
        "us",
    ));
    Ok(())
}

/// How long the disk takes for a record of the purge log.
fn sync_time(site: &GrowthSite) -> Result<Duration, TestkitError> {
    let path = site.scratch.join("sync");
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .context("open a file")?;
    file.write_all(&[7; 64]).context("write a file")?;
    let started = Instant::now();
    file.sync_data().context("sync a file")?;
    Ok(started.elapsed())
}
