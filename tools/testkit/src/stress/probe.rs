//! The two measures of a part: a stored page over one connection, and an editor's save.

use std::time::Duration;

use super::editor::Editor;
use super::stage::{HOST, Stage};
use super::visitors::{Counted, Visitor, Wanted, step_down, step_forward};
use super::{Row, Setting, Times};
use crate::TestkitError;
use crate::growth::asker::per_mille;
use crate::wait::pause;

/// When something is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Quiet,
    Loaded,
}

/// A visitor and an editor who look at the clock.
pub(super) struct Probe {
    visitor: Visitor,
    editor: Editor,
    pages: u64,
    saves: u64,
}

impl Probe {
    /// The editor is logged in when this returns.
    pub(super) fn new(setting: &Setting, stage: &Stage) -> Result<Self, TestkitError> {
        Ok(Self {
            visitor: Visitor::new(stage.addr(), HOST),
            editor: Editor::log_in(stage)?,
            pages: setting.form.pick(200, 20_000),
            saves: setting.form.pick(2, 15),
        })
    }

    /// Takes both times and counts what was asked.
    pub(super) fn measure(&mut self, stage: &Stage, when: When, row: &mut Row) {
        let ahead = step_forward();
        self.take(stage, when, row);
        step_down(ahead);
    }

    fn take(&mut self, stage: &Stage, when: When, row: &mut Row) {
        let mut counted = Counted::default();
        let mut took: Vec<Duration> = (0..self.pages)
            .map(|number| {
                pause(BREATH);
                let page = stage.page(number);
                self.visitor.get(&page, Wanted::Stored, &mut counted)
            })
            .collect();
        took.sort_unstable();
        note(&mut row.page, when, per_mille(&took, 990));
        row.count(counted, Counted::default());
        let (mut saved, mut refused) = (Vec::new(), Vec::new());
        for number in 0..self.saves {
            // A save that was refused took longer than any: it counts as the timeout that an editor has.
            let took = self.editor.save(number).unwrap_or_else(|why| {
                refused.push(why);
                Editor::TIMEOUT
            });
            saved.push(took);
        }
        row.requests += self.saves;
        row.refused += refused.len() as u64;
        if let Some(why) = refused.first() {
            let (count, all) = (refused.len(), self.saves);
            row.notes
                .push(format!("{count} of {all} saves were refused: {why}"));
        }
        saved.sort_unstable();
        note(&mut row.save, when, per_mille(&saved, 500));
    }
}

fn note(times: &mut Times, when: When, took: Duration) {
    match when {
        When::Quiet => times.quiet = Some(took),
        When::Loaded => times.loaded = Some(took),
    }
}

/// Between two pages: twenty thousand of them see a third of a minute of load.
const BREATH: Duration = Duration::from_millis(1);
