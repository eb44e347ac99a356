//! Files flipped, cut, swapped, replaced and brought back from before a purge, while the server runs and while it does not.
//! Pages must be right whatever happens to their files; a log that is damaged must never cost a purge.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    Form, Setting,
    dice::Dice,
    orders::{Editor, Way, any_scope},
    stage::{Plan, Stage},
    tally::Tally,
    truth::{Lengths, Scope, Truth},
};
use crate::{TestkitError, error::Context, wait::pause};

pub(super) fn run(setting: &Setting) -> Result<Tally, TestkitError> {
    let (rounds, running) = match setting.form {
        Form::Short => (6, Duration::from_millis(1_500)),
        Form::Long => (80, Duration::from_secs(20)),
    };
    // More than the memory holds, so that the disk is read all the time.
    let lengths = Lengths {
        usual: 2_000..150_000,
        long_every: 30,
        long: 200_000..1_200_000,
        last: vec![5_000_000],
    };
    let dice = Dice::new(setting.seed);
    let truth = Truth::new(PAGES, setting.seed, &lengths);
    let mut stage = Stage::new(&setting.galley, truth, &Plan::default())?;
    let mut sum = Tally::default();
    stage.start()?;
    sum += stage.compare_forgiving(IN_PIECES)?;
    while_running(&stage, &dice.fork(1), running, &mut sum)?;
    for round in 0..rounds {
        entries(&mut stage, &mut dice.fork(1_000 + round), &mut sum)?;
        log(&mut stage, &mut dice.fork(2_000 + round), &mut sum)?;
        sum.rounds += 1;
    }
    sum.require(
        !stage.galley()?.log().contains("panicked"),
        "the server panicked",
    );
    Ok(sum)
}

/// One damages, the others look, an editor purges.
fn while_running(
    stage: &Stage,
    dice: &Dice,
    length: Duration,
    sum: &mut Tally,
) -> Result<(), TestkitError> {
    let over = AtomicBool::new(false);
    let mut tally = Tally::default();
    let mut done = 0;
    thread::scope(|scope| {
        let saboteur = scope.spawn(|| {
            let mut dice = dice.fork(1);
            let mut done = 0;
            while !over.load(Ordering::SeqCst) {
                let files = stage.entries();
                for _ in 0..20 {
                    done += usize::from(harm(&files, &mut dice).is_ok());
                    pause(dice.time(Duration::from_millis(4)));
                }
            }
            done
        });
        let mut dice = dice.fork(2);
        let until = Instant::now() + length;
        let outcome = (|| {
            let mut editor = Editor::new(stage)?;
            while Instant::now() < until {
                // Any file may be damaged between the check and the sending.
                tally += stage.compare_forgiving(0)?;
                tally.purges += edit(stage, &mut editor, &mut dice)?;
            }
            Ok(())
        })();
        over.store(true, Ordering::SeqCst);
        done = saboteur.join().unwrap_or(0);
        outcome
    })?;
    tally.require(done > 0, "no file was ever damaged while the server ran");
    tally.require(tally.hits > 0, "nothing came from the cache meanwhile");
    tally.figure(format!(
        "{done} files damaged while it ran, {} of {} pages came from the cache",
        tally.hits, tally.pages
    ));
    *sum += tally;
    Ok(())
}

/// Entries are damaged while the server does not run; some are those from before a purge.
fn entries(stage: &mut Stage, dice: &mut Dice, sum: &mut Tally) -> Result<(), TestkitError> {
    *sum += stage.compare_forgiving(IN_PIECES)?;
    let old = keep_some(stage, dice);
    let mut editor = Editor::new(stage)?;
    sum.purges += edit(stage, &mut editor, dice)?;
    *sum += stage.compare_forgiving(IN_PIECES)?;
    if dice.once_in(2) {
        stage.kill();
    } else {
        stage.stop();
    }
    for (path, bytes) in old {
        // As somebody who puts back a backup would.
        fs::write(&path, bytes).context("bring back an old file")?;
    }
    let files = stage.entries();
    for _ in 0..files.len() / 4 {
        let _ = harm(&files, dice);
    }
    for name in ["pages/index", "pages/key"] {
        if dice.once_in(6) {
            let _ = flip(&stage.disk().join(name), dice);
        }
    }
    stage.start()?;
    *sum += stage.compare_forgiving(IN_PIECES)?;
    Ok(())
}

fn keep_some(stage: &Stage, dice: &mut Dice) -> Vec<(PathBuf, Vec<u8>)> {
    let files = stage.entries();
    let chosen = files.into_iter().filter(|_| dice.once_in(5));
    chosen
        .filter_map(|path| fs::read(&path).ok().map(|bytes| (path, bytes)))
        .collect()
}

/// What is done to the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Harm {
    /// Half a record at its end, as a crash leaves it: nothing is lost.
    Torn,
    Flipped,
    Cut,
    Emptied,
    Removed,
    Overwritten,
}

