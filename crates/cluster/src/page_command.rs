//! The commands for the thread of shared pages.

use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::cluster_key::MAC;
use crate::page_value::PageValue;
use crate::point::BornPoint;

pub(crate) enum PageCommand {
    /// Nobody waits for the reply if the receiver is gone.
    Look(LookCommand, oneshot::Sender<LookReply>),
    Store(StoreCommand),
    /// Gives a token back: its name and its word.
    Release(String, String),
}

/// A look for a page.
#[derive(Clone)]
pub(crate) struct LookCommand {
    /// As the engine knows it.
    pub(crate) name: String,
    pub(crate) site: Box<str>,
    pub(crate) key: Box<[u8]>,
    /// Of the token that is taken if there is no page; empty: none is.
    pub(crate) word: String,
    /// The MAC of a value that cannot be used: as if it were not there.
    pub(crate) refused: Vec<u8>,
    /// Larger values are not read.
    pub(crate) most_bytes: u64,
}

/// What a look finds.
pub(crate) enum LookReply {
    Found(FoundValue),
    /// A value that no node has stored under this name; how it ends.
    Foreign(Vec<u8>),
    /// There is no page, and no other node fetches it.
    Token(FetchToken),
    /// There is no page, and another node fetches it.
    Busy,
}

/// A value whose MAC is right.
pub(crate) struct FoundValue {
    pub(crate) bytes: Vec<u8>,
    pub(crate) value: PageValue,
    /// How much longer the engine keeps it.
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
    /// What its parts were generated after, by the numbers that they were born with.
    pub points: &'v [BornPoint],
    /// The record, as it was given to `SharedPages::store`.
    pub record: &'v [u8],
    /// How long ago that was, by the engine's clock.
    pub since: Duration,
}

/// The end of a value, which identifies all of it.
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
    /// Given back behind the page.
    pub(crate) token: Option<FetchToken>,
    /// One of those that are being stored.
    pub(crate) permit: OwnedSemaphorePermit,
}

/// The right to fetch a page for all nodes. It is given back when it is dropped, and expires after some seconds.
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
            // If there is no room for it, it expires.
            let _ = commands.try_send(PageCommand::Release(name, word));
        }
    }
}
