//! The body of a request, received completely before the upstream gets the request, or streamed ([`super::streamed_body`]).
//!
//! A small body stays in memory; a larger one is written to an unlinked temporary file. Both count against [`BodySpools`]: when all
//! requests together have reached the limit, the next bytes are rejected. The runtime's helper threads write and read the file,
//! never a front thread. The caller enforces the limit on one body: it stops pushing at the site's `request_body`.

use std::future::{Future, pending};
use std::io::{self, Read};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use galley_cache::budget::Reservation;
use tokio::task::JoinHandle;

use super::body_spools::{self, BodySpools, SpoolFile, SpoolFull};
use super::streamed_body::{StreamReader, StreamedBody, UploadPace};

/// The body of a request; all but streamed ones have arrived completely.
#[derive(Debug, Default)]
pub enum RequestBody {
    /// There is none.
    #[default]
    Empty,
    /// In memory.
    Memory(Bytes),
    /// In a file.
    File(SpoolFile),
    /// It arrives.
    Streamed(StreamedBody),
}

impl RequestBody {
    /// Length in bytes; `None`: its end will tell.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Memory(bytes) => Some(bytes.len() as u64),
            Self::File(file) => Some(file.length()),
            Self::Streamed(body) => body.length(),
        }
    }

    /// The streamed body, if it is one.
    pub fn streamed(&self) -> Option<&StreamedBody> {
        match self {
            Self::Streamed(body) => Some(body),
            Self::Empty | Self::Memory(_) | Self::File(_) => None,
        }
    }

    /// Waits until the client breaks the body off; for ever, if it has arrived. Cancel-safe.
    pub async fn broken(&self) {
        match self.streamed() {
            Some(body) => body.broken().await,
            None => pending().await,
        }
    }

    /// How the body advances, for the upstream's timeouts.
    pub fn pace(&self) -> UploadPace {
        self.streamed().map(StreamedBody::pace).unwrap_or_default()
    }

    /// A reader from the start of the body, or from the rest of a streamed one. The body has to stay until all of it has been
    /// read.
    pub fn reader(&self) -> RequestBodyReader {
        match self {
            Self::Empty => RequestBodyReader::Memory(None),
            Self::Memory(bytes) => RequestBodyReader::Memory(Some(bytes.clone())),
            Self::File(file) => RequestBodyReader::File(FileReader {
                file: file.share(),
                at: 0,
                length: file.length(),
                reading: None,
            }),
            Self::Streamed(body) => RequestBodyReader::Streamed(body.reader()),
        }
    }
}

/// Reads a [`RequestBody`] in chunks.
pub enum RequestBodyReader {
    /// At most one chunk remains.
    Memory(Option<Bytes>),
    /// Chunks of a file.
    File(FileReader),
    /// Chunks as they arrive.
    Streamed(StreamReader),
}

/// Where the reader of a file is.
pub struct FileReader {
    file: body_spools::SpoolShared,
    at: u64,
    length: u64,
    /// The next chunk, on a helper thread.
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

impl RequestBodyReader {
    /// The next chunk, `None` at the end.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        match self {
            Self::Memory(chunk) => Poll::Ready(Ok(chunk.take())),
            Self::File(reader) => reader.poll_chunk(cx),
            Self::Streamed(reader) => reader.poll_chunk(cx),
        }
    }
}

impl FileReader {
    fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        let left = self.length - self.at;
        if left == 0 {
            return Poll::Ready(Ok(None));
        }
        let length = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        let reading = self
            .reading
            .get_or_insert_with(|| self.file.read(self.at, length));
        let read = ready!(Pin::new(reading).poll(cx));
        self.reading = None;
        let chunk = read.map_err(io::Error::other)??;
        self.at += chunk.len() as u64;
        Poll::Ready(Ok(Some(chunk.into())))
    }
}

/// Collects a body as it arrives.
pub struct Spool {
    spools: Arc<BodySpools>,
    memory: Vec<u8>,
    /// Pays for what `memory` has room for.
    paid: Option<Reservation>,
    file: Option<SpoolFile>,
}

impl Spool {
    /// A spool that uses the common limits.
    pub fn new(spools: Arc<BodySpools>) -> Self {
        Self {
            spools,
            memory: Vec::new(),
            paid: None,
            file: None,
        }
    }

    /// Whether a body of so many bytes goes to a file in any case.
    pub fn needs_file(length: u64) -> bool {
        length >= IN_MEMORY as u64
    }

    /// Adds a chunk. Fails if there is no room for it; the earlier chunks are useless then.
    pub async fn push(&mut self, chunk: &[u8]) -> Result<(), SpoolFull> {
        if self.take(chunk) {
            return Ok(());
        }
        self.flush().await?;
        if self.take(chunk) {
            return Ok(());
        }
        // Longer than the buffer, or there is no memory for one: unchanged.
        self.write(Bytes::copy_from_slice(chunk)).await
    }

    /// Everything that has arrived.
    pub async fn finish(mut self) -> Result<RequestBody, SpoolFull> {
        if self.file.is_some() {
            self.flush().await?;
        }
        Ok(match self.file {
            Some(file) => RequestBody::File(file),
            None if self.memory.is_empty() => RequestBody::Empty,
            None => RequestBody::Memory(Bytes::from_owner(Paid {
                bytes: self.memory,
                _paid: self.paid,
            })),
        })
    }

