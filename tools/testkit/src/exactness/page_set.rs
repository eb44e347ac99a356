//! The compared pages of a site: stores them, fetches them after an edit, and compares them with newly generated ones.
//!
//! An edit takes three steps: [`ComparedPages::warm`] before it, [`ComparedPages::fetch_first`] right after it, and
//! [`ComparedPages::compare`]. The pages that PHP generated without a cache after one edit are the reference of the next one.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use super::{
    PurgeCounts, PurgeMethod,
    compare::{EventPages, compare},
    diff,
    fetch_pages::{FetchedPage, fetch_pages},
    test_site::{ExactnessSite, UNCACHED_HOST},
};
use crate::{TestkitError, wait::poll_until};

/// The pages of a site with their current reference.
pub(super) struct ComparedPages<'s> {
    pub(super) site: &'s ExactnessSite,
    pub(super) methods: Vec<PurgeMethod>,
    pub(super) targets: Vec<String>,
    /// Each page as PHP last generated it without a cache.
    pub(super) reference: Vec<FetchedPage>,
    /// How long to wait until pages that our plugin left stale are correct.
    pub(super) correction_limit: Duration,
    /// Whether a first response that PHP generated after the edit is the reference of its page. It saves a request, and what a later
    /// first response changes on the page is found after the next edit.
    pub(super) takes_generated: bool,
    /// Indexes of pages that were no hits after repeated requests, for each method.
    not_stored: Vec<BTreeSet<usize>>,
}

/// The stored pages before an edit. All lists are in the order of the purge methods.
pub(super) struct WarmPages {
    /// Which pages are hits.
    pub(super) hits: Vec<Vec<bool>>,
    fetches: Vec<u64>,
}

impl WarmPages {
    /// Number of pages that are hits; the minimum over all purge methods.
    pub(super) fn hit_count(&self) -> usize {
        let counts = self.hits.iter();
        counts
            .map(|hits| hits.iter().filter(|hit| **hit).count())
            .min()
            .unwrap_or(0)
    }
}

/// The first responses after an edit, for each purge method.
pub(super) struct FirstResponses {
    pub(super) pages: Vec<Vec<FetchedPage>>,
    /// When the editor received the response to the edit.
    responded_at: Instant,
}

/// The effect of an edit.
pub(super) struct EditEffect {
    /// The reference before the edit.
    pub(super) before: Vec<FetchedPage>,
    /// One for each purge method.
    pub(super) counts: Vec<PurgeCounts>,
}

impl<'s> ComparedPages<'s> {
    /// Without a reference: call [`fetch_reference`](Self::fetch_reference).
    pub(super) fn new(
        site: &'s ExactnessSite,
        methods: &[PurgeMethod],
        targets: Vec<String>,
        correction_limit: Duration,
    ) -> Self {
        Self {
            site,
            methods: methods.to_vec(),
            targets,
            reference: Vec::new(),
            correction_limit,
            takes_generated: false,
            not_stored: vec![BTreeSet::new(); methods.len()],
        }
    }

    /// Fetches the reference twice; returns the pages that differ without an event, with the difference. Such a difference would
    /// later count as a change.
    pub(super) fn fetch_reference(&mut self) -> Result<Vec<(String, String)>, TestkitError> {
        self.reference = self.fetch(UNCACHED_HOST)?;
        let again = self.fetch(UNCACHED_HOST)?;
        let pairs = self.targets.iter().zip(self.reference.iter().zip(&again));
        Ok(pairs
            .filter(|(_, (one, other))| one.content != other.content)
            .map(|(page, (one, other))| (page.clone(), diff::lines(&one.content, &other.content)))
            .collect())
    }

