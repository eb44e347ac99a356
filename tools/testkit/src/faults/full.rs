//! A disk of 20 MB filled to its last byte: answers go on, storing turns off and says so, purges hold, also over a restart
//! with the disk still full; and storing turns on again when there is room.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
    time::Duration,
};

use super::{
    Form, Setting,
    dice::Dice,
    mount::{Kind, Mount},
    orders::{Editor, Way, any_scope},
    stage::{Plan, Stage},
    tally::Tally,
    truth::{Lengths, Scope, Truth},
};
use crate::{Scratch, TestkitError, error::Context, wait::poll_until};

pub(super) fn run(setting: &Setting) -> Result<Tally, TestkitError> {
    let rounds = match setting.form {
        Form::Short => 1,
        Form::Long => 4,
    };
    let mut sum = Tally::default();
    for round in 0..rounds {
        for kind in Kind::ALL {
            let scratch = Scratch::new()?;
            match Mount::new(&scratch, kind)? {
                Ok(mount) => {
                    let dice = Dice::new(setting.seed).fork(round);
                    sum += one(setting, dice, kind, &mount)?;
                }
                Err(why) => sum.leave_out(&format!("a full {}: {why}", kind.name())),
            }
        }
    }
    Ok(sum)
}

fn one(
    setting: &Setting,
    mut dice: Dice,
    kind: Kind,
    mount: &Mount,
) -> Result<Tally, TestkitError> {
    let lengths = Lengths {
        usual: 20_000..120_000,
        long_every: 20,
        long: 200_000..1_500_000,
        last: vec![6_000_000],
    };
    let truth = Truth::new(PAGES, dice.number(), &lengths);
    let plan = Plan {
        disk: Some(mount.path().join("cache")),
        ..Plan::default()
    };
    let mut stage = Stage::new(&setting.galley, truth, &plan)?;
    let mut tally = Tally {
        rounds: 1,
        ..Tally::default()
    };
    stage.start()?;
    tally += stage.compare()?;
    let ballast = mount.path().join("ballast");
    turn_off(&stage, &ballast, &mut dice, kind, &mut tally)?;
    // Many orders: the log runs out of room too.
    let mut was_lost = false;
    for _ in 0..ORDERS {
        // What was purged makes room again, which is taken away at once.
        fill_up(&ballast)?;
        edit(&stage, &mut dice, &mut tally)?;
        was_lost |= !stage.keeps_purges();
    }
    tally.require(
        was_lost,
        "the purge log never ran out of room, so nothing was shown about it",
    );
    tally += stage.compare()?;
    restart_full(&mut stage, setting.form, &mut tally)?;
    edit(&stage, &mut dice, &mut tally)?;
    tally += stage.compare()?;
    free(&mut stage, &ballast, &mut dice, &mut tally)?;
    Ok(tally)
}

/// Edits on a full disk, until status and log report that storing is off: there is no room for new pages; old ones are still there.
fn turn_off(
    stage: &Stage,
    ballast: &Path,
    dice: &mut Dice,
    kind: Kind,
    tally: &mut Tally,
) -> Result<(), TestkitError> {
    let mut looks = Ok(());
    let off = poll_until(TIMEOUT, || {
        // What was purged makes room, maybe as much as the new pages need.
        looks = fill_up(ballast)
            .and_then(|()| edit(stage, dice, tally))
            .and_then(|()| {
                *tally += stage.compare()?;
                Ok(())
            });
        looks.is_err() || says_off(stage)
    });
    looks?;
    tally.require(
        off,
        &format!(
            "{}: status and metrics do not say that storing is off",
            kind.name()
        ),
    );
    let galley = stage.galley()?;
    let is_said = poll_until(TIMEOUT, || galley.log().contains(FULL));
    tally.require(is_said, "the log does not say that the disk is full");
    Ok(())
}

/// Killed and started with the disk as full as before.
fn restart_full(stage: &mut Stage, form: Form, tally: &mut Tally) -> Result<(), TestkitError> {
    let ballast = stage.disk().with_file_name("ballast");
    stage.kill();
    fill_up(&ballast)?;
    stage.start()?;
    *tally += stage.compare()?;
    if form == Form::Long {
        stage.stop();
        stage.start()?;
        *tally += stage.compare()?;
    }
    Ok(())
}

/// With room again, pages are stored again, and are there after a restart.
fn free(
    stage: &mut Stage,
    ballast: &Path,
    dice: &mut Dice,
    tally: &mut Tally,
) -> Result<(), TestkitError> {
    fs::remove_file(ballast).context("free the disk")?;
    let mut looks = Ok(());
    let on = poll_until(TIMEOUT, || {
        // What is asked for is what is let through as a trial.
        looks = edit(stage, dice, tally).and_then(|()| {
            *tally += stage.compare()?;
            Ok(())
        });
        looks.is_err() || stage.stores()
    });
    looks?;
    if !on {
        let log = stage.galley()?.log();
        let end: Vec<&str> = log.lines().rev().take(6).collect();
        let end = end.join(" | ");
        tally.broken(&format!(
            "storing stays off although there is room again: {end}"
        ));
    }
    *tally += stage.compare()?;
    stage.await_writes();
    stage.kill();
    stage.start()?;
    let after = stage.compare()?;
    tally.require(
        after.hits > 0,
        "after room came back nothing was stored that a restart finds",
    );
    *tally += after;
    Ok(())
}

fn edit(stage: &Stage, dice: &mut Dice, tally: &mut Tally) -> Result<(), TestkitError> {
    let mut editor = Editor::new(stage)?;
    for way in Way::ALL {
        let scope = match any_scope(dice, PAGES) {
            Scope::Site => Scope::Url(0),
            scope => scope,
        };
        editor.edit(stage, scope, way)?;
        tally.purges += 1;
    }
    Ok(())
}

/// Whether status and metrics say that storing is off.
fn says_off(stage: &Stage) -> bool {
    let says = |place, what: fn(&str) -> bool| stage.told(place).is_ok_and(|told| what(&told));
    says("/status", |status| status.contains(FULL))
        && says("/metrics", |metrics| {
            metrics
                .lines()
                .any(|line| line.starts_with("galley_disk_storing") && line.ends_with(" 0"))
        })
}

/// Lets a file grow until nothing is left, to the last byte.
fn fill_up(path: &Path) -> Result<(), TestkitError> {
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .context("make the ballast")?;
    for size in [64 * 1024, 4096, 1] {
        let piece = vec![b'x'; size];
        while file.write_all(&piece).is_ok() {}
    }
    // Also where a file's end was half full: on a real file system the blocks are taken at once.
    let _ = file.sync_all();
    while file.write_all(b"x").is_ok() {}
    Ok(())
}

const PAGES: usize = 120;
const ORDERS: usize = 60;
/// What the reason is called.
const FULL: &str = "the disk is full";
/// Storing is tried again after five seconds, then ten, then twenty.
const TIMEOUT: Duration = Duration::from_secs(60);
