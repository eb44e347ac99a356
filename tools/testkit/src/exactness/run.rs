//! Runs the events. For each: warm all pages, make the edit, fetch all pages, compare them with newly generated ones.

use std::time::{Duration, Instant};

use super::{
    EventReport, ExactnessReport, ExactnessSettings, Progress, PurgeCounts, PurgeMethod, Suite,
    compare::{EventPages, compare},
    diff,
    editor::Editor,
    events::{self, Effect, Event, Theme},
    fetch_pages::{FetchedPage, fetch_pages},
    plugin_cost,
    test_site::{ExactnessSite, HOST, UNCACHED_HOST, target_of},
};
use crate::{TestkitError, wait::poll_until};

/// See [`super::run()`].
pub(super) fn run(
    settings: &ExactnessSettings,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<ExactnessReport, TestkitError> {
    let groups = event_groups(settings);
    let mut report = ExactnessReport {
        pages: 0,
        events: Vec::new(),
        cost: None,
    };
    let total = groups.iter().map(|group| group.events.len()).sum();
    for (number, group) in groups.iter().enumerate() {
        let measure_cost = settings.measure_cost && number == 0;
        if !group.events.is_empty() || measure_cost {
            group.run(settings, measure_cost, total, &mut report, progress)?;
        }
    }
    Ok(report)
}

/// Events that share a site.
struct EventGroup {
    suite: Suite,
    /// Sorted by theme, so that the site switches to each theme at most once.
    events: Vec<(Theme, &'static Event)>,
}

/// The requested events. Events of the shop have separate sites, because shop and languages change most pages.
fn event_groups(settings: &ExactnessSettings) -> Vec<EventGroup> {
    // An event requested by name runs in the short suite, too.
    let suite = if settings.only.is_empty() {
        settings.suite
    } else {
        Suite::Long
    };
    let group = |site: Suite, suite: Suite, themes: &[Theme]| {
        let events = themes.iter().flat_map(|theme| {
            let events = events::of(suite, *theme).into_iter();
            events.map(move |event| (*theme, event))
        });
        let is_requested = |(_, event): &(Theme, &Event)| {
            settings.only.is_empty() || settings.only.iter().any(|name| name == event.name)
        };
        EventGroup {
            suite: site,
            events: events.filter(is_requested).collect(),
        }
    };
    let mut groups = vec![group(settings.suite, suite, &Theme::ALL)];
    if suite == Suite::Long {
        let shop = |theme| group(Suite::Shop, Suite::Shop, &[theme]);
        groups.extend(Theme::ALL.map(shop));
    }
    groups
}

impl EventGroup {
    /// Starts the site and runs the events.
    fn run(
        &self,
        settings: &ExactnessSettings,
        measure_cost: bool,
        total: usize,
        report: &mut ExactnessReport,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), TestkitError> {
        progress(Progress::Step(
            "starting MariaDB, WordPress, PHP-FPM and Galley",
        ));
        let settings = &ExactnessSettings {
            suite: self.suite,
            ..settings.clone()
        };
        let site = ExactnessSite::start(settings)?;
        let mut editor = Editor::log_in(&site, HOST)?;
        if let Some((theme, _)) = self.events.first() {
            progress(Progress::Step("fetching every page twice"));
            let mut runner = EventRunner::new(&site, settings, *theme)?;
            for (theme, event) in &self.events {
                if runner.theme != *theme {
                    progress(Progress::Step("switching to the block theme"));
                    runner.switch_theme(*theme)?;
                }
                let event = runner.run_event(&mut editor, event)?;
                progress(Progress::Event(&event, report.events.len() + 1, total));
                report.events.push(event);
            }
        }
        if measure_cost {
            progress(Progress::Step("measuring the cost of the plugin"));
            report.cost = Some(plugin_cost::measure(&site)?);
        }
        report.pages = report.pages.max(site.targets.len());
        Ok(())
    }
}

/// A site with its current reference pages.
struct EventRunner<'s> {
    site: &'s ExactnessSite,
    settings: &'s ExactnessSettings,
    pages: Vec<String>,
    /// Each page as PHP last generated it without a cache.
    reference: Vec<FetchedPage>,
    theme: Theme,
}

impl<'s> EventRunner<'s> {
    fn new(
        site: &'s ExactnessSite,
        settings: &'s ExactnessSettings,
        theme: Theme,
    ) -> Result<Self, TestkitError> {
        let mut runner = Self {
            site,
            settings,
            pages: site.targets.clone(),
            reference: Vec::new(),
            theme: Theme::Classic,
        };
        if theme == Theme::Classic {
            runner.fetch_reference()?;
        } else {
            runner.switch_theme(theme)?;
        }
        Ok(runner)
    }

    /// Fetches the reference twice: a difference between two generations without an event would later count as a change.
    fn fetch_reference(&mut self) -> Result<(), TestkitError> {
        self.reference = self.fetch_uncached()?;
        let again = self.fetch_uncached()?;
        let pairs = self.pages.iter().zip(self.reference.iter().zip(&again));
        for (page, (one, other)) in pairs {
            if one.content != other.content {
                let difference = diff::lines(&one.content, &other.content);
                return Err(TestkitError::Refused(format!(
                    "{page} changes without an event:\n{difference}"
                )));
            }
        }
        Ok(())
    }

    /// Activates another theme, which is not an event.
    fn switch_theme(&mut self, theme: Theme) -> Result<(), TestkitError> {
        self.site
            .wordpress
            .php(&format!("switch_theme('{}');", theme.name()))?;
        self.theme = theme;
        for method in &self.settings.methods {
            self.site.purge(*method, &["*".to_owned()])?;
        }
        self.fetch_reference()
    }

    fn fetch_uncached(&self) -> Result<Vec<FetchedPage>, TestkitError> {
        self.fetch(UNCACHED_HOST)
    }

    fn fetch(&self, host: &str) -> Result<Vec<FetchedPage>, TestkitError> {
        fetch_pages(self.site.addr(), host, &self.targets())
    }

    fn targets(&self) -> Vec<&str> {
        self.pages.iter().map(String::as_str).collect()
    }

    /// Replaces each page that an event moved by the page at its new address, because WordPress forbids caching its
    /// redirects from old addresses. The response at the old address has been compared before.
    fn follow_moved_pages(&mut self, before: &[FetchedPage]) -> Result<(), TestkitError> {
        for index in 0..self.pages.len() {
            let pair = before.get(index).zip(self.reference.get(index));
            let new_address = pair.and_then(|(before, after)| {
                after
                    .redirect_target()
                    .filter(|_| before.redirect_target().is_none())
            });
            let Some(target) = new_address.and_then(target_of) else {
                continue;
            };
            if self.pages.contains(&target) {
                continue;
            }
            let fetched = fetch_pages(self.site.addr(), UNCACHED_HOST, &[&target])?;
            if let (Some(page), Some(reference), Some(fetched)) = (
                self.pages.get_mut(index),
                self.reference.get_mut(index),
                fetched.into_iter().next(),
            ) {
                *page = target;
                *reference = fetched;
            }
        }
        Ok(())
    }

    /// Runs one event and counts its effect.
    fn run_event(
        &mut self,
        editor: &mut Editor<'_>,
        event: &Event,
    ) -> Result<EventReport, TestkitError> {
        let in_event = |error: TestkitError| {
            TestkitError::Refused(format!(
                "event `{}`: {error}\n{}",
                event.name,
                self.site.log()
            ))
        };
        let mut hits = Vec::new();
        for method in &self.settings.methods {
            hits.push(self.warm(*method).map_err(in_event)?);
        }
        for method in &self.settings.methods {
            self.site.take_recorded_purges(*method)?;
        }
        let fetches_before = self.fetch_counts()?;
        (event.run)(editor).map_err(in_event)?;
        let responded_at = Instant::now();
        let mut first = Vec::new();
        for method in &self.settings.methods {
            let recorded = self.site.take_recorded_purges(*method)?;
            self.site.purge(*method, &recorded)?;
            first.push(self.fetch(method.host())?);
        }
        if let Some(code) = event.before_reference {
            editor.command_line(code)?;
        }
        let fetches_after = self.fetch_counts()?;
        let after = self.fetch_uncached()?;
        let mut counts = self.counts(&hits, &first, &after, responded_at)?;
        for (counts, (before, after)) in counts
            .iter_mut()
            .zip(fetches_before.iter().zip(fetches_after))
        {
            counts.php_requests =
                usize::try_from(after.saturating_sub(*before)).unwrap_or_default();
            counts.overpurge_requests = counts
                .php_requests
                .saturating_sub(counts.purged - counts.overpurged);
        }
        let before = std::mem::replace(&mut self.reference, after);
        self.require_effect(event, &before)?;
        self.follow_moved_pages(&before)?;
        Ok(EventReport {
            name: event.name,
            description: event.description,
            interface: event.interface,
            theme: self.theme.label(self.settings.suite),
            pages: self.pages.len(),
            hits: hits
                .iter()
                .map(|hits| hits.iter().filter(|hit| **hit).count())
                .min()
                .unwrap_or(0),
            counts,
        })
    }

    /// The number of pages and fragments that the server has fetched for each purge method.
    fn fetch_counts(&self) -> Result<Vec<u64>, TestkitError> {
        let methods = self.settings.methods.iter();
        methods
            .map(|method| self.site.counter("galley_fills_total", *method))
            .collect()
    }

    fn counts(
        &self,
        hits: &[Vec<bool>],
        first: &[Vec<FetchedPage>],
        after: &[FetchedPage],
        responded_at: Instant,
    ) -> Result<Vec<PurgeCounts>, TestkitError> {
        let mut all = Vec::new();
        for (method, (were_hits, first)) in self.settings.methods.iter().zip(hits.iter().zip(first))
        {
            let mut counts = compare(&EventPages {
                targets: &self.targets(),
                were_hits,
                before: &self.reference,
                first,
                after,
                responded_at,
            });
            if counts.corrected_after.is_none() && *method == PurgeMethod::Galley {
                counts.corrected_after =
                    self.wait_until_correct(*method, first, after, responded_at)?;
            }
            all.push(counts);
        }
        Ok(all)
    }

    /// Time until all pages that were stale at first were correct; `None` after [`CORRECTION_LIMIT`].
    fn wait_until_correct(
        &self,
        method: PurgeMethod,
        first: &[FetchedPage],
        after: &[FetchedPage],
        responded_at: Instant,
    ) -> Result<Option<Duration>, TestkitError> {
        let stale: Vec<(&str, &FetchedPage)> = self
            .pages
            .iter()
            .zip(first.iter().zip(after))
            .filter(|(_, (first, after))| first.content != after.content)
            .map(|(page, (_, after))| (page.as_str(), after))
            .collect();
        let targets: Vec<&str> = stale.iter().map(|(page, _)| *page).collect();
        let mut error = None;
        let is_correct = poll_until(CORRECTION_LIMIT, || {
            match fetch_pages(self.site.addr(), method.host(), &targets) {
                Ok(pages) => pages
                    .iter()
                    .zip(&stale)
                    .all(|(page, (_, expected))| page.content == expected.content),
                Err(failure) => {
                    error = Some(failure);
                    true
                }
            }
        });
        match error {
            Some(error) => Err(error),
            None => Ok(is_correct.then(|| responded_at.elapsed())),
        }
    }

    /// Fetches every page of a site until it is a hit that equals the reference; returns for each page whether it is a hit.
    ///
    /// # Errors
    /// [`TestkitError::Refused`] if fewer than 99 of 100 pages are hits, or one differs from the reference.
    fn warm(&self, method: PurgeMethod) -> Result<Vec<bool>, TestkitError> {
        let fetch = || self.fetch(method.host());
        let differing = |pages: &[FetchedPage]| -> Vec<String> {
            let pairs = self.pages.iter().zip(pages.iter().zip(&self.reference));
            pairs
                .filter(|(_, (page, reference))| page.content != reference.content)
                .map(|(target, _)| target.clone())
                .collect()
        };
        let stale = differing(&fetch()?);
        self.site.purge(method, &stale)?;
        if !stale.is_empty() {
            fetch()?;
        }
        let fetched = fetch()?;
        let pairs = self.pages.iter().zip(fetched.iter().zip(&self.reference));
        for (target, (page, reference)) in pairs {
            if page.content != reference.content {
                return Err(TestkitError::Refused(format!(
                    "{target} of {} differs from the reference after a purge:\n{}",
                    method.name(),
                    diff::lines(&page.content, &reference.content)
                )));
            }
        }
        let misses: Vec<&str> = self
            .pages
            .iter()
            .zip(&fetched)
            .filter(|(_, page)| !page.is_hit)
            .map(|(target, _)| target.as_str())
            .collect();
        if misses.len() * 100 > self.pages.len() {
            return Err(TestkitError::Refused(format!(
                "{} of {} pages of {} are not stored: {}",
                misses.len(),
                self.pages.len(),
                method.name(),
                misses.join(" ")
            )));
        }
        Ok(fetched.iter().map(|page| page.is_hit).collect())
    }

    /// Fails if the event did not have its expected effect: it would prove nothing about purges. On the few pages of the short
    /// suite, an event of the long suite may have no visible effect.
    fn require_effect(&self, event: &Event, before: &[FetchedPage]) -> Result<(), TestkitError> {
        let changed = before
            .iter()
            .zip(&self.reference)
            .any(|(before, after)| before.content != after.content);
        let actual = match event.effect {
            Effect::ChangesPages if !changed => "changed no page",
            Effect::ChangesNothing if changed => "changed pages",
            Effect::ChangesPages | Effect::ChangesNothing => return Ok(()),
        };
        Err(TestkitError::Refused(format!(
            "event `{}` {actual}: it does not have the effect that its definition states",
            event.name
        )))
    }
}

/// A page that is still stale after this time counts as never correct.
const CORRECTION_LIMIT: Duration = Duration::from_secs(3);
