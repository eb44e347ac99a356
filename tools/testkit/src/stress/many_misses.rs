//! Thousands of concurrent connections, hundreds of which request a page that PHP has to generate first.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::probe::{Probe, When};
use super::site::{HOST, StressSite};
use super::visitor::{Expected, Visitor, VisitorCounts, lower_priority, request_all};
use super::{PartReport, StressSettings};
use crate::TestkitError;

pub(super) fn run(settings: &StressSettings) -> Result<PartReport, TestkitError> {
    let (connections, misses) = settings.length.pick((400, 50), (4_000, 500));
    let site = StressSite::start(settings, "1h")?;
    let mut probe = Probe::new(settings, &site)?;
    let mut report = PartReport {
        title: format!("{connections} connections, {misses} of which miss"),
        usage: [site.usage(); 2],
        ..PartReport::default()
    };
    probe.measure(&site, When::Quiet, &mut report);
    (settings.progress)(&report.title);
    let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let (stored, generated) = thread::scope(|scope| {
        let readers = scope.spawn(|| read_stored(&site, connections - misses, (&is_over, &rounds)));
        let generating = scope.spawn(|| request_generated(&site, misses));
        probe.measure(&site, When::Loaded, &mut report);
        let generated = generating.join();
        // The readers end once each of them has received at least one page during the misses.
        is_over.store(true, Ordering::Relaxed);
        (readers.join(), generated)
    });
    let panicked = |_| TestkitError::Malformed("a client panicked".to_owned());
    report.add(stored.map_err(panicked)?);
    report.add(generated.map_err(panicked)?);
    let rounds = rounds.load(Ordering::Relaxed);
    report.notes.push(format!(
        "each of the {} others received {rounds} stored pages or more",
        connections - misses
    ));
    site.close(&mut report);
    Ok(report)
}

/// Requests stored pages over `count` persistent connections, in rounds of one page for each.
fn read_stored(
    site: &StressSite,
    count: usize,
    (is_over, rounds): (&AtomicBool, &AtomicU64),
) -> VisitorCounts {
    lower_priority();
    let mut visitors = Visitor::many(site.addr(), HOST, count);
    let mut counts = VisitorCounts::default();
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) || rounds.load(Ordering::Relaxed) == 0 {
        for batch in visitors.chunks_mut(IN_FLIGHT) {
            let mut next = || {
                number += 1;
                (site.page(number), Expected::Stored)
            };
            request_all(batch, &mut next, &mut counts);
        }
        rounds.fetch_add(1, Ordering::Relaxed);
    }
    counts
}

/// Requests `count` different pages at once.
fn request_generated(site: &StressSite, count: usize) -> VisitorCounts {
    let mut visitors = Visitor::many(site.addr(), HOST, count);
    let mut counts = VisitorCounts::default();
    let mut number = 0;
    let mut next = || {
        number += 1;
        (format!("/?crowd={number}"), Expected::Generated)
    };
    request_all(&mut visitors, &mut next, &mut counts);
    counts
}

/// Few enough that the responses fit into the socket buffers and no response waits long for its turn.
const IN_FLIGHT: usize = 128;
