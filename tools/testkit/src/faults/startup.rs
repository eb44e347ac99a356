//! Startup with many entries on the disk: the time from exec to the first hit, after `kill -9` and after SIGTERM.

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{
    FaultSettings, TestLength,
    purges::{Editor, PurgeMethod},
    random::Random,
    report::FaultReport,
    site_content::{Lengths, Scope, SiteContent, TAGS},
    test_site::{Client, SiteOptions, TestSite, get},
};
use crate::{TestkitError, addresses::free_port, wait::pause};

pub(super) fn run(settings: &FaultSettings) -> Result<FaultReport, TestkitError> {
    // On a busy disk the write queue overflows more often, so the short test requires fewer entries and no limit on the time.
    let (pages, starts, percent) = match settings.length {
        TestLength::Short => (5_000, 1, 60),
        TestLength::Long => (104_000, 7, 97),
    };
    let lengths = Lengths {
        usual: 200..3_000,
        long_every: 1_000,
        long: 20_000..90_000,
        last: Vec::new(),
    };
    let content = SiteContent::new(pages, settings.seed, &lengths);
    let options = SiteOptions {
        // The client needs the address before the server starts.
        listen: SocketAddr::from(([127, 0, 0, 1], free_port()?)),
        disk_size: "4GiB",
        ..SiteOptions::default()
    };
    let mut site = TestSite::new(&settings.galley, content, &options)?;
    let mut random = Random::new(settings.seed);
    let mut report = FaultReport::default();
    site.start()?;
    let mut entries = 0;
    for pass in 1..=PASSES {
        report += site.compare()?;
        site.wait_for_writes();
        entries = site.entries().len();
        report.measurement(format!(
            "each of {pages} pages was requested {pass} times at full speed, {entries} are on the disk"
        ));
        if entries * 100 >= pages * percent {
            break;
        }
    }
    report.require(
        entries * 100 >= pages * percent,
        &format!("{entries} entries are on the disk, of {pages} pages"),
    );
    for shutdown in [Shutdown::Kill, Shutdown::Stop] {
        let mut times = Vec::new();
        for _ in 0..starts {
            let mut editor = Editor::new(&site)?;
            editor.edit(&site, Scope::Tag(random.below(TAGS)), PurgeMethod::Admin)?;
            report.purges += 1;
            report.rounds += 1;
            match shutdown {
                Shutdown::Kill => site.kill(),
                Shutdown::Stop => site.stop(),
            }
            times.push(time_to_first_hit(&mut site, options.listen, &random)?);
            verify_sample(&site, &mut random, &mut report)?;
        }
        report_times(&mut times, entries, shutdown, settings.length, &mut report);
    }
    Ok(report)
}

/// How the previous run of the server ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shutdown {
    Kill,
    Stop,
}

fn report_times(
    times: &mut [Duration],
    entries: usize,
    shutdown: Shutdown,
    length: TestLength,
    report: &mut FaultReport,
) {
    times.sort_unstable();
    let after = match shutdown {
        Shutdown::Kill => "kill -9",
        Shutdown::Stop => "SIGTERM",
    };
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let (first, last) = (times.first(), times.last());
    if let (Some(first), Some(last)) = (first, last) {
        report.measurement(format!(
            "{entries} entries, after {after}: from exec to the first hit {} ms (median of {}; {} to {} ms)",
            median.as_millis(),
            times.len(),
            first.as_millis(),
            last.as_millis()
        ));
    }
    if length == TestLength::Long {
        report.require(
            median <= FIRST_HIT_LIMIT,
            &format!("after {after} the first hit took more than {FIRST_HIT_LIMIT:?}"),
        );
    }
}

/// Starts the server and sends requests until the first hit; returns the time from the start.
fn time_to_first_hit(
    site: &mut TestSite,
    addr: SocketAddr,
    random: &Random,
) -> Result<Duration, TestkitError> {
    let count = site.content.page_count();
    let mut random = random.clone();
    let started = Instant::now();
    let first_hit = Mutex::new(None);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = Client::new(addr);
            while started.elapsed() < TIMEOUT {
                match client.send(&get(random.below(count))) {
                    Ok(response) if response.is_hit() => {
                        let time = started.elapsed();
                        *first_hit.lock().unwrap_or_else(PoisonError::into_inner) = Some(time);
                        return;
                    }
                    Ok(_) => {}
                    // The server does not listen yet.
                    Err(_) => pause(Duration::from_micros(300)),
                }
            }
        });
        site.start()
    })?;
    let first_hit = first_hit
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    first_hit
        .ok_or_else(|| TestkitError::Malformed(format!("no hit within {TIMEOUT:?} after a start")))
}

/// Verifies a random sample of pages.
fn verify_sample(
    site: &TestSite,
    random: &mut Random,
    report: &mut FaultReport,
) -> Result<(), TestkitError> {
    let mut client = Client::new(site.addr()?);
    for _ in 0..SAMPLE_SIZE {
        let page = random.below(site.content.page_count());
        client.fetch_and_verify(&site.content, page, usize::MAX, report);
    }
    Ok(())
}

const SAMPLE_SIZE: usize = 500;
const FIRST_HIT_LIMIT: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(60);
/// A page that found the disk write queue full is written only when it is generated again, which needs another pass. Each adds some 500
/// of 5,000 pages in a release build; four passes were too few in two of nine runs.
const PASSES: usize = 12;
