//! Visits of several pages in Chromium.

use std::{thread, time::Instant};

use galley_testkit::{Chromium, Quartiles, Tab};

use super::{
    super::{idle::wait_until_idle, processes::ProcessTree},
    site::{BR, DCZ, DictionarySite, HOST, PAUSE, Server, TIMEOUT, ZSTD},
};
use crate::{error::CommandError, interrupt::Interrupt};

/// All visits.
pub(super) struct Visits {
    pub(super) visits: Vec<Visit>,
    /// Bytes of memory of a stored page in each coding; the dictionaries count too.
    pub(super) memory: Vec<(&'static str, u64)>,
}

/// What the pages of one kind took at one server, in bytes of bodies.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) pages: &'static str,
    pub(super) coding: &'static str,
    pub(super) first: u64,
    /// 0: none.
    pub(super) dictionary: u64,
    /// The number of later pages in the coding of the row.
    pub(super) in_coding: usize,
    /// The mean.
    pub(super) later: u64,
    pub(super) total: u64,
    /// Processor time of the server for a later page and its resources: the median of several visits.
    pub(super) cpu_us: f64,
}

/// The bytes of the pages of one visit, and the processor time of all but the first.
struct Reading {
    bytes: Vec<u64>,
    in_coding: usize,
    cpu_us: f64,
}

pub(super) fn run(
    site: &DictionarySite,
    quick: bool,
    interrupt: &Interrupt,
) -> Result<Visits, CommandError> {
    let codings = [("br", BR), ("zstd", ZSTD), ("dcz", DCZ)];
    let servers = codings.map(|(coding, options)| site.server(coding, coding, options));
    let servers: Vec<Server> = servers.into_iter().collect::<Result<_, _>>()?;
    let mut visits = Vec::new();
    for (number, (pages, paths)) in site.kinds.iter().enumerate() {
        for server in &servers {
            interrupt.check()?;
            eprintln!("dictionary: {pages}, {}", server.coding);
            let dir = site
                .scratch
                .join(format!("chromium-{number}-{}", server.coding));
            let mut browser = Chromium::start_trusting(&dir, &site.certificate.pin)?;
            site.fill(server, HOST, server.coding, paths)?;
            wait_until_idle(interrupt, &[server.galley.pid()])?;
            let mut readings = Vec::new();
            let dictionaries = server.dictionaries().len();
            for _ in 0..if quick { 1 } else { VISITS } {
                readings.push(read(&mut browser.new_tab()?, server, paths)?);
            }
            let dictionary = server.dictionaries().get(dictionaries).copied();
            visits.push(summary(
                pages,
                server.coding,
                dictionary.unwrap_or(0),
                &readings,
            )?);
        }
    }
    let mut memory = Vec::new();
    for server in &servers {
        memory.push((server.coding, server.bytes_per_page()?));
    }
    Ok(Visits { visits, memory })
}

/// Reads the pages as a visitor does, who has none of them.
fn read(tab: &mut Tab<'_>, server: &Server, paths: &[String]) -> Result<Reading, CommandError> {
    let (first, others) = paths.split_first().ok_or("no pages")?;
    let before = server.dictionaries().len();
    tab.navigate(&server.url(first)?)?;
    let mut bytes = vec![body(tab)?.1];
    if server.coding == "dcz" {
        wait(|| Ok(server.dictionaries().len() > before))?;
        // Chromium stores the dictionary a moment after it has loaded it. The parameter makes each address new to it. Not every page has a
        // difference.
        let mut in_turn = paths.iter().cycle().zip(1_u32..);
        wait(|| {
            let (path, number) = in_turn.next().ok_or("no pages")?;
            tab.navigate(&server.url(&format!("{path}?utm_source={number}"))?)?;
            Ok(body(tab)?.0 == "dcz")
        })?;
    }
    let pid = [server.galley.pid()];
    let before = ProcessTree::cpu_time(&pid);
    let mut in_coding = 0;
    for path in others {
        tab.navigate(&server.url(path)?)?;
        let (coding, length) = body(tab)?;
        // A page whose difference saves little has none.
        if coding != server.coding && server.coding != "dcz" {
            return Err(format!("{path}: `{coding}` in place of `{}`", server.coding).into());
        }
        in_coding += usize::from(coding == server.coding);
        bytes.push(length);
    }
    let cpu = ProcessTree::cpu_time(&pid).saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    let cpu_us = cpu.as_secs_f64() * 1e6 / others.len() as f64;
    Ok(Reading {
        bytes,
        in_coding,
        cpu_us,
    })
}

/// The coding and the length of the body of the page in the tab.
fn body(tab: &mut Tab<'_>) -> Result<(String, u64), CommandError> {
    let entry = tab.evaluate(
        "(() => { const entry = performance.getEntriesByType('navigation')[0]; \
         return [entry.contentEncoding ?? '', entry.encodedBodySize]; })()",
    )?;
    let coding = entry[0].as_str().unwrap_or_default().to_owned();
    Ok((coding, entry[1].as_u64().ok_or("no length")?))
}

fn summary(
    pages: &'static str,
    coding: &'static str,
    dictionary: u64,
    readings: &[Reading],
) -> Result<Visit, CommandError> {
    let Reading {
        bytes, in_coding, ..
    } = readings.first().ok_or("no visit")?;
    let (first, later) = bytes.split_first().ok_or("no page")?;
    let sum: u64 = later.iter().sum();
    let cpu = Quartiles::of(readings.iter().map(|reading| reading.cpu_us));
    Ok(Visit {
        pages,
        coding,
        first: *first,
        dictionary,
        in_coding: *in_coding,
        later: sum / later.len().max(1) as u64,
        total: first + dictionary + sum,
        cpu_us: cpu.ok_or("no visit")?.median,
    })
}

fn wait(mut condition: impl FnMut() -> Result<bool, CommandError>) -> Result<(), CommandError> {
    let deadline = Instant::now() + TIMEOUT;
    while !condition()? {
        if Instant::now() > deadline {
            return Err("chromium uses no dictionary".into());
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// Visits whose processor time counts.
const VISITS: usize = 5;
