//! The audits of one site's stored pages: counts, findings, and the pass that is wanted or in progress.
//!
//! `app::audit` writes it, the admin thread and `galley why` read it. No request does.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use galley_policy::audit::{AuditResult, NoVerdict};
use galley_policy::outcome::words;
use galley_policy::time::Tick;
use galley_sys::Lock;
use tokio::sync::Notify;

/// Pages by result, in the order of [`AuditResult::WORDS`].
pub type ResultCounts = [u64; AuditResult::WORDS.len()];

/// The audits of one site. Outlives the configuration.
#[derive(Debug, Default)]
pub struct Audits {
    state: Lock<AuditState>,
    wanted: Arc<Notify>,
}

#[derive(Debug, Default)]
struct AuditState {
    totals: ResultCounts,
    /// The counts of the last days, the oldest first, with the number of the day since the start; before it, the number is negative.
    days: VecDeque<(i64, ResultCounts)>,
    /// Whether the counts of earlier runs were added.
    is_restored: bool,
    findings: VecDeque<Finding>,
    /// When pages were audited, by the hash of their key; at most [`MAX_PAGES`].
    pages: HashMap<u64, Tick>,
    pass: Option<AuditPass>,
}

/// A page that varies or was out of date.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The page.
    pub url: String,
    /// [`AuditResult::Varies`] or [`AuditResult::Changed`].
    pub result: AuditResult,
    /// When it was found.
    pub at: Tick,
    /// The number of purges of the site between the generation of the stored page and the finding, none of which touched the page.
    pub purges_since: u64,
    /// The latest of these purges.
    pub purges: Vec<String>,
    /// The pass that found it; 0: none.
    pub pass: u64,
}

/// Who wants all pages audited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditWish {
    /// The operator of the server.
    Operator,
    /// A client with the token of the site.
    Site,
    /// Galley, because a page was out of date.
    Finding,
}

words! {
    /// The state of a pass.
    PassState {
        /// It begins as soon as the task for audits is free.
        Wanted = "wanted",
        /// Pages are being audited.
        Running = "running",
        /// All pages were audited.
        Ended = "ended",
        /// A reload or the end of the process has ended it.
        Aborted = "aborted",
    }
}

/// An audit of all pages of the site.
#[derive(Clone, Copy, Debug)]
pub struct AuditPass {
    /// Counts the passes of the site, from 1.
    pub number: u64,
    /// How far it is.
    pub state: PassState,
    /// When it was wanted.
    pub since: Tick,
    /// The pages that are audited.
    pub pages: u64,
    /// The results so far.
    pub results: ResultCounts,
    /// Whether it waits because the upstream is busy or unhealthy.
    pub gives_way: bool,
}

/// A pass that is not started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooSoon {
    /// The time after which it may be started.
    pub wait: Duration,
}

/// The counts that survive a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptCounts {
    /// Pages by result since the first start.
    pub totals: ResultCounts,
    /// Pages by result of the last days, the oldest first, with the number of the day since 1970.
    pub days: Vec<(i64, ResultCounts)>,
}

/// A copy of the state, for reports.
#[derive(Debug)]
pub struct AuditReport {
    /// Pages by result since the start.
    pub totals: ResultCounts,
    /// Pages by result in the last seven days.
    pub week: ResultCounts,
    /// The latest pages that vary or were out of date, the newest first.
    pub findings: Vec<Finding>,
    /// The current or last pass.
    pub pass: Option<AuditPass>,
}

impl Audits {
    /// Wants a pass over all pages, unless one is wanted or running. Returns the number of the pass.
    pub fn want_pass(&self, wish: AuditWish, now: Tick) -> Result<u64, TooSoon> {
        let mut state = self.state.lock();
        let mut number = 1;
        if let Some(last) = &state.pass {
            if matches!(last.state, PassState::Wanted | PassState::Running) {
                return Ok(last.number);
            }
            let wait = pause(wish).saturating_sub(now.since(last.since));
            if !wait.is_zero() {
                return Err(TooSoon { wait });
            }
            number = last.number + 1;
        }
        state.pass = Some(AuditPass {
            number,
            state: PassState::Wanted,
            since: now,
            pages: 0,
            results: ResultCounts::default(),
            gives_way: false,
        });
        drop(state);
        self.wanted.notify_one();
        Ok(number)
    }

