//! Keeps the counts of audits in the folder of the disk cache, so that "0 were out of date this week" is also true after a restart.
//!
//! The file is read when the first configuration begins, and written every ten seconds and when a configuration ends. What was audited in the
//! last ten seconds before a crash is lost. A file that cannot be read is ignored: the counts then begin anew.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use galley_fetch::audits::{Audits, KeptCounts, ResultCounts};
use galley_request::Site;
use galley_sys::clock::Clock;
use serde::{Deserialize, Serialize};
use tokio::time::{MissedTickBehavior, interval};

/// The counts of all sites and their file. Written when it is dropped.
pub(super) struct AuditCounts {
    path: PathBuf,
    sites: Vec<(String, Arc<Audits>)>,
    /// The day since 1970 with which ticks began.
    start_day: i64,
    written: SitesCounts,
}

/// The content of the file.
type SitesCounts = BTreeMap<String, SiteCounts>;

/// The counts of one site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct SiteCounts {
    totals: ResultCounts,
    days: Vec<(i64, ResultCounts)>,
}

impl AuditCounts {
    /// Adds the counts in the file to those of the sites.
    pub(super) fn restore(folder: &Path, sites: &[Arc<Site>], clock: Clock) -> Self {
        let path = folder.join(FILE);
        let written = read(&path);
        let start_day = start_day(clock);
        let sites = sites
            .iter()
            .map(|site| (site.core.name.clone(), Arc::clone(&site.core.audits)));
        let counts = Self {
            path,
            sites: sites.collect(),
            start_day,
            written,
        };
        for (name, audits) in &counts.sites {
            let kept = counts.written.get(name).cloned().unwrap_or_default();
            let kept = KeptCounts {
                totals: kept.totals,
                days: kept.days,
            };
            audits.restore(&kept, start_day);
        }
        counts
    }

    /// Writes the file at intervals.
    pub(super) async fn keep(mut self) {
        let mut times = interval(BETWEEN_WRITES);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            times.tick().await;
            self.write();
        }
    }

    /// Writes the file if a count has changed. It has some hundred bytes for each site.
    fn write(&mut self) {
        let sites = self.sites.iter();
        let counts: SitesCounts = sites
            .map(|(name, audits)| {
                let KeptCounts { totals, days } = audits.kept(self.start_day);
                (name.clone(), SiteCounts { totals, days })
            })
            .collect();
        if counts == self.written {
            return;
        }
        if let Err(error) = replace(&self.path, &counts) {
            tracing::debug!(path = %self.path.display(), %error, "the counts of audits cannot be written");
        }
        self.written = counts;
    }
}

impl Drop for AuditCounts {
    fn drop(&mut self) {
        self.write();
    }
}

fn read(path: &Path) -> SitesCounts {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut bytes));
    read.ok()
        .and_then(|_| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

fn replace(path: &Path, counts: &SitesCounts) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, serde_json::to_vec(counts)?)?;
    fs::rename(&new, path)
}

fn start_day(clock: Clock) -> i64 {
    let since_epoch = clock.wall().duration_since(SystemTime::UNIX_EPOCH);
    let uptime = Duration::from_secs(clock.uptime_s());
    let seconds = since_epoch
        .unwrap_or_default()
        .saturating_sub(uptime)
        .as_secs();
    i64::try_from(seconds / DAY_SECONDS).unwrap_or(0)
}

/// The name in the folder of the disk cache.
const FILE: &str = "audit.json";

const BETWEEN_WRITES: Duration = Duration::from_secs(10);

const DAY_SECONDS: u64 = 86_400;

/// More than 10,000 sites need.
const MAX_BYTES: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_as_it_was_written_and_a_damaged_one_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        assert_eq!(read(&path), SitesCounts::new());
        let site = SiteCounts {
            totals: [1, 2, 3, 4, 5, 6, 7],
            days: vec![(20_000, [u64::MAX; 7])],
        };
        let counts = SitesCounts::from([("a.test".to_owned(), site)]);
        replace(&path, &counts).unwrap();
        assert_eq!(read(&path), counts);
        let text = fs::read(&path).unwrap();
        for damaged in [
            &text[..text.len() / 2],
            b"",
            b"[1]",
            b"{\"a.test\":{\"totals\":[1]}}",
        ] {
            fs::write(&path, damaged).unwrap();
            assert_eq!(read(&path), SitesCounts::new());
        }
    }
}
