//! The large site of the measurements, and the measurements of edits and patches.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use super::{
    Edit, EditReport, FragmentSettings, LoadTarget, PatchingCost, RandomEditsReport, VisitCounts,
    VisitorLoad, random_edits::RandomEdits,
};
use crate::{
    TestkitError,
    error::Context,
    exactness::{
        ExactnessSettings, PurgeMethod, Suite, diff,
        editor::Editor,
        fetch_pages::{FetchedPage, fetch_pages},
        test_site::{ExactnessSite, HOST, UNCACHED_HOST},
    },
    wait::poll_until,
};

/// A site whose pages are all stored.
pub(super) struct LargeSite {
    pub(super) site: ExactnessSite,
}

/// Values of the server's counters.
#[derive(Clone, Copy, Default)]
struct ServerCounters {
    fetches: u64,
    patched: u64,
    not_patched: u64,
}

impl LargeSite {
    pub(super) fn start(settings: &FragmentSettings) -> Result<Self, TestkitError> {
        let site = ExactnessSite::start(&ExactnessSettings {
            galley: settings.galley.clone(),
            plugin: settings.plugin.clone(),
            methods: vec![PurgeMethod::Galley],
            only: Vec::new(),
            suite: Suite::Large {
                posts: settings.posts,
                pages: settings.pages,
            },
            measure_cost: false,
        })?;
        let found = site.targets.len();
        if found < settings.pages {
            return Err(TestkitError::Refused(format!(
                "the site has {found} of the {} requested pages: it needs more posts",
                settings.pages
            )));
        }
        let large = Self { site };
        large.warm()?;
        Ok(large)
    }

    /// Requests every page until all are stored and no background fetch is in progress.
    fn warm(&self) -> Result<(), TestkitError> {
        let mut misses = Vec::new();
        for _ in 0..ROUNDS {
            let pages = self.fetch(HOST, &self.site.targets)?;
            self.wait_for_fetches()?;
            let pairs = self.site.targets.iter().zip(&pages);
            misses = pairs
                .filter(|(_, page)| !page.is_hit)
                .map(|(target, page)| format!("{target} ({})", page.cache_status))
                .collect();
            if misses.is_empty() {
                return Ok(());
            }
        }
        let count = misses.len();
        misses.truncate(MAX_NAMED_PAGES);
        Err(TestkitError::Refused(format!(
            "{count} of {} pages are not stored, among them {}",
            self.site.targets.len(),
            misses.join(", ")
        )))
    }

    /// Waits until the server has no fetch and no patch in progress.
    fn wait_for_fetches(&self) -> Result<(), TestkitError> {
        self.wait_until_unchanged("the server to finish all fetches", || {
            let counters = self.counters().ok();
            counters.map(|counters| (counters.fetches, counters.patched))
        })
    }

    /// Waits until the server compresses nothing.
    fn wait_for_compression(&self) -> Result<(), TestkitError> {
        let mut last = self.cpu_times()?.compress;
        self.wait_until_unchanged("the server to finish all compression", || {
            last = self.cpu_times().map_or(last, |times| times.compress);
            Some(last)
        })
    }

    /// Waits until `value` has been the same for [`QUIET`].
    fn wait_until_unchanged<T: PartialEq>(
        &self,
        what: &str,
        mut value: impl FnMut() -> Option<T>,
    ) -> Result<(), TestkitError> {
        let mut before = None;
        let mut quiet_since = Instant::now();
        let is_unchanged = poll_until(TIMEOUT, || {
            let now = value();
            if now != before {
                before = now;
                quiet_since = Instant::now();
            }
            quiet_since.elapsed() > QUIET
        });
        if is_unchanged {
            return Ok(());
        }
        Err(TestkitError::Timeout {
            what: what.to_owned(),
            timeout: TIMEOUT,
            log: self.site.log(),
        })
    }

    fn counters(&self) -> Result<ServerCounters, TestkitError> {
        let counter = |name| self.site.counter(name, PurgeMethod::Galley);
        Ok(ServerCounters {
            fetches: counter("galley_fills_total")?,
            patched: counter("galley_pages_patched_total")?,
            not_patched: counter("galley_pages_not_patched_total")?,
        })
    }

