//! What our plugin costs: processor time of PHP for a page, and time of an edit.
//!
//! Two workers of PHP compose the same pages for two sites of the same server, one with the plugin and one without, in turns and
//! pinned to one core. Processor time is the kernel's own count of nanoseconds for the worker, read when it is idle again,
//! so that work after the answer counts as well and other load on the machine counts little. An edit's time is what the
//! editor waits; of many pairs, one after the other, the medians are compared.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use super::{
    clock::{self, EditCost, measured},
    editor::Editor,
    site::{Site, WITH, WITHOUT},
};
use crate::{Spread, TestkitError, client::Request, error::Context, wait::poll_until};

/// What the plugin costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Cost {
    /// Processor milliseconds of PHP for a page without the plugin.
    pub page_ms: Spread,
    /// What the plugin adds to it, in percent; of pairs of rounds.
    pub page_percent: Spread,
    /// Pages of each kind that were generated.
    pub pages: usize,
    /// Milliseconds that an edit takes without the plugin.
    pub edit_ms: Spread,
    /// Milliseconds that the plugin adds to it; of pairs of edits.
    pub edit_added_ms: Spread,
    /// Edits of each kind.
    pub edits: usize,
    /// The plugin's own time in each kind of edit.
    pub each: Vec<EditCost>,
}

/// Measures both.
pub(super) fn measure(site: &Site) -> Result<Cost, TestkitError> {
    let workers = [worker(&site.without)?, worker(&site.with)?];
    for worker in workers {
        pin(worker)?;
    }
    let (pages, page_ms, page_percent) = pages(site, workers)?;
    let (edit_ms, edit_added_ms) = edits(site)?;
    Ok(Cost {
        page_ms,
        page_percent,
        pages,
        edit_ms,
        edit_added_ms,
        edits: EDITS,
        each: clock::measure(site)?,
    })
}

fn pages(site: &Site, workers: [u32; 2]) -> Result<(usize, Spread, Spread), TestkitError> {
    let targets: Vec<&str> = site
        .pages()
        .into_iter()
        .filter(|target| !target.contains('?'))
        .step_by(3)
        .collect();
    let mut asked = 0;
    let (mut plain, mut added) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let mut spent = [0.0; 2];
        for target in &targets {
            asked += 1;
            let order = if asked % 2 == 0 { [0, 1] } else { [1, 0] };
            for place in order {
                spent[place] +=
                    compose(site, workers[place], [WITHOUT, WITH][place], target, asked)?;
            }
        }
        // The first round fills PHP's cache of compiled files.
        if round > 0 {
            let [without, with] = spent;
            plain.push(without / count(targets.len()));
            added.push((with / without - 1.0) * 100.0);
        }
    }
    Ok((targets.len() * ROUNDS, measured(plain)?, measured(added)?))
}

/// Milliseconds of the worker for a page under an address that nobody has asked for.
fn compose(
    site: &Site,
    worker: u32,
    host: &str,
    target: &str,
    asked: u32,
) -> Result<f64, TestkitError> {
    let before = idle(worker)?;
    let answer = Request::get(&format!("{target}?cost={asked}"))
        .host(host)
        .timeout(TIMEOUT)
        .send(site.addr())?;
    if answer.is_hit() {
        return Err(TestkitError::Refused(format!("{target} was not generated")));
    }
    let spent = idle(worker)?.saturating_sub(before);
    Ok(spent.as_secs_f64() * 1000.0)
}

fn edits(site: &Site) -> Result<(Spread, Spread), TestkitError> {
    let mut editors = [Editor::log_in(site, WITHOUT)?, Editor::log_in(site, WITH)?];
    let (mut plain, mut added) = (Vec::new(), Vec::new());
    for edit in 0..EDITS + WARM_EDITS {
        let mut spent = [0.0; 2];
        let order = if edit % 2 == 0 { [0, 1] } else { [1, 0] };
        for place in order {
            let body = format!("{{\"content\":\"Edit {edit} of {place}.\"}}");
            let began = Instant::now();
            if let Some(editor) = editors.get_mut(place) {
                editor.rest("POST", "posts/[[post.26]]", &body)?;
            }
            spent[place] = began.elapsed().as_secs_f64() * 1000.0;
        }
        let [without, with] = spent;
        if edit >= WARM_EDITS {
            plain.push(without);
            added.push(with - without);
        }
    }
    Ok((measured(plain)?, measured(added)?))
}

fn worker(fpm: &crate::PhpFpm) -> Result<u32, TestkitError> {
    let worker = fpm.workers().first().copied();
    worker.ok_or_else(|| TestkitError::Refused("the pool has no worker".to_owned()))
}

/// Both workers on the last core that we may use.
fn pin(worker: u32) -> Result<(), TestkitError> {
    let allowed = sched_getaffinity(None).context("ask for the cores")?;
    let last = (0..CpuSet::MAX_CPU)
        .rev()
        .find(|core| allowed.is_set(*core));
    let mut only = CpuSet::new();
    only.set(last.unwrap_or(0));
    let pid = i32::try_from(worker).ok().and_then(Pid::from_raw);
    sched_setaffinity(pid, &only).context("pin a worker")
}

/// Processor time of a process that waits for work: read until it sleeps and nothing is added.
fn idle(pid: u32) -> Result<Duration, TestkitError> {
    let mut last = None;
    let settled = poll_until(TIMEOUT, || {
        let now = used(pid);
        let same = now.is_some() && now == last;
        last = now;
        same
    });
    match last {
        Some(used) if settled => Ok(used),
        _ => Err(TestkitError::Late {
            what: format!("process {pid} to be idle"),
            timeout: TIMEOUT,
            log: String::new(),
        }),
    }
}

/// The first figure of schedstat: nanoseconds on a core. It stands still while the process waits.
fn used(pid: u32) -> Option<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
    let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

fn count(pages: usize) -> f64 {
    u32::try_from(pages).map_or(1.0, f64::from).max(1.0)
}

const ROUNDS: usize = 20;
const EDITS: usize = 60;
const WARM_EDITS: usize = 5;
const TIMEOUT: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_time_can_be_read() {
        assert!(used(std::process::id()).unwrap() > Duration::ZERO);
    }
}
