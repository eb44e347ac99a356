//! A post that is scheduled, and when each stack shows it. One post for all stacks of an article, behind one WordPress: Galley
//! runs WordPress's tasks, and the others are looked at from the same moment on.

use std::{
    thread,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::{
    demo::CommandError,
    seeds::{
        editor::{Editor, visit},
        outcome::Verdict,
        stack::Stack,
        stage::Stage,
    },
};

/// It is due.
#[derive(Debug)]
pub(in crate::seeds) struct Scheduled {
    title: String,
    due: Instant,
}

impl Scheduled {
    /// Schedules a post through this stack. WordPress takes less than a minute for no future.
    pub(in crate::seeds) fn plan(stage: &Stage, stack: &Stack) -> Result<Self, CommandError> {
        let title = format!("Scheduled {}", stage.probe_name());
        let date = Timestamp::now().checked_add(SignedDuration::try_from(AHEAD)?)?;
        let post = json!({
            "title": title, "content": "A tide table.", "status": "future",
            "date_gmt": date.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
        });
        let due = Instant::now() + AHEAD;
        Editor::log_in(stage, stack)?.rest("POST", "posts", &post)?;
        Ok(Self { title, due })
    }

    /// Visits the home page of each stack once a second, from some seconds before the time until all show the post; the verdicts are
    /// in their order. A page that is stored just before is the oldest that a visitor can get.
    pub(in crate::seeds) fn look(
        &self,
        stage: &Stage,
        stacks: &[Stack],
    ) -> Result<Vec<Verdict>, CommandError> {
        let mut seen: Vec<Option<Duration>> = vec![None; stacks.len()];
        while Instant::now() + EARLY < self.due {
            stage.interrupt.check()?;
            thread::sleep(PAUSE);
        }
        loop {
            stage.interrupt.check()?;
            let late = Instant::now().saturating_duration_since(self.due);
            for (stack, seen) in stacks.iter().zip(&mut seen) {
                let shows = || visit(stack, "/").is_ok_and(|page| page.text.contains(&self.title));
                if seen.is_none() && shows() {
                    *seen = Some(late);
                }
            }
            if seen.iter().all(Option::is_some) || late > MOST + Duration::from_secs(2) {
                break;
            }
            thread::sleep(PAUSE);
        }
        Ok(seen.into_iter().map(verdict).collect())
    }
}

fn verdict(seen: Option<Duration>) -> Verdict {
    match seen {
        Some(late) => Verdict::of(late <= MOST, format!("after {} s", late.as_secs())),
        None => Verdict::of(false, format!("not after {} s", MOST.as_secs())),
    }
}

const PAUSE: Duration = Duration::from_secs(1);
const EARLY: Duration = Duration::from_secs(3);
const AHEAD: Duration = Duration::from_secs(65);
/// What its author allows.
const MOST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_allowed() {
        let after = |seconds: u64| verdict(Some(Duration::from_secs(seconds))).passed;
        assert!(after(0) && after(60) && !after(61));
        assert!(!verdict(None).passed);
    }
}
