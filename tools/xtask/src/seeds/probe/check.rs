//! Which function checks which trouble.

use super::{content, serving, visitors};
use crate::{
    demo::CommandError,
    seeds::{
        article::Probe,
        outcome::{LineOutcome, Verdict},
        stack::Stack,
        stage::Stage,
    },
};

/// Checks one trouble of a stack; `None` where that is found out in another way, or where no line was measured.
///
/// # Errors
/// When a signal has come. What goes wrong with the stack is a verdict.
pub(in crate::seeds) fn check(
    probe: Probe,
    stage: &Stage,
    stack: &mut Stack,
    lines: &[LineOutcome],
) -> Result<Option<Verdict>, CommandError> {
    let outcome = match probe {
        Probe::Memory(most) => return Ok(memory(stack, lines, most)),
        Probe::Load => return Ok(load(stack, lines)),
        Probe::Scheduled => return Ok(None),
        Probe::Mobile => visitors::mobile(stage, stack),
        Probe::Login => visitors::login(stage, stack),
        Probe::LoggedIn => visitors::logged_in(stage, stack),
        Probe::Commenter => visitors::commenter(stage, stack),
        Probe::Purge => content::purge(stage, stack),
        Probe::CacheControl => content::cache_control(stage, stack),
        Probe::Pictures => serving::pictures(stage, stack),
        Probe::Connections => serving::connections(stage, stack),
        Probe::Outage => serving::outage(stage, stack),
        Probe::Hidden => serving::hidden(stack),
        Probe::Stampede => Ok(serving::stampede(stage, stack)),
        Probe::Rush => serving::rush(stage, stack),
    };
    stage.interrupt.check()?;
    let failed = |complaint: CommandError| {
        let text = complaint.to_string();
        Verdict::of(false, text.lines().next().unwrap_or_default())
    };
    Ok(Some(outcome.unwrap_or_else(failed)))
}

fn memory(stack: &Stack, lines: &[LineOutcome], most: u32) -> Option<Verdict> {
    let rows = lines.iter().filter_map(|line| line.row(stack.plan.role));
    let memory = rows.map(|row| row.memory_mb).reduce(f64::max)?;
    let passed = memory <= f64::from(most);
    Some(Verdict::of(passed, format!("{memory:.0} MB")))
}

fn load(stack: &Stack, lines: &[LineOutcome]) -> Option<Verdict> {
    let rows: Vec<_> = lines
        .iter()
        .filter_map(|line| line.row(stack.plan.role))
        .collect();
    let failed: u64 = rows.iter().map(|row| row.failed).sum();
    let requests: u64 = rows.iter().map(|row| row.requests).sum();
    let detail = match rows.iter().find_map(|row| row.trouble.as_deref()) {
        Some(trouble) => format!(
            "{failed} failures: {}",
            trouble.lines().next().unwrap_or("")
        ),
        None => format!("{requests} requests"),
    };
    (!rows.is_empty()).then(|| Verdict::of(failed == 0, detail))
}
