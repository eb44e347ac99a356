//! The input and output types of a fill.

use bytes::Bytes;
use galley_policy::outcome::NotStored;
use galley_policy::storable::Lifetime;
use http::{HeaderMap, StatusCode};

use crate::body::StoredBody;
use crate::budget::MemoryBudget;
use crate::includes::Inclusions;

/// Head of a response that is being received.
#[derive(Clone, Debug)]
pub struct FillHead {
    /// Status.
    pub status: StatusCode,
    /// Header fields as they are to be stored or sent on.
    pub fields: HeaderMap,
    /// The permitted readers.
    pub share: FillSharing,
    /// `Content-Length` of the whole body, where known. A shared fill that ends at another length has failed.
    pub length: Option<u64>,
}

/// The permitted readers of a fill.
#[derive(Clone, Debug)]
pub enum FillSharing {
    /// Everyone, all of it.
    Shared {
        /// The lifetimes.
        life: Lifetime,
        /// Ids of its tags, for callers that have to compare it with purges before they use it.
        tags: Vec<u64>,
        /// Other responses whose bytes are in it, which have to be proved, too.
        inclusions: Inclusions,
    },
    /// The one reader that joined first.
    Private,
}

/// Why a fill gives no (more) bytes. Readers get it at once, even if there are bytes that they have not read: a reader that
/// has sent nothing yet can still send another response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// The upstream could not be reached.
    #[error("the upstream could not be reached")]
    Connect,
    /// It failed several times on end and was not asked.
    #[error("the circuit breaker of the upstream is open")]
    Paused,
    /// It did not answer in time.
    #[error("the upstream timed out")]
    Timeout,
    /// It closed before the end of its response.
    #[error("the upstream closed the connection before the response was complete")]
    Closed,
    /// It sent something other than a response.
    #[error("the upstream sent a malformed response")]
    Malformed,
    /// The queue in front of it is full or took too long.
    #[error("the queue of the upstream is full")]
    Overload,
    /// The exchange was given up here.
    #[error("the request to the upstream was aborted")]
    Aborted,
    /// A purge came while it was generated; ask again.
    #[error("purged during the fetch")]
    Purged,
    /// It cannot be put together, because one of its ESI includes failed.
    #[error("an ESI include of the page failed")]
    Include,
    /// It may not be shared; each reader has to ask on its own, whole.
    #[error("the response may not be shared")]
    Unstorable(NotStored),
}

/// The last reader has gone and none can come: the bytes have no use here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads this response any more")]
pub struct NoReaders;

/// From where and how much a shared fill may keep; see `Memory::keep`.
#[derive(Clone, Debug)]
pub struct Keep {
    /// What pays for the bytes.
    pub budget: MemoryBudget,
    /// The longest body to keep.
    pub max_bytes: u64,
}

/// The result of a fill.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The whole body, if it was kept; `None` for private fills, for those that exceeded their limits, and for those whose
    /// length differs from that in their head.
    pub body: Option<StoredBody>,
    /// Bytes received.
    pub length: u64,
}

/// What a reader has at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FillRead {
    /// The next bytes, never empty.
    Chunk(Bytes),
    /// That was all.
    End,
    /// Nothing yet.
    Pending,
}
