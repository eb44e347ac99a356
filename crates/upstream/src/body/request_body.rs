//! The body of a request, received completely before the upstream gets the request, or streamed ([`super::streamed_body`]).
//!
//! A small body is kept in memory; a larger one is written to an unlinked temporary file. Both count against [`BodySpools`]: when
//! all requests together have reached the limit, further bytes are rejected. The runtime's helper threads write and read the file,
//! never a front thread. The caller enforces the limit on one body: it stops pushing at the site's `request_body`.

use std::future::{Future, pending};
use std::io::{self, Read};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use galley_cache::budget::{MemoryBudget, Reservation};
use tokio::task::JoinHandle;

use super::body_spools::{self, BodySpools, SpoolFile, SpoolFull};
use super::streamed_body::{StreamReader, StreamedBody, UploadPace};

/// The body of a request, completely received unless it is streamed.
#[derive(Debug, Default)]
pub enum RequestBody {
    /// No body.
    #[default]
    Empty,
    /// In memory.
    Memory(Bytes),
    /// In a file.
    File(SpoolFile),
    /// Being received.
    Streamed(StreamedBody),
}

impl RequestBody {
    /// The length in bytes; `None`: unknown until its end.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty => Some(0),
            Self::Memory(bytes) => Some(bytes.len() as u64),
            Self::File(file) => Some(file.length()),
            Self::Streamed(body) => body.length(),
        }
    }

    /// The streamed body, if the body is streamed.
    pub fn streamed(&self) -> Option<&StreamedBody> {
        match self {
            Self::Streamed(body) => Some(body),
            Self::Empty | Self::Memory(_) | Self::File(_) => None,
        }
    }

    /// Waits until the client aborts the body; forever, if the body is complete. Cancel-safe.
    pub async fn broken(&self) {
        match self.streamed() {
            Some(body) => body.broken().await,
            None => pending().await,
        }
    }

    /// The progress of the body, for the upstream's timeouts.
    pub fn pace(&self) -> UploadPace {
        self.streamed().map(StreamedBody::pace).unwrap_or_default()
    }

    /// A reader from the start of the body, or from the rest of a streamed one. The body must exist until all of it has been read.
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
    /// The remaining chunk, if any.
    Memory(Option<Bytes>),
    /// Chunks of a file.
    File(FileReader),
    /// Chunks as they are received.
    Streamed(StreamReader),
}

/// The state of reading a file.
pub struct FileReader {
    file: body_spools::SpoolShared,
    at: u64,
    length: u64,
    /// The next chunk, while a helper thread reads it.
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

/// Collects a body while it is received.
pub struct Spool {
    spools: Arc<BodySpools>,
    memory: Vec<u8>,
    /// The reservation for the capacity of `memory`.
    reservation: Option<Reservation>,
    file: Option<SpoolFile>,
}

impl Spool {
    /// A spool within the limits of `spools`.
    pub fn new(spools: Arc<BodySpools>) -> Self {
        Self {
            spools,
            memory: Vec::new(),
            reservation: None,
            file: None,
        }
    }

    /// Whether a body of `length` bytes is always written to a file.
    pub fn needs_file(length: u64) -> bool {
        length >= IN_MEMORY as u64
    }

    /// Adds a chunk. Fails if memory and disk are full; the body cannot be completed then.
    pub async fn push(&mut self, chunk: &[u8]) -> Result<(), SpoolFull> {
        if self.buffer(chunk) {
            return Ok(());
        }
        self.flush().await?;
        if self.buffer(chunk) {
            return Ok(());
        }
        // Longer than the buffer, or there is no memory for a buffer: written directly.
        self.write(Bytes::copy_from_slice(chunk)).await
    }

    /// The complete body.
    pub async fn finish(mut self) -> Result<RequestBody, SpoolFull> {
        if self.file.is_some() {
            self.flush().await?;
        }
        Ok(match self.file {
            Some(file) => RequestBody::File(file),
            None if self.memory.is_empty() => RequestBody::Empty,
            None => RequestBody::Memory(Bytes::from_owner(ReservedBytes {
                bytes: self.memory,
                _reservation: self.reservation,
            })),
        })
    }

