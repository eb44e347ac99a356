//! The wall clock set back and forward, while the server runs and while it does not, alone and together with a boot.
//!
//! The machine's clock is not changed: the server sees another one, by libfaketime (the wall clock), a time namespace
//! (the clock since boot) and a file bound over the kernel's boot id. Purges stay in force whatever the clock says; pages are not
//! fresh for longer than their lifetime, and keep their age as long as the machine was not booted.

use std::path::Path;

use super::{
    Form, Setting,
    dice::Dice,
    orders::{Editor, Way, any_scope},
    stage::{Plan, Stage, Visitor, get},
    tally::Tally,
    truth::{Lengths, Scope, Truth, path},
    wall_clock::{self, WallClock},
};
use crate::{TestkitError, runs_as_root};

pub(super) fn run(setting: &Setting) -> Result<Tally, TestkitError> {
    let mut sum = Tally::default();
    let Some(library) = wall_clock::library() else {
        sum.leave_out("libfaketime is not installed (`faketime` on Debian)");
        return Ok(sum);
    };
    let times = match setting.form {
        Form::Short => 1,
        Form::Long => 4,
    };
    for time in 0..times {
        let dice = Dice::new(setting.seed).fork(time);
        sum += running(setting, &library, dice.fork(0))?;
        for (number, case) in CASES.iter().enumerate() {
            let dice = dice.fork(1 + u64::try_from(number).unwrap_or(0));
            if (case.boot || case.slept_days > 0) && !runs_as_root() {
                sum.leave_out(&format!("{}: only root may", case.name));
            } else {
                sum += restarted(setting, &library, case, dice)?;
            }
        }
    }
    Ok(sum)
}

/// The clock jumps under a running server.
fn running(setting: &Setting, library: &Path, mut dice: Dice) -> Result<Tally, TestkitError> {
    let mut stage = stage(setting, &mut dice)?;
    let clock = WallClock::new(stage.scratch.join("wall-clock"), library)?;
    let mut tally = Tally::default();
    stage.start_under(clock.launch())?;
    tally += stage.compare()?;
    for days in [3, -3, 400, -4_000, 0] {
        clock.set(days * DAY_SECONDS)?;
        tally.rounds += 1;
        let looked = stage.compare()?;
        tally.require(
            looked.hits == looked.pages,
            &format!("a clock {days} days off made stored pages unusable while the server ran"),
        );
        tally += looked;
        ages(&stage, &mut tally)?;
        edit(&stage, &mut dice, &mut tally)?;
        tally += stage.compare()?;
    }
    Ok(tally)
}

/// A change of the clocks between two runs.
struct Case {
    name: &'static str,
    /// Wall clock of the first and of the second run, in days from now.
    days: (i64, i64),
    /// Days that the clock since boot went on, with the same boot: a suspended machine.
    slept_days: i64,
    /// Whether the second run sees another boot.
    boot: bool,
    /// What happens to what is on the disk.
    wanted: Wanted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    /// It is fresh: a hit, with its age.
    Fresh,
    /// It is beyond its lifetime of a day, or may be: asked for again, and good enough where the upstream fails.
    Old,
}

const CASES: &[Case] = &[
    Case {
        name: "the wall clock is set back",
        days: (0, -3),
        slept_days: 0,
        boot: false,
        wanted: Wanted::Fresh,
    },
    Case {
        name: "the wall clock is set forward by years",
        days: (0, 4_000),
        slept_days: 0,
        boot: false,
        wanted: Wanted::Fresh,
    },
    Case {
        name: "the wall clock was ahead and is corrected",
        days: (700, 0),
        slept_days: 0,
        boot: false,
        wanted: Wanted::Fresh,
    },
    Case {
        name: "two days pass in the machine's sleep",
        days: (0, 0),
        slept_days: 2,
        boot: false,
        wanted: Wanted::Old,
    },
    Case {
        name: "a boot",
        days: (0, 0),
        slept_days: 0,
        boot: true,
        wanted: Wanted::Fresh,
    },
    Case {
        name: "a boot after three days",
        days: (0, 3),
        slept_days: 0,
        boot: true,
        wanted: Wanted::Old,
    },
    Case {
        name: "a boot with the clock behind",
        days: (0, -3),
        slept_days: 0,
        boot: true,
        wanted: Wanted::Old,
    },
];

