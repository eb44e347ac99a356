//! The run: warm, act, look, compare, count; again for each event.

use std::time::{Duration, Instant};

use super::{
    Event, Form, Outcome, Progress, Setting, Tally, With, cost,
    count::{Around, tally},
    diff,
    editor::Editor,
    events::{self, Act, Effect, Theme},
    look::{Seen, look},
    site::{FRESH, HOST, Site, target_of},
};
use crate::{TestkitError, wait::poll_until};

/// See [`super::run()`].
pub(super) fn run(
    setting: &Setting,
    said: &mut dyn FnMut(Progress<'_>),
) -> Result<Outcome, TestkitError> {
    let parts = parts(setting);
    let mut outcome = Outcome {
        pages: 0,
        events: Vec::new(),
        cost: None,
    };
    let all = parts.iter().map(|part| part.acts.len()).sum();
    for (number, part) in parts.iter().enumerate() {
        let cost = setting.cost && number == 0;
        if !part.acts.is_empty() || cost {
            part.run(setting, cost, all, &mut outcome, said)?;
        }
    }
    Ok(outcome)
}

/// Events that share a site.
struct Part {
    form: Form,
    /// In this order, which names a theme at most once.
    acts: Vec<(Theme, &'static Act)>,
}

/// The acts that are asked for. What the shop and the languages bring to pages stays away from the other events.
fn parts(setting: &Setting) -> Vec<Part> {
    // An event that is named is done, also with few pages.
    let form = if setting.only.is_empty() {
        setting.form
    } else {
        Form::Long
    };
    let part = |form: Form, events: Form, themes: &[Theme]| {
        let acts = themes.iter().flat_map(|theme| {
            let acts = events::of(events, *theme).into_iter();
            acts.map(move |act| (*theme, act))
        });
        let chosen = |(_, act): &(Theme, &Act)| {
            setting.only.is_empty() || setting.only.iter().any(|name| name == act.name)
        };
        Part {
            form,
            acts: acts.filter(chosen).collect(),
        }
    };
    let mut parts = vec![part(setting.form, form, &Theme::ALL)];
    if form == Form::Long {
        let shop = |theme| part(Form::Shop, Form::Shop, &[theme]);
        parts.extend(Theme::ALL.map(shop));
    }
    parts
}

impl Part {
    /// Starts the site and does its events.
    fn run(
        &self,
        setting: &Setting,
        cost: bool,
        all: usize,
        outcome: &mut Outcome,
        said: &mut dyn FnMut(Progress<'_>),
    ) -> Result<(), TestkitError> {
        said(Progress::Step(
            "starting MariaDB, WordPress, PHP-FPM and Galley",
        ));
        let setting = &Setting {
            form: self.form,
            ..setting.clone()
        };
        let site = Site::start(setting)?;
        let mut editor = Editor::log_in(&site, HOST)?;
        if let Some((theme, _)) = self.acts.first() {
            said(Progress::Step("fetching every page twice"));
            let mut stage = Stage::new(&site, setting, *theme)?;
            for (theme, act) in &self.acts {
                if stage.theme != *theme {
                    said(Progress::Step("switching to the block theme"));
                    stage.switch(*theme)?;
                }
                let event = stage.event(&mut editor, act)?;
                said(Progress::Event(&event, outcome.events.len() + 1, all));
                outcome.events.push(event);
            }
        }
        if cost {
            said(Progress::Step("measuring what the plugin costs"));
            outcome.cost = Some(cost::measure(&site)?);
        }
        outcome.pages = outcome.pages.max(site.targets.len());
        Ok(())
    }
}

/// The site with what is true of it now.
struct Stage<'s> {
    site: &'s Site,
    setting: &'s Setting,
    pages: Vec<String>,
    /// Each page as PHP generated it last without a cache.
    truth: Vec<Seen>,
    theme: Theme,
}

impl<'s> Stage<'s> {
    fn new(site: &'s Site, setting: &'s Setting, theme: Theme) -> Result<Self, TestkitError> {
        let mut stage = Self {
            site,
            setting,
            pages: site.targets.clone(),
            truth: Vec::new(),
            theme: Theme::Classic,
        };
        if theme == Theme::Classic {
            stage.settle()?;
        } else {
            stage.switch(theme)?;
        }
        Ok(stage)
    }

    /// Learns the truth, and that it holds still: what differs between two compositions without an event would be taken
    /// for a change later.
    fn settle(&mut self) -> Result<(), TestkitError> {
        self.truth = self.fresh()?;
        let again = self.fresh()?;
        let moved = self.pages.iter().zip(self.truth.iter().zip(&again));
        for (page, (one, other)) in moved {
            if one.essence != other.essence {
                let difference = diff::lines(&one.essence, &other.essence);
                return Err(TestkitError::Refused(format!(
                    "{page} changes without an event:\n{difference}"
                )));
            }
        }
        Ok(())
    }

    /// Another theme, which is no event.
    fn switch(&mut self, theme: Theme) -> Result<(), TestkitError> {
        self.site
            .wordpress
            .php(&format!("switch_theme('{}');", theme.name()))?;
        self.theme = theme;
        for with in &self.setting.with {
            self.site.purge(*with, &["*".to_owned()])?;
        }
        self.settle()
    }

    fn fresh(&self) -> Result<Vec<Seen>, TestkitError> {
        self.look(FRESH)
    }

    fn look(&self, host: &str) -> Result<Vec<Seen>, TestkitError> {
        look(self.site.addr(), host, &self.targets())
    }

    fn targets(&self) -> Vec<&str> {
        self.pages.iter().map(String::as_str).collect()
    }

    /// Where an event moved a page, the page is from now on the one at the new address: WordPress forbids to keep its
    /// redirects from old addresses. That the old address was right after the event is counted by then.
    fn follow(&mut self, before: &[Seen]) -> Result<(), TestkitError> {
        for place in 0..self.pages.len() {
            let moved = before.get(place).zip(self.truth.get(place));
            let to = moved.and_then(|(before, after)| {
                after.moved_to().filter(|_| before.moved_to().is_none())
            });
            let Some(to) = to.and_then(target_of) else {
                continue;
            };
            if self.pages.contains(&to) {
                continue;
            }
            let new = look(self.site.addr(), FRESH, &[&to])?;
            if let (Some(page), Some(truth), Some(new)) = (
                self.pages.get_mut(place),
                self.truth.get_mut(place),
                new.into_iter().next(),
            ) {
                *page = to;
                *truth = new;
            }
        }
        Ok(())
    }

    /// Does one act and counts what it did.
    fn event(&mut self, editor: &mut Editor<'_>, act: &Act) -> Result<Event, TestkitError> {
        let during = |trouble: TestkitError| {
            TestkitError::Refused(format!(
                "event `{}`: {trouble}\n{}",
                act.name,
                self.site.log()
            ))
        };
        let mut warm = Vec::new();
        for with in &self.setting.with {
            warm.push(self.warm(*with).map_err(during)?);
        }
        for with in &self.setting.with {
            self.site.noted(*with)?;
        }
        let fetched = self.fetched()?;
        (act.run)(editor).map_err(during)?;
        let answered = Instant::now();
        let mut first = Vec::new();
        for with in &self.setting.with {
            let noted = self.site.noted(*with)?;
            self.site.purge(*with, &noted)?;
            first.push(self.look(with.host())?);
        }
        if let Some(code) = act.later {
            editor.command_line(code)?;
        }
        let fetched_then = self.fetched()?;
        let after = self.fresh()?;
        let mut tallies = self.tallies(&warm, &first, &after, answered)?;
        for (tally, (before, then)) in tallies.iter_mut().zip(fetched.iter().zip(fetched_then)) {
            tally.php_requests = usize::try_from(then.saturating_sub(*before)).unwrap_or_default();
            tally.over_requests = tally.php_requests.saturating_sub(tally.purged - tally.over);
        }
        let before = std::mem::replace(&mut self.truth, after);
        self.require_effect(act, &before)?;
        self.follow(&before)?;
        Ok(Event {
            name: act.name,
            what: act.what,
            way: act.way,
            theme: self.theme.label(self.setting.form),
            pages: self.pages.len(),
            hits: warm
                .iter()
                .map(|hits| hits.iter().filter(|hit| **hit).count())
                .min()
                .unwrap_or(0),
            tallies,
        })
    }

    /// What the server has fetched for each way of purging: pages and fragments.
    fn fetched(&self) -> Result<Vec<u64>, TestkitError> {
        let all = self.setting.with.iter();
        all.map(|with| self.site.counter("galley_fills_total", *with))
            .collect()
    }

    fn tallies(
        &self,
        warm: &[Vec<bool>],
        first: &[Vec<Seen>],
        after: &[Seen],
        answered: Instant,
    ) -> Result<Vec<Tally>, TestkitError> {
        let mut tallies = Vec::new();
        for (with, (were_hits, first)) in self.setting.with.iter().zip(warm.iter().zip(first)) {
            let mut counted = tally(&Around {
                targets: &self.targets(),
                were_hits,
                before: &self.truth,
                first,
                after,
                answered,
            });
            if counted.right_after.is_none() && *with == With::Galley {
                counted.right_after = self.late(*with, first, after, answered)?;
            }
            tallies.push(counted);
        }
        Ok(tallies)
    }

    /// How long it took until pages that were stale at first were right; `None` when they were not for seconds.
    fn late(
        &self,
        with: With,
        first: &[Seen],
        after: &[Seen],
        answered: Instant,
    ) -> Result<Option<Duration>, TestkitError> {
        let wrong: Vec<(&str, &Seen)> = self
            .pages
            .iter()
            .zip(first.iter().zip(after))
            .filter(|(_, (first, after))| first.essence != after.essence)
            .map(|(page, (_, after))| (page.as_str(), after))
            .collect();
        let targets: Vec<&str> = wrong.iter().map(|(page, _)| *page).collect();
        let mut failed = None;
        let right = poll_until(LATE, || {
            match look(self.site.addr(), with.host(), &targets) {
                Ok(seen) => seen
                    .iter()
                    .zip(&wrong)
                    .all(|(seen, (_, wanted))| seen.essence == wanted.essence),
                Err(trouble) => {
                    failed = Some(trouble);
                    true
                }
            }
        });
        match failed {
            Some(trouble) => Err(trouble),
            None => Ok(right.then(|| answered.elapsed())),
        }
    }

    /// Brings every page of a site to a hit that is the truth; returns which are hits.
    ///
    /// # Errors
    /// [`TestkitError::Refused`] when fewer than 99 of 100 are, or one is not the truth.
    fn warm(&self, with: With) -> Result<Vec<bool>, TestkitError> {
        let look = || self.look(with.host());
        let wrong = |seen: &[Seen]| -> Vec<String> {
            let pairs = self.pages.iter().zip(seen.iter().zip(&self.truth));
            pairs
                .filter(|(_, (seen, truth))| seen.essence != truth.essence)
                .map(|(page, _)| page.clone())
                .collect()
        };
        let stale = wrong(&look()?);
        self.site.purge(with, &stale)?;
        if !stale.is_empty() {
            look()?;
        }
        let seen = look()?;
        let untrue = self.pages.iter().zip(seen.iter().zip(&self.truth));
        for (page, (seen, truth)) in untrue {
            if seen.essence != truth.essence {
                return Err(TestkitError::Refused(format!(
                    "{page} of {} is not the truth after a purge:\n{}",
                    with.name(),
                    diff::lines(&seen.essence, &truth.essence)
                )));
            }
        }
        let cold: Vec<&str> = self
            .pages
            .iter()
            .zip(&seen)
            .filter(|(_, seen)| !seen.hit)
            .map(|(page, _)| page.as_str())
            .collect();
        if cold.len() * 100 > self.pages.len() {
            return Err(TestkitError::Refused(format!(
                "{} of {} pages of {} are not kept: {}",
                cold.len(),
                self.pages.len(),
                with.name(),
                cold.join(" ")
            )));
        }
        Ok(seen.iter().map(|seen| seen.hit).collect())
    }

    /// An event that does nothing proves nothing. With few pages it may be that none of them shows it.
    fn require_effect(&self, act: &Act, before: &[Seen]) -> Result<(), TestkitError> {
        let changed = before
            .iter()
            .zip(&self.truth)
            .any(|(before, after)| before.essence != after.essence);
        let complaint = match act.effect {
            Effect::Change if !changed => "changed no page",
            Effect::Nothing if changed => "changed pages",
            Effect::Change | Effect::Nothing => return Ok(()),
        };
        Err(TestkitError::Refused(format!(
            "event `{}` {complaint}: it does not do what it says",
            act.name
        )))
    }
}

/// A page that is later than this counts as never right.
const LATE: Duration = Duration::from_secs(3);
