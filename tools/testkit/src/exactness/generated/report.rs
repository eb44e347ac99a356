//! The settings and the results of a run.

use std::{collections::BTreeMap, path::PathBuf};

use crate::exactness::PurgeMethod;

/// Which plugins and edits a run generates.
#[derive(Debug, Clone)]
pub struct GeneratedSettings {
    /// The server binary.
    pub galley: PathBuf,
    /// Folder of our plugin.
    pub plugin: PathBuf,
    /// The purge methods; the first one is counted by kind.
    pub methods: Vec<PurgeMethod>,
    /// All random decisions follow from it.
    pub seed: u64,
    /// Number of edits, 15 for each plugin.
    pub edits: usize,
    /// Runs only the plugin with this number.
    pub only_plugin: Option<usize>,
    /// Runs only the edit with this number.
    pub only_edit: Option<usize>,
}

/// What a page read and where, and what an edit wrote and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// What was read; `core page` for what WordPress itself shows.
    pub read: &'static str,
    /// Where it was shown: `shortcode`, `widget`, `sitemap` and so on.
    pub place: &'static str,
    /// What was written.
    pub write: &'static str,
    /// `plain`, `while a page is generated`, `exit`, `fatal error` or `killed`.
    pub when: &'static str,
}

/// Parts of pages of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KindCounts {
    /// Edits with a change of this kind.
    pub edits: usize,
    /// Parts of pages that an edit changed.
    pub changed: usize,
    /// Parts of pages that were stale after it.
    pub stale: usize,
}

/// Pages, for all edits with the same write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteCounts {
    /// Number of edits.
    pub edits: usize,
    /// Pages that changed.
    pub changed: usize,
    /// Of these, pages that were stored.
    pub changed_hits: usize,
    /// Pages that were stale.
    pub stale: usize,
    /// Pages that were purged.
    pub purged: usize,
    /// Purged pages that did not change.
    pub overpurged: usize,
}

/// A stale page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleCase {
    /// What was stale.
    pub kind: Kind,
    /// Number of the plugin.
    pub plugin: usize,
    /// Number of the edit.
    pub edit: usize,
    /// Address of the page.
    pub page: String,
    /// What the plugin reads.
    pub plugin_shape: String,
    /// What the edit does.
    pub edit_shape: String,
    /// Some lines of the response (`-`) and of what PHP generates (`+`).
    pub difference: String,
    /// Whether it is also stale if no other edit runs. Known for the first cases.
    pub occurs_alone: Option<bool>,
}

/// The results of a run.
#[derive(Debug, Clone, Default)]
pub struct GeneratedReport {
    /// The seed.
    pub seed: u64,
    /// Number of plugins.
    pub plugins: usize,
    /// Number of edits.
    pub edits: usize,
    /// Edits that changed no page.
    pub edits_without_effect: usize,
    /// Edits before which a page had changed without an edit.
    pub drifts: usize,
    /// Pages that were compared: the maximum over all plugins.
    pub pages: usize,
    /// Pages that the server does not store, of all plugins, with their `Cache-Status` after the first edit.
    pub not_stored: Vec<String>,
    /// The sums of each purge method.
    pub totals: Vec<WriteCounts>,
    /// Parts of pages by kind, for the first method.
    pub kinds: BTreeMap<Kind, KindCounts>,
    /// Pages by name of the write, for the first method.
    pub writes: BTreeMap<&'static str, WriteCounts>,
    /// All stale parts, for the first method.
    pub cases: Vec<StaleCase>,
}

impl GeneratedReport {
    /// Counts parts of pages by a part of their kind.
    pub fn by(&self, part: fn(&Kind) -> &'static str) -> BTreeMap<&'static str, KindCounts> {
        let mut sums: BTreeMap<&'static str, KindCounts> = BTreeMap::new();
        for (kind, counts) in &self.kinds {
            let sum = sums.entry(part(kind)).or_default();
            sum.edits += counts.edits;
            sum.changed += counts.changed;
            sum.stale += counts.stale;
        }
        sums
    }
}

impl WriteCounts {
    pub(super) fn add(&mut self, other: &Self) {
        self.edits += other.edits;
        self.changed += other.changed;
        self.changed_hits += other.changed_hits;
        self.stale += other.stale;
        self.purged += other.purged;
        self.overpurged += other.overpurged;
    }
}

/// The read of a page that differs outside of what the plugin shows.
pub(super) const CORE_PAGE: &str = "core page";
