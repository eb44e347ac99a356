//! Measures how exactly edits purge. A real WordPress runs behind the real server with every page cached. The run makes one
//! edit after the other through the real administration, and compares every page with a newly generated one after each.
//!
//! Several purge methods run concurrently, each on a separate site of the same server in front of the same WordPress: our
//! plugin, models of two other plugins (a hook records the addresses that they would purge, and the run purges them through
//! the admin interface), and none. So all methods get the same events and the same reference. A page is *stale* if its first
//! response after the event differs from what PHP generates then, *purged* if it was a hit before the event and not after
//! it, and *overpurged* if it was purged although its generated content did not change. The patterns in [`MASKS`] mask the
//! parts that differ each time a page is generated; a page that differs anywhere else without an event ends the run.
//!
//! The tests run the short suite, `make exactness` runs the long one.

pub mod audited;
mod compare;
pub mod diff;
mod edit_cost;
mod editor;
mod events;
mod fetch_pages;
pub mod fragments;
pub mod generated;
pub mod installed;
mod page_set;
mod plugin_cost;
mod run;
mod script;
mod test_site;

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    time::Duration,
};

pub use galley_policy::wordpress::MASKS;

pub use self::{
    edit_cost::PluginEditCost,
    events::{names as event_names, short_names},
    plugin_cost::PluginCost,
};
use crate::TestkitError;

/// Which events and purge methods a run covers.
#[derive(Debug, Clone)]
pub struct ExactnessSettings {
    /// The server binary.
    pub galley: PathBuf,
    /// Folder of our plugin; required only for [`PurgeMethod::Galley`].
    pub plugin: PathBuf,
    /// The purge methods to compare.
    pub methods: Vec<PurgeMethod>,
    /// Runs only the events with these names; empty: all events of the suite.
    pub only: Vec<String>,
    /// The set of events and pages.
    pub suite: Suite,
    /// Whether to measure the cost of the plugin at the end.
    pub measure_cost: bool,
}

impl ExactnessSettings {
    /// The settings of a run whose events are scripts of its own.
    fn for_scripts(galley: &Path, plugin: &Path, methods: &[PurgeMethod]) -> Self {
        Self {
            galley: galley.to_owned(),
            plugin: plugin.to_owned(),
            methods: methods.to_vec(),
            only: Vec::new(),
            suite: Suite::Scripts,
            measure_cost: false,
        }
    }
}

/// A set of events and pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suite {
    /// About forty pages, ten events and one theme, for the tests.
    Short,
    /// 150 pages and all events under a classic theme and a block theme, followed by [`Suite::Shop`].
    Long,
    /// Part of the long suite: a separate site with a shop and two languages, once under each theme.
    Shop,
    /// No events; the site of [`generated`] and [`installed`], whose edits are PHP scripts.
    Scripts,
    /// No events; the site of [`fragments`].
    Large {
        /// Posts in addition to those of the sample site.
        posts: usize,
        /// Pages of all kinds that are compared.
        pages: usize,
    },
}

/// Which plugin purges pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PurgeMethod {
    /// Our plugin.
    Galley,
    /// A model of Proxy Cache Purge.
    ProxyCachePurge,
    /// A model of Nginx Helper.
    NginxHelper,
    /// No plugin.
    None,
}

impl PurgeMethod {
    /// All methods, in display order.
    pub const ALL: [Self; 4] = [
        Self::Galley,
        Self::ProxyCachePurge,
        Self::NginxHelper,
        Self::None,
    ];

    /// The name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Galley => "galley",
            Self::ProxyCachePurge => "proxy-cache-purge",
            Self::NginxHelper => "nginx-helper",
            Self::None => "none",
        }
    }

    /// The site that this method purges.
    fn host(self) -> &'static str {
        match self {
            Self::Galley => test_site::HOST,
            Self::ProxyCachePurge => "proxy-cache-purge.test",
            Self::NginxHelper => "nginx-helper.test",
            Self::None => "none.test",
        }
    }
}