    /// Takes a chunk into the buffer, if that has or gets room for it.
    fn take(&mut self, chunk: &[u8]) -> bool {
        let length = self.memory.len() + chunk.len();
        if length >= IN_MEMORY || !self.pay(length) {
            return false;
        }
        self.memory.extend_from_slice(chunk);
        true
    }

    /// Pays for a buffer of so many bytes, and makes it: some steps, so that a small form costs little.
    fn pay(&mut self, length: usize) -> bool {
        if length <= self.memory.capacity() {
            return true;
        }
        let size = length
            .max(self.memory.capacity() * 4)
            .clamp(LEAST, IN_MEMORY);
        let has_paid = if let Some(paid) = &mut self.paid {
            let missing = (size as u64).saturating_sub(paid.bytes());
            paid.try_grow(missing).is_ok()
        } else {
            self.paid = self.spools.memory().try_reserve(size as u64);
            self.paid.is_some()
        };
        if has_paid {
            self.memory.reserve_exact(size - self.memory.len());
        }
        has_paid
    }

    async fn flush(&mut self) -> Result<(), SpoolFull> {
        if self.memory.is_empty() {
            return Ok(());
        }
        // Paid for until it is written; the next buffer takes its place.
        let buffer = mem::take(&mut self.memory);
        let paid = self.paid.take();
        self.write(buffer.into()).await?;
        drop(paid);
        Ok(())
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), SpoolFull> {
        let file = if let Some(file) = &mut self.file {
            file
        } else {
            let file = self.spools.file().await?;
            self.spools.count_request();
            self.file.insert(file)
        };
        file.append(bytes).await
    }
}

/// Bytes with their reservation.
struct Paid {
    bytes: Vec<u8>,
    _paid: Option<Reservation>,
}

impl AsRef<[u8]> for Paid {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads all of a small file; `None` when it is longer than `limit`.
pub fn read_small(file: &mut impl Read, length: u64, limit: usize) -> io::Result<Option<Bytes>> {
    let Ok(length) = usize::try_from(length) else {
        return Ok(None);
    };
    if length > limit {
        return Ok(None);
    }
    let mut bytes = vec![0; length];
    file.read_exact(&mut bytes)?;
    Ok(Some(bytes.into()))
}

/// Bodies below this stay in memory: every form, not most uploads. Also bytes per write to the file, and so what an upload costs.
const IN_MEMORY: usize = 64 * 1024;
/// The least that is reserved for one.
const LEAST: usize = 4 * 1024;
/// Bytes per read from it: two FastCGI records.
const CHUNK: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    use crate::body::body_spools::tests::spools;

    fn noise(length: usize) -> Vec<u8> {
        (0..length)
            .map(|i| u8::try_from(i % 251).unwrap())
            .collect()
    }

    async fn taken_in(
        spools: &Arc<BodySpools>,
        sent: &[u8],
        piece: usize,
    ) -> Result<RequestBody, SpoolFull> {
        let mut spool = Spool::new(Arc::clone(spools));
        for chunk in sent.chunks(piece) {
            spool.push(chunk).await?;
        }
        spool.finish().await
    }

    async fn read(body: &RequestBody) -> Vec<u8> {
        let mut reader = body.reader();
        let mut got = Vec::new();
        while let Some(chunk) = poll_fn(|cx| reader.poll_chunk(cx)).await.unwrap() {
            got.extend_from_slice(&chunk);
        }
        got
    }

    #[tokio::test]
    async fn small_bodies_stay_in_memory_and_large_ones_go_to_a_file() {
        for (length, in_file) in [
            (0, false),
            (1, false),
            (IN_MEMORY - 1, false),
            (IN_MEMORY, true),
            (3_000_000, true),
        ] {
            // The last ones have little memory, or none, and go to a file earlier.
            for memory in [1_000_000, 5_000, 0] {
                let spools = spools(memory, 10_000_000, 0);
                let sent = noise(length);
                let body = taken_in(&spools, &sent, 8191).await.unwrap();
                if memory == 1_000_000 {
                    let is_file = matches!(body, RequestBody::File(_));
                    assert_eq!(is_file, in_file, "{length}");
                }
                assert_eq!(body.length(), Some(length as u64));
                assert!(spools.counted().memory <= memory);
                assert!(
                    read(&body).await == sent,
                    "{length} bytes came back changed"
                );
                assert!(read(&body).await == sent, "for a retry");
                drop(body);
                let after = spools.counted();
                assert_eq!((after.memory, after.disk), (0, 0), "{length} with {memory}");
            }
        }
    }

    #[tokio::test]
    async fn a_body_that_finds_no_room_is_refused() {
        let spools = spools(100_000, 200_000, 0);
        let first = taken_in(&spools, &noise(150_000), 10_000).await.unwrap();
        assert!(taken_in(&spools, &noise(150_000), 10_000).await.is_err());
        assert_eq!(spools.counted().disk, 150_000);
        assert_eq!(spools.counted().memory, 0);
        drop(first);
        assert!(taken_in(&spools, &noise(150_000), 10_000).await.is_ok());
    }
}
