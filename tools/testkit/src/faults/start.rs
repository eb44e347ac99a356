//! A start with very many entries on the disk: from exec to the first hit, after `kill -9` and after a stop in peace.

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
    thread,
    time::{Duration, Instant},
};

use super::{
    Form, Setting,
    dice::Dice,
    orders::{Editor, Way},
    stage::{Plan, Stage, Visitor, get},
    tally::Tally,
    truth::{Lengths, Scope, TAGS, Truth},
};
use crate::{TestkitError, addresses::free_port, wait::pause};

pub(super) fn run(setting: &Setting) -> Result<Tally, TestkitError> {
    // A disk that is busy with other things has less room in its queue; the short form judges no numbers.
    let (pages, times, percent) = match setting.form {
        Form::Short => (5_000, 1, 60),
        Form::Long => (104_000, 7, 97),
    };
    let lengths = Lengths {
        usual: 200..3_000,
        long_every: 1_000,
        long: 20_000..90_000,
        last: Vec::new(),
    };
    let truth = Truth::new(pages, setting.seed, &lengths);
    let plan = Plan {
        // It is known before the server starts.
        listen: SocketAddr::from(([127, 0, 0, 1], free_port()?)),
        disk_size: "4GiB",
        ..Plan::default()
    };
    let mut stage = Stage::new(&setting.galley, truth, &plan)?;
    let mut dice = Dice::new(setting.seed);
    let mut tally = Tally::default();
    stage.start()?;
    let mut entries = 0;
    for pass in 1..=PASSES {
        tally += stage.compare()?;
        stage.await_writes();
        entries = stage.entries().len();
        tally.figure(format!(
            "asked for each of {pages} pages {pass} times at full speed, {entries} are on the disk"
        ));
        if entries * 100 >= pages * percent {
            break;
        }
    }
    tally.require(
        entries * 100 >= pages * percent,
        &format!("{entries} entries are on the disk, of {pages} pages"),
    );
    for ending in [Ending::Kill, Ending::Stop] {
        let mut took = Vec::new();
        for _ in 0..times {
            let mut editor = Editor::new(&stage)?;
            editor.edit(&stage, Scope::Tag(dice.below(TAGS)), Way::Admin)?;
            tally.purges += 1;
            tally.rounds += 1;
            match ending {
                Ending::Kill => stage.kill(),
                Ending::Stop => stage.stop(),
            }
            took.push(first_hit(&mut stage, plan.listen, &dice)?);
            look_at_some(&stage, &mut dice, &mut tally)?;
        }
        report(&mut took, entries, ending, setting.form, &mut tally);
    }
    Ok(tally)
}

/// How the run before ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Kill,
    Stop,
}

fn report(took: &mut [Duration], entries: usize, ending: Ending, form: Form, tally: &mut Tally) {
    took.sort_unstable();
    let after = match ending {
        Ending::Kill => "kill -9",
        Ending::Stop => "a stop in peace",
    };
    let median = took.get(took.len() / 2).copied().unwrap_or_default();
    let (first, last) = (took.first(), took.last());
    if let (Some(first), Some(last)) = (first, last) {
        tally.figure(format!(
            "{entries} entries, after {after}: from exec to the first hit {} ms (median of {}; {} to {} ms)",
            median.as_millis(),
            took.len(),
            first.as_millis(),
            last.as_millis()
        ));
    }
    if form == Form::Long {
        tally.require(
            median <= WANTED,
            &format!("after {after} the first hit took more than {WANTED:?}"),
        );
    }
}

/// Starts the server, and asks from before that until the first page comes from the cache.
fn first_hit(stage: &mut Stage, addr: SocketAddr, dice: &Dice) -> Result<Duration, TestkitError> {
    let count = stage.truth.count();
    let mut dice = dice.clone();
    let began = Instant::now();
    let found = Mutex::new(None);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut visitor = Visitor::new(addr);
            while began.elapsed() < TIMEOUT {
                match visitor.ask(&get(dice.below(count))) {
                    Ok(answer) if answer.is_hit() => {
                        let took = began.elapsed();
                        *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(took);
                        return;
                    }
                    Ok(_) => {}
                    // It does not listen yet.
                    Err(_) => pause(Duration::from_micros(300)),
                }
            }
        });
        stage.start()
    })?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    found.ok_or_else(|| {
        TestkitError::Malformed(format!("no hit came within {TIMEOUT:?} of a start"))
    })
}

fn look_at_some(stage: &Stage, dice: &mut Dice, tally: &mut Tally) -> Result<(), TestkitError> {
    let mut visitor = Visitor::new(stage.addr()?);
    for _ in 0..LOOKS {
        let page = dice.below(stage.truth.count());
        visitor.look(&stage.truth, page, usize::MAX, tally);
    }
    Ok(())
}

const LOOKS: usize = 500;
const WANTED: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(60);
/// A page for which the queue to the disk had no room is written when it is generated again, not as long as the memory has it.
const PASSES: usize = 4;