/// The log is damaged: what was purged stays purged, if need be with everything else.
fn log(stage: &mut Stage, dice: &mut Dice, sum: &mut Tally) -> Result<(), TestkitError> {
    *sum += stage.compare_forgiving(IN_PIECES)?;
    let mut editor = Editor::new(stage)?;
    // Files of before the purge are still there: nobody asks in between.
    sum.purges += edit(stage, &mut editor, dice)?;
    let before = fs::read(stage.log_file()).context("read the log")?;
    // One that touches no page: whether it holds is not asked.
    editor.order(Scope::Url(NOWHERE), Way::Request)?;
    stage.kill();
    let harm = match dice.below(8) {
        0 | 1 => Harm::Torn,
        2 | 3 => Harm::Flipped,
        4 => Harm::Cut,
        5 => Harm::Emptied,
        6 => Harm::Removed,
        _ => Harm::Overwritten,
    };
    spoil(&stage.log_file(), &before, harm, dice).context("damage the log")?;
    stage.start()?;
    let after = stage.compare_forgiving(IN_PIECES)?;
    if harm == Harm::Torn {
        sum.require(
            after.hits > 0,
            "a record that was cut off cost everything that was stored",
        );
    } else {
        sum.require(
            after.hits == 0,
            &format!("the log was {harm:?}, and pages from before were used"),
        );
    }
    *sum += after;
    Ok(())
}

/// `before` is the log without its last record.
fn spoil(log: &Path, before: &[u8], harm: Harm, dice: &mut Dice) -> io::Result<()> {
    let length = usize::try_from(fs::metadata(log)?.len()).unwrap_or(0);
    let to = |length: usize| {
        let file = OpenOptions::new().write(true).open(log)?;
        file.set_len(u64::try_from(length).unwrap_or(0))
    };
    match harm {
        Harm::Torn => {
            let now = fs::read(log)?;
            let last = now.get(before.len()..).unwrap_or_default();
            let cut = dice.below(last.len());
            fs::write(log, [before, last.get(..cut).unwrap_or_default()].concat())
        }
        Harm::Flipped => flip(log, dice),
        Harm::Cut => to(dice.below(length.saturating_sub(1))),
        Harm::Emptied => to(0),
        Harm::Removed => fs::remove_file(log),
        Harm::Overwritten => {
            let mut bytes = fs::read(log)?;
            let from = dice.below(bytes.len());
            for byte in bytes.iter_mut().skip(from).take(64) {
                *byte = byte.wrapping_add(1);
            }
            fs::write(log, bytes)
        }
    }
}

/// One file of them is damaged, in one of many ways. An error says that it was not: it may have gone meanwhile.
fn harm(files: &[PathBuf], dice: &mut Dice) -> io::Result<()> {
    let gone = || io::Error::from(io::ErrorKind::NotFound);
    let one = files.get(dice.below(files.len())).ok_or_else(gone)?;
    let other = files.get(dice.below(files.len())).ok_or_else(gone)?;
    let length = usize::try_from(fs::metadata(one)?.len()).unwrap_or(0);
    match dice.below(10) {
        0..=2 => flip(one, dice),
        3 => File::options()
            .write(true)
            .open(one)?
            .set_len(u64::try_from(dice.below(length)).unwrap_or(0)),
        4 => {
            let aside = one.with_extension("aside");
            fs::rename(one, &aside)?;
            let swapped = fs::rename(other, one);
            fs::rename(&aside, other).and(swapped)
        }
        5 => fs::copy(other, one).map(drop),
        6 => File::options()
            .append(true)
            .open(one)
            .and_then(|mut file| io::Write::write_all(&mut file, b"more")),
        7 => {
            let file = File::options().write(true).open(one)?;
            let zeros = vec![0; 1 + dice.below(5_000)];
            let at = dice.below(length);
            let room = length.saturating_sub(at).min(zeros.len());
            let zeros = zeros.get(..room).unwrap_or_default();
            file.write_all_at(zeros, u64::try_from(at).unwrap_or(0))
        }
        8 => fs::write(one, b"GLYE, but not one of ours"),
        _ => fs::remove_file(one),
    }
}

/// One bit, half of the time near the beginning.
fn flip(path: &Path, dice: &mut Dice) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(path)?;
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(0);
    let range = if dice.once_in(2) {
        length.min(300)
    } else {
        length
    };
    let at = u64::try_from(dice.below(range)).unwrap_or(0);
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)?;
    byte[0] ^= 1 << dice.below(8);
    file.write_all_at(&byte, at)
}

fn edit(stage: &Stage, editor: &mut Editor, dice: &mut Dice) -> Result<u64, TestkitError> {
    for way in Way::ALL {
        let scope = match any_scope(dice, PAGES) {
            // Everything at once would leave nothing to be wrong.
            Scope::Site => Scope::Tag(0),
            scope => scope,
        };
        editor.edit(stage, scope, way)?;
    }
    Ok(3)
}

const PAGES: usize = 260;
/// So much of a file is verified before its first byte leaves, whatever room the memory has.
const IN_PIECES: usize = 1024 * 1024;
/// A page that is not there.
const NOWHERE: usize = 9_999;
