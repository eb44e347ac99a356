//! Pages as WordPress makes them, of 47 KB: what one takes once its compressed forms are there, and what the process takes for all.

use std::fmt::Write as _;
use std::time::Duration;

use super::asker::{Asker, ask_all, request};
use super::entries::{Dice, MB, wrong};
use super::stage::Stage;
use super::{Figure, Form, Promise, Setting, amount};
use crate::Trouble;

pub(super) fn run(setting: &Setting) -> Result<Vec<Figure>, Trouble> {
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
    crate::wait::came_true(PATIENCE, || {
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
fn count_coded(stage: &Stage, pages: u64) -> Result<u64, Trouble> {
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

/// A page of 47 KB, whole, because half a page is not stored. It compresses as those of WordPress do, to 8.5 KB in gzip and in br: its
/// styles are the same on all pages, its text is not.
pub(super) fn page(number: u64) -> String {
    let mut dice = Dice(number | 1);
    let mut html = String::with_capacity(LENGTH + 1024);
    html.push_str(
        "<!doctype html>\n<html lang=\"en-US\"><head><meta charset=\"UTF-8\"/>\n<style>\n",
    );
    let mut styles = Dice(7);
    for rule in 0..150 {
        let (property, color) = (styles.below(40), styles.below(1 << 24));
        let _ = writeln!(
            html,
            ".wp-block-{rule} .has-{property}-size{{color:#{color:06x};margin-block-start:{}px}}",
            styles.below(64)
        );
    }
    html.push_str("</style></head><body class=\"wp-singular post-template-default single\">\n");
    let mut entry = 0;
    while html.len() < LENGTH {
        entry += 1;
        let _ = write!(
            html,
            "<article id=\"post-{0}\" class=\"post-{0} post type-post status-publish format-standard hentry\"><h2 \
             class=\"entry-title\"><a href=\"https://example.test/{1}/\" rel=\"bookmark\">{1}</a></h2><div class=\"entry-content\"><p>",
            number * 40 + entry,
            word(&mut dice),
        );
        for _ in 0..20 {
            html.push_str(&word(&mut dice));
            html.push(' ');
        }
        html.push_str("</p>\n</div><!-- .entry-content --></article>\n");
    }
    html.truncate(LENGTH - END.len());
    html.push_str(END);
    html
}

/// One of 1,600 words, the first ones more often.
fn word(dice: &mut Dice) -> String {
    let bound = 1 + dice.below(1600);
    let mut left = 40 + dice.below(bound);
    let mut word = String::new();
    while left > 0 {
        let letters = [
            "st", "an", "e", "ri", "o", "lat", "u", "me", "ing", "ca", "d",
        ];
        let at = usize::try_from(left % 11).unwrap_or(0);
        word.push_str(letters[at]);
        left /= 11;
    }
    word
}

/// Until all are compressed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Of the body.
const LENGTH: usize = 47_000;

const END: &str = "</body></html>\n";

/// With its heads, in gzip and br.
const MOST_EACH: f64 = 25_000.0;
