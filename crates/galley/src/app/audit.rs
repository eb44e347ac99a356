//! Audits stored pages: a few all the time, and all of a site on request.
//!
//! In the background one page of the process at a time is generated again, and then nothing for many times as long, so that audits take a
//! few percent of one PHP worker. A page is due a month after it was generated or audited, and sooner the more often it is requested, down to a
//! day. A walk over the memory collects the pages whose time comes first.
//!
//! `galley audit` audits all pages in memory of a site at once, two at a time, and so does Galley after it has found a page out
//! of date. Both give way: a page is generated only while the upstream is healthy, less than half of its slots are taken, and nobody waits.
//!
//! **What is purged.** A page that is out of date is purged by its address, in all its variants, and all other pages of the site are
//! audited, but none of them is purged before it is found out of date itself: what was missed is not known, so any guess (pages
//! with the same tags or the same template) would purge pages that are right, and leave out others. The cost is bounded by the idle
//! capacity, and the pages of a site are checked within minutes.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use galley_cache::entry::Entry;
use galley_cache::key::Key;
use galley_policy::audit::AuditResult;
use galley_policy::key::read_key;
use galley_policy::purge::{Purge, Strength, url_scope};
use galley_policy::time::Tick;
use tokio::sync::Semaphore;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep};

use super::audit_counts::AuditCounts;
use super::pacing::WalkPacing;
use galley_fetch::audits::{AuditWish, Finding, PassGuard};
use galley_purging::PurgeSource;
use galley_request::audit::{self, FirstLook};
use galley_request::{Services, Site, site_mark};
use galley_sys::Lock;

/// Starts the audits of all sites. When the result is dropped, they end and abandon pages in progress.
/// `folder`: keeps the counts.
pub(super) fn start(
    sites: &Arc<Vec<Arc<Site>>>,
    services: &Arc<Services>,
    folder: Option<&Path>,
) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let room = Arc::new(Semaphore::new(PASSES_AT_ONCE));
    for site in sites.iter().filter(|site| audit::can_be_audited(site)) {
        // A pass that was wanted before a reload.
        site.core.audits.wanted().notify_one();
        let (site, services) = (Arc::downgrade(site), Arc::downgrade(services));
        tasks.spawn(on_request(site, services, Arc::clone(&room)));
    }
    if let Some(folder) = folder {
        tasks.spawn(AuditCounts::restore(folder, sites, services.clock).keep());
    }
    tasks.spawn(in_background(
        Arc::downgrade(sites),
        Arc::downgrade(services),
    ));
    tasks
}

/// Audits all pages of a site whenever that is wanted.
async fn on_request(site: Weak<Site>, services: Weak<Services>, room: Arc<Semaphore>) {
    loop {
        let Some(wanted) = site.upgrade().map(|site| site.core.audits.wanted()) else {
            return;
        };
        wanted.notified().await;
        let (Ok(_room), Some(site), Some(services)) =
            (room.acquire().await, site.upgrade(), services.upgrade())
        else {
            return;
        };
        let auditor = Auditor { site, services };
        if let Some(pass) = auditor.site.core.audits.begin_pass() {
            auditor.pass(pass).await;
        }
    }
}

/// Audits single pages of all sites, as they are due.
async fn in_background(sites: Weak<Vec<Arc<Site>>>, services: Weak<Services>) {
    loop {
        sleep(BETWEEN_WALKS).await;
        let (Some(all), Some(services)) = (sites.upgrade(), services.upgrade()) else {
            return;
        };
        let walked = spawn_blocking(move || due_pages(&all, &services)).await;
        for page in walked.unwrap_or_default() {
            let pause = audit_due(&page).await;
            drop(page);
            sleep(pause).await;
        }
    }
}

/// A page that is due, and its site.
struct DuePage {
    at: Tick,
    key: Key,
    site: Weak<Site>,
    services: Weak<Services>,
}

impl DuePage {
    /// `None`: the page is not due, or cannot be audited.
    fn of(entry: &Entry, site: &Arc<Site>, services: &Arc<Services>) -> Option<Self> {
        // Without tags no plugin reports changes, and the lifetime is short.
        let has_tags = !entry.scopes.tags.is_empty() || !entry.fragments().is_empty();
        let last = site.core.audits.audited(entry.key.hash());
        let at = due_at(entry.stored_at.max(last.unwrap_or_default()), entry.hits());
        let is_due = has_tags && at <= services.clock.tick();
        (is_due && audit::is_in_use(services, site, entry)).then(|| Self {
            at,
            key: entry.key.clone(),
            site: Arc::downgrade(site),
            services: Arc::downgrade(services),
        })
    }
}

