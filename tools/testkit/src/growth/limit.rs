//! A machine of 256 MB, made by a control group, with the defaults: more pages than fit, and many connections.

use super::asker::{Asker, ask_all};
use super::entries::{MB, wrong};
use super::stage::Stage;
use super::{Figure, Promise, Setting, amount};
use crate::TestkitError;
use crate::control_group::ControlGroup;

pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>, TestkitError> {
    let group = match ControlGroup::create("growth", LIMIT) {
        Ok(group) => group,
        Err(why) => return Ok(vec![Figure::left_out("256 MB", why)]),
    };
    let case = "256 MB, defaults";
    let stage = Stage::start(setting, "", group.command_prefix())?;
    let mut figures = Vec::new();
    let limit = stage.stored("limit")?;
    // A quarter of what there is.
    let quarter = amount(LIMIT) / 4.0 / MB;
    figures.push(
        Figure::new("memory limit by default", case, amount(limit) / MB, "MB")
            .promised(Promise::AtMost(quarter)),
    );
    let (pages, connections) = setting.form.pick((2_000, 200), (300_000, 8_000));
    (setting.progress)(&format!(
        "{pages} pages over {connections} connections in 256 MB"
    ));
    let mut askers = Asker::many(stage.addr(), connections)?;
    let small = ask_all(&mut askers, pages, &mut |number| format!("/e/{number}"))?;
    figures.push(wrong(case, small.wrong));
    let large = ask_all(&mut askers, pages / 20, &mut |number| {
        format!("/c/{number}")
    })?;
    figures.push(wrong(case, large.wrong));
    let peak = amount(stage.memory("VmHWM")) / MB;
    figures.push(
        Figure::new("memory at most", case, peak, "MB")
            .promised(Promise::AtMost(amount(LIMIT) / MB)),
    );
    let killed = u64::from(stage.galley.has_ended());
    figures.push(Figure::new("ended", case, amount(killed), "").promised(Promise::Exactly(0.0)));
    drop(stage);
    Ok(figures)
}

const LIMIT: u64 = 256 << 20;
