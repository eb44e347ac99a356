//! Thousands of connections at one time, hundreds of which ask for what PHP has to compose first.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use super::probe::{Probe, When};
use super::stage::{HOST, Stage};
use super::visitors::{Counted, Visitor, Wanted, round, step_back};
use super::{Row, Setting};
use crate::TestkitError;

pub(super) fn run(setting: &Setting) -> Result<Row, TestkitError> {
    let (connections, misses) = setting.form.pick((400, 50), (4_000, 500));
    let stage = Stage::start(setting, "1h")?;
    let mut probe = Probe::new(setting, &stage)?;
    let mut row = Row {
        title: format!("{connections} connections, {misses} of which miss"),
        held: [stage.held(); 2],
        ..Row::default()
    };
    probe.measure(&stage, When::Quiet, &mut row);
    (setting.progress)(&row.title);
    let (over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
    let (stored, composed) = thread::scope(|scope| {
        let readers = scope.spawn(|| readers(&stage, connections - misses, (&over, &rounds)));
        let missing = scope.spawn(|| missing(&stage, misses));
        probe.measure(&stage, When::Loaded, &mut row);
        let composed = missing.join();
        // All of the others have had their turn beside them.
        over.store(true, Ordering::Relaxed);
        (readers.join(), composed)
    });
    let panicked = |_| TestkitError::Malformed("a client has panicked".to_owned());
    row.count(stored.map_err(panicked)?, composed.map_err(panicked)?);
    let rounds = rounds.load(Ordering::Relaxed);
    row.notes.push(format!(
        "each of the {} others had {rounds} stored pages or more",
        connections - misses
    ));
    stage.close(&mut row);
    Ok(row)
}

/// Each asks for one stored page after the other, on a connection that stays.
fn readers(stage: &Stage, count: usize, (over, rounds): (&AtomicBool, &AtomicU64)) -> Counted {
    step_back();
    let mut visitors = Visitor::many(stage.addr(), HOST, count);
    let mut counted = Counted::default();
    let mut number = 0;
    // So many answers fit into the buffers of the connections, and nobody's turn is far.
    while !over.load(Ordering::Relaxed) || rounds.load(Ordering::Relaxed) == 0 {
        for some in visitors.chunks_mut(UNDER_WAY) {
            let mut path = || {
                number += 1;
                (stage.page(number), Wanted::Stored)
            };
            round(some, &mut path, &mut counted);
        }
        rounds.fetch_add(1, Ordering::Relaxed);
    }
    counted
}

/// All ask at once, each for a page of its own.
fn missing(stage: &Stage, count: usize) -> Counted {
    let mut visitors = Visitor::many(stage.addr(), HOST, count);
    let mut counted = Counted::default();
    let mut number = 0;
    let mut path = || {
        number += 1;
        (format!("/?crowd={number}"), Wanted::Composed)
    };
    round(&mut visitors, &mut path, &mut counted);
    counted
}

const UNDER_WAY: usize = 128;
