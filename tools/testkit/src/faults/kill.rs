//! `kill -9` in a loop, on one folder, while visitors fill and read and editors purge.
//!
//! Each round: start, ask for every page and compare, load, kill at a moment in which at least one purge waits for its
//! acknowledgment and ten pages are being generated. Now and then the server is killed again while it is starting, or is stopped in
//! order. A purge that was not acknowledged before the kill may be in force or not; all others must be.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::{
    Form, Setting,
    dice::Dice,
    orders::{Editor, Way, any_scope},
    stage::{Plan, Stage, Visitor, count, get},
    tally::{Tally, Verdict},
    truth::{Lengths, Scope, Truth, path},
};
use crate::{
    TestkitError,
    wait::{pause, poll_until},
};

pub(super) fn run(setting: &Setting) -> Result<Tally, TestkitError> {
    let (rounds, lengths) = match setting.form {
        Form::Short => (8, lengths(1_500_000, vec![3_000_000, 20_000_000])),
        Form::Long => (200, lengths(4_000_000, vec![8_000_000, 24_000_000])),
    };
    let dice = Dice::new(setting.seed);
    let truth = Truth::new(PAGES, setting.seed, &lengths);
    let mut stage = Stage::new(&setting.galley, truth, &Plan::default())?;
    let mut sum = Tally::default();
    let mut least = (usize::MAX, usize::MAX);
    for round in 0..rounds {
        let mut dice = dice.fork(round);
        start(&mut stage, &mut dice)?;
        sum += stage.compare()?;
        let (tally, in_flight) = one(&mut stage, &dice)?;
        sum += tally;
        sum.rounds += 1;
        least = (least.0.min(in_flight.0), least.1.min(in_flight.1));
        if round % 20 == 19 {
            eprintln!("  {} of {rounds} rounds, {} purges", round + 1, sum.purges);
        }
    }
    stage.start()?;
    let last = stage.compare()?;
    sum.require(sum.hits > 0, "no page ever came from the disk after a kill");
    let log = stage.galley()?.log();
    sum.require(!log.contains("panicked"), "the server panicked");
    sum += last;
    sum.figure(format!(
        "at each kill at least {} purges waited for their acknowledgement and {} pages were being generated",
        least.0, least.1
    ));
    Ok(sum)
}

fn lengths(long: usize, last: Vec<usize>) -> Lengths {
    Lengths {
        usual: 100..20_000,
        long_every: 40,
        long: 200_000..long,
        last,
    }
}

/// Sometimes it is killed while it starts, once or more; sometimes it ends in peace.
fn start(stage: &mut Stage, dice: &mut Dice) -> Result<(), TestkitError> {
    stage.start()?;
    let mut extra = 0;
    while extra < 3 && dice.once_in(4) {
        extra += 1;
        pause(dice.time(Duration::from_millis(30)));
        if dice.once_in(3) {
            stage.stop();
        } else {
            stage.kill();
        }
        stage.start()?;
    }
    Ok(())
}

/// What the threads of one round share.
struct Round<'a> {
    stage: &'a Stage,
    /// Set just before the kill: what fails from then on is the kill's doing.
    killed: AtomicBool,
    /// Purges that were sent and not answered.
    waiting: AtomicUsize,
    sum: Mutex<Tally>,
}

/// Load until the kill; with what was in flight at that moment: purges and fills.
fn one(stage: &mut Stage, dice: &Dice) -> Result<(Tally, (usize, usize)), TestkitError> {
    let pid = stage.galley()?.pid();
    let round = Round {
        stage,
        killed: AtomicBool::new(false),
        waiting: AtomicUsize::new(0),
        sum: Mutex::new(Tally::default()),
    };
    let in_flight = thread::scope(|scope| {
        for (number, way) in Way::ALL.into_iter().enumerate() {
            let dice = dice.fork(100 + draw(number));
            let round = &round;
            scope.spawn(move || round.finish(round.edit(dice, way)));
        }
        for number in 0..VISITORS {
            let dice = dice.fork(200 + draw(number));
            let round = &round;
            scope.spawn(move || round.finish(round.visit(dice)));
        }
        let in_flight = round.await_the_moment(dice.fork(300));
        round.killed.store(true, Ordering::SeqCst);
        kill_now(pid);
        in_flight
    });
    let tally = round
        .sum
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    stage.kill();
    stage.pace.slow(false);
    let Some(in_flight) = in_flight else {
        return Err(TestkitError::Malformed(
            "never were a purge and ten fills in flight at one moment".to_owned(),
        ));
    };
    Ok((tally, in_flight))
}

