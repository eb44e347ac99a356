//! PHP that dies at random, workers and all of it, while pages that must be renewed all the time are asked for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::stage::{HOST, Stage};
use super::visitors::{Counted, Visitor, Wanted};
use super::{Form, Row, Setting};
use crate::faults::dice::Dice;
use crate::wait::{pause, poll_until};
use crate::{PhpFpm, TestkitError};

pub(super) fn run(setting: &Setting) -> Result<Row, TestkitError> {
    let long = setting.killed_for.unwrap_or(
        setting
            .form
            .pick(Duration::from_secs(6), Duration::from_secs(600)),
    );
    let mut stage = Stage::start(setting, "1s")?;
    let mut row = Row {
        title: format!("PHP killed at random for {} s", long.as_secs()),
        held: [stage.held(); 2],
        ..Row::default()
    };
    (setting.progress)(&row.title);
    let over = AtomicBool::new(false);
    let (addr, pages) = (stage.addr(), stage.pages.clone());
    let fpm = &mut stage.fpm;
    let (killed, clients) = thread::scope(|scope| {
        let (over, pages) = (&over, &pages);
        let readers = setting.form.pick(4, 20);
        let clients: Vec<_> = (0..readers)
            .map(|number| scope.spawn(move || read(Visitor::new(addr, HOST), number, pages, over)))
            .chain(std::iter::once(
                scope.spawn(move || compose(Visitor::new(addr, HOST), over)),
            ))
            .collect();
        let killed = kill(fpm, long, setting.form);
        over.store(true, Ordering::Relaxed);
        let clients: Vec<_> = clients
            .into_iter()
            .map(thread::ScopedJoinHandle::join)
            .collect();
        (killed, clients)
    });
    let (workers, masters) = killed?;
    for client in clients {
        let counted =
            client.map_err(|_| TestkitError::Malformed("a client has panicked".to_owned()))?;
        row.count(counted, Counted::default());
    }
    row.notes.push(format!(
        "{workers} workers were killed, and all of PHP {masters} times"
    ));
    let mut visitor = Visitor::new(addr, HOST);
    let is_back = poll_until(TIMEOUT, || {
        let mut counted = Counted::default();
        visitor.get(COMPOSED, Wanted::Composed, &mut counted);
        counted.failures + counted.refused == 0
    });
    if !is_back {
        row.broken
            .push("pages that PHP generates did not come back".to_owned());
    }
    drop(visitor);
    stage.close(&mut row);
    Ok(row)
}

/// Kills until the time is over; returns how many workers and how often everything.
fn kill(fpm: &mut PhpFpm, long: Duration, form: Form) -> Result<(u32, u32), TestkitError> {
    let until = Instant::now() + long;
    let mut dice = Dice::new(20_260_101);
    let (mut workers, mut masters) = (0, 0);
    while Instant::now() < until {
        pause(dice.time(form.pick(Duration::from_secs(1), Duration::from_secs(3))));
        if dice.once_in(5) {
            fpm.kill();
            masters += 1;
            pause(dice.time(Duration::from_secs(2)));
            fpm.restart()?;
            continue;
        }
        let all = fpm.workers();
        let chosen = all.get(dice.below(all.len()));
        let pid = chosen.and_then(|pid| Pid::from_raw(i32::try_from(*pid).ok()?));
        // It may have gone by itself.
        if pid.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok()) {
            workers += 1;
        }
    }
    Ok((workers, masters))
}

fn read(mut visitor: Visitor, number: usize, pages: &[String], over: &AtomicBool) -> Counted {
    let mut counted = Counted::default();
    let mut pages = pages.iter().cycle().skip(number);
    while !over.load(Ordering::Relaxed) {
        if let Some(page) = pages.next() {
            visitor.get(page, Wanted::Stored, &mut counted);
        }
        pause(BREATH);
    }
    counted
}

fn compose(mut visitor: Visitor, over: &AtomicBool) -> Counted {
    let mut counted = Counted::default();
    while !over.load(Ordering::Relaxed) {
        visitor.get(COMPOSED, Wanted::Composed, &mut counted);
        pause(BREATH);
    }
    counted
}

/// Never stored.
const COMPOSED: &str = "/wp-login.php";

/// Between two pages of one reader.
const BREATH: Duration = Duration::from_millis(20);

const TIMEOUT: Duration = Duration::from_secs(60);