/// Audits a page that is due. Returns the pause that must follow.
async fn audit_due(page: &DuePage) -> Duration {
    let (Some(site), Some(services)) = (page.site.upgrade(), page.services.upgrade()) else {
        return Duration::ZERO;
    };
    let entry = services.memory.peek(page.key.bytes());
    let entry = entry.filter(|entry| audit::is_in_use(&services, &site, entry));
    // The page stays due, and the next walk finds it again.
    let Some(entry) = entry.filter(|_| audit::has_idle_upstream(&site)) else {
        return MIN_PAUSE;
    };
    let began = Instant::now();
    let auditor = Auditor { site, services };
    let looked = audit::look(&auditor.services, &auditor.site, &entry).await;
    let took = began.elapsed();
    let result = match looked {
        FirstLook::Known(result) => result,
        FirstLook::Differs => {
            sleep(SETTLES_WITHIN).await;
            audit::confirm(&auditor.services, &auditor.site, &entry).await
        }
    };
    auditor.record(&entry, &result, false);
    if matches!(result, AuditResult::Changed(_)) {
        // The other pages may lack the same change. Refused if all pages were audited lately.
        let audits = &auditor.site.core.audits;
        let _ = audits.want_pass(AuditWish::Finding, auditor.services.clock.tick());
    }
    (took * PAUSES).max(MIN_PAUSE)
}

/// The pages that are due, those that are due for longest first.
fn due_pages(sites: &[Arc<Site>], services: &Arc<Services>) -> Vec<DuePage> {
    let audited = sites
        .iter()
        .filter(|site| site.config.audit && audit::can_be_audited(site));
    let by_mark: HashMap<u32, &Arc<Site>> = audited.map(|site| (site.mark, site)).collect();
    let mut due = Vec::new();
    let mut pacing = WalkPacing::default();
    for entry in services.memory.entries() {
        pacing.step();
        let site = site_mark(entry.key.bytes()).and_then(|mark| by_mark.get(&mark));
        due.extend(site.and_then(|site| DuePage::of(&entry, site, services)));
        if due.len() >= 2 * MAX_DUE {
            keep_longest_due(&mut due);
        }
    }
    keep_longest_due(&mut due);
    due
}

fn keep_longest_due(due: &mut Vec<DuePage>) {
    due.sort_by_key(|page| page.at);
    due.truncate(MAX_DUE);
}

/// When a page is due that was last generated or audited at `last`.
fn due_at(last: Tick, hits: u64) -> Tick {
    let shorter = u32::try_from(hits).unwrap_or(u32::MAX).saturating_add(1);
    last.plus((LONGEST / shorter).max(SHORTEST))
}

/// The audit of the pages of one site.
struct Auditor {
    site: Arc<Site>,
    services: Arc<Services>,
}

/// The pages of a pass that are left.
#[derive(Default)]
struct PassQueue {
    pages: VecDeque<Key>,
    /// Pages that differ, and when they were found. A purge may follow shortly.
    suspects: VecDeque<(Key, Instant)>,
}

/// The next step of a pass.
enum PassStep {
    Look(Key),
    Confirm(Key),
    /// Suspects remain that were found just now.
    Wait,
    End,
}

impl PassQueue {
    fn next(&mut self, now: Instant) -> PassStep {
        let is_settled = |(_, found): &(Key, Instant)| now >= *found + SETTLES_WITHIN;
        if self.suspects.front().is_some_and(is_settled)
            && let Some((page, _)) = self.suspects.pop_front()
        {
            return PassStep::Confirm(page);
        }
        match self.pages.pop_front() {
            Some(page) => PassStep::Look(page),
            None if self.suspects.is_empty() => PassStep::End,
            None => PassStep::Wait,
        }
    }
}

