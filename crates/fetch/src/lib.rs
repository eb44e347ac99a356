//! Fetch threads: the threads that own the upstream side.
//!
//! There is one thread per few cores, each with its own runtime. It owns whole sites: their pools, the limit on concurrent
//! requests to PHP, and the fills in progress. Front cores send a job through a [`Handle`] and get a reader of the fill. Because one
//! thread owns a key, one fetch per page needs no lock: the table of fetches in progress is plain memory of this thread.
//!
//! A `FetchWorker` has parts with private state: the coalescer knows what is being fetched, the storer has memory, disk and shared
//! pages, the renderer has the fragments, and the upstreams have the pools.
//!
//! An exchange with the upstream belongs to the fetch thread, not to the client: unsafe methods run to their end, so that
//! their purges are published even when the client has disconnected. This crate never talks to a client, and never decides by itself
//! what may be stored or sent: that is `galley_policy`.

pub mod acknowledged;
mod activity;
pub mod audits;
mod coalescer;
mod compress;
pub mod cookie_names;
pub mod counters;
pub mod cron;
mod cron_runs;
mod entry_parts;
mod esi;
pub mod facets;
mod handle;
mod in_progress;
mod include;
mod invalidation;
mod jobs;
mod join;
mod lead;
mod pass;
mod patch;
mod patch_progress;
mod patched_sites;
mod patcher;
pub mod plugin_contact;
pub mod precision;
mod publish;
mod receive;
mod registry;
mod relay;
mod render;
mod renderer;
mod replaced;
pub mod revalidate;
mod shared_fetch;
mod shared_rendering;
mod site;
mod spool;
mod start;
mod storer;
mod upstreams;
mod wait;
mod waiters;
mod worker;

pub use handle::Handle;
pub use jobs::{
    FetchResult, IncludeFound, IncludeLookup, IncludeLookupFuture, IncludingPage, PageJob, PassJob,
};
use publish::{
    Acknowledgement, ExchangePurges, publish, publish_labeled, publish_of_method, write_to_disk,
};
use relay::{ResponseSink, buffering_mode, relay};
pub use site::{FetchLimits, FetchSite};
pub use start::start;
pub use storer::{hit_for_pass, rfc9111, shared};
use worker::FetchWorker;
