//! The input and output types of a fill.

use bytes::Bytes;
use galley_policy::outcome::NotStored;
use galley_policy::send_file::SendFile;
use galley_policy::storable::Lifetime;
use http::{HeaderMap, StatusCode};

use crate::budget::MemoryBudget;
use crate::includes::IncludedResponses;

/// The head of a response that is being received.
#[derive(Clone, Debug)]
pub struct FillHead {
    /// The status.
    pub status: StatusCode,
    /// The header fields to be stored or forwarded.
    pub fields: HeaderMap,
    /// The permitted readers.
    pub share: FillSharing,
    /// `Content-Length` of the whole body, if known. A shared fill that ends with another length has failed.
    pub length: Option<u64>,
}

/// The permitted readers of a fill.
#[derive(Clone, Debug)]
pub enum FillSharing {
    /// Any number of readers, from the first byte.
    Shared {
        /// The lifetimes.
        lifetime: Lifetime,
        /// The ids of the tags, for callers that must compare the fill with purges before they use it.
        tags: Vec<u64>,
        /// Other responses whose bytes the body includes, which must be compared with purges, too.
        inclusions: IncludedResponses,
    },
    /// Only the first reader that joined.
    Private,
    /// Only the first reader, which sends this file. There is no body.
    File(Box<SendFile>),
}

/// Why a fill supplies no (more) bytes. Readers get the error immediately, even if they have not read all bytes: a reader that
/// has not sent anything yet can still send another response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FillError {
    /// The upstream could not be reached.
    #[error("the upstream could not be reached")]
    Connect,
    /// The upstream failed several times in a row, so the request was not sent.
    #[error("the circuit breaker of the upstream is open")]
    Paused,
    /// The upstream did not respond in time.
    #[error("the upstream timed out")]
    Timeout,
    /// The upstream closed the connection before the end of its response.
    #[error("the upstream closed the connection before the response was complete")]
    Closed,
    /// The upstream sent invalid data.
    #[error("the upstream sent a malformed response")]
    Malformed,
    /// The upstream's queue is full, or the request waited in it too long.
    #[error("the queue of the upstream is full")]
    Overload,
    /// Galley aborted the exchange.
    #[error("the request to the upstream was aborted")]
    Aborted,
    /// The page cannot be assembled, because one of its ESI includes failed.
    #[error("an ESI include of the page failed")]
    Include,
    /// There is no memory to receive or assemble the whole page.
    #[error("there is no memory for the whole page")]
    Memory,
    /// The response may not be shared. Each reader must send a separate, complete request.
    #[error("the response may not be shared")]
    Unstorable(NotStored),
}

/// The last reader has left and no other can join, so the bytes are not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody reads this response any more")]
pub struct NoReaders;

/// The limits for keeping the body of a shared fill; see `Memory::keep`.
#[derive(Clone, Debug)]
pub struct BodyRetention {
    /// The budget from which the bytes are reserved.
    pub budget: MemoryBudget,
    /// The maximum size of a kept body, in bytes.
    pub max_bytes: u64,
}

/// The result of a read that does not wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FillRead {
    /// The next bytes, never empty.
    Chunk(Bytes),
    /// The end of the body.
    End,
    /// No bytes are available yet.
    Pending,
}
