//! Notices that a file of the configuration has changed, where the configuration wants that (`server.watch`).
//!
//! A change counts when a second look finds the same: whoever writes a file may not be done at the first.

use std::path::PathBuf;
use std::time::Duration;

use galley_config::Config;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::sys::stamps::{FileStamp, stamp};

/// See the module.
pub(super) struct ConfigWatch {
    files: Vec<PathBuf>,
    /// When the configuration was read, or a change was noticed last.
    known: Vec<Option<FileStamp>>,
    /// At the last look.
    seen: Vec<Option<FileStamp>>,
    looks: Interval,
}

impl ConfigWatch {
    /// `None` where a configuration is not watched. Call within a runtime.
    pub(super) fn new(config: &Config) -> Option<Self> {
        if !config.server.watch {
            return None;
        }
        let files = config.files.clone();
        let known: Vec<_> = files.iter().map(|file| stamp(file)).collect();
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Some(Self {
            files,
            seen: known.clone(),
            known,
            looks,
        })
    }

    /// Returns when a file has changed, once for each change. Cancel-safe.
    pub(super) async fn changed(&mut self) {
        loop {
            self.looks.tick().await;
            let now: Vec<_> = self.files.iter().map(|file| stamp(file)).collect();
            let is_settled = now == self.seen;
            self.seen.clone_from(&now);
            if is_settled && now != self.known {
                self.known = now;
                return;
            }
        }
    }
}

/// Between two looks: one question to the file system for each file.
const LOOK: Duration = Duration::from_secs(2);
