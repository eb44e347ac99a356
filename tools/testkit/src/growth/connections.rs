//! Hits over 1, 100 and 10,000 connections, and the memory of idle connections.

use super::load::{connect_many, send_all};
use super::site::GrowthSite;
use super::{Goal, GrowthSettings, Measurement, count_as_f64};
use crate::TestkitError;

pub(super) fn run(settings: &GrowthSettings) -> Result<Vec<Measurement>, TestkitError> {
    let mut measurements = Vec::new();
    let site = GrowthSite::start(settings, "memory = \"64MiB\"", Vec::new())?;
    let mut warm_up = connect_many(site.addr(), 64)?;
    let mut path = |number: u64| format!("/e/{}", number % 100);
    // Every page is stored and every buffer has its size afterwards.
    send_all(&mut warm_up, 2_000, &mut path)?;
    drop(warm_up);
    for count in settings.length.pick(vec![1, 100], vec![1, 100, 10_000]) {
        (settings.progress)(&format!("{count} connections"));
        let case = format!("{count} connections");
        let before = site.memory("VmRSS");
        let mut connections = connect_many(site.addr(), count)?;
        let count = count as u64;
        // Each connection sends one request and is idle then.
        send_all(&mut connections, count, &mut path)?;
        let idle = site.memory("VmRSS").saturating_sub(before);
        if count >= MIN_FOR_MEMORY {
            let each = count_as_f64(idle) / count_as_f64(count);
            let measurement =
                Measurement::new("memory of an idle connection", &case, each, "bytes");
            measurements.push(measurement.with_goal(Goal::AtMost(10_000.0)));
        }
        let requests = settings.length.pick(1_000, 200_000);
        let before = site.processor_time();
        let counts = send_all(&mut connections, requests, &mut path)?;
        let spent = site.processor_time().saturating_sub(before);
        measurements.push(Measurement::wrong_responses(&case, counts.wrong));
        measurements.push(Measurement::misses(&case, counts.misses()));
        measurements.push(Measurement::processor_per_hit(&case, spent, requests));
    }
    Ok(measurements)
}

/// Fewer connections need less memory than what earlier ones left in the allocator.
const MIN_FOR_MEMORY: u64 = 1_000;
