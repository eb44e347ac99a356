//! The cache's folders closed to the server's own user while it runs: answers go on, storing turns off and says so, purges
//! hold, and storing turns on again when the folders are open. Root is above permissions: then the server runs as nobody.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{
    Form, Setting,
    dice::Dice,
    orders::{Editor, Way, any_scope},
    stage::{Plan, Stage, public_copy},
    tally::Tally,
    truth::{Lengths, Truth},
};
use crate::{Scratch, TestkitError, error::Context, runs_as_root, wait::poll_until};

pub(super) fn run(setting: &Setting) -> Result<Tally, TestkitError> {
    let rounds = match setting.form {
        Form::Short => 1,
        Form::Long => 6,
    };
    let place = Scratch::new()?;
    let binary = public_copy(&setting.galley, &place)?;
    let mut sum = Tally::default();
    for round in 0..rounds {
        sum += one(&binary, Dice::new(setting.seed).fork(round))?;
    }
    Ok(sum)
}

fn one(binary: &Path, mut dice: Dice) -> Result<Tally, TestkitError> {
    let lengths = Lengths {
        usual: 1_000..100_000,
        long_every: 30,
        long: 200_000..900_000,
        last: vec![5_000_000],
    };
    let truth = Truth::new(PAGES, dice.number(), &lengths);
    let plan = Plan {
        user: runs_as_root().then_some(NOBODY),
        ..Plan::default()
    };
    let mut stage = Stage::new(binary, truth, &plan)?;
    let mut tally = Tally {
        rounds: 1,
        ..Tally::default()
    };
    stage.start()?;
    tally += stage.compare()?;
    tally += edit(&stage, &mut dice)?;
    tally += stage.compare()?;
    // Files are open already or are reached by a path through these folders; both have to be survived.
    let names = ["pages/entries", "pages/tmp", "pages", "purges", "."];
    let closed = close(&stage, &names)?;
    for _ in 0..3 {
        tally += edit(&stage, &mut dice)?;
        tally += stage.compare()?;
    }
    let off = poll_until(TIMEOUT, || says_off(&stage));
    tally.require(off, "nothing says that storing is off");
    let galley = stage.galley()?;
    let is_said = poll_until(TIMEOUT, || galley.log().contains(DENIED));
    tally.require(is_said, "the log does not say that permission is denied");
    open(&closed)?;
    let mut looks = Ok(());
    let on = poll_until(TIMEOUT, || {
        looks = edit(&stage, &mut dice).and_then(|edited| {
            tally += edited;
            tally += stage.compare()?;
            Ok(())
        });
        looks.is_err() || stage.stores()
    });
    looks?;
    tally.require(on, "storing stays off although the folders are open again");
    tally += stage.compare()?;
    stage.await_writes();
    stage.kill();
    stage.start()?;
    let after = stage.compare()?;
    tally.require(after.hits > 0, "nothing was stored that a restart finds");
    tally += after;
    for closed in [&["pages"][..], &["purges"], &["."]] {
        closed_at_start(&mut stage, closed, &mut dice, &mut tally)?;
    }
    Ok(tally)
}

/// The folders are closed at a start, and open again at the next: what was purged in between without a warning must not
/// come back.
fn closed_at_start(
    stage: &mut Stage,
    names: &[&str],
    dice: &mut Dice,
    tally: &mut Tally,
) -> Result<(), TestkitError> {
    *tally += stage.compare()?;
    stage.await_writes();
    stage.stop();
    let closed = close(stage, names)?;
    stage.start()?;
    *tally += stage.compare()?;
    tally.require(
        poll_until(TIMEOUT, || says_off(stage)),
        "nothing says that the folder could not be used at the start",
    );
    let mut editor = Editor::new(stage)?;
    // Not in answers of the upstream: these have nobody to warn.
    for way in [Way::Request, Way::Admin] {
        editor.edit(stage, any_scope(dice, PAGES), way)?;
        tally.purges += 1;
    }
    *tally += stage.compare()?;
    stage.kill();
    open(&closed)?;
    stage.start()?;
    *tally += stage.compare()?;
    Ok(())
}

fn edit(stage: &Stage, dice: &mut Dice) -> Result<Tally, TestkitError> {
    let mut tally = Tally::default();
    let mut editor = Editor::new(stage)?;
    for way in Way::ALL {
        editor.edit(stage, any_scope(dice, PAGES), way)?;
        tally.purges += 1;
    }
    Ok(tally)
}

/// Takes away all rights on folders of the cache; which, with what they had.
fn close(stage: &Stage, names: &[&str]) -> Result<Vec<(PathBuf, u32)>, TestkitError> {
    let mut closed = Vec::new();
    for name in names {
        let path = stage.disk().join(name);
        let before = fs::metadata(&path).context(format_args!("look at {}", path.display()))?;
        set(&path, 0)?;
        closed.push((path, before.permissions().mode()));
    }
    Ok(closed)
}

fn open(closed: &[(PathBuf, u32)]) -> Result<(), TestkitError> {
    // From the outermost in: as an ordinary user the inner ones cannot be reached before.
    closed
        .iter()
        .rev()
        .try_for_each(|(path, mode)| set(path, *mode))
}

fn set(path: &Path, mode: u32) -> Result<(), TestkitError> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .context(format_args!("change the rights of {}", path.display()))
}

fn says_off(stage: &Stage) -> bool {
    stage
        .told("/status")
        .is_ok_and(|status| status.to_lowercase().contains(DENIED))
}

const PAGES: usize = 150;
const DENIED: &str = "permission denied";
/// The user and group that own nothing, by Debian's numbers.
const NOBODY: (u32, u32) = (65_534, 65_534);
/// Storing is tried again after five seconds, then ten, then twenty.
const TIMEOUT: Duration = Duration::from_secs(60);
