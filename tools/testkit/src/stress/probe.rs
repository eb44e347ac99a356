//! The two measurements of a part: a stored page over one connection, and an editor's save.

use std::time::Duration;

use super::editor::Editor;
use super::site::{HOST, StressSite};
use super::visitor::{Expected, Visitor, VisitorCounts, raise_priority, restore_priority};
use super::{PartReport, StressSettings, Times};
use crate::TestkitError;
use crate::growth::load::percentile;
use crate::wait::pause;

/// The moment of a measurement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    Quiet,
    Loaded,
}

/// A visitor and an editor whose requests are timed.
pub(super) struct Probe {
    visitor: Visitor,
    editor: Editor,
    pages: u64,
    saves: u64,
}

impl Probe {
    /// Creates the probe and logs the editor in.
    pub(super) fn new(settings: &StressSettings, site: &StressSite) -> Result<Self, TestkitError> {
        Ok(Self {
            visitor: Visitor::new(site.addr(), HOST),
            editor: Editor::log_in(site)?,
            pages: settings.length.pick(200, 20_000),
            saves: settings.length.pick(2, 15),
        })
    }

    /// Measures both times and adds the requests to the report.
    pub(super) fn measure(&mut self, site: &StressSite, when: When, report: &mut PartReport) {
        let raised = raise_priority();
        self.measure_pages(site, when, report);
        self.measure_saves(when, report);
        restore_priority(raised);
    }

    fn measure_pages(&mut self, site: &StressSite, when: When, report: &mut PartReport) {
        let mut counts = VisitorCounts::default();
        let mut times: Vec<Duration> = (0..self.pages)
            .map(|number| {
                pause(PAUSE);
                let page = site.page(number);
                self.visitor.get(&page, Expected::Stored, &mut counts)
            })
            .collect();
        times.sort_unstable();
        set(&mut report.page, when, percentile(&times, 99));
        report.add(counts);
    }

    fn measure_saves(&mut self, when: When, report: &mut PartReport) {
        let (mut times, mut errors) = (Vec::new(), Vec::new());
        for number in 0..self.saves {
            // A failed save counts as the timeout of an editor, longer than any successful one.
            let took = self.editor.save(number).unwrap_or_else(|why| {
                errors.push(why);
                Editor::TIMEOUT
            });
            times.push(took);
        }
        report.requests += self.saves;
        report.rejected += errors.len() as u64;
        if let Some(why) = errors.first() {
            let (count, all) = (errors.len(), self.saves);
            report
                .notes
                .push(format!("{count} of {all} saves failed: {why}"));
        }
        times.sort_unstable();
        set(&mut report.save, when, percentile(&times, 50));
    }
}

fn set(times: &mut Times, when: When, took: Duration) {
    match when {
        When::Quiet => times.quiet = Some(took),
        When::Loaded => times.loaded = Some(took),
    }
}

/// The pause between two pages: 20,000 of them sample a third of a minute of load.
const PAUSE: Duration = Duration::from_millis(1);