    fn fetch(&self, host: &str, targets: &[String]) -> Result<Vec<FetchedPage>, TestkitError> {
        let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
        fetch_pages(self.site.addr(), host, &targets)
    }

    pub(super) fn measure_edit(
        &mut self,
        edit: &Edit,
        load: VisitorLoad<'_>,
    ) -> Result<EditReport, TestkitError> {
        self.warm()?;
        let mut editor = Editor::log_in(&self.site, HOST)?;
        let before = self.counters()?;
        self.site.take_recorded_requests()?;
        editor.rest("POST", edit.path, edit.body)?;
        let sample = every_nth(&self.site.targets, FIRST_PAGES);
        let (first, visits) = self.fetch_under_load(&sample, load)?;
        let all = self.fetch(HOST, &self.site.targets)?;
        self.wait_for_fetches()?;
        let after = self.counters()?;
        let mut report = EditReport {
            name: edit.name,
            is_everywhere: edit.is_everywhere,
            php_requests: after.fetches - before.fetches,
            patched: after.patched - before.patched,
            not_patched: after.not_patched - before.not_patched,
            visits,
            pages: self.site.targets.len(),
            requested: self.site.take_recorded_requests()?,
            ..EditReport::default()
        };
        let reference = self.fetch(UNCACHED_HOST, &self.site.targets)?;
        for (target, page) in sample.iter().zip(&first) {
            let index = self.site.targets.iter().position(|other| other == target);
            if let Some(reference) = index.and_then(|index| reference.get(index)) {
                add_difference(target, page, reference, &mut report.findings);
            }
        }
        let pairs = self.site.targets.iter().zip(all.iter().zip(&reference));
        for (target, (page, reference)) in pairs {
            add_difference(target, page, reference, &mut report.findings);
        }
        report.stale = report.findings.len();
        Ok(report)
    }