    /// Notified when a pass is wanted.
    pub fn wanted(&self) -> Arc<Notify> {
        Arc::clone(&self.wanted)
    }

    /// Begins the wanted pass, which ends when the result is dropped.
    pub fn begin_pass(&self) -> Option<PassGuard<'_>> {
        let mut state = self.state.lock();
        let pass = state.pass.as_mut()?;
        (pass.state == PassState::Wanted).then(|| {
            pass.state = PassState::Running;
            PassGuard(self)
        })
    }

    /// Records that the upstream is busy or unhealthy, or no longer.
    pub fn set_gives_way(&self, gives_way: bool) {
        if let Some(pass) = &mut self.state.lock().pass {
            pass.gives_way = gives_way;
        }
    }

    /// Records a result. `key`: the hash of the page's key. `of_pass`: whether the pass in progress audited it.
    pub fn note(&self, key: u64, result: &AuditResult, now: Tick, of_pass: bool) {
        let mut state = self.state.lock();
        let day = day_of(now);
        let index = result.index();
        if state.days.back().is_none_or(|(last, _)| *last != day) {
            state.days.push_back((day, ResultCounts::default()));
        }
        if state.days.len() > DAYS {
            state.days.pop_front();
        }
        add(&mut state.totals, index);
        if let Some((_, counts)) = state.days.back_mut() {
            add(counts, index);
        }
        if of_pass && let Some(pass) = &mut state.pass {
            add(&mut pass.results, index);
        }
        if state.pages.len() >= MAX_PAGES {
            state.pages.clear();
        }
        state.pages.insert(key, now);
    }

    /// Records that a page of the pass is no longer stored as visitors get it.
    pub fn skip_page(&self) {
        if let Some(pass) = &mut self.state.lock().pass {
            add(
                &mut pass.results,
                AuditResult::None(NoVerdict::Purged).index(),
            );
        }
    }

    /// Records a page that varies or was out of date.
    pub fn add_finding(&self, mut finding: Finding, of_pass: bool) {
        let mut state = self.state.lock();
        if of_pass {
            finding.pass = state.pass.as_ref().map_or(0, |pass| pass.number);
        }
        let is_older =
            |one: &Finding| one.url == finding.url && one.result.index() == finding.result.index();
        state.findings.retain(|one| !is_older(one));
        let same_kind = |one: &&Finding| one.result.index() == finding.result.index();
        if state.findings.iter().filter(same_kind).count() >= MAX_FINDINGS {
            let index = finding.result.index();
            let oldest = state
                .findings
                .iter()
                .position(|one| one.result.index() == index);
            oldest.and_then(|at| state.findings.remove(at));
        }
        state.findings.push_back(finding);
    }

    /// When a page was last audited; `key`: the hash of its key.
    pub fn audited(&self, key: u64) -> Option<Tick> {
        self.state.lock().pages.get(&key).copied()
    }

    /// A copy of the state.
    pub fn report(&self, now: Tick) -> AuditReport {
        let state = self.state.lock();
        let mut week = ResultCounts::default();
        let today = day_of(now);
        let days = state.days.iter();
        for (_, counts) in days.filter(|(day, _)| day.saturating_add(WEEK) > today) {
            add_all(&mut week, counts);
        }
        AuditReport {
            totals: state.totals,
            week,
            findings: state.findings.iter().rev().cloned().collect(),
            pass: state.pass,
        }
    }

    /// The counts to keep for later runs. `start_day`: the day since 1970 with which ticks began.
    pub fn kept(&self, start_day: i64) -> KeptCounts {
        let state = self.state.lock();
        let days = state.days.iter();
        KeptCounts {
            totals: state.totals,
            days: days
                .map(|(day, counts)| (day.saturating_add(start_day), *counts))
                .collect(),
        }
    }

    /// Adds the counts of earlier runs, once.
    pub fn restore(&self, kept: &KeptCounts, start_day: i64) {
        let mut state = self.state.lock();
        if std::mem::replace(&mut state.is_restored, true) {
            return;
        }
        add_all(&mut state.totals, &kept.totals);
        for (day, counts) in kept.days.iter().rev().take(DAYS) {
            let day = day.saturating_sub(start_day);
            match state.days.front_mut() {
                Some((first, sum)) if *first == day => add_all(sum, counts),
                // A wall clock that was set back, or a damaged file.
                Some((first, _)) if *first < day => {}
                None if day > 0 => {}
                _ => state.days.push_front((day, *counts)),
            }
        }
    }
}