impl Auditor {
    /// Audits all pages of the site.
    async fn pass(&self, pass: PassGuard<'_>) {
        let (site, services) = (Arc::clone(&self.site), Arc::clone(&self.services));
        let walked = spawn_blocking(move || all_pages(&site, &services)).await;
        let pages = walked.unwrap_or_default();
        pass.set_pages(pages.len() as u64);
        let queue = Lock::new(PassQueue {
            pages: pages.into(),
            ..PassQueue::default()
        });
        // Two at once would take half of a small pool, or all of it.
        let upstreams = self.site.upstream_stats();
        if upstreams
            .iter()
            .all(|one| one.load().limit >= MIN_SLOTS_FOR_TWO)
        {
            tokio::join!(self.work(&queue), self.work(&queue));
        } else {
            self.work(&queue).await;
        }
        pass.end();
        self.log_pass();
    }

    fn log_pass(&self) {
        let report = self.site.core.audits.report(self.services.clock.tick());
        if let Some(pass) = report.pass {
            let [same, varies, changed, ..] = pass.results;
            tracing::info!(
                site = self.site.core.name,
                pages = pass.pages,
                same,
                varies,
                out_of_date = changed,
                "all stored pages were audited"
            );
        }
    }

    /// Takes pages from the queue until it is empty.
    async fn work(&self, queue: &Lock<PassQueue>) {
        loop {
            let step = lock(queue).next(Instant::now());
            let (page, is_suspect) = match step {
                PassStep::Look(page) => (page, false),
                PassStep::Confirm(page) => (page, true),
                PassStep::Wait => {
                    sleep(BETWEEN_CHECKS).await;
                    continue;
                }
                PassStep::End => return,
            };
            self.give_way().await;
            let entry = self.services.memory.peek(page.bytes());
            let in_use = |entry: &Arc<Entry>| audit::is_in_use(&self.services, &self.site, entry);
            match entry.filter(in_use) {
                Some(entry) => self.step(queue, &entry, is_suspect).await,
                None => self.site.core.audits.skip_page(),
            }
        }
    }

    /// Audits one page of a pass, or adds it to the suspects.
    async fn step(&self, queue: &Lock<PassQueue>, entry: &Arc<Entry>, is_suspect: bool) {
        if is_suspect {
            let result = audit::confirm(&self.services, &self.site, entry).await;
            return self.record(entry, &result, true);
        }
        match audit::look(&self.services, &self.site, entry).await {
            FirstLook::Known(result) => self.record(entry, &result, true),
            FirstLook::Differs => {
                let suspect = (entry.key.clone(), Instant::now());
                lock(queue).suspects.push_back(suspect);
            }
        }
    }

    /// Waits until a request would delay nobody.
    async fn give_way(&self) {
        let audits = &self.site.core.audits;
        let mut has_waited = false;
        while !audit::has_idle_upstream(&self.site) {
            if !has_waited {
                audits.set_gives_way(true);
            }
            has_waited = true;
            sleep(BETWEEN_CHECKS).await;
        }
        if has_waited {
            audits.set_gives_way(false);
        }
    }

    /// Counts a result, and purges a page that is out of date.
    fn record(&self, entry: &Entry, result: &AuditResult, of_pass: bool) {
        let (audits, now) = (&self.site.core.audits, self.services.clock.tick());
        let is_changed = matches!(result, AuditResult::Changed(_));
        if is_changed {
            self.purge(entry);
        }
        // After the purge: who sees the count finds the page purged.
        audits.note(entry.key.hash(), result, now, of_pass);
        let Some(change) = result.change() else {
            return;
        };
        let finding = self.finding(entry, result, now);
        if is_changed && self.site.purges.may_log() {
            tracing::warn!(
                site = self.site.core.name,
                page = finding.url,
                byte = change.at,
                before = change.before,
                after = change.after,
                purges_since = finding.purges.join(", "),
                "a stored page was out of date although no purge touched it; it was purged: `galley audit` checks all pages"
            );
        }
        audits.add_finding(finding, of_pass);
    }

    fn purge(&self, entry: &Entry) {
        if let Ok(scope) = url_scope(&url(entry), &self.site.core.policy) {
            let purge = Purge {
                scope,
                strength: Strength::Hard,
            };
            // No client waits for an acknowledgment.
            drop(self.site.purges.publish(&purge, PurgeSource::Audit));
        }
    }

    fn finding(&self, entry: &Entry, result: &AuditResult, now: Tick) -> Finding {
        let purges = &self.site.purges;
        let since = purges.recent().into_iter();
        let since =
            since.filter(|purge| purge.number > entry.born && purge.source != PurgeSource::Audit);
        Finding {
            url: url(entry),
            result: result.clone(),
            at: now,
            purges_since: purges.current().saturating_sub(entry.born),
            purges: since
                .map(|purge| purge.scope)
                .take(MAX_PURGES_NAMED)
                .collect(),
            pass: 0,
        }
    }
}

