//! The site of the measurements, kept warm.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use super::{
    Comparison, Edit, EditCost, Load, Patching, Setting, Site as LoadedSite, Visits, dice::Dice,
};
use crate::{
    TestkitError,
    error::Context,
    exactness::{
        self, Form, With, diff,
        editor::Editor,
        look::{Seen, look},
        site::{FRESH, HOST, Site},
    },
    wait::poll_until,
};

/// See the module.
pub(super) struct Stage {
    pub(super) site: Site,
}

/// What the server has counted.
#[derive(Clone, Copy, Default)]
struct Counted {
    fetches: u64,
    patched: u64,
    not_patched: u64,
}

impl Stage {
    pub(super) fn start(setting: &Setting) -> Result<Self, TestkitError> {
        let site = Site::start(&exactness::Setting {
            galley: setting.galley.clone(),
            plugin: setting.plugin.clone(),
            with: vec![With::Galley],
            only: Vec::new(),
            form: Form::Large {
                posts: setting.posts,
                pages: setting.pages,
            },
            cost: false,
        })?;
        let found = site.targets.len();
        if found < setting.pages {
            return Err(TestkitError::Refused(format!(
                "the site has {found} of the {} pages that were requested: it needs more posts",
                setting.pages
            )));
        }
        let stage = Self { site };
        stage.warm()?;
        Ok(stage)
    }

    /// Requests every page until all are stored and nothing is fetched in the background any more.
    fn warm(&self) -> Result<(), TestkitError> {
        let mut cold = Vec::new();
        for _ in 0..ROUNDS {
            let seen = self.look(HOST, &self.site.targets)?;
            self.settle()?;
            let pairs = self.site.targets.iter().zip(&seen);
            cold = pairs
                .filter(|(_, seen)| !seen.hit)
                .map(|(target, seen)| format!("{target} ({})", seen.how))
                .collect();
            if cold.is_empty() {
                return Ok(());
            }
        }
        let count = cold.len();
        cold.truncate(SHOWN);
        Err(TestkitError::Refused(format!(
            "{count} of {} pages are not stored, among them {}",
            self.site.targets.len(),
            cold.join(", ")
        )))
    }

    /// Waits until the server fetches nothing and patches nothing.
    fn settle(&self) -> Result<(), TestkitError> {
        let mut before = None;
        let mut quiet_since = Instant::now();
        let is_settled = poll_until(TIMEOUT, || {
            let now = self.counted().ok().map(|now| (now.fetches, now.patched));
            if now != before {
                before = now;
                quiet_since = Instant::now();
            }
            quiet_since.elapsed() > QUIET
        });
        if is_settled {
            return Ok(());
        }
        Err(TestkitError::Late {
            what: "the server to fetch nothing".to_owned(),
            timeout: TIMEOUT,
            log: self.site.log(),
        })
    }

    /// Waits until the server compresses nothing.
    fn settle_compression(&self) -> Result<(), TestkitError> {
        let mut spent = self.processor()?.compress;
        let mut quiet_since = Instant::now();
        let is_settled = poll_until(TIMEOUT, || {
            let now = self.processor().map_or(spent, |now| now.compress);
            if now != spent {
                spent = now;
                quiet_since = Instant::now();
            }
            quiet_since.elapsed() > QUIET
        });
        if is_settled {
            return Ok(());
        }
        Err(TestkitError::Late {
            what: "the server to compress nothing".to_owned(),
            timeout: TIMEOUT,
            log: self.site.log(),
        })
    }

    fn counted(&self) -> Result<Counted, TestkitError> {
        let counter = |name| self.site.counter(name, With::Galley);
        Ok(Counted {
            fetches: counter("galley_fills_total")?,
            patched: counter("galley_pages_patched_total")?,
            not_patched: counter("galley_pages_not_patched_total")?,
        })
    }

    fn look(&self, host: &str, targets: &[String]) -> Result<Vec<Seen>, TestkitError> {
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        look(self.site.addr(), host, &targets)
    }

    pub(super) fn cost_of(
        &mut self,
        edit: &Edit,
        load: Load<'_>,
    ) -> Result<EditCost, TestkitError> {
        self.warm()?;
        let mut editor = Editor::log_in(&self.site, HOST)?;
        let before = self.counted()?;
        self.site.requested()?;
        editor.rest("POST", edit.path, edit.body)?;
        let early = every_nth(&self.site.targets, EARLY);
        let (first, visits) = self.visited(&early, load)?;
        let swept = self.look(HOST, &self.site.targets)?;
        self.settle()?;
        let after = self.counted()?;
        let mut cost = EditCost {
            edit: edit.name,
            is_everywhere: edit.is_everywhere,
            php_requests: after.fetches - before.fetches,
            patched: after.patched - before.patched,
            not_patched: after.not_patched - before.not_patched,
            visits,
            pages: self.site.targets.len(),
            requested: self.site.requested()?,
            ..EditCost::default()
        };
        let truth = self.look(FRESH, &self.site.targets)?;
        for (target, first) in early.iter().zip(&first) {
            let place = self.site.targets.iter().position(|other| other == target);
            if let Some(truth) = place.and_then(|place| truth.get(place)) {
                differ(target, first, truth, &mut cost.findings);
            }
        }
        for (target, (seen, truth)) in self.site.targets.iter().zip(swept.iter().zip(&truth)) {
            differ(target, seen, truth, &mut cost.findings);
        }
        cost.stale = cost.findings.len();
        Ok(cost)
    }

