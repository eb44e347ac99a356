//! What is wrong with a site or the server, for the verdict, and since when.
//!
//! A problem whose source tells its beginning carries it. Each other problem begins when the server first observes it: `verdict::watch`
//! observes all every few seconds, whether or not somebody asks.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use galley_policy::time::Tick;
use galley_sys::Lock;
use serde::Serialize;
use serde_json::{Value, json};

/// How well visitors are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// As configured.
    Ok,
    /// Visitors are served, but something is wrong.
    Degraded,
    /// Visitors of some site get errors.
    Failing,
}

impl Level {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Failing => "failing",
        }
    }
}

/// The subject of a problem; serialized as one word for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProblemKind {
    Certificate,
    Cluster,
    Crawl,
    Cron,
    Disk,
    Errors,
    ObjectCache,
    Overload,
    Plugin,
    Privileged,
    PurgeForward,
    Reload,
    Upstream,
}

/// Since when a problem exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProblemAge {
    /// Since the server first observed it; [`Beginnings::date`] replaces this.
    Observed,
    /// So long.
    For(Duration),
    /// The problem is yet to come.
    Ahead,
}

/// Something that is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HealthProblem {
    pub(super) level: Level,
    pub(super) kind: ProblemKind,
    /// The site; `None`: the server.
    pub(super) site: Option<String>,
    /// Tells problems of one kind apart; the text may change while a problem lasts.
    pub(super) subject: String,
    /// What is wrong, as a sentence without its end.
    pub(super) text: String,
    pub(super) age: ProblemAge,
    /// What to do, as a sentence without its end.
    pub(super) remedy: String,
}

impl HealthProblem {
    pub(super) fn degraded(kind: ProblemKind, text: String, remedy: &str) -> Self {
        Self {
            level: Level::Degraded,
            kind,
            site: None,
            subject: String::new(),
            text,
            age: ProblemAge::Observed,
            remedy: remedy.to_owned(),
        }
    }

    pub(super) fn failing(kind: ProblemKind, text: String, remedy: &str) -> Self {
        Self {
            level: Level::Failing,
            ..Self::degraded(kind, text, remedy)
        }
    }

    /// The problem of one of several subjects of its kind.
    pub(super) fn of(mut self, subject: &str) -> Self {
        subject.clone_into(&mut self.subject);
        self
    }

    /// The problem with a known age; `None`: since it was observed.
    pub(super) fn aged(mut self, age: Option<Duration>) -> Self {
        self.age = age.map_or(ProblemAge::Observed, ProblemAge::For);
        self
    }

    /// The problem in the form of the status.
    pub(super) fn value(&self) -> Value {
        let since_s = match self.age {
            ProblemAge::For(age) => Some(age.as_secs()),
            ProblemAge::Observed | ProblemAge::Ahead => None,
        };
        json!({
            "level": self.level.word(), "kind": self.kind, "site": self.site, "problem": self.text,
            "since_s": since_s, "remedy": self.remedy,
        })
    }

    fn key(&self) -> ProblemKey {
        (self.kind, self.site.clone(), self.subject.clone())
    }
}

/// When the server first observed each present problem. The process keeps them over reloads.
#[derive(Default)]
pub(super) struct Beginnings(Lock<HashMap<ProblemKey, Tick>>);

/// The kind, the site and the subject.
type ProblemKey = (ProblemKind, Option<String>, String);

impl Beginnings {
    /// Gives each problem its age at `now`. A problem that was not observed before begins.
    pub(super) fn date(&self, problems: &mut [HealthProblem], now: Tick) {
        let mut beginnings = self.0.lock();
        for problem in problems {
            if problem.age == ProblemAge::Observed {
                let began = *beginnings.entry(problem.key()).or_insert(now);
                problem.age = ProblemAge::For(now.since(began));
            }
        }
    }

    /// Forgets what has ended: all but `problems`, which are the problems of all sites and of the server.
    pub(super) fn end_others(&self, problems: &[HealthProblem]) {
        let present: HashSet<ProblemKey> = problems.iter().map(HealthProblem::key).collect();
        self.0.lock().retain(|key, _| present.contains(key));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every kind.
    const KINDS: [ProblemKind; 13] = [
        ProblemKind::Certificate,
        ProblemKind::Cluster,
        ProblemKind::Crawl,
        ProblemKind::Cron,
        ProblemKind::Disk,
        ProblemKind::Errors,
        ProblemKind::ObjectCache,
        ProblemKind::Overload,
        ProblemKind::Plugin,
        ProblemKind::Privileged,
        ProblemKind::PurgeForward,
        ProblemKind::Reload,
        ProblemKind::Upstream,
    ];

    /// A problem of each kind, of two sites and of the server, and of two subjects.
    fn problem(index: usize, level: Level) -> HealthProblem {
        let kinds = KINDS;
        let site = [None, Some("a.test"), Some("b.test")][index / kinds.len() % 3];
        HealthProblem {
            level,
            site: site.map(str::to_owned),
            ..HealthProblem::degraded(kinds[index % kinds.len()], format!("{index} seen"), "fix")
        }
        .of(["x", "y"][index / kinds.len() / 3])
    }

    proptest! {
        /// Any problems come, change their level and go; a look is one of the watch, or a query about a part of them.
        #[test]
        fn every_kind_of_problem_says_since_when(
            looks in prop::collection::vec((prop::collection::vec(any::<bool>(), 6 * KINDS.len()), any::<bool>(), 1_000_u64..60_000), 1..12),
        ) {
            let beginnings = Beginnings::default();
            let mut began: HashMap<usize, u64> = HashMap::new();
            let mut now = 0;
            for (present, is_watch, pause) in looks {
                now += pause;
                let present: Vec<usize> = present.iter().enumerate().filter(|(_, is_present)| **is_present).map(|(at, _)| at).collect();
                let level = if pause % 2 == 0 { Level::Degraded } else { Level::Failing };
                let mut problems: Vec<_> = present.iter().map(|index| problem(*index, level)).collect();
                beginnings.date(&mut problems, Tick(now));
                if is_watch {
                    beginnings.end_others(&problems);
                    began.retain(|index, _| present.contains(index));
                }
                for (index, problem) in present.iter().zip(&problems) {
                    let age = now - *began.entry(*index).or_insert(now);
                    prop_assert_eq!(problem.value()["since_s"].as_u64(), Some(age / 1_000), "{:?}", problem);
                }
            }
        }
    }

    #[test]
    fn a_known_age_stays_and_what_is_ahead_has_none() {
        for kind in KINDS {
            let of = || HealthProblem::degraded(kind, String::new(), "");
            let known = of().aged(Some(Duration::from_secs(7)));
            let ahead = HealthProblem {
                age: ProblemAge::Ahead,
                ..of()
            };
            let mut problems = [known, ahead, of()];
            Beginnings::default().date(&mut problems, Tick(9_000));
            let ages = problems.map(|problem| problem.value()["since_s"].as_u64());
            assert_eq!(ages, [Some(7), None, Some(0)], "{kind:?}");
        }
    }
}
