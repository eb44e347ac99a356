//! Hits over one, a hundred, ten thousand connections, and what connections hold that ask nothing.

use super::asker::{Asker, ask_all};
use super::entries::wrong;
use super::stage::Stage;
use super::{Figure, Promise, Setting, amount};
use crate::TestkitError;

pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>, TestkitError> {
    let mut figures = Vec::new();
    let stage = Stage::start(setting, "memory = \"64MiB\"", Vec::new())?;
    let mut first = Asker::many(stage.addr(), 64)?;
    let mut path = |number: u64| format!("/e/{}", number % 100);
    // Until every page is there and every buffer has its size.
    ask_all(&mut first, 2_000, &mut path)?;
    drop(first);
    for count in setting.form.pick(vec![1, 100], vec![1, 100, 10_000]) {
        (setting.progress)(&format!("{count} connections"));
        let case = format!("{count} connections");
        let before = stage.memory("VmRSS");
        let mut askers = Asker::many(stage.addr(), count)?;
        // Each has asked once and is idle then.
        ask_all(&mut askers, amount_of(count), &mut path)?;
        let idle = stage.memory("VmRSS").saturating_sub(before);
        if count >= MANY {
            let each = amount(idle) / amount(amount_of(count));
            let figure = Figure::new("memory of an idle connection", &case, each, "bytes");
            figures.push(figure.promised(Promise::AtMost(10_000.0)));
        }
        let requests = setting.form.pick(1_000, 200_000);
        let before = stage.processor();
        let asked = ask_all(&mut askers, requests, &mut path)?;
        let spent = stage.processor().saturating_sub(before);
        figures.push(wrong(&case, asked.wrong));
        let missed = asked.answers - asked.hits;
        figures.push(
            Figure::new("answers that were no hit", &case, amount(missed), "")
                .promised(Promise::Exactly(0.0)),
        );
        let each = spent.as_secs_f64() * 1e6 / amount(requests);
        figures.push(Figure::new(
            "server's processor time for a hit",
            &case,
            each,
            "us",
        ));
    }
    Ok(figures)
}

fn amount_of(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// With fewer, pages of memory that others left behind are more than what they need.
const MANY: usize = 1_000;
