//! Measures the cost of our plugin: PHP processor time for a page, and the duration of an edit.
//!
//! Two PHP workers, pinned to one core, alternately generate the same pages for two sites of the same server, one with the
//! plugin and one without. Processor time is the kernel's count of nanoseconds for the worker, read when the worker is idle
//! again. So it includes work after the response, and other load on the machine has little effect. The duration of an edit
//! is measured by the editor; the result is the median over many pairs of edits.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::{
    process::Pid,
    thread::{CpuSet, sched_getaffinity, sched_setaffinity},
};

use super::{
    edit_cost::{self, PluginEditCost, spread},
    editor::Editor,
    test_site::{ExactnessSite, WITH_PLUGIN_HOST, WITHOUT_PLUGIN_HOST},
};
use crate::{Quartiles, TestkitError, client::Request, error::Context, wait::poll_until};

/// The cost of the plugin.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginCost {
    /// PHP processor time in milliseconds for a page without the plugin.
    pub page_ms: Quartiles,
    /// Percentage that the plugin adds to it, over pairs of rounds.
    pub page_percent: Quartiles,
    /// Pages generated with the plugin, and as many without it.
    pub pages: usize,
    /// Duration of an edit without the plugin, in milliseconds.
    pub edit_ms: Quartiles,
    /// Milliseconds that the plugin adds to it, over pairs of edits.
    pub edit_added_ms: Quartiles,
    /// Edits made with the plugin, and as many without it.
    pub edits: usize,
    /// Time spent in the plugin's functions, for each kind of edit.
    pub each: Vec<PluginEditCost>,
}

/// Measures pages and edits.
pub(super) fn measure(site: &ExactnessSite) -> Result<PluginCost, TestkitError> {
    let workers = [worker(&site.without_plugin)?, worker(&site.with_plugin)?];
    for worker in workers {
        pin(worker)?;
    }
    let (pages, page_ms, page_percent) = measure_pages(site, workers)?;
    let (edit_ms, edit_added_ms) = measure_edits(site)?;
    Ok(PluginCost {
        page_ms,
        page_percent,
        pages,
        edit_ms,
        edit_added_ms,
        edits: EDITS,
        each: edit_cost::measure(site)?,
    })
}

fn measure_pages(
    site: &ExactnessSite,
    workers: [u32; 2],
) -> Result<(usize, Quartiles, Quartiles), TestkitError> {
    let targets: Vec<&str> = site
        .pages()
        .into_iter()
        .filter(|target| !target.contains('?'))
        .step_by(3)
        .collect();
    let hosts = [WITHOUT_PLUGIN_HOST, WITH_PLUGIN_HOST];
    let mut number = 0;
    let (mut plain_ms, mut added_percent) = (Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let mut spent_ms = [0.0; 2];
        for target in &targets {
            number += 1;
            let order = if number % 2 == 0 { [0, 1] } else { [1, 0] };
            for index in order {
                spent_ms[index] += generate(site, workers[index], hosts[index], target, number)?;
            }
        }
        // The first round fills PHP's cache of compiled files.
        if round > 0 {
            let [without, with] = spent_ms;
            plain_ms.push(without / count(targets.len()));
            added_percent.push((with / without - 1.0) * 100.0);
        }
    }
    let pages = targets.len() * ROUNDS;
    Ok((pages, spread(plain_ms)?, spread(added_percent)?))
}

/// Processor time in milliseconds that the worker takes for a page; `number` makes its address new, so that it is not stored.
fn generate(
    site: &ExactnessSite,
    worker: u32,
    host: &str,
    target: &str,
    number: u32,
) -> Result<f64, TestkitError> {
    let before = idle_cpu_time(worker)?;
    let response = Request::get(&format!("{target}?cost={number}"))
        .host(host)
        .timeout(TIMEOUT)
        .send(site.addr())?;
    if response.is_hit() {
        return Err(TestkitError::Refused(format!("{target} was not generated")));
    }
    let spent = idle_cpu_time(worker)?.saturating_sub(before);
    Ok(spent.as_secs_f64() * 1000.0)
}

fn measure_edits(site: &ExactnessSite) -> Result<(Quartiles, Quartiles), TestkitError> {
    let mut editors = [
        Editor::log_in(site, WITHOUT_PLUGIN_HOST)?,
        Editor::log_in(site, WITH_PLUGIN_HOST)?,
    ];
    let (mut plain_ms, mut added_ms) = (Vec::new(), Vec::new());
    for edit in 0..EDITS + WARM_EDITS {
        let mut spent_ms = [0.0; 2];
        let order = if edit % 2 == 0 { [0, 1] } else { [1, 0] };
        for index in order {
            let body = format!("{{\"content\":\"Edit {edit} of {index}.\"}}");
            let start = Instant::now();
            if let Some(editor) = editors.get_mut(index) {
                editor.rest("POST", "posts/[[post.26]]", &body)?;
            }
            spent_ms[index] = start.elapsed().as_secs_f64() * 1000.0;
        }
        let [without, with] = spent_ms;
        if edit >= WARM_EDITS {
            plain_ms.push(without);
            added_ms.push(with - without);
        }
    }
    Ok((spread(plain_ms)?, spread(added_ms)?))
}

fn worker(fpm: &crate::PhpFpm) -> Result<u32, TestkitError> {
    let worker = fpm.workers().first().copied();
    worker.ok_or_else(|| TestkitError::Refused("the pool has no worker".to_owned()))
}

/// Pins a worker to the last core that this process may use.
fn pin(worker: u32) -> Result<(), TestkitError> {
    let allowed = sched_getaffinity(None).context("get the allowed cores")?;
    let last = (0..CpuSet::MAX_CPU)
        .rev()
        .find(|core| allowed.is_set(*core));
    let mut only = CpuSet::new();
    only.set(last.unwrap_or(0));
    let pid = i32::try_from(worker).ok().and_then(Pid::from_raw);
    sched_setaffinity(pid, &only).context("pin a worker")
}

/// Waits until the process is idle, which is when its processor time stops growing; returns this time.
fn idle_cpu_time(pid: u32) -> Result<Duration, TestkitError> {
    let mut last = None;
    let is_idle = poll_until(TIMEOUT, || {
        let now = cpu_time(pid);
        let is_same = now.is_some() && now == last;
        last = now;
        is_same
    });
    match last {
        Some(time) if is_idle => Ok(time),
        _ => Err(TestkitError::Timeout {
            what: format!("process {pid} to be idle"),
            timeout: TIMEOUT,
            log: String::new(),
        }),
    }
}

/// The first number of `schedstat`: nanoseconds on a core, which does not grow while the process waits.
fn cpu_time(pid: u32) -> Option<Duration> {
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
    fn the_processor_time_of_a_process_can_be_read() {
        assert!(cpu_time(std::process::id()).unwrap() > Duration::ZERO);
    }
}
