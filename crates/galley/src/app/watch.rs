//! Detects that a file of the configuration has changed, or that a pattern of `include` matches other files
//! (`server.watch`).
//!
//! A change counts when a second check finds the same state: at the first check a program may not have finished writing
//! the file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use galley_config::Config;
use tokio::time::{Interval, MissedTickBehavior, interval};

use galley_sys::stamps::{FileStamp, stamp};

/// The watched files and patterns of a configuration.
pub(super) struct ConfigWatch {
    files: Vec<PathBuf>,
    patterns: Vec<PathBuf>,
    /// The state when the configuration was read, or when the last change was reported.
    known: FileStamps,
    /// The state at the last check.
    seen: FileStamps,
    checks: Interval,
}

/// The state of each file, `None` where it does not exist.
type FileStamps = BTreeMap<PathBuf, Option<FileStamp>>;

impl ConfigWatch {
    /// Watches the files of a configuration; `None` if `server.watch` is off. Must be called within a runtime.
    pub(super) fn new(config: &Config) -> Option<Self> {
        if !config.server.watch {
            return None;
        }
        let mut checks = interval(CHECK_INTERVAL);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (files, patterns) = (config.files.clone(), config.patterns.clone());
        let stamps = stamps(&files, &patterns);
        Some(Self {
            files,
            patterns,
            seen: stamps.clone(),
            known: stamps,
            checks,
        })
    }

    /// Returns when a file has changed, once for each change. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        loop {
            self.checks.tick().await;
            let now = stamps(&self.files, &self.patterns);
            let is_settled = now == self.seen;
            self.seen.clone_from(&now);
            if is_settled && now != self.known {
                self.known = now;
                return;
            }
        }
    }
}

fn stamps(files: &[PathBuf], patterns: &[PathBuf]) -> FileStamps {
    let matched = patterns
        .iter()
        .flat_map(|pattern| galley_config::included(pattern));
    let watched = files.iter().cloned().chain(matched);
    watched
        .map(|file| {
            let stamp = stamp(&file);
            (file, stamp)
        })
        .collect()
}

/// The interval between two checks. A check reads the metadata of each file and pattern once.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
