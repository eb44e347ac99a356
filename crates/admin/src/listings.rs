//! The walks through the cache that `GET /cache` has in progress.

use std::collections::VecDeque;

use galley_cache::entry::EntryKind;
use galley_sys::Lock;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

/// The walks in progress, the oldest first; their number is limited.
#[derive(Default)]
pub(super) struct Listings(pub(super) Lock<VecDeque<Listing>>);

pub(super) struct Listing {
    pub(super) id: String,
    pub(super) wanted: ListFilter,
    pub(super) queries: mpsc::Sender<ListQuery>,
}

/// The selection of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListFilter {
    /// `None`: all sites.
    pub(super) site: Option<u32>,
    /// The canonical prefix, without trailing slashes.
    pub(super) prefix: Option<Vec<u8>>,
    pub(super) tag: Option<u64>,
    pub(super) kind: Option<EntryKind>,
}

pub(super) struct ListQuery {
    /// The number of the page; a listing never goes back.
    pub(super) number: u64,
    pub(super) limit: usize,
    pub(super) reply: oneshot::Sender<ListPage>,
}

#[derive(Debug, Default)]
pub(super) struct ListPage {
    pub(super) entries: Vec<Value>,
    pub(super) is_last: bool,
}
