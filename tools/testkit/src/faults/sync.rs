//! The proof that a purge is on the disk before its answer leaves: the server's own system calls, by `strace`.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use super::{
    Form, Setting,
    dice::Dice,
    orders::{Editor, Way, any_scope},
    stage::{Plan, Stage},
    tally::Tally,
    trace,
    truth::{Lengths, Truth},
};
use crate::{
    Trouble,
    process::{Farewell, Service, tail},
    trouble::During,
    wait::came_true,
};

pub(super) fn run(setting: &Setting) -> Result<Tally, Trouble> {
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
    let file = stage.scratch.join("trace");
    let mut tracer = match attach(
        stage.galley()?.pid(),
        &file,
        &stage.scratch.join("strace.log"),
    ) {
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
    tracer.stop(PATIENCE)?;
    let text = fs::read_to_string(&file).during("read the trace")?;
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

/// A running `strace`, or why there is none.
fn attach(pid: u32, out: &Path, log: &Path) -> Result<Service, String> {
    let mut command = Command::new("strace");
    command
        .args(["-f", "-y", "-s", "40", "-e"])
        .arg(format!("trace={}", trace::calls()))
        .arg("-o")
        .arg(out)
        .args(["-p", &pid.to_string()])
        .stdin(Stdio::null());
    let mut tracer = match Service::spawn("strace", &mut command, log, Farewell::Ask(PATIENCE)) {
        Ok(tracer) => tracer,
        Err(trouble) => return Err(trouble.to_string()),
    };
    let attached = came_true(PATIENCE, || {
        tail(log).contains("attached") || tracer.has_ended()
    });
    if attached && !tracer.has_ended() {
        return Ok(tracer);
    }
    tracer.kill();
    Err(tail(log))
}

const PATIENCE: Duration = Duration::from_secs(60);