fn lock(queue: &Lock<PassQueue>) -> std::sync::MutexGuard<'_, PassQueue> {
    queue.lock()
}

/// All pages of a site in memory that visitors would get, the most requested first.
fn all_pages(site: &Arc<Site>, services: &Services) -> Vec<Key> {
    let mut pages = Vec::new();
    let mut pacing = WalkPacing::default();
    for entry in services.memory.entries() {
        pacing.step();
        if pages.len() < MAX_PAGES && audit::is_in_use(services, site, &entry) {
            pages.push((entry.hits(), entry.key.clone()));
        }
    }
    pages.sort_by_key(|(hits, _)| std::cmp::Reverse(*hits));
    pages.into_iter().map(|(_, key)| key).collect()
}

/// The address of a page.
fn url(entry: &Entry) -> String {
    let Some(parts) = read_key(entry.key.bytes()) else {
        return String::new();
    };
    let text = |bytes| String::from_utf8_lossy(bytes);
    let query = parts
        .query
        .map_or_else(String::new, |query| format!("?{}", text(query)));
    let (authority, path) = (text(parts.authority), text(parts.path));
    format!("{}://{authority}{path}{query}", parts.scheme.as_str())
}

/// The time between an edit and its purge. A page that differs is judged after that.
const SETTLES_WITHIN: Duration = Duration::from_secs(5);

/// The pauses of the background audit, in times of the generation before: it takes a few percent of one worker.
const PAUSES: u32 = 24;

/// The shortest pause of the background audit.
const MIN_PAUSE: Duration = Duration::from_secs(1);

/// The time before each walk over the memory, also after the start, when PHP has more important work.
const BETWEEN_WALKS: Duration = Duration::from_secs(600);

/// The pages that one walk finds: as many as are audited in some time, so that the next walk sees which are due for longer.
const MAX_DUE: usize = 1000;

/// The interval at which a page without hits is audited.
const LONGEST: Duration = Duration::from_secs(30 * 86_400);

/// The interval at which a page with many hits is audited.
const SHORTEST: Duration = Duration::from_secs(86_400);

/// The maximum number of passes that run at once; the others wait.
const PASSES_AT_ONCE: usize = 2;

/// The slots from which on two pages of a pass are generated at once.
const MIN_SLOTS_FOR_TWO: usize = 8;

/// The maximum number of pages in a pass.
const MAX_PAGES: usize = 100_000;

/// The interval at which a pass that gives way looks at the upstream.
const BETWEEN_CHECKS: Duration = Duration::from_millis(100);

/// The purges that a finding names.
const MAX_PURGES_NAMED: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_due_by_hits_between_a_day_and_a_month() {
        let days = |hits| (due_at(Tick(0), hits).0 + 43_200_000) / 86_400_000;
        let table = [
            (0, 30),
            (1, 15),
            (2, 10),
            (9, 3),
            (29, 1),
            (1000, 1),
            (u64::MAX, 1),
        ];
        for (hits, wanted) in table {
            assert_eq!(days(hits), wanted, "{hits}");
        }
        assert_eq!(due_at(Tick(7), 0), Tick(7).plus(LONGEST));
    }

    #[tokio::test(start_paused = true)]
    async fn pages_that_differ_are_confirmed_after_a_while_and_before_other_pages() {
        let start = Instant::now();
        let mut queue = PassQueue {
            pages: [Key::new(b"a"), Key::new(b"b")].into(),
            ..PassQueue::default()
        };
        let word = |step| match step {
            PassStep::Look(_) => "look",
            PassStep::Confirm(_) => "confirm",
            PassStep::Wait => "wait",
            PassStep::End => "end",
        };
        assert_eq!(word(queue.next(start)), "look");
        queue.suspects.push_back((Key::new(b"a"), start));
        assert_eq!(word(queue.next(start + SETTLES_WITHIN)), "confirm");
        queue.suspects.push_back((Key::new(b"a"), start));
        assert_eq!(word(queue.next(start)), "look");
        assert_eq!(word(queue.next(start)), "wait");
        assert_eq!(word(queue.next(start + SETTLES_WITHIN)), "confirm");
        assert_eq!(word(queue.next(start)), "end");
    }
}
