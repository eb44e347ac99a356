//! A scheduled post, and the time at which each stack shows it. All stacks of an article have the same WordPress and the same post: Galley
//! runs WordPress's scheduled tasks, and all stacks are visited from the same time on.

use std::{
    thread,
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::{
    error::CommandError,
    seeds::{
        clients::{Editor, visit},
        environment::SeedsEnvironment,
        results::ProbeVerdict,
        stack::Stack,
    },
};

/// A scheduled post and the time at which it is due.
#[derive(Debug)]
pub(in crate::seeds) struct ScheduledPost {
    title: String,
    due: Instant,
}

impl ScheduledPost {
    /// Schedules a post through a stack. WordPress publishes a post immediately if its date is less than a minute ahead.
    pub(in crate::seeds) fn create(
        environment: &SeedsEnvironment,
        stack: &Stack,
    ) -> Result<Self, CommandError> {
        let title = format!("Scheduled {}", environment.probe_name());
        let date = Timestamp::now().checked_add(SignedDuration::try_from(AHEAD)?)?;
        let post = json!({
            "title": title, "content": "A tide table.", "status": "future",
            "date_gmt": date.strftime("%Y-%m-%dT%H:%M:%S").to_string(),
        });
        let due = Instant::now() + AHEAD;
        Editor::log_in(environment, stack)?.rest("POST", "posts", &post)?;
        Ok(Self { title, due })
    }

    /// Visits the home page of each stack once a second, from a few seconds before the post is due until all stacks show it. Returns the
    /// verdicts in the order of the stacks. A page that is stored just before that time is the oldest that a visitor can receive.
    pub(in crate::seeds) fn watch(
        &self,
        environment: &SeedsEnvironment,
        stacks: &[Stack],
    ) -> Result<Vec<ProbeVerdict>, CommandError> {
        let mut delays: Vec<Option<Duration>> = vec![None; stacks.len()];
        while Instant::now() + EARLY < self.due {
            environment.interrupt.check()?;
            thread::sleep(INTERVAL);
        }
        loop {
            environment.interrupt.check()?;
            let late = Instant::now().saturating_duration_since(self.due);
            for (stack, delay) in stacks.iter().zip(&mut delays) {
                let shows_post =
                    || visit(stack, "/").is_ok_and(|page| page.text.contains(&self.title));
                if delay.is_none() && shows_post() {
                    *delay = Some(late);
                }
            }
            if delays.iter().all(Option::is_some) || late > MAX_DELAY + Duration::from_secs(2) {
                break;
            }
            thread::sleep(INTERVAL);
        }
        Ok(delays.into_iter().map(verdict).collect())
    }
}

fn verdict(delay: Option<Duration>) -> ProbeVerdict {
    match delay {
        Some(delay) => ProbeVerdict::of(delay <= MAX_DELAY, format!("after {} s", delay.as_secs())),
        None => ProbeVerdict::of(false, format!("not after {} s", MAX_DELAY.as_secs())),
    }
}

const INTERVAL: Duration = Duration::from_secs(1);
const EARLY: Duration = Duration::from_secs(3);
const AHEAD: Duration = Duration::from_secs(65);
/// The delay that the article's author accepts.
const MAX_DELAY: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_post_may_appear_a_minute_late() {
        let after = |seconds: u64| verdict(Some(Duration::from_secs(seconds))).passed;
        assert!(after(0) && after(60) && !after(61));
        assert!(!verdict(None).passed);
    }
}
