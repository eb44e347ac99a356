//! Pages of 47 KB that compress like those of WordPress: the memory of one page with its compressed forms, and that of the process.

use std::time::Duration;

use super::load::{browser_request, connect, connect_many, send_all};
use super::site::GrowthSite;
use super::{Goal, GrowthSettings, MB, Measurement, RunLength, count_as_f64};
use crate::TestkitError;
use crate::wait::poll_until;

pub(super) fn run(settings: &GrowthSettings) -> Result<Vec<Measurement>, TestkitError> {
    let pages = settings.length.pick(300, 1_800);
    let case = format!("{pages} pages of 47 KB");
    (settings.progress)(&case);
    let site = GrowthSite::start(settings, "memory = \"256MiB\"", Vec::new())?;
    let mut connections = connect_many(site.addr(), 16)?;
    let filled = send_all(&mut connections, pages, &mut |number| {
        format!("/w/{number}")
    })?;
    let mut measurements = vec![Measurement::wrong_responses(&case, filled.wrong)];
    // The compression threads have low priority and may be behind.
    let mut compressed = Ok(0);
    poll_until(TIMEOUT, || {
        compressed = count_compressed_hits(&site, pages);
        compressed.as_ref().map_or(true, |count| *count == pages)
    });
    measurements.push(
        Measurement::new(
            "pages that are hits in gzip or br",
            &case,
            count_as_f64(compressed?),
            "",
        )
        .with_goal(Goal::Exactly(count_as_f64(pages))),
    );
    let (bytes, resident) = (site.stored("bytes")?, site.stored("entries")?);
    let each = count_as_f64(bytes) / count_as_f64(resident.max(1));
    measurements.push(
        Measurement::new("memory for a page", &case, each, "bytes")
            .with_goal(Goal::AtMost(MAX_BYTES_PER_PAGE)),
    );
    measurements.push(Measurement::new(
        "bytes stored",
        &case,
        count_as_f64(bytes) / MB,
        "MB",
    ));
    // VmRSS includes the program itself, which is twice as large without optimization.
    let line = match settings.length {
        RunLength::Short => "RssAnon",
        RunLength::Long => "VmRSS",
    };
    let memory = count_as_f64(site.memory(line)) / MB;
    measurements.push(
        Measurement::new("memory of the process", &case, memory, "MB")
            .with_goal(Goal::AtMost(count_as_f64(bytes) * 1.15 / MB + 30.0)),
    );
    Ok(measurements)
}

/// Counts the pages that are hits in the one compressed form that this requests: gzip and br in turn.
fn count_compressed_hits(site: &GrowthSite, pages: u64) -> Result<u64, TestkitError> {
    let mut connection = connect(site.addr())?;
    let mut count = 0;
    for number in 0..pages {
        let coding = ["gzip", "br"][usize::from(number % 2 == 1)];
        let field = format!("Accept-Encoding: {coding}\r\n");
        connection.write(&browser_request("GET", &format!("/w/{number}"), &field))?;
        let response = connection.receive("GET")?;
        let is_compressed = response.field("content-encoding") == Some(coding);
        let is_hit = response.cache_status() == "galley; hit";
        count += u64::from(is_compressed && is_hit);
    }
    Ok(count)
}

/// For the compression of all pages.
const TIMEOUT: Duration = Duration::from_secs(120);

/// With the response head, in gzip and br.
const MAX_BYTES_PER_PAGE: f64 = 25_000.0;