    /// The load, and at the same time a look at some pages for the comparison: these are visits like the others.
    fn visited(
        &self,
        early: &[String],
        load: Load<'_>,
    ) -> Result<(Vec<Seen>, Visits), TestkitError> {
        let site = LoadedSite {
            addr: self.site.addr(),
            host: HOST,
            targets: &self.site.targets,
        };
        thread::scope(|scope| {
            let first = scope.spawn(|| self.look(HOST, early));
            let visits = load(site);
            let first = first
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let visits = visits?;
            let visits = if visits.responses > 0 {
                with_looks(visits, &first)
            } else {
                visits
            };
            Ok((first, visits))
        })
    }

    pub(super) fn compare(
        &mut self,
        edits: usize,
        sample: usize,
        dice: &mut Dice,
    ) -> Result<Comparison, TestkitError> {
        let count = self.site.fill("[[count.post]]")?.parse().unwrap_or(1);
        let mut posts: Vec<usize> = (0..count).collect();
        let mut editor = Editor::log_in(&self.site, HOST)?;
        let before = self.counted()?;
        let all = &self.site.targets;
        let mut done = Comparison {
            pages: all.len(),
            ..Comparison::default()
        };
        for number in 0..edits {
            let edit = dice.edit(number, &mut posts);
            editor.rest(edit.method, &edit.path, &edit.body)?;
            let chosen: Vec<String> = (0..sample)
                .filter_map(|_| all.get(dice.below(all.len())).cloned())
                .collect();
            self.compared(&chosen, &format!("edit {number}: {}", edit.body), &mut done)?;
            done.edits += 1;
        }
        for pages in all.chunks(AT_ONCE) {
            self.compared(pages, "at the end", &mut done)?;
        }
        let after = self.counted()?;
        done.patched = after.patched - before.patched;
        done.php_requests = after.fetches - before.fetches;
        Ok(done)
    }

    fn compared(
        &self,
        pages: &[String],
        when: &str,
        done: &mut Comparison,
    ) -> Result<(), TestkitError> {
        let seen = self.look(HOST, pages)?;
        let truth = self.look(FRESH, pages)?;
        done.compared += pages.len();
        for (target, (seen, truth)) in pages.iter().zip(seen.iter().zip(&truth)) {
            differ(
                &format!("{target} ({when})"),
                seen,
                truth,
                &mut done.findings,
            );
        }
        Ok(())
    }

    pub(super) fn patching(&mut self) -> Result<Patching, TestkitError> {
        self.warm()?;
        let sizes = self.look(HOST, &every_nth(&self.site.targets, EARLY))?;
        let bytes = sizes
            .iter()
            .map(|seen| seen.essence.len() as u64)
            .sum::<u64>();
        let before = (self.counted()?, self.processor()?);
        let began = Instant::now();
        self.site.wordpress.php(
            "update_option('widget_recent-posts', array( 2 => array( 'title' => 'Newest', 'number' => 4 ), '_multiwidget' => 1 ));",
        )?;
        self.settle()?;
        self.settle_compression()?;
        let elapsed = began.elapsed().saturating_sub(2 * QUIET);
        let after = (self.counted()?, self.processor()?);
        let spent = |of: fn(&Processor) -> Duration| of(&after.1).saturating_sub(of(&before.1));
        Ok(Patching {
            pages: after.0.patched - before.0.patched,
            bytes: bytes / (sizes.len().max(1) as u64),
            elapsed,
            fetch_cpu: spent(|processor| processor.fetch),
            compress_cpu: spent(|processor| processor.compress),
            cpu: spent(|processor| processor.all),
        })
    }

    /// Processor time of the server's threads up to now.
    fn processor(&self) -> Result<Processor, TestkitError> {
        let mut spent = Processor::default();
        let tasks = format!("/proc/{}/task", self.site.pid());
        for task in fs::read_dir(&tasks)
            .context("read the server's threads")?
            .flatten()
        {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let time = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let nanoseconds = time.split(' ').next().and_then(|time| time.parse().ok());
            let time = Duration::from_nanos(nanoseconds.unwrap_or(0));
            spent.all += time;
            if name.starts_with("fetch-") {
                spent.fetch += time;
            } else if name.starts_with("compress-") {
                spent.compress += time;
            }
        }
        Ok(spent)
    }
}

#[derive(Clone, Copy, Default)]
struct Processor {
    fetch: Duration,
    compress: Duration,
    all: Duration,
}

/// Visits with those of a look at pages, of which the time is not known.
fn with_looks(visits: Visits, looks: &[Seen]) -> Visits {
    let counted = |is_meant: fn(&Seen) -> bool| looks.iter().filter(|seen| is_meant(seen)).count();
    Visits {
        responses: visits.responses + looks.len() as u64,
        hits: visits.hits + counted(|seen| seen.hit) as u64,
        patched: visits.patched + counted(|seen| seen.how.contains("detail=patched")) as u64,
        ..visits
    }
}

fn differ(target: &str, seen: &Seen, truth: &Seen, findings: &mut Vec<String>) {
    if seen.essence != truth.essence {
        let lines = diff::lines(&seen.essence, &truth.essence);
        findings.push(format!("{target} [{}]\n{lines}", seen.how));
    }
}

fn every_nth(targets: &[String], wanted: usize) -> Vec<String> {
    let step = targets.len().div_ceil(wanted).max(1);
    targets.iter().step_by(step).cloned().collect()
}

/// Requests for all pages until all are stored: what is first stored may be purged by what WordPress does on a first visit.
const ROUNDS: usize = 4;
/// Pages that are requested right after an edit, beside the load.
const EARLY: usize = 60;
/// Without a fetch and a patch for this long, nothing is under way.
const QUIET: Duration = Duration::from_millis(1500);
const TIMEOUT: Duration = Duration::from_secs(300);
/// Pages that a message names.
const SHOWN: usize = 5;
/// Pages that are compared at a time: each is held twice.
const AT_ONCE: usize = 500;
