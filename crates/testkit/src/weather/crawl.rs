//! A crawler that asks for a thousand addresses a second that nobody has asked for, each of which costs PHP a page.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::probe::{Probe, When};
use super::stage::{HOST, Stage};
use super::visitors::{Counted, Visitor, Wanted, step_back};
use super::{Row, Setting};
use crate::Trouble;
use crate::wait::{came_true, pause};

pub(super) fn run(setting: &Setting) -> Result<Row, Trouble> {
    let (per_second, connections) = setting.form.pick((100, 24), (1_000, 400));
    let stage = Stage::start(setting, "1h")?;
    let mut probe = Probe::new(setting, &stage)?;
    let mut row = Row {
        title: format!("a crawl of {per_second} uncached addresses a second"),
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
            .map(|_| scope.spawn(move || crawl(Visitor::new(addr, HOST), pace, over)))
            .collect();
        // Until PHP has more to do than it can: from then on the queue is full.
        came_true(PATIENCE, || pace.next.load(Ordering::Relaxed) > per_second);
        probe.measure(&stage, When::Weather, &mut row);
        over.store(true, Ordering::Relaxed);
        // Those who wait now are still answered, which is no longer part of the crawl.
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
        let counted = client.map_err(|_| Trouble::Malformed("a client has panicked".to_owned()))?;
        row.count(Counted::default(), counted);
    }
    stage.close(&mut row);
    Ok(row)
}

/// Who asks next, and not before when.
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

const PATIENCE: Duration = Duration::from_secs(30);
