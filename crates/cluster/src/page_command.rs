//! The commands for the thread of shared pages.

use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::cluster_key::MAC;
use crate::page_value::PageValue;
use crate::point::BornPoint;

pub(crate) enum PageCommand {
    /// If the receiver was dropped, the reply is not needed.
    Lookup(LookupCommand, oneshot::Sender<LookupReply>),
    Store(StoreCommand),
    /// Releases a token, with its name and word.
    Release(String, String),
}

/// A lookup of a page.
#[derive(Clone)]
pub(crate) struct LookupCommand {
    /// The page's name in the engine.
    pub(crate) name: String,
    pub(crate) site: Box<str>,
    pub(crate) key: Box<[u8]>,
    /// The word of the token that is acquired if there is no page; empty: none is acquired.
    pub(crate) word: String,
    /// The MAC of a value that cannot be used and is ignored.
    pub(crate) refused: Vec<u8>,
    /// The maximum size of a value in bytes. Larger values are not read.
    pub(crate) most_bytes: u64,
}

/// The result of a lookup.
pub(crate) enum LookupReply {
    Found(FoundValue),
    /// A value that no node has stored under this name, with its last bytes.
    Foreign(Vec<u8>),
    /// There is no page, and no other node is fetching it.
    Token(FetchToken),
    /// There is no page, and another node is fetching it.
    Busy,
}

/// A value with a valid MAC.
pub(crate) struct FoundValue {
    pub(crate) bytes: Vec<u8>,
    pub(crate) value: PageValue,
    /// The remaining time for which the engine keeps the value.
    pub(crate) left: Duration,
}

impl FoundValue {
    pub(crate) fn page(&self) -> FoundPage<'_> {
        let record = self.value.record.clone();
        FoundPage {
            points: &self.value.points,
            record: self.bytes.get(record).unwrap_or_default(),
            since: self.value.lifetime.saturating_sub(self.left),
        }
    }

    pub(crate) fn mac(&self) -> Vec<u8> {
        mac_of(&self.bytes)
    }
}

/// A page that a node has stored under the requested name.
#[derive(Debug)]
pub struct FoundPage<'v> {
    /// The stream points of its parts, by their `born`.
    pub points: &'v [BornPoint],
    /// The record, as it was passed to `SharedPages::store`.
    pub record: &'v [u8],
    /// The time since then, by the engine's clock.
    pub since: Duration,
}

/// The last bytes of a value, which identify all of it.
pub(crate) fn mac_of(value: &[u8]) -> Vec<u8> {
    value
        .get(value.len().saturating_sub(MAC)..)
        .unwrap_or_default()
        .to_vec()
}

/// Writes the record of a page; `None`: it cannot be shared.
pub type RecordWriter = Box<dyn FnOnce() -> Option<Vec<u8>> + Send>;

/// A page to be stored.
pub(crate) struct StoreCommand {
    pub(crate) name: String,
    pub(crate) site: Box<str>,
    pub(crate) key: Box<[u8]>,
    pub(crate) points: Vec<BornPoint>,
    pub(crate) lifetime: Duration,
    pub(crate) record: RecordWriter,
    /// Released after the page is stored.
    pub(crate) token: Option<FetchToken>,
    /// The permit of a page that is being stored.
    pub(crate) permit: OwnedSemaphorePermit,
}

/// The right to fetch a page for all nodes. Released when it is dropped; expires after some seconds.
#[derive(Debug)]
pub struct FetchToken {
    pub(crate) name: String,
    pub(crate) word: String,
    pub(crate) commands: mpsc::WeakSender<PageCommand>,
}

impl Drop for FetchToken {
    fn drop(&mut self) {
        let (name, word) = (
            std::mem::take(&mut self.name),
            std::mem::take(&mut self.word),
        );
        if let Some(commands) = self.commands.upgrade() {
            // If the queue is full, the token expires.
            let _ = commands.try_send(PageCommand::Release(name, word));
        }
    }
}
