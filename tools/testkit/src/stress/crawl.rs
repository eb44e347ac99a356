//! A crawler that asks for a thousand pages a second that nobody has asked for, each of which costs PHP its work: from one
//! address, or from hundreds, each of which asks now and then only.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::probe::{Probe, When};
use super::resources::Effort;
use super::stage::{HOST, Stage};
use super::visitors::{Counted, Visitor, Wanted, step_back};
use super::{Row, Setting};
use crate::TestkitError;
use crate::wait::{pause, poll_until};

/// Whence the crawler asks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// All connections have the address of the probe's.
    One,
    /// Each connection has its own.
    Many,
}

pub(super) fn run(setting: &Setting, from: From) -> Result<Row, TestkitError> {
    let (per_second, connections) = setting.form.pick((100, 24), (1_000, 400));
    let stage = Stage::start(setting, "1h")?;
    let mut probe = Probe::new(setting, &stage)?;
    let mut row = Row {
        title: match from {
            From::One => format!("a crawl of {per_second} uncached addresses a second"),
            From::Many => format!(
                "a crawl of {per_second} uncached addresses a second by {connections} clients"
            ),
        },
        held: [stage.held(); 2],
        ..Row::default()
    };
    row.page.at_most = Some(1.5);
    row.save.at_most = Some(2.0);
    probe.measure(&stage, When::Quiet, &mut row);
    (setting.progress)(&row.title);
    let over = AtomicBool::new(false);
    let pace = Pace {
        began: Instant::now(),
        per_second,
        next: AtomicU64::new(0),
    };
    let clients = thread::scope(|scope| {
        let (over, pace, addr) = (&over, &pace, stage.addr());
        let clients: Vec<_> = (0..connections)
            .map(|number| {
                let visitor = Visitor::new(addr, HOST);
                let visitor = match from {
                    From::One => visitor,
                    From::Many => visitor.from(address(number)),
                };
                scope.spawn(move || crawl(visitor, pace, over))
            })
            .collect();
        // Until PHP has more to do than it can: from then on the queue is full.
        poll_until(TIMEOUT, || pace.next.load(Ordering::Relaxed) > per_second);
        let before = Work::by(&stage);
        probe.measure(&stage, When::Loaded, &mut row);
        row.notes.push(before.until(&Work::by(&stage)));
        over.store(true, Ordering::Relaxed);
        // Clients that wait now still get responses, which are no longer part of the crawl.
        let asked = pace.next.load(Ordering::Relaxed);
        let took = pace.began.elapsed().as_secs().max(1);
        row.notes.push(format!(
            "the crawler asked {asked} times, {} a second, over {connections} connections",
            asked / took
        ));
        clients
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect::<Vec<_>>()
    });
    for client in clients {
        let counted =
            client.map_err(|_| TestkitError::Malformed("a client has panicked".to_owned()))?;
        row.count(Counted::default(), counted);
    }
    stage.close(&mut row);
    Ok(row)
}

/// The address of client number `number`.
fn address(number: u32) -> Ipv4Addr {
    let [_, _, high, low] = (number + 1).to_be_bytes();
    Ipv4Addr::new(127, 5, high, low)
}

/// What refusals cost: all that the server has done so far, hits included.
struct Work {
    refused: u64,
    effort: Effort,
}

impl Work {
    fn by(stage: &Stage) -> Self {
        Self {
            refused: stage.turned_away(),
            effort: Effort::by(stage.galley.pid()),
        }
    }

    fn until(&self, later: &Self) -> String {
        let refused = later.refused - self.refused;
        let per = |count: u64| u32::try_from(count / refused.max(1)).unwrap_or(u32::MAX);
        let tenths = per((later.effort.switches - self.effort.switches) * 10);
        format!(
            "{refused} were turned away meanwhile; for each the server switched threads {}.{} times and worked {} us, hits included",
            tenths / 10,
            tenths % 10,
            per(later.effort.us - self.effort.us)
        )
    }
}

/// Which client sends the next request, and not before when.
struct Pace {
    began: Instant,
    per_second: u64,
    next: AtomicU64,
}

impl Pace {
    /// The next number, at its moment.
    fn turn(&self) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let due = self.began
            + Duration::from_secs(1) * u32::try_from(number).unwrap_or(u32::MAX)
                / u32::try_from(self.per_second).unwrap_or(1).max(1);
        pause(due.saturating_duration_since(Instant::now()));
        number
    }
}

fn crawl(mut visitor: Visitor, pace: &Pace, over: &AtomicBool) -> Counted {
    step_back();
    let mut counted = Counted::default();
    while !over.load(Ordering::Relaxed) {
        let number = pace.turn();
        visitor.get(&format!("/?crawl={number}"), Wanted::Composed, &mut counted);
    }
    counted
}

const TIMEOUT: Duration = Duration::from_secs(30);
