//! Runs the events. For each: warm all pages, make the edit, fetch all pages, compare them with newly generated ones.

use std::time::Duration;

use super::{
    EventReport, ExactnessReport, ExactnessSettings, Progress, PurgeMethod, Suite, diff,
    editor::Editor,
    events::{self, Effect, Event, Theme},
    fetch_pages::{FetchedPage, fetch_pages},
    page_set::{ComparedPages, WarmPages},
    plugin_cost,
    test_site::{ExactnessSite, HOST, UNCACHED_HOST, has_object_cache, target_of},
};
use crate::TestkitError;

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
        let is_measured =
            settings.methods.contains(&PurgeMethod::Galley) && !self.events.is_empty();
        if is_measured && has_object_cache(settings.suite) {
            let used = object_cache_use(&site)?;
            progress(Progress::Step(&used));
        }
        if measure_cost {
            progress(Progress::Step("measuring the cost of the plugin"));
            report.cost = Some(plugin_cost::measure(&site)?);
        }
        report.pages = report.pages.max(site.targets.len());
        Ok(())
    }
}

/// How much the object cache was used, in words.
///
/// # Errors
/// [`TestkitError::Refused`] if it was not: the run would prove nothing about it.
fn object_cache_use(site: &ExactnessSite) -> Result<String, TestkitError> {
    let count = |name: &str| {
        site.counter(
            &format!("galley_object_cache_{name}_total"),
            PurgeMethod::Galley,
        )
    };
    let (requests, flushes) = (count("requests")?, count("flushes")?);
    let found = count("hits")? + count("sent_ahead")?;
    if found == 0 {
        return Err(TestkitError::Refused(
            "the object cache was never used".to_owned(),
        ));
    }
    Ok(format!(
        "object cache: {requests} requests, {found} values found, emptied {flushes} times"
    ))
}

/// A site with its current theme.
struct EventRunner<'s> {
    settings: &'s ExactnessSettings,
    pages: ComparedPages<'s>,
    theme: Theme,
}

impl<'s> EventRunner<'s> {
    fn new(
        site: &'s ExactnessSite,
        settings: &'s ExactnessSettings,
        theme: Theme,
    ) -> Result<Self, TestkitError> {
        let targets = site.targets.clone();
        let mut runner = Self {
            settings,
            pages: ComparedPages::new(site, &settings.methods, targets, CORRECTION_LIMIT),
            theme: Theme::Classic,
        };
        if theme == Theme::Classic {
            runner.fetch_reference()?;
        } else {
            runner.switch_theme(theme)?;
        }
        Ok(runner)
    }

    fn fetch_reference(&mut self) -> Result<(), TestkitError> {
        let varying = self.pages.fetch_reference()?;
        varying.first().map_or(Ok(()), |(page, difference)| {
            Err(TestkitError::Refused(format!(
                "{page} changes without an event:\n{difference}"
            )))
        })
    }

    /// Activates another theme, which is not an event.
    fn switch_theme(&mut self, theme: Theme) -> Result<(), TestkitError> {
        let wordpress = &self.pages.site.wordpress;
        wordpress.php(&format!("switch_theme('{}');", theme.name()))?;
        self.theme = theme;
        self.pages.purge_all()?;
        self.fetch_reference()
    }

    /// Replaces each page that an event moved by the page at its new address, because WordPress forbids caching its
    /// redirects from old addresses. The response at the old address has been compared before.
    fn follow_moved_pages(&mut self, before: &[FetchedPage]) -> Result<(), TestkitError> {
        for index in 0..self.pages.targets.len() {
            let pair = before.get(index).zip(self.pages.reference.get(index));
            let new_address = pair.and_then(|(before, after)| {
                after
                    .redirect_target()
                    .filter(|_| before.redirect_target().is_none())
            });
            let Some(target) = new_address.and_then(target_of) else {
                continue;
            };
            if self.pages.targets.contains(&target) {
                continue;
            }
            let fetched = fetch_pages(self.pages.site.addr(), UNCACHED_HOST, &[&target])?;
            if let (Some(page), Some(reference), Some(fetched)) = (
                self.pages.targets.get_mut(index),
                self.pages.reference.get_mut(index),
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
        let site = self.pages.site;
        let in_event = |error: TestkitError| {
            TestkitError::Refused(format!("event `{}`: {error}\n{}", event.name, site.log()))
        };
        let warm = self.pages.warm().map_err(in_event)?;
        self.require_hits(&warm).map_err(in_event)?;
        (event.run)(editor).map_err(in_event)?;
        let first = self.pages.fetch_first()?;
        if let Some(code) = event.before_reference {
            editor.command_line(code)?;
        }
        let effect = self.pages.compare(&warm, &first)?;
        self.require_effect(event, &effect.before)?;
        self.follow_moved_pages(&effect.before)?;
        Ok(EventReport {
            name: event.name.into(),
            description: event.description.into(),
            interface: event.interface,
            theme: self.theme.label(self.settings.suite),
            pages: self.pages.targets.len(),
            hits: warm.hit_count(),
            counts: effect.counts,
        })
    }

    /// Fails if fewer than 99 of 100 pages are hits.
    fn require_hits(&self, warm: &WarmPages) -> Result<(), TestkitError> {
        for (method, hits) in self.pages.methods.iter().zip(&warm.hits) {
            let pairs = self.pages.targets.iter().zip(hits);
            let misses: Vec<&str> = pairs
                .filter(|(_, is_hit)| !**is_hit)
                .map(|(target, _)| target.as_str())
                .collect();
            if misses.len() * 100 > hits.len() {
                return Err(TestkitError::Refused(format!(
                    "{} of {} pages of {} are not stored: {}",
                    misses.len(),
                    hits.len(),
                    method.name(),
                    misses.join(" ")
                )));
            }
        }
        Ok(())
    }

    /// Fails if the event did not have its expected effect: it would prove nothing about purges. On the few pages of the short
    /// suite, an event of the long suite may have no visible effect.
    fn require_effect(&self, event: &Event, before: &[FetchedPage]) -> Result<(), TestkitError> {
        let mut pairs = before.iter().zip(&self.pages.reference);
        let changed = pairs.position(|(before, after)| before.content != after.content);
        let actual = match (event.effect, changed) {
            (Effect::ChangesPages, None) => "changed no page".to_owned(),
            (Effect::ChangesNothing, Some(at)) => format!(
                "changed pages ({}:\n{})",
                self.pages.targets[at],
                diff::lines(&before[at].content, &self.pages.reference[at].content)
            ),
            (Effect::ChangesPages, Some(_)) | (Effect::ChangesNothing, None) => return Ok(()),
        };
        Err(TestkitError::Refused(format!(
            "event `{}` {actual}: it does not have the effect that its definition states",
            event.name
        )))
    }
}

/// A page that is still stale after this time counts as never correct.
const CORRECTION_LIMIT: Duration = Duration::from_secs(3);
