//! Pages as WordPress makes them, of 47 KB: what one takes once its compressed forms are there, and what the process takes for all.

use std::time::Duration;

use super::asker::{Asker, ask_all, request};
use super::entries::{MB, wrong};
use super::stage::Stage;
use super::{Figure, Form, Promise, Setting, amount};
use crate::TestkitError;

pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>, TestkitError> {
    let pages = setting.form.pick(300, 1_800);
    (setting.progress)(&format!("{pages} pages of 47 KB"));
    let case = format!("{pages} pages of 47 KB");
    let stage = Stage::start(setting, "memory = \"256MiB\"", Vec::new())?;
    let path = |number: u64| format!("/w/{number}");
    let mut askers = Asker::many(stage.addr(), 16)?;
    let filled = ask_all(&mut askers, pages, &mut |number| path(number))?;
    let mut figures = vec![wrong(&case, filled.wrong)];
    // The threads that compress are of low priority, and may be behind.
    let mut asked = Ok(0);
    crate::wait::poll_until(TIMEOUT, || {
        asked = count_coded(&stage, pages);
        asked.as_ref().map_or(true, |coded| *coded == pages)
    });
    figures.push(
        Figure::new(
            "pages that are hits in gzip or br",
            &case,
            amount(asked?),
            "",
        )
        .promised(Promise::Exactly(amount(pages))),
    );
    let (bytes, resident) = (stage.stored("bytes")?, stage.stored("entries")?);
    let each = amount(bytes) / amount(resident.max(1));
    figures.push(
        Figure::new("memory for a page", &case, each, "bytes").promised(Promise::AtMost(MOST_EACH)),
    );
    figures.push(Figure::new("bytes stored", &case, amount(bytes) / MB, "MB"));
    // The program itself is a part of this, and without optimization it is twice as large.
    let own = stage.memory(if setting.form == Form::Long {
        "VmRSS"
    } else {
        "RssAnon"
    });
    figures.push(
        Figure::new("memory of the process", &case, amount(own) / MB, "MB")
            .promised(Promise::AtMost(amount(bytes) * 1.15 / MB + 30.0)),
    );
    Ok(figures)
}

/// Pages that are hits in a coding.
fn count_coded(stage: &Stage, pages: u64) -> Result<u64, TestkitError> {
    let mut asker = Asker::open(stage.addr())?;
    let mut coded = 0;
    for number in 0..pages {
        let accepted = ["gzip", "br"][usize::from(number % 2 == 1)];
        let more = format!("Accept-Encoding: {accepted}\r\n");
        asker.send(&request("GET", &format!("/w/{number}"), &more))?;
        let (head, _) = asker.answer()?;
        let is_coded = head.contains(&format!("\r\ncontent-encoding: {accepted}\r\n"));
        let is_hit = head.contains("\r\ncache-status: galley; hit\r\n");
        coded += u64::from(is_coded && is_hit);
    }
    Ok(coded)
}

/// Until all are compressed.
const TIMEOUT: Duration = Duration::from_secs(120);

/// With its heads, in gzip and br.
const MOST_EACH: f64 = 25_000.0;
