//! All differences of a comparison, in groups.

use std::collections::BTreeMap;

use galley_import::{ServedStatement, StatementOrigin};

use super::difference::{ComparedResponses, DifferenceKind, VisibleDifference};
use super::origin::{StatementFinder, remedy};
use super::visit::TryVisit;

/// Differences of one kind that are caused by one statement.
#[derive(Clone, Debug)]
pub(super) struct DifferenceGroup {
    pub(super) kind: DifferenceKind,
    /// The value at the old server in the first request.
    pub(super) old: String,
    pub(super) galley: String,
    pub(super) origin: Option<StatementOrigin>,
    pub(super) statement: Option<String>,
    pub(super) remedy: String,
    /// One request for each path; `count` counts all requests.
    pub(super) visits: Vec<TryVisit>,
    pub(super) count: usize,
    is_everywhere: bool,
}

/// The result of a comparison.
pub(super) struct TryReport {
    /// The name of the old server.
    pub(super) server: &'static str,
    /// The changes in the copy of the old configuration.
    pub(super) changes: Vec<String>,
    pub(super) skipped: Vec<String>,
    pub(super) findings: Findings,
}

/// The findings of a comparison so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Findings {
    pub(super) requests: usize,
    pub(super) groups: Vec<DifferenceGroup>,
    pub(super) harmless: BTreeMap<&'static str, usize>,
}

impl DifferenceGroup {
    /// Whether a difference belongs to this group. Bodies and redirect targets may differ; the statuses must be equal.
    fn is_like(&self, difference: &VisibleDifference) -> bool {
        let shape = |text: &'_ str| match &self.kind {
            DifferenceKind::Body | DifferenceKind::StoredPage => String::new(),
            DifferenceKind::Redirect if text.contains("://") && !text.contains(" to ") => {
                String::new()
            }
            DifferenceKind::Redirect => {
                text.split([' ', ':']).next().unwrap_or_default().to_owned()
            }
            _ => text.to_owned(),
        };
        shape(&self.old) == shape(&difference.old)
            && shape(&self.galley) == shape(&difference.galley)
    }

    fn add(&mut self, visit: &TryVisit, origin: Option<&StatementOrigin>) {
        self.count += 1;
        // Keeps one request for each path: the simplest one.
        let is_same = |known: &TryVisit| known.host == visit.host && known.path() == visit.path();
        match self.visits.iter().position(is_same) {
            Some(at) if visit.curl().len() < self.visits[at].curl().len() => {
                self.visits[at] = visit.clone();
            }
            None if self.visits.len() < MAX_VISITS => self.visits.push(visit.clone()),
            Some(_) | None => {}
        }
        if self.origin.as_ref() != origin {
            self.origin = None;
            self.statement = None;
        }
    }
}

/// Whether values are compared within a group. Bodies and redirect targets differ from page to page.
fn has_values(kind: &DifferenceKind) -> bool {
    !matches!(
        kind,
        DifferenceKind::Body | DifferenceKind::StoredPage | DifferenceKind::Redirect
    )
}

impl Findings {
    /// Adds the comparison of one request.
    pub(super) fn add(
        &mut self,
        visit: &TryVisit,
        compared: ComparedResponses,
        finder: &StatementFinder<'_>,
    ) {
        for what in compared.harmless {
            *self.harmless.entry(what).or_default() += 1;
        }
        for difference in compared.differences {
            let finding = finder.of(visit, &difference.kind);
            let statement = finding.map(|finding| finding.statement);
            let origin = statement.map(|statement: &ServedStatement| statement.origin.clone());
            // A value that differs everywhere is not caused by the section of one path.
            let is_everywhere =
                has_values(&difference.kind) && !finding.is_some_and(|finding| finding.is_own);
            let same = self.groups.iter_mut().find(|group| {
                let has_same_origin =
                    group.origin == origin || is_everywhere && group.is_everywhere;
                group.kind == difference.kind && has_same_origin && group.is_like(&difference)
            });
            if let Some(group) = same {
                group.add(visit, origin.as_ref());
                continue;
            }
            let outcome = statement.and_then(|statement| finder.outcome(statement));
            self.groups.push(DifferenceGroup {
                remedy: remedy(&difference, outcome),
                kind: difference.kind,
                old: difference.old,
                galley: difference.galley,
                statement: statement.map(|statement| statement.text.clone()),
                origin,
                visits: vec![visit.clone()],
                count: 1,
                is_everywhere,
            });
        }
    }

    /// Sorts the groups by kind, the most severe kind first.
    pub(super) fn sort(&mut self) {
        for group in &mut self.groups {
            // The simplest request is shown as the example.
            let lengths = group.visits.iter().map(|visit| visit.curl().len());
            if let Some((at, _)) = lengths.enumerate().min_by_key(|(_, length)| *length) {
                group.visits.swap(0, at);
            }
        }
        self.groups
            .sort_by(|one, other| one.kind.cmp(&other.kind).then(other.count.cmp(&one.count)));
    }
}

/// The maximum number of requests in one group.
const MAX_VISITS: usize = 500;
