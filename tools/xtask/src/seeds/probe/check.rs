//! Calls the function for each probe.

use super::{content, serving, visitors};
use crate::{
    error::CommandError,
    seeds::{
        article::Probe,
        environment::SeedsEnvironment,
        results::{AbLineResult, ProbeVerdict},
        stack::Stack,
    },
};

/// Runs one probe on a stack; `None` if the probe runs elsewhere, or needs a measurement that was not made.
///
/// # Errors
/// When a signal was received. An error of the stack is a failed verdict.
pub(in crate::seeds) fn check(
    probe: Probe,
    environment: &SeedsEnvironment,
    stack: &mut Stack,
    lines: &[AbLineResult],
) -> Result<Option<ProbeVerdict>, CommandError> {
    let result = match probe {
        Probe::Memory(max_mb) => return Ok(memory(stack, lines, max_mb)),
        Probe::Load => return Ok(load(stack, lines)),
        Probe::Scheduled => return Ok(None),
        Probe::Mobile => visitors::mobile(environment, stack),
        Probe::Login => visitors::login(environment, stack),
        Probe::LoggedIn => visitors::logged_in(environment, stack),
        Probe::Commenter => visitors::commenter(environment, stack),
        Probe::Purge => content::purge(environment, stack),
        Probe::CacheControl => content::cache_control(environment, stack),
        Probe::Pictures => serving::pictures(environment, stack),
        Probe::Connections => serving::connections(environment, stack),
        Probe::PhpOutage => serving::php_outage(environment, stack),
        Probe::HiddenFile => serving::hidden_file(stack),
        Probe::Stampede => Ok(serving::stampede(environment, stack)),
        Probe::RisingLoad => serving::rising_load(environment, stack),
    };
    environment.interrupt.check()?;
    let failed = |error: CommandError| {
        let text = error.to_string();
        ProbeVerdict::of(false, text.lines().next().unwrap_or_default())
    };
    Ok(Some(result.unwrap_or_else(failed)))
}

fn memory(stack: &Stack, lines: &[AbLineResult], max_mb: u32) -> Option<ProbeVerdict> {
    let figures = lines.iter().filter_map(|line| line.row(stack.plan.role));
    let memory = figures.map(|row| row.memory_mb).reduce(f64::max)?;
    let passed = memory <= f64::from(max_mb);
    Some(ProbeVerdict::of(passed, format!("{memory:.0} MB")))
}

fn load(stack: &Stack, lines: &[AbLineResult]) -> Option<ProbeVerdict> {
    let figures: Vec<_> = lines
        .iter()
        .filter_map(|line| line.row(stack.plan.role))
        .collect();
    let failed: u64 = figures.iter().map(|row| row.failed).sum();
    let requests: u64 = figures.iter().map(|row| row.requests).sum();
    let detail = match figures.iter().find_map(|row| row.first_failure.as_deref()) {
        Some(failure) => format!(
            "{failed} failures: {}",
            failure.lines().next().unwrap_or("")
        ),
        None => format!("{requests} requests"),
    };
    (!figures.is_empty()).then(|| ProbeVerdict::of(failed == 0, detail))
}