fn restarted(
    setting: &Setting,
    library: &Path,
    case: &Case,
    mut dice: Dice,
) -> Result<Tally, TestkitError> {
    let mut stage = stage(setting, &mut dice)?;
    let clock = WallClock::new(stage.scratch.join("wall-clock"), library)?;
    let mut tally = Tally {
        rounds: 1,
        ..Tally::default()
    };
    clock.set(case.days.0 * DAY_SECONDS)?;
    stage.start_under(clock.launch())?;
    tally += stage.compare()?;
    edit(&stage, &mut dice, &mut tally)?;
    tally += stage.compare()?;
    // These stay on the disk as they were before the purge.
    edit(&stage, &mut dice, &mut tally)?;
    if dice.once_in(2) {
        stage.kill();
    } else {
        stage.stop();
    }
    clock.set(case.days.1 * DAY_SECONDS)?;
    let mut launch = clock.launch();
    launch.through = through(&stage, case)?;
    stage.start_under(launch)?;
    if case.wanted == Wanted::Old {
        helpful(&stage, case, &mut tally)?;
    }
    let looked = stage.compare()?;
    match case.wanted {
        Wanted::Fresh => tally.require(
            looked.hits > 0,
            &format!("{}: nothing that was stored is fresh", case.name),
        ),
        Wanted::Old => tally.require(
            looked.hits == 0,
            &format!("{}: pages beyond their lifetime were hits", case.name),
        ),
    }
    tally += looked;
    ages(&stage, &mut tally)?;
    // Numbers given out in both runs must not meet.
    edit(&stage, &mut dice, &mut tally)?;
    tally += stage.compare()?;
    stage.kill();
    stage.start()?;
    tally += stage.compare()?;
    Ok(tally)
}

/// With the upstream down, what is too old still answers; what was purged does not.
fn helpful(stage: &Stage, case: &Case, tally: &mut Tally) -> Result<(), TestkitError> {
    stage.pace.down(true);
    let mut visitor = Visitor::new(stage.addr()?);
    let mut helped = 0;
    for page in 0..stage.truth.count() {
        let floor = stage.truth.floor(page);
        let answer = visitor.ask(&get(page))?;
        if answer.status == 200 {
            helped += 1;
            tally.judge(stage.truth.judge(page, floor, &answer), || {
                format!("{}: {} from an old copy", case.name, path(page))
            });
        }
    }
    stage.pace.down(false);
    tally.require(
        helped > 0,
        &format!(
            "{}: no old copy answered for an upstream that is down",
            case.name
        ),
    );
    Ok(())
}

/// No page is older than this test, whatever the clock says.
fn ages(stage: &Stage, tally: &mut Tally) -> Result<(), TestkitError> {
    let mut visitor = Visitor::new(stage.addr()?);
    for page in 0..stage.truth.count() {
        let answer = visitor.ask(&get(page))?;
        let age = answer.age().unwrap_or(0);
        tally.require(age < 600, &format!("{} has an age of {age} s", path(page)));
    }
    Ok(())
}

fn stage(setting: &Setting, dice: &mut Dice) -> Result<Stage, TestkitError> {
    let lengths = Lengths {
        usual: 100..20_000,
        long_every: 30,
        long: 100_000..400_000,
        last: Vec::new(),
    };
    let truth = Truth::new(PAGES, dice.number(), &lengths);
    // libfaketime reads its file on every thread that asks for the time; one that is confined would see the real one.
    let plan = Plan {
        server: "sandbox = \"off\"",
        ..Plan::default()
    };
    Stage::new(&setting.galley, truth, &plan)
}

fn edit(stage: &Stage, dice: &mut Dice, tally: &mut Tally) -> Result<(), TestkitError> {
    let mut editor = Editor::new(stage)?;
    for way in Way::ALL {
        let scope = match any_scope(dice, PAGES) {
            Scope::Site => Scope::Tag(1),
            scope => scope,
        };
        editor.edit(stage, scope, way)?;
        tally.purges += 1;
    }
    Ok(())
}

/// How the server is started for it to see another clock since boot, or another boot.
fn through(stage: &Stage, case: &Case) -> Result<Vec<String>, TestkitError> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    if case.slept_days > 0 {
        let offset = (case.slept_days * 86_400).to_string();
        return Ok(words(&["unshare", "--time", "--boottime", &offset]));
    }
    if !case.boot {
        return Ok(Vec::new());
    }
    let id = "0c6ed5d5-7d5f-4d5b-9d0b-2f3f0b6a9d11\n";
    let id = stage.scratch.write("boot-id", id)?;
    let script = format!(
        "mount --bind {} /proc/sys/kernel/random/boot_id && exec \"$@\"",
        id.display()
    );
    Ok(words(&["unshare", "--mount", "sh", "-c", &script, "sh"]))
}

const DAY_SECONDS: i64 = 86_400;

const PAGES: usize = 120;
