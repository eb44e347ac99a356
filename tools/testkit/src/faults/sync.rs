//! The proof that a purge is on the disk before it is acknowledged: the server's own system calls, by `strace`.

use super::{
    Form, Setting,
    dice::Dice,
    orders::{Editor, Way, any_scope},
    stage::{Plan, Stage},
    tally::Tally,
    trace,
    truth::{Lengths, Truth},
};
use crate::{Strace, TestkitError};

pub(super) fn run(setting: &Setting) -> Result<Tally, TestkitError> {
    let purges = match setting.form {
        Form::Short => 12,
        Form::Long => 120,
    };
    let lengths = Lengths {
        usual: 100..2_000,
        long_every: 50,
        long: 2_000..3_000,
        last: Vec::new(),
    };
    let truth = Truth::new(50, setting.seed, &lengths);
    let mut tally = Tally::default();
    let mut stage = Stage::new(&setting.galley, truth, &Plan::default())?;
    stage.start()?;
    tally += stage.compare()?;
    let calls = format!("trace={}", trace::calls());
    let arguments = ["-y", "-s", "40", "-e", &calls];
    let attached = Strace::attach(stage.galley()?.pid(), stage.scratch.path(), &arguments);
    let tracer = match attached {
        Ok(tracer) => tracer,
        Err(why) => {
            tally.leave_out(&format!("strace: {why}"));
            return Ok(tally);
        }
    };
    let mut dice = Dice::new(setting.seed);
    let mut editor = Editor::new(&stage)?;
    for number in 0..purges {
        // One at a time: each answer has a sync of its own before it.
        let way = Way::ALL[number % Way::ALL.len()];
        editor.edit(&stage, any_scope(&mut dice, 50), way)?;
        tally.purges += 1;
        tally.rounds += 1;
    }
    let text = tracer.finish()?;
    let traced = trace::read(&text, &stage.log_file().display().to_string());
    tally.require(
        traced.answers == purges,
        &format!(
            "the trace shows {} answers to {purges} purges",
            traced.answers
        ),
    );
    for _ in 0..traced.early {
        tally.broken("an answer to a purge left before fdatasync had returned");
    }
    tally.figure(format!(
        "{} answers to purges, {} before an fdatasync of the log had returned; {} syncs",
        traced.answers, traced.early, traced.syncs
    ));
    tally += stage.compare()?;
    Ok(tally)
}