impl Round<'_> {
    fn is_over(&self) -> bool {
        self.killed.load(Ordering::SeqCst)
    }

    fn finish(&self, tally: Result<Tally, TestkitError>) {
        let mut sum = self.sum.lock().unwrap_or_else(PoisonError::into_inner);
        match tally {
            Ok(tally) => *sum += tally,
            Err(trouble) => sum.broken(&trouble.to_string()),
        }
    }

    /// An editor: changes content and purges, in one of the ways, as fast as answers come or a little slower.
    fn edit(&self, mut dice: Dice, way: Way) -> Result<Tally, TestkitError> {
        let mut tally = Tally::default();
        let mut editor = Editor::new(self.stage)?;
        while !self.is_over() {
            let scope = any_scope(&mut dice, self.stage.truth.count());
            // One way has no word for these; and everything at once leaves nothing to compare.
            let scope = match scope {
                Scope::Site if !dice.once_in(4) => Scope::Url(0),
                scope => scope,
            };
            self.waiting.fetch_add(1, Ordering::SeqCst);
            let outcome = editor.edit(self.stage, scope, way);
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            match outcome {
                Ok(()) => tally.purges += 1,
                Err(_) if self.is_over() => break,
                Err(trouble) => {
                    tally.judge(Verdict::Failed, || format!("purge of {scope:?}: {trouble}"));
                }
            }
            // Near the kill without a pause, so that one is always in progress.
            if !self.stage.pace.is_slow() {
                pause(dice.time(BETWEEN_PURGES));
            }
        }
        Ok(tally)
    }

    /// A visitor: asks for any page, again and again.
    fn visit(&self, mut dice: Dice) -> Result<Tally, TestkitError> {
        let mut tally = Tally::default();
        let truth = &self.stage.truth;
        let mut visitor = Visitor::new(self.stage.addr()?);
        while !self.is_over() {
            let page = dice.below(truth.count());
            let floor = truth.floor(page);
            match visitor.ask(&get(page)) {
                Ok(answer) => count(truth, page, floor, &answer, &mut tally),
                Err(_) if self.is_over() => break,
                Err(trouble) => {
                    tally.judge(Verdict::Failed, || format!("{}: {trouble}", path(page)));
                }
            }
        }
        Ok(tally)
    }

    /// Waits a random while, then for a moment in which enough is in flight. `None`: none came.
    fn await_the_moment(&self, mut dice: Dice) -> Option<(usize, usize)> {
        pause(LEAST_LOAD + dice.time(MOST_LOAD));
        self.stage.pace.slow(true);
        let now = || {
            let purges = self.waiting.load(Ordering::SeqCst);
            let fills = self.stage.pace.composing();
            (purges >= 1 && fills >= 10).then_some((purges, fills))
        };
        let mut found = None;
        poll_until(TIMEOUT, || {
            // Watched without a pause: a purge is in progress for less than a millisecond.
            for _ in 0..20_000 {
                if now().is_some() {
                    let at = dice.below(2_000);
                    (0..at).for_each(|_| std::hint::spin_loop());
                    found = now();
                    if found.is_some() {
                        return true;
                    }
                }
                std::hint::spin_loop();
            }
            false
        });
        found
    }
}

/// The signal alone; the handle finds out afterwards.
fn kill_now(pid: u32) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let Some(pid) = pid {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

fn draw(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

const PAGES: usize = 300;
const VISITORS: usize = 16;
const BETWEEN_PURGES: Duration = Duration::from_millis(12);
const LEAST_LOAD: Duration = Duration::from_millis(60);
const MOST_LOAD: Duration = Duration::from_millis(500);
/// For the moment to come.
const TIMEOUT: Duration = Duration::from_secs(60);
