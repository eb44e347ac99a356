//! Random small plugins and random edits, to find dependencies that nobody thought of.
//!
//! A seed gives a number of plugins (`plugin`) that read options, meta, own tables, caches and more (`reads`), each shown in some
//! place, and edits that write to what they read (`writes`), through WordPress's functions and past them, through several
//! interfaces, some while a page is being generated, some by a PHP that is killed. After each edit every page is compared with
//! one that PHP generates without a cache. Each plugin runs alone on a site in its original state, so that any edit can be repeated alone.
//!
//! Staleness is counted by kind: what a page read, where, what an edit wrote, and in which circumstances.

mod plugin;
mod reads;
mod report;
mod row_writes;
mod run;
mod sections;
mod site;
mod sql;
mod writes;

pub use self::{
    report::{GeneratedReport, GeneratedSettings, Kind, KindCounts, StaleCase, WriteCounts},
    run::run,
};
