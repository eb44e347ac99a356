//! A crawler that requests a thousand pages per second that are not stored, so that PHP has to generate each: from one address, or
//! from hundreds of addresses with few requests each.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::probe::{Probe, When};
use super::resources::ProcessorUsage;
use super::site::{HOST, StressSite};
use super::visitor::{Expected, Visitor, VisitorCounts, lower_priority};
use super::{PartReport, StressSettings};
use crate::TestkitError;
use crate::wait::{pause, poll_until};

/// The client addresses of the crawler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientAddresses {
    /// The address of the probe, for all connections.
    One,
    /// A separate address for each connection.
    Many,
}

pub(super) fn run(
    settings: &StressSettings,
    addresses: ClientAddresses,
) -> Result<PartReport, TestkitError> {
    let (per_second, connections) = settings.length.pick((100, 24), (1_000, 400));
    let site = StressSite::start(settings, "1h")?;
    let mut probe = Probe::new(settings, &site)?;
    let mut report = PartReport {
        title: match addresses {
            ClientAddresses::One => {
                format!("a crawl of {per_second} uncached addresses a second")
            }
            ClientAddresses::Many => format!(
                "a crawl of {per_second} uncached addresses a second by {connections} clients"
            ),
        },
        usage: [site.usage(); 2],
        ..PartReport::default()
    };
    report.page.max_ratio = Some(1.5);
    report.save.max_ratio = Some(2.0);
    probe.measure(&site, When::Quiet, &mut report);
    (settings.progress)(&report.title);
    let is_over = AtomicBool::new(false);
    let rate = Rate {
        started: Instant::now(),
        per_second,
        next: AtomicU64::new(0),
    };
    let clients = thread::scope(|scope| {
        let (is_over, rate, addr) = (&is_over, &rate, site.addr());
        let clients: Vec<_> = (0..connections)
            .map(|number| {
                let visitor = Visitor::new(addr, HOST);
                let visitor = match addresses {
                    ClientAddresses::One => visitor,
                    ClientAddresses::Many => visitor.from(client_address(number)),
                };
                scope.spawn(move || crawl(visitor, rate, is_over))
            })
            .collect();
        // From then on PHP has more requests than it can serve, and the queue is full.
        poll_until(TIMEOUT, || rate.next.load(Ordering::Relaxed) > per_second);
        let before = RejectionCost::now(&site);
        probe.measure(&site, When::Loaded, &mut report);
        let note = before.difference(&RejectionCost::now(&site));
        report.notes.push(note);
        is_over.store(true, Ordering::Relaxed);
        // Clients that wait now still get responses, which are no longer part of the crawl.
        let requests = rate.next.load(Ordering::Relaxed);
        let seconds = rate.started.elapsed().as_secs().max(1);
        report.notes.push(format!(
            "the crawler sent {requests} requests, {} a second, over {connections} connections",
            requests / seconds
        ));
        clients
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect::<Vec<_>>()
    });
    for client in clients {
        let panicked = |_| TestkitError::Malformed("a client panicked".to_owned());
        report.add(client.map_err(panicked)?);
    }
    site.close(&mut report);
    Ok(report)
}

/// The address of client `number`.
fn client_address(number: u32) -> Ipv4Addr {
    let [_, _, high, low] = (number + 1).to_be_bytes();
    Ipv4Addr::new(127, 5, high, low)
}

/// The cost of rejections: counters of the server since its start, which include its hits.
struct RejectionCost {
    rejected: u64,
    usage: ProcessorUsage,
}

impl RejectionCost {
    fn now(site: &StressSite) -> Self {
        Self {
            rejected: site.rejected(),
            usage: ProcessorUsage::of(site.galley.pid()),
        }
    }

    fn difference(&self, later: &Self) -> String {
        let rejected = later.rejected - self.rejected;
        let per_rejection = |count: u64| u32::try_from(count / rejected.max(1)).unwrap_or(u32::MAX);
        let tenths = per_rejection((later.usage.switches - self.usage.switches) * 10);
        format!(
            "{rejected} requests were rejected under load; for each the server had {}.{} context switches and used {} us of processor time, \
             hits included",
            tenths / 10,
            tenths % 10,
            per_rejection(later.usage.us - self.usage.us)
        )
    }
}

/// A constant rate of requests, shared by all clients.
struct Rate {
    started: Instant,
    per_second: u64,
    next: AtomicU64,
}

impl Rate {
    /// Takes the next request number and waits until its request is due.
    fn wait_for_turn(&self) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let due = self.started
            + Duration::from_secs(1) * u32::try_from(number).unwrap_or(u32::MAX)
                / u32::try_from(self.per_second).unwrap_or(1).max(1);
        pause(due.saturating_duration_since(Instant::now()));
        number
    }
}

fn crawl(mut visitor: Visitor, rate: &Rate, is_over: &AtomicBool) -> VisitorCounts {
    lower_priority();
    let mut counts = VisitorCounts::default();
    while !is_over.load(Ordering::Relaxed) {
        let path = format!("/?crawl={}", rate.wait_for_turn());
        visitor.get(&path, Expected::Generated, &mut counts);
    }
    counts
}

const TIMEOUT: Duration = Duration::from_secs(30);
