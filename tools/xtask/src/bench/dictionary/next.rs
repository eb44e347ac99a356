//! The time from a click to the next page in Chromium, with and without `next_pages`.
//!
//! Each click is that of a visitor who has nothing but the first page. The browser's connections go through a relay that delays each byte.
//! Every figure counts from the click; a click here has no mouse that would come to rest on the link before.

use std::{
    thread,
    time::{Duration, Instant},
};

use galley_testkit::{Chromium, Quartiles, Tab};
use serde_json::json;

use super::{
    relay::relay,
    site::{BR, DictionarySite, HOST, PAUSE, TIMEOUT},
};
use crate::{error::CommandError, interrupt::Interrupt};

/// The clicks on one path.
pub(super) struct Clicks {
    delay: Duration,
    has_header: bool,
    prefetched: usize,
    /// Milliseconds from the click to the first paint with content, and to the end of the `load` event.
    paint: Vec<f64>,
    load: Vec<f64>,
}

pub(super) fn run(
    site: &DictionarySite,
    quick: bool,
    interrupt: &Interrupt,
) -> Result<Vec<Clicks>, CommandError> {
    let clicks = if quick { 3 } else { CLICKS };
    let mut columns = Vec::new();
    for delay in DELAYS {
        let mut both = Vec::new();
        for has_header in [false, true] {
            let name = format!("next-{has_header}-{}", delay.as_millis());
            eprintln!("dictionary: {name}");
            let options = format!("{BR}\nnext_pages = {has_header}");
            let server = site.server(&name, "br", &options)?;
            let relay = relay(server.tls_addr()?, delay)?;
            let front = format!("https://{HOST}:{}/", relay.port());
            let dir = site.scratch.join(format!("chromium-{name}"));
            let mut browser = Chromium::start_trusting(&dir, &site.certificate.pin)?;
            let next = next(&mut browser.new_tab()?, &front)?;
            prepare(site, &front, &next, has_header)?;
            let column = Clicks {
                delay,
                has_header,
                prefetched: 0,
                paint: Vec::new(),
                load: Vec::new(),
            };
            both.push((server, browser, front, next, column));
        }
        for _ in 0..clicks {
            interrupt.check()?;
            for (_, browser, front, next, column) in &mut both {
                column.click(&mut browser.new_tab()?, front, next)?;
            }
        }
        columns.extend(both.into_iter().map(|(.., column)| column));
    }
    Ok(columns)
}

/// The path of the first post to which the front page links.
fn next(tab: &mut Tab<'_>, front: &str) -> Result<String, CommandError> {
    tab.navigate(front)?;
    let path = tab.evaluate("document.querySelector('main h2 a[href]').pathname")?;
    Ok(path
        .as_str()
        .ok_or("the front page has no post")?
        .to_owned())
}

/// Visits the next page from the front page until the front page names it.
fn prepare(
    site: &DictionarySite,
    front: &str,
    next: &str,
    has_header: bool,
) -> Result<(), CommandError> {
    let next = format!("{}{next}", front.trim_end_matches('/'));
    let visits = vec![next; VISITS];
    site.heads(&visits, &[&format!("Referer: {front}")])?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        let head = site.heads(&[front.to_owned()], &[])?;
        if head.contains("speculation-rules") == has_header {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(format!("the front page does not name the next page: {head}").into());
        }
        thread::sleep(PAUSE);
    }
}

impl Clicks {
    fn click(&mut self, tab: &mut Tab<'_>, front: &str, next: &str) -> Result<(), CommandError> {
        tab.navigate(front)?;
        tab.evaluate(&format!(
            "new Promise(after => setTimeout(after, {READING_MS}))"
        ))?;
        let link = json!(format!("main h2 a[href$=\"{next}\"]"));
        tab.evaluate(&format!(
            "sessionStorage.clicked = performance.timeOrigin + performance.now(); document.querySelector({link}).click()"
        ))?;
        tab.wait(&format!(
            "location.pathname === {} && performance.getEntriesByName('first-contentful-paint').length > 0 \
             && performance.getEntriesByType('navigation')[0].loadEventEnd > 0",
            json!(next)
        ))?;
        let times = tab.evaluate(
            "(() => { const page = performance.getEntriesByType('navigation')[0]; \
               const since = time => performance.timeOrigin + time - sessionStorage.clicked; \
               return [page.deliveryType, since(performance.getEntriesByName('first-contentful-paint')[0].startTime), \
                 since(page.loadEventEnd)]; })()",
        )?;
        let time = |at: usize| times[at].as_f64().ok_or("no time");
        self.prefetched += usize::from(times[0] == "navigational-prefetch");
        self.paint.push(time(1)?);
        self.load.push(time(2)?);
        Ok(())
    }
}

pub(super) fn print(columns: &[Clicks]) {
    println!(
        "From a click on the front page to the next page in Chromium; milliseconds: median, and the quartiles\n"
    );
    println!(
        "| round trip | `Speculation-Rules` | clicks | loaded in advance | first paint with content | `load` |\n|--:|---|--:|--:|--:|--:|"
    );
    for column in columns {
        let text = |values: &[f64]| {
            Quartiles::of(values.iter().copied()).map_or(String::new(), |all| {
                format!("{:.0} ({:.0}-{:.0})", all.median, all.lower, all.upper)
            })
        };
        println!(
            "| {} ms | {} | {} | {} | {} | {} |",
            2 * column.delay.as_millis(),
            if column.has_header { "with" } else { "without" },
            column.load.len(),
            column.prefetched,
            text(&column.paint),
            text(&column.load)
        );
    }
    println!();
}

/// In each direction.
const DELAYS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(50)];
const CLICKS: usize = 15;
/// Counted visits: more than the least number that counts.
const VISITS: usize = 20;
/// How long a visitor reads the first page.
const READING_MS: u32 = 1_500;
