//! Exactness of purging, counted: a real WordPress behind the real server, every page warm, one editorial event after the
//! other through the real administration, and after each every page compared with a freshly generated one.
//!
//! Several ways of purging stand side by side, each a site of the same server in front of the same WordPress: our plugin,
//! models of two others (the addresses that they would purge, noted at their hooks, purged over the admin interface), and
//! nothing. So all of them see the same events and are measured with the same reference. A page is *stale* if its first response
//! after the event is not what PHP generates now, *purged* if it was a hit before the event and is none after it, *over* if
//! it was purged although its generated content did not change. What varies each time a page is generated is masked by the
//! patterns in [`MASKS`], and by nothing else; a page that varies otherwise without an event ends the run.
//!
//! The short form belongs to the tests, the long one to `make exactness`.

mod clock;
mod cost;
mod count;
mod diff;
mod editor;
mod events;
pub mod fragments;
mod look;
mod run;
mod site;

use std::{path::PathBuf, time::Duration};

pub use galley_policy::wordpress::MASKS;

pub use self::{
    clock::EditCost,
    cost::Cost,
    events::{names as event_names, short_names},
};
use crate::TestkitError;

/// What is run, and how much of it.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The server.
    pub galley: PathBuf,
    /// Folder of our plugin; needed for [`With::Galley`] only.
    pub plugin: PathBuf,
    /// The ways of purging that are compared.
    pub with: Vec<With>,
    /// Only these events, by name; none: all of the form.
    pub only: Vec<String>,
    /// How much.
    pub form: Form,
    /// Whether the plugin's own cost is measured at the end.
    pub cost: bool,
}

/// How much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Some forty pages and ten events, one theme: for the tests.
    Short,
    /// 150 pages and all events, a classic theme and a block theme; then the events of [`Form::Shop`].
    Long,
    /// A part of the long form: a site of its own with a shop and two languages, once under each theme.
    Shop,
    /// No events of this run: the site of [`fragments`].
    Large {
        /// Added to the sample's.
        posts: usize,
        /// Of all kinds, which are compared.
        pages: usize,
    },
}

/// Who purges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum With {
    /// Our plugin.
    Galley,
    /// A model of Proxy Cache Purge.
    ProxyCachePurge,
    /// A model of Nginx Helper.
    NginxHelper,
    /// Nobody.
    None,
}

impl With {
    /// All, in the order in which they are shown.
    pub const ALL: [Self; 4] = [
        Self::Galley,
        Self::ProxyCachePurge,
        Self::NginxHelper,
        Self::None,
    ];

    /// One word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Galley => "galley",
            Self::ProxyCachePurge => "proxy-cache-purge",
            Self::NginxHelper => "nginx-helper",
            Self::None => "none",
        }
    }

    /// The site that is purged in this way.
    fn host(self) -> &'static str {
        match self {
            Self::Galley => site::HOST,
            Self::ProxyCachePurge => "proxy-cache-purge.test",
            Self::NginxHelper => "nginx-helper.test",
            Self::None => "none.test",
        }
    }
}

/// What one event did to the pages under one way of purging.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// Pages whose generated content the event changed.
    pub changed: usize,
    /// Pages whose first response after the event was not what PHP generates now.
    pub stale: usize,
    /// Pages that were hits before the event and none after it.
    pub purged: usize,
    /// Purged pages whose generated content is what it was.
    pub over: usize,
    /// Requests to PHP for pages and fragments until all pages were right.
    pub php_requests: usize,
    /// Of these, those that no changed page needed: for pages of `over` and for fragments.
    pub over_requests: usize,
    /// From the editor's answer to the last right page; `None` when one was still wrong after seconds.
    pub right_after: Option<Duration>,
    /// The pages that were stale or over, each with what differs.
    pub findings: Vec<Finding>,
}

/// A page that was stale, or purged without need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which of the two.
    pub what: Wrong,
    /// Its address.
    pub page: String,
    /// For a stale page some lines of what it said (`-`) and what PHP generates (`+`); else its `Cache-Status`.
    pub difference: String,
}

/// What was wrong with a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It said what was generated before.
    Stale,
    /// It was generated again, with the same result.
    Over,
}

/// One event with its tallies, in the order of [`Setting::with`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// One word.
    pub name: &'static str,
    /// What is done, for a table.
    pub what: &'static str,
    /// Through which door.
    pub way: &'static str,
    /// The theme of that moment; with `shop` where the site has one.
    pub theme: &'static str,
    /// Pages that were compared after it.
    pub pages: usize,
    /// Those that were hits before it; the least of all ways of purging.
    pub hits: usize,
    /// One for each way of purging.
    pub tallies: Vec<Tally>,
}

/// What a whole run counted.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Number of pages that were compared after each event: those of the site with the most.
    pub pages: usize,
    /// In the order in which they were done.
    pub events: Vec<Event>,
    /// What the plugin costs, if that was asked for.
    pub cost: Option<Cost>,
}

impl Outcome {
    /// The sum over all events for the way of purging at this place of [`Setting::with`]; `right_after` is the longest.
    pub fn total(&self, place: usize) -> Tally {
        sum(&self.events, place)
    }

    /// The same for each theme by itself, in the order in which the themes were active.
    pub fn totals_by_theme(&self, place: usize) -> Vec<(&'static str, Tally)> {
        self.events
            .chunk_by(|one, next| one.theme == next.theme)
            .filter_map(|events| Some((events.first()?.theme, sum(events, place))))
            .collect()
    }
}

/// The sum over some events for one way of purging; `right_after` is the longest.
fn sum(events: &[Event], place: usize) -> Tally {
    let mut total = Tally {
        right_after: Some(Duration::ZERO),
        ..Tally::default()
    };
    for tally in events.iter().filter_map(|event| event.tallies.get(place)) {
        total.changed += tally.changed;
        total.stale += tally.stale;
        total.purged += tally.purged;
        total.over += tally.over;
        total.php_requests += tally.php_requests;
        total.over_requests += tally.over_requests;
        let both = total.right_after.zip(tally.right_after);
        total.right_after = both.map(|(one, other)| one.max(other));
    }
    total
}

/// Runs the events; `said` hears of each as soon as it is counted.
///
/// # Errors
/// When something of the stage does not work: a part does not start, an event is refused or has not the effect that it
/// should have, pages do not hold still or are not kept. What is purged wrongly is no error but counted.
pub fn run(setting: &Setting, said: &mut dyn FnMut(Progress<'_>)) -> Result<Outcome, TestkitError> {
    run::run(setting, said)
}

/// What is being done.
#[derive(Debug)]
pub enum Progress<'a> {
    /// A step that is no event.
    Step(&'a str),
    /// An event was counted: its number from 1, of how many.
    Event(&'a Event, usize, usize),
}

/// A must-use plugin that notes the addresses that Proxy Cache Purge and Nginx Helper would purge, in files below
/// `EXACTNESS_NOTES`.
pub const PURGE_MODELS: &str = include_str!("../../assets/exactness/models.php");