/// A pass in progress. Aborted if it is dropped before [`PassGuard::end`].
pub struct PassGuard<'a>(&'a Audits);

impl PassGuard<'_> {
    /// Records the number of pages.
    pub fn set_pages(&self, pages: u64) {
        if let Some(pass) = &mut self.0.state.lock().pass {
            pass.pages = pages;
        }
    }

    /// Ends the pass.
    pub fn end(self) {
        self.set_state(PassState::Ended);
    }

    fn set_state(&self, next: PassState) {
        if let Some(pass) = &mut self.0.state.lock().pass
            && pass.state == PassState::Running
        {
            pass.state = next;
            pass.gives_way = false;
        }
    }
}

impl Drop for PassGuard<'_> {
    fn drop(&mut self) {
        self.set_state(PassState::Aborted);
    }
}

fn add(counts: &mut ResultCounts, index: usize) {
    if let Some(count) = counts.get_mut(index) {
        *count = count.saturating_add(1);
    }
}

fn add_all(sums: &mut ResultCounts, counts: &ResultCounts) {
    for (sum, count) in sums.iter_mut().zip(counts) {
        *sum = sum.saturating_add(*count);
    }
}

/// The number of the day since the start.
fn day_of(now: Tick) -> i64 {
    i64::try_from(now.0 / DAY_MS).unwrap_or(i64::MAX)
}

/// The time between the beginnings of two passes.
const fn pause(wish: AuditWish) -> Duration {
    match wish {
        AuditWish::Operator => Duration::ZERO,
        AuditWish::Site => Duration::from_secs(600),
        AuditWish::Finding => Duration::from_secs(3600),
    }
}

const DAY_MS: u64 = 86_400_000;

/// The days that are counted, today included.
const DAYS: usize = 7;
const WEEK: i64 = 7;

/// The maximum number of pages with a known time: less than two megabytes.
const MAX_PAGES: usize = 50_000;

/// The maximum number of findings of each kind.
const MAX_FINDINGS: usize = 100;

#[cfg(test)]
mod tests {
    use galley_policy::audit::PageChange;

    use super::*;

    fn changed() -> AuditResult {
        AuditResult::Changed(PageChange {
            at: 0,
            before: "a".to_owned(),
            after: "b".to_owned(),
        })
    }

    fn at(seconds: u64) -> Tick {
        Tick(seconds * 1000)
    }

    #[test]
    fn a_site_has_one_pass_at_a_time_and_its_token_starts_few() {
        let audits = Audits::default();
        assert!(audits.begin_pass().is_none(), "none is wanted");
        assert_eq!(audits.want_pass(AuditWish::Site, at(0)), Ok(1));
        for wish in [AuditWish::Operator, AuditWish::Site, AuditWish::Finding] {
            assert_eq!(audits.want_pass(wish, at(1)), Ok(1), "the same pass");
        }
        let pass = audits.begin_pass().unwrap();
        assert!(audits.begin_pass().is_none(), "it runs");
        assert_eq!(audits.want_pass(AuditWish::Operator, at(2)), Ok(1));
        pass.end();
        let wait = |seconds| TooSoon {
            wait: Duration::from_secs(seconds),
        };
        assert_eq!(audits.want_pass(AuditWish::Site, at(10)), Err(wait(590)));
        assert_eq!(
            audits.want_pass(AuditWish::Finding, at(10)),
            Err(wait(3590))
        );
        assert_eq!(audits.want_pass(AuditWish::Operator, at(10)), Ok(2));
        drop(audits.begin_pass().unwrap());
        let state = audits.report(at(11)).pass.unwrap().state;
        assert_eq!(state, PassState::Aborted);
        assert_eq!(audits.want_pass(AuditWish::Site, at(610)), Ok(3));
    }

