//! Hits among a hundred, ten thousand, a million entries: what one costs, what all hold, and one tag's purge among them.

use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant};

use super::asker::{Asker, ask_all, per_mille, request};
use super::dice::Dice;
use super::stage::{Stage, TAGS};
use super::{Figure, Form, Promise, Setting, amount};
use crate::TestkitError;
use crate::error::Context;

pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>, TestkitError> {
    let mut figures = Vec::new();
    for entries in setting
        .form
        .pick(vec![100, 3_000], vec![100, 10_000, 1_000_000])
    {
        (setting.progress)(&format!("{entries} entries"));
        among(setting, entries, &mut figures)?;
    }
    Ok(figures)
}

fn among(setting: &Setting, entries: u64, figures: &mut Vec<Figure>) -> Result<(), TestkitError> {
    let case = format!("{entries} entries");
    // The log of purges is on the disk, the pages too: a queue of theirs may fall behind, which harms nothing here.
    let memory = (entries * 4096).max(64 << 20);
    let cache = format!("memory = {memory}\ndisk = \"{{dir}}/cache\"\ndisk_size = \"64MiB\"");
    let stage = Stage::start(setting, &cache, Vec::new())?;
    let mut askers = Asker::many(stage.addr(), 64)?;
    let empty = stage.memory("VmRSS");
    let filled = ask_all(&mut askers, entries, &mut |number| format!("/e/{number}"))?;
    figures.push(wrong(&case, filled.wrong));
    let resident = stage.stored("entries")?;
    // The last fills may not be in memory yet when their responses have been sent.
    figures.push(
        Figure::new("entries stored", &case, amount(resident), "")
            .promised(Promise::AtMost(amount(entries))),
    );

    let requests = setting.form.pick(2_000, 200_000);
    let mut dice = Dice(entries | 1);
    let before = stage.processor();
    let asked = ask_all(&mut askers, requests, &mut |_| {
        format!("/e/{}", dice.below(entries))
    })?;
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

    let grown = stage.memory("VmRSS").saturating_sub(empty);
    let bytes = stage.stored("bytes")?;
    figures.push(Figure::new("bytes stored", &case, amount(bytes) / MB, "MB"));
    let most = amount(bytes) * 1.15 / MB + 30.0;
    figures.push(
        Figure::new("memory grown", &case, amount(grown) / MB, "MB")
            .promised(Promise::AtMost(most)),
    );
    figures.push(Figure::new(
        "memory for an entry",
        &case,
        amount(grown) / amount(resident.max(1)),
        "bytes",
    ));
    purge(setting, &stage, (entries, &case), figures)
}

/// Purges single tags, and looks who is gone.
fn purge(
    setting: &Setting,
    stage: &Stage,
    (entries, case): (u64, &str),
    figures: &mut Vec<Figure>,
) -> Result<(), TestkitError> {
    let mut editor = Asker::open(stage.addr())?;
    let (mut acknowledged, mut synced) = (Vec::new(), Vec::new());
    let purges = setting.form.pick(3, 30);
    for tag in 0..purges {
        synced.push(sync(stage)?);
        let began = Instant::now();
        editor.send(&request("PURGE", "/", &format!("Cache-Tag: t{tag}\r\n")))?;
        let (head, _) = editor.answer()?;
        acknowledged.push(began.elapsed());
        if !head.starts_with("HTTP/1.1 200") {
            return Err(TestkitError::Malformed(format!(
                "a purge was refused: {head}"
            )));
        }
    }
    acknowledged.sort_unstable();
    synced.sort_unstable();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let (purge, sync) = (per_mille(&acknowledged, 500), per_mille(&synced, 500));
    figures.push(Figure::new(
        "fdatasync of the disk, median",
        case,
        ms(sync),
        "ms",
    ));
    figures.push(
        Figure::new(
            "purge of a tag until acknowledged, median",
            case,
            ms(purge),
            "ms",
        )
        .promised(Promise::TimeAtMost(ms(sync) + 2.0)),
    );
    // Each page is asked for once: those of the purged tags, and no others, are generated again.
    let most = setting.form.pick(entries, entries.min(100_000));
    let purged = (0..most).filter(|number| number % TAGS < purges).count() as u64;
    let mut askers = Asker::many(stage.addr(), 64)?;
    let asked = ask_all(&mut askers, most, &mut |number| format!("/e/{number}"))?;
    let generated = asked.answers - asked.hits;
    figures.push(
        Figure::new(
            "pages generated again after the purges",
            case,
            amount(generated),
            "",
        )
        .promised(Promise::Exactly(amount(purged))),
    );
    figures.push(wrong(case, asked.wrong));
    if setting.form == Form::Long {
        sweep(stage, case, figures)?;
    }
    Ok(())
}

/// What the sweeper's search for the dead costs the hits beside it.
fn sweep(stage: &Stage, case: &str, figures: &mut Vec<Figure>) -> Result<(), TestkitError> {
    let mut asker = Asker::open(stage.addr())?;
    let mut path = |number: u64| format!("/e/{}", 500 + number % 400);
    let count = if stage.stored("entries")? > 900 {
        20_000
    } else {
        0
    };
    if count == 0 {
        return Ok(());
    }
    let (alone, _) = super::asker::latencies(&mut asker, count, &mut path)?;
    let us = |time: Duration| time.as_secs_f64() * 1e6;
    figures.push(Figure::new(
        "p99 of a hit after purges",
        case,
        us(per_mille(&alone, 990)),
        "us",
    ));
    Ok(())
}

/// How long the disk takes for a record of a purge.
fn sync(stage: &Stage) -> Result<Duration, TestkitError> {
    let path = stage.scratch.join("sync");
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(path)
        .context("open a file")?;
    file.write_all(&[7; 64]).context("write a file")?;
    let began = Instant::now();
    file.sync_data().context("sync a file")?;
    Ok(began.elapsed())
}

pub(super) fn wrong(case: &str, count: u64) -> Figure {
    Figure::new("wrong answers", case, amount(count), "").promised(Promise::Exactly(0.0))
}

pub(super) const MB: f64 = 1e6;