    /// Fetches the reference, and leaves out the pages that differ without an event; returns them.
    pub(super) fn drop_varying(&mut self) -> Result<Vec<String>, TestkitError> {
        let varying: Vec<String> = self
            .fetch_reference()?
            .into_iter()
            .map(|(page, _)| page)
            .collect();
        let pages = std::mem::take(&mut self.targets)
            .into_iter()
            .zip(std::mem::take(&mut self.reference));
        (self.targets, self.reference) = pages.filter(|(page, _)| !varying.contains(page)).unzip();
        self.not_stored.iter_mut().for_each(BTreeSet::clear);
        Ok(varying)
    }

    /// Fetches all pages from `host`.
    pub(super) fn fetch(&self, host: &str) -> Result<Vec<FetchedPage>, TestkitError> {
        let targets: Vec<&str> = self.targets.iter().map(String::as_str).collect();
        fetch_pages(self.site.addr(), host, &targets)
    }

    /// Fetches the pages with these indexes again.
    fn fetch_again(
        &self,
        host: &str,
        indexes: &[usize],
        pages: &mut [FetchedPage],
    ) -> Result<(), TestkitError> {
        let targets = indexes.iter().filter_map(|index| self.targets.get(*index));
        let targets: Vec<&str> = targets.map(String::as_str).collect();
        for (index, page) in indexes
            .iter()
            .zip(fetch_pages(self.site.addr(), host, &targets)?)
        {
            if let Some(place) = pages.get_mut(*index) {
                *place = page;
            }
        }
        Ok(())
    }

    /// The pages after an edit, without a cache.
    fn fetch_after(&self, first: &FirstResponses) -> Result<Vec<FetchedPage>, TestkitError> {
        let [first] = first.pages.as_slice() else {
            return self.fetch(UNCACHED_HOST);
        };
        if !self.takes_generated {
            return self.fetch(UNCACHED_HOST);
        }
        let mut after = first.clone();
        let hits: Vec<usize> = (0..after.len())
            .filter(|index| after.get(*index).is_some_and(|page| page.is_hit))
            .collect();
        self.fetch_again(UNCACHED_HOST, &hits, &mut after)?;
        Ok(after)
    }

    /// Purges all pages of all purge methods.
    pub(super) fn purge_all(&self) -> Result<(), TestkitError> {
        let all = ["*".to_owned()];
        let mut methods = self.methods.iter();
        methods.try_for_each(|method| self.site.purge(*method, &all))
    }

    /// Fetches every page of every purge method until it equals the reference.
    ///
    /// # Errors
    /// [`TestkitError::Refused`] if a page differs from the reference even after a purge.
    pub(super) fn warm(&mut self) -> Result<WarmPages, TestkitError> {
        let mut hits = Vec::new();
        for (number, method) in self.methods.clone().into_iter().enumerate() {
            hits.push(self.warm_method(number, method)?);
        }
        for method in &self.methods {
            self.site.take_recorded_purges(*method)?;
        }
        Ok(WarmPages {
            hits,
            fetches: self.fetch_counts()?,
        })
    }

    /// Purges what the models have recorded, and fetches every page once. To be called when the editor has the response.
    pub(super) fn fetch_first(&self) -> Result<FirstResponses, TestkitError> {
        let responded_at = Instant::now();
        let mut pages = Vec::new();
        for method in &self.methods {
            let recorded = self.site.take_recorded_purges(*method)?;
            self.site.purge(*method, &recorded)?;
            pages.push(self.fetch(method.host())?);
        }
        Ok(FirstResponses {
            pages,
            responded_at,
        })
    }

    /// Generates the reference again, and counts the effect of the edit.
    pub(super) fn compare(
        &mut self,
        warm: &WarmPages,
        first: &FirstResponses,
    ) -> Result<EditEffect, TestkitError> {
        let fetches = self.fetch_counts()?;
        let after = self.fetch_after(first)?;
        let mut counts = self.counts(&warm.hits, first, &after)?;
        for (counts, (before, after)) in counts.iter_mut().zip(warm.fetches.iter().zip(fetches)) {
            counts.php_requests =
                usize::try_from(after.saturating_sub(*before)).unwrap_or_default();
            counts.overpurge_requests = counts
                .php_requests
                .saturating_sub(counts.purged - counts.overpurged);
        }
        let before = std::mem::replace(&mut self.reference, after);
        Ok(EditEffect { before, counts })
    }