    /// Adds a chunk to the buffer, if the buffer is or can be made large enough.
    fn buffer(&mut self, chunk: &[u8]) -> bool {
        let length = self.memory.len() + chunk.len();
        if length >= IN_MEMORY || !self.reserve(length) {
            return false;
        }
        self.memory.extend_from_slice(chunk);
        true
    }

    /// Makes the buffer large enough for `length` bytes, if memory can be reserved: in a few steps, so that a small form needs
    /// little.
    fn reserve(&mut self, length: usize) -> bool {
        if length <= self.memory.capacity() {
            return true;
        }
        let size = length
            .max(self.memory.capacity() * 4)
            .clamp(MIN_BUFFER, IN_MEMORY);
        let is_reserved = if let Some(reservation) = &mut self.reservation {
            let missing = (size as u64).saturating_sub(reservation.bytes());
            reservation.try_grow(missing).is_ok()
        } else {
            self.reservation = self.spools.memory().try_reserve(size as u64);
            self.reservation.is_some()
        };
        if is_reserved {
            self.memory.reserve_exact(size - self.memory.len());
        }
        is_reserved
    }

    async fn flush(&mut self) -> Result<(), SpoolFull> {
        if self.memory.is_empty() {
            return Ok(());
        }
        // Reserved until it is written; the next buffer replaces it.
        let buffer = mem::take(&mut self.memory);
        let reservation = self.reservation.take();
        self.write(buffer.into()).await?;
        drop(reservation);
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

/// Bytes and their reservation.
struct ReservedBytes {
    bytes: Vec<u8>,
    _reservation: Option<Reservation>,
}

impl AsRef<[u8]> for ReservedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Reads all of a small file into reserved memory; `None` if it is longer than `limit`, or there is no memory.
pub fn read_small(
    file: &mut impl Read,
    length: u64,
    limit: usize,
    budget: &MemoryBudget,
) -> io::Result<Option<Bytes>> {
    let small = usize::try_from(length)
        .ok()
        .filter(|length| *length <= limit);
    let (Some(small), Some(reservation)) = (small, budget.try_reserve(length)) else {
        return Ok(None);
    };
    let mut bytes = vec![0; small];
    file.read_exact(&mut bytes)?;
    Ok(Some(Bytes::from_owner(ReservedBytes {
        bytes,
        _reservation: Some(reservation),
    })))
}

/// Bodies below this size, in bytes, are kept in memory: every form, but not most uploads. Also the bytes per write to the
/// file, and so the memory that an upload needs.
const IN_MEMORY: usize = 64 * 1024;
/// The smallest buffer, in bytes.
const MIN_BUFFER: usize = 4 * 1024;
/// The bytes per read from the file: two FastCGI records.
const CHUNK: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    use crate::testing::spools;

    fn noise(length: usize) -> Vec<u8> {
        (0..length)
            .map(|i| u8::try_from(i % 251).unwrap())
            .collect()
    }

    async fn spooled(
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
    async fn small_bodies_are_kept_in_memory_and_large_ones_are_written_to_a_file() {
        for (length, in_file) in [
            (0, false),
            (1, false),
            (IN_MEMORY - 1, false),
            (IN_MEMORY, true),
            (3_000_000, true),
        ] {
            // With little memory, or none, bodies are written to a file earlier.
            for memory in [1_000_000, 5_000, 0] {
                let spools = spools(memory, 10_000_000, 0);
                let sent = noise(length);
                let body = spooled(&spools, &sent, 8191).await.unwrap();
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
    async fn a_body_is_rejected_if_memory_and_disk_are_full() {
        let spools = spools(100_000, 200_000, 0);
        let first = spooled(&spools, &noise(150_000), 10_000).await.unwrap();
        assert!(spooled(&spools, &noise(150_000), 10_000).await.is_err());
        assert_eq!(spools.counted().disk, 150_000);
        assert_eq!(spools.counted().memory, 0);
        drop(first);
        assert!(spooled(&spools, &noise(150_000), 10_000).await.is_ok());
    }
}