    /// Runs the load and concurrently fetches some pages for the comparison, which count as visits, too.
    fn fetch_under_load(
        &self,
        sample: &[String],
        load: VisitorLoad<'_>,
    ) -> Result<(Vec<FetchedPage>, VisitCounts), TestkitError> {
        let target = LoadTarget {
            addr: self.site.addr(),
            host: HOST,
            targets: &self.site.targets,
        };
        thread::scope(|scope| {
            let first = scope.spawn(|| self.fetch(HOST, sample));
            let visits = load(target);
            let first = first
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            let visits = visits?;
            let visits = if visits.responses > 0 {
                add_pages(visits, &first)
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
        random: &mut RandomEdits,
    ) -> Result<RandomEditsReport, TestkitError> {
        let count = self.site.substitute_ids("[[count.post]]")?;
        let mut posts: Vec<usize> = (0..count.parse().unwrap_or(1)).collect();
        let mut editor = Editor::log_in(&self.site, HOST)?;
        let before = self.counters()?;
        let all = &self.site.targets;
        let mut report = RandomEditsReport {
            pages: all.len(),
            ..RandomEditsReport::default()
        };
        for number in 0..edits {
            let edit = random.edit(number, &mut posts);
            editor.rest(edit.method, &edit.path, &edit.body)?;
            let chosen: Vec<String> = (0..sample)
                .filter_map(|_| all.get(random.below(all.len())).cloned())
                .collect();
            let when = format!("edit {number}: {}", edit.body);
            self.compare_pages(&chosen, &when, &mut report)?;
            report.edits += 1;
        }
        for pages in all.chunks(PAGES_IN_MEMORY) {
            self.compare_pages(pages, "at the end", &mut report)?;
        }
        let after = self.counters()?;
        report.patched = after.patched - before.patched;
        report.php_requests = after.fetches - before.fetches;
        Ok(report)
    }

    fn compare_pages(
        &self,
        targets: &[String],
        when: &str,
        report: &mut RandomEditsReport,
    ) -> Result<(), TestkitError> {
        let pages = self.fetch(HOST, targets)?;
        let reference = self.fetch(UNCACHED_HOST, targets)?;
        report.compared += targets.len();
        for (target, (page, reference)) in targets.iter().zip(pages.iter().zip(&reference)) {
            let name = format!("{target} ({when})");
            add_difference(&name, page, reference, &mut report.findings);
        }
        Ok(())
    }

    pub(super) fn patching(&mut self) -> Result<PatchingCost, TestkitError> {
        self.warm()?;
        let sample = self.fetch(HOST, &every_nth(&self.site.targets, FIRST_PAGES))?;
        let bytes = sample
            .iter()
            .map(|page| page.content.len() as u64)
            .sum::<u64>();
        let before = (self.counters()?, self.cpu_times()?);
        let start = Instant::now();
        self.site.wordpress.php(
            "update_option('widget_recent-posts', array( 2 => array( 'title' => 'Newest', 'number' => 4 ), '_multiwidget' => 1 ));",
        )?;
        self.wait_for_fetches()?;
        self.wait_for_compression()?;
        let elapsed = start.elapsed().saturating_sub(2 * QUIET);
        let after = (self.counters()?, self.cpu_times()?);
        let spent = |of: fn(&CpuTimes) -> Duration| of(&after.1).saturating_sub(of(&before.1));
        Ok(PatchingCost {
            pages: after.0.patched - before.0.patched,
            bytes: bytes / (sample.len().max(1) as u64),
            elapsed,
            fetch_cpu: spent(|times| times.fetch),
            compress_cpu: spent(|times| times.compress),
            cpu: spent(|times| times.all),
        })
    }

    /// Processor time that the server's threads have used so far.
    fn cpu_times(&self) -> Result<CpuTimes, TestkitError> {
        let mut times = CpuTimes::default();
        let tasks = format!("/proc/{}/task", self.site.pid());
        for task in fs::read_dir(&tasks)
            .context("read the server's threads")?
            .flatten()
        {
            let name = fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            let time = fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            let nanoseconds = time.split(' ').next().and_then(|time| time.parse().ok());
            let time = Duration::from_nanos(nanoseconds.unwrap_or(0));
            times.all += time;
            if name.starts_with("fetch-") {
                times.fetch += time;
            } else if name.starts_with("compress-") {
                times.compress += time;
            }
        }
        Ok(times)
    }
}

#[derive(Clone, Copy, Default)]
struct CpuTimes {
    fetch: Duration,
    compress: Duration,
    all: Duration,
}

/// Adds fetched pages to the counts; their latency is unknown.
fn add_pages(visits: VisitCounts, pages: &[FetchedPage]) -> VisitCounts {
    let count = |matches: fn(&FetchedPage) -> bool| {
        pages.iter().filter(|page| matches(page)).count() as u64
    };
    VisitCounts {
        responses: visits.responses + pages.len() as u64,
        hits: visits.hits + count(|page| page.is_hit),
        patched: visits.patched + count(|page| page.cache_status.contains("detail=patched")),
        ..visits
    }
}

fn add_difference(
    target: &str,
    page: &FetchedPage,
    reference: &FetchedPage,
    findings: &mut Vec<String>,
) {
    if page.content != reference.content {
        let lines = diff::lines(&page.content, &reference.content);
        findings.push(format!("{target} [{}]\n{lines}", page.cache_status));
    }
}

/// Up to `count` targets at equal distances.
fn every_nth(targets: &[String], count: usize) -> Vec<String> {
    let step = targets.len().div_ceil(count).max(1);
    targets.iter().step_by(step).cloned().collect()
}

/// Maximum rounds of requests until all pages are stored: work of WordPress on a first visit may purge stored pages.
const ROUNDS: usize = 4;
/// Pages that are fetched immediately after an edit, concurrently with the load.
const FIRST_PAGES: usize = 60;
/// After this time without a fetch and a patch, none is in progress.
const QUIET: Duration = Duration::from_millis(1500);
const TIMEOUT: Duration = Duration::from_secs(300);
/// Pages that an error message names.
const MAX_NAMED_PAGES: usize = 5;
/// Pages compared at a time, because each is in memory twice.
const PAGES_IN_MEMORY: usize = 500;