    /// The number of pages and fragments that the server has fetched for each purge method.
    fn fetch_counts(&self) -> Result<Vec<u64>, TestkitError> {
        let methods = self.methods.iter();
        methods
            .map(|method| self.site.counter("galley_fills_total", *method))
            .collect()
    }

    fn counts(
        &self,
        hits: &[Vec<bool>],
        first: &FirstResponses,
        after: &[FetchedPage],
    ) -> Result<Vec<PurgeCounts>, TestkitError> {
        let targets: Vec<&str> = self.targets.iter().map(String::as_str).collect();
        let responded_at = first.responded_at;
        let mut all = Vec::new();
        for (method, (were_hits, first)) in self.methods.iter().zip(hits.iter().zip(&first.pages)) {
            let mut counts = compare(&EventPages {
                targets: &targets,
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

    /// Time until all pages that were stale at first were correct; `None` after the limit.
    fn wait_until_correct(
        &self,
        method: PurgeMethod,
        first: &[FetchedPage],
        after: &[FetchedPage],
        responded_at: Instant,
    ) -> Result<Option<Duration>, TestkitError> {
        let stale: Vec<(&str, &FetchedPage)> = self
            .targets
            .iter()
            .zip(first.iter().zip(after))
            .filter(|(_, (first, after))| first.content != after.content)
            .map(|(page, (_, after))| (page.as_str(), after))
            .collect();
        let targets: Vec<&str> = stale.iter().map(|(page, _)| *page).collect();
        let mut error = None;
        let is_correct = poll_until(self.correction_limit, || {
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

    /// Fetches every page of a site until it equals the reference; returns for each page whether it is a hit. Pages that are never stored
    /// are fetched once.
    fn warm_method(
        &mut self,
        number: usize,
        method: PurgeMethod,
    ) -> Result<Vec<bool>, TestkitError> {
        let host = method.host();
        let known = self.not_stored.get(number).cloned().unwrap_or_default();
        let mut fetched = self.fetch(host)?;
        let differing: Vec<usize> = (0..fetched.len())
            .filter(|index| !self.equals_reference(*index, &fetched))
            .collect();
        let targets = differing
            .iter()
            .filter_map(|index| self.targets.get(*index));
        self.site
            .purge(method, &targets.cloned().collect::<Vec<_>>())?;
        // The first requests with another theme change options that pages have read.
        for _ in 0..3 {
            let again: Vec<usize> = (0..fetched.len())
                .filter(|index| !known.contains(index) || differing.contains(index))
                .collect();
            let is_done = again
                .iter()
                .all(|index| fetched.get(*index).is_some_and(|page| page.is_hit));
            if is_done
                && again
                    .iter()
                    .all(|index| self.equals_reference(*index, &fetched))
            {
                break;
            }
            self.fetch_again(host, &again, &mut fetched)?;
        }
        let pairs = self.targets.iter().zip(fetched.iter().zip(&self.reference));
        for (target, (page, reference)) in pairs {
            if page.content != reference.content {
                return Err(TestkitError::Refused(format!(
                    "{target} of {} differs from the reference after a purge:\n{}",
                    method.name(),
                    diff::lines(&page.content, &reference.content)
                )));
            }
        }
        let hits: Vec<bool> = fetched.iter().map(|page| page.is_hit).collect();
        if let Some(not_stored) = self.not_stored.get_mut(number) {
            *not_stored = (0..hits.len())
                .filter(|index| hits.get(*index) == Some(&false))
                .collect();
        }
        Ok(hits)
    }

    fn equals_reference(&self, index: usize, pages: &[FetchedPage]) -> bool {
        let pair = pages.get(index).zip(self.reference.get(index));
        pair.is_some_and(|(page, reference)| page.content == reference.content)
    }
}