    #[test]
    fn counts_of_earlier_runs_are_added_once_and_fall_out_of_the_week() {
        let before = Audits::default();
        before.note(1, &AuditResult::Same, at(0), false);
        before.note(2, &changed(), at(86_400), false);
        let kept = before.kept(1000);
        assert_eq!(
            kept.days.iter().map(|(day, _)| *day).collect::<Vec<_>>(),
            [1000, 1001]
        );
        // The next run begins on the second day.
        let audits = Audits::default();
        audits.note(3, &AuditResult::Same, at(0), false);
        for _ in 0..2 {
            audits.restore(&kept, 1001);
        }
        let report = audits.report(at(0));
        assert_eq!(report.totals, [2, 0, 1, 0, 0, 0, 0]);
        assert_eq!(report.week, report.totals);
        assert_eq!(audits.report(at(6 * 86_400)).week, [1, 0, 1, 0, 0, 0, 0]);
        let days: Vec<i64> = audits.kept(1001).days.iter().map(|(day, _)| *day).collect();
        assert_eq!(days, [1000, 1001]);
        // Days to come, and those of a damaged file, are left out.
        let odd = KeptCounts {
            totals: [u64::MAX; 7],
            days: vec![(i64::MAX, [1; 7]), (5, [1; 7]), (i64::MIN, [1; 7])],
        };
        let audits = Audits::default();
        audits.note(1, &AuditResult::Same, at(0), false);
        audits.restore(&odd, 1000);
        assert_eq!(audits.report(at(0)).week, [1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(audits.report(at(0)).totals, [u64::MAX; 7]);
    }

    #[test]
    fn results_are_counted_by_week_and_findings_are_bounded() {
        let audits = Audits::default();
        audits.note(1, &AuditResult::Same, at(0), false);
        audits.want_pass(AuditWish::Operator, at(0)).unwrap();
        let pass = audits.begin_pass().unwrap();
        audits.note(2, &changed(), at(86_400), true);
        audits.note(2, &AuditResult::None(NoVerdict::Failed), at(86_400), true);
        pass.end();
        let report = audits.report(at(86_400));
        assert_eq!(report.totals, [1, 0, 1, 0, 0, 0, 1]);
        assert_eq!(report.week, report.totals);
        assert_eq!(report.pass.unwrap().results, [0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(audits.report(at(7 * 86_400)).week, [0, 0, 1, 0, 0, 0, 1]);
        assert_eq!(audits.report(at(8 * 86_400)).week, ResultCounts::default());
        assert_eq!((audits.audited(1), audits.audited(3)), (Some(at(0)), None));
        for number in 0..3 * MAX_FINDINGS {
            let finding = Finding {
                url: format!("/{}", number % (2 * MAX_FINDINGS)),
                result: changed(),
                at: at(0),
                purges_since: 0,
                purges: Vec::new(),
                pass: 0,
            };
            audits.add_finding(finding, false);
        }
        let findings = audits.report(at(0)).findings;
        assert_eq!(findings.len(), MAX_FINDINGS);
        assert_eq!(findings[0].url, format!("/{}", MAX_FINDINGS - 1));
        for key in 0..=2 * MAX_PAGES as u64 {
            audits.note(key, &AuditResult::Same, at(0), false);
        }
        assert!(audits.state.lock().pages.len() <= MAX_PAGES);
    }
}