/// The effect of one event on the pages of one purge method.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PurgeCounts {
    /// Pages whose generated content the event changed.
    pub changed: usize,
    /// Of these, pages that were hits before the event.
    pub changed_hits: usize,
    /// Pages whose first response after the event differed from what PHP generates then.
    pub stale: usize,
    /// Pages that were hits before the event and not after it.
    pub purged: usize,
    /// Purged pages whose generated content did not change.
    pub overpurged: usize,
    /// Requests to PHP for pages and fragments until all pages were correct.
    pub php_requests: usize,
    /// Of these, requests that no changed page required: for overpurged pages and for fragments.
    pub overpurge_requests: usize,
    /// From the editor's response until the last page was correct; `None` if a page was still stale after the time limit.
    pub corrected_after: Option<Duration>,
    /// The stale and overpurged pages.
    pub findings: Vec<PageFinding>,
}

/// A stale or overpurged page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageFinding {
    /// Which of the two.
    pub kind: FindingKind,
    /// Its address.
    pub page: String,
    /// For a stale page, some lines of the response (`-`) and of what PHP generates (`+`); otherwise its `Cache-Status`.
    pub difference: String,
}

/// Why a page is a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingKind {
    /// The response had the content from before the event.
    Stale,
    /// The page was generated again with the same result.
    Overpurged,
}

impl FindingKind {
    /// The name in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stale => "stale",
            Self::Overpurged => "over",
        }
    }
}

/// One event with the counts of each purge method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventReport {
    /// The name on the command line.
    pub name: Cow<'static, str>,
    /// The description in tables.
    pub description: Cow<'static, str>,
    /// The interface that made the edit.
    pub interface: &'static str,
    /// The active theme, with `shop` if the site has one.
    pub theme: &'static str,
    /// Pages that were compared after it.
    pub pages: usize,
    /// Pages that were hits before it; the minimum over all purge methods.
    pub hits: usize,
    /// One for each purge method, in the order of [`ExactnessSettings::methods`].
    pub counts: Vec<PurgeCounts>,
}

/// The results of a run.
#[derive(Debug, Clone)]
pub struct ExactnessReport {
    /// Pages compared after each event: the maximum over all sites.
    pub pages: usize,
    /// The events in the order of the run.
    pub events: Vec<EventReport>,
    /// The cost of the plugin, if measured.
    pub cost: Option<PluginCost>,
}

impl ExactnessReport {
    /// The sum over all events for the purge method at this index of [`ExactnessSettings::methods`]; `corrected_after` is
    /// the maximum.
    pub fn total(&self, method: usize) -> PurgeCounts {
        sum(&self.events, method)
    }

    /// The same for each theme, in the order of the run.
    pub fn totals_by_theme(&self, method: usize) -> Vec<(&'static str, PurgeCounts)> {
        self.events
            .chunk_by(|one, next| one.theme == next.theme)
            .filter_map(|events| Some((events.first()?.theme, sum(events, method))))
            .collect()
    }
}

fn sum(events: &[EventReport], method: usize) -> PurgeCounts {
    let mut total = PurgeCounts {
        corrected_after: Some(Duration::ZERO),
        ..PurgeCounts::default()
    };
    for counts in events.iter().filter_map(|event| event.counts.get(method)) {
        total.changed += counts.changed;
        total.changed_hits += counts.changed_hits;
        total.stale += counts.stale;
        total.purged += counts.purged;
        total.overpurged += counts.overpurged;
        total.php_requests += counts.php_requests;
        total.overpurge_requests += counts.overpurge_requests;
        let both = total.corrected_after.zip(counts.corrected_after);
        total.corrected_after = both.map(|(one, other)| one.max(other));
    }
    total
}

/// Runs the events and calls `progress` before each step and after each event.
///
/// # Errors
/// If a part does not start, WordPress refuses an event, an event does not have the expected effect, or pages are not
/// stored or differ without an event. Stale and overpurged pages are counted and are not errors.
pub fn run(
    settings: &ExactnessSettings,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<ExactnessReport, TestkitError> {
    run::run(settings, progress)
}

/// The progress of a run.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A step other than an event starts.
    Step(&'a str),
    /// An event is complete: its report, its number from 1, and the number of events.
    Event(&'a EventReport, usize, usize),
}

/// A must-use plugin that records the addresses that Proxy Cache Purge and Nginx Helper would purge, in files below
/// `EXACTNESS_NOTES`.
pub const PURGE_MODELS: &str = include_str!("../../assets/exactness/models.php");

/// A must-use plugin with a widget that keeps its HTML until the request ends, as widgets of shops do.
pub const KEPT_WIDGET: &str = include_str!("../../assets/exactness/kept-widget.php");
