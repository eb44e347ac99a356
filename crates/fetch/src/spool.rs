//! Buffers the bytes that an upstream has sent and its client has not received yet, so that a slow client does not occupy a PHP
//! worker.
//!
//! While the readers of a fill keep up, the response reaches them directly, in reserved memory, so that what PHP flushes is
//! sent at once. If they lag further behind, the following bytes are written to a file, from which they are read piece by
//! piece, even after the upstream has ended. If a file is not possible (the response is to be streamed, the limits of
//! [`BodySpools`] are reached, the disk fails), the upstream is read at the client's pace. Before more is read, all former
//! bytes are reserved or have been taken by the connection, so beyond the limit a slow client costs only the memory that its
//! connection is currently sending.
//!
//! Fills that keep the whole body reserve it themselves and never wait.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use galley_cache::budget::Reservation;
use galley_cache::fill::{FillError, FillWriter, NoReaders};
use tokio::task::JoinHandle;

use galley_upstream::body::body_spools::{BodySpools, SpoolFile};

/// The spool of one response; see the module.
pub(super) struct ResponseSpool {
    spools: Arc<BodySpools>,
    /// How far the upstream may be ahead of the client in memory, in bytes.
    window: u64,
    mode: BufferingMode,
    waiting: Option<SpoolFilePart>,
    is_counted: bool,
    is_held_up: bool,
}

/// How a response is buffered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BufferingMode {
    /// In a file if the client is slow.
    Spooled,
    /// Not at all: the response is sent as it is received, and received at the client's pace.
    Streamed,
}

/// The bytes in a file; those before `read` have been passed to the readers.
struct SpoolFilePart {
    file: SpoolFile,
    /// Accounts for the pieces that are read, as long as any of them is in use.
    reservation: Arc<Reservation>,
    read: u64,
    /// The next piece, while a helper thread reads it.
    reading: Option<JoinHandle<io::Result<Vec<u8>>>>,
}

impl ResponseSpool {
    /// A spool for a new response. `window`: how far the upstream may be ahead of the client in memory, in bytes.
    pub(super) fn new(spools: &Arc<BodySpools>, window: usize) -> Self {
        Self {
            spools: Arc::clone(spools),
            window: window as u64,
            mode: BufferingMode::Spooled,
            waiting: None,
            is_counted: false,
            is_held_up: false,
        }
    }

    /// Sets how the response is buffered, once that is known.
    pub(super) fn set_mode(&mut self, mode: BufferingMode) {
        self.mode = mode;
    }

    /// Whether the file contains no more bytes for the readers.
    pub(super) fn is_clear(&self) -> bool {
        self.waiting.is_none()
    }

    /// Passes the next bytes to the readers or the file. Fails when no readers remain. Not cancel-safe.
    pub(super) async fn forward(
        &mut self,
        writer: &mut FillWriter,
        chunk: Bytes,
    ) -> Result<(), FillError> {
        if chunk.is_empty() {
            return Ok(());
        }
        loop {
            if self.is_clear() {
                if writer.is_kept() {
                    return writer.put(chunk).map_err(unread);
                }
                if let Some(reserved) = self.reserved(writer.backlog(), &chunk) {
                    return writer.put(reserved).map_err(unread);
                }
            }
            if writer.is_unread() {
                return Err(FillError::Aborted);
            }
            if self.mode == BufferingMode::Spooled && self.append(&chunk).await {
                return Ok(());
            }
            self.hold_up();
            if self.is_clear() {
                return forward_unreserved(writer, chunk).await;
            }
            self.advance(writer).await?;
        }
    }

    /// Feeds the readers from the file. Returns only when no readers remain, or the file fails. Cancel-safe.
    pub(super) async fn feed_readers(&mut self, writer: &mut FillWriter) -> FillError {
        loop {
            if self.is_clear() {
                writer.all_readers_dropped().await;
                return FillError::Aborted;
            }
            if let Err(failure) = self.advance(writer).await {
                return failure;
            }
        }
    }

    /// Feeds the readers until the file is empty.
    pub(super) async fn drain(&mut self, writer: &mut FillWriter) -> Result<(), FillError> {
        while !self.is_clear() {
            self.advance(writer).await?;
        }
        Ok(())
    }

    /// Feeds the readers until the file is empty, and ends the fill.
    pub(super) async fn end(mut self, mut writer: FillWriter) {
        match self.drain(&mut writer).await {
            Ok(()) => {
                writer.finish();
            }
            Err(failure) => writer.fail(failure),
        }
    }

    /// The chunk with its reservation, if the client has read almost everything before it and memory is available. The less memory
    /// remains, the less the client may lag behind: the first slow clients must not use up the memory that many more need for
    /// their files.
    fn reserved(&self, backlog: u64, chunk: &Bytes) -> Option<Bytes> {
        let memory = self.spools.memory();
        let free = memory.limit().saturating_sub(memory.used());
        let most = match backlog {
            0 => free / MAX_CHUNK,
            _ => self.window.min(free / MAX_SHARE),
        };
        let length = chunk.len() as u64;
        if backlog + length > most {
            return None;
        }
        let reservation = memory.try_reserve(length)?;
        Some(Bytes::from_owner(SpoolBytes {
            bytes: unshared(chunk),
            _reservation: reservation,
        }))
    }

    /// Appends the chunk to the file; false if that is not possible.
    async fn append(&mut self, chunk: &Bytes) -> bool {
        let waiting = match &mut self.waiting {
            Some(waiting) => waiting,
            None => match begin(&self.spools).await {
                Some(waiting) => self.waiting.insert(waiting),
                None => return false,
            },
        };
        let length = waiting.file.length() + chunk.len() as u64;
        let is_added = length <= self.spools.response_limit()
            && waiting.file.append(chunk.clone()).await.is_ok();
        if waiting.file.length() == waiting.read {
            self.waiting = None;
        }
        if is_added && !self.is_counted {
            self.is_counted = true;
            self.spools.count_response();
        }
        is_added
    }

    /// Moves one piece from the file to the readers, when the slowest of them can accept it. Cancel-safe.
    async fn advance(&mut self, writer: &mut FillWriter) -> Result<(), FillError> {
        let Some(waiting) = &mut self.waiting else {
            return Ok(());
        };
        if waiting.reading.is_none() {
            writer.below(1).await.map_err(unread)?;
        }
        let piece = waiting.piece().await?;
        waiting.read += piece.len() as u64;
        let bytes = Bytes::from_owner(SpoolBytes {
            bytes: piece.into(),
            _reservation: Arc::clone(&waiting.reservation),
        });
        if waiting.read == waiting.file.length() {
            self.waiting = None;
        }
        writer.put(bytes).map_err(unread)
    }

    fn hold_up(&mut self) {
        if self.mode == BufferingMode::Spooled && !self.is_held_up {
            self.is_held_up = true;
            self.spools.hold_up();
        }
    }
}

impl SpoolFilePart {
    async fn piece(&mut self) -> Result<Vec<u8>, FillError> {
        let left = self.file.length() - self.read;
        let length = usize::try_from(left).map_or(PIECE, |left| left.min(PIECE));
        let reading = self
            .reading
            .get_or_insert_with(|| self.file.share().read(self.read, length));
        let read = reading.await;
        self.reading = None;
        match read.map_err(io::Error::other).and_then(|read| read) {
            Ok(piece) => Ok(piece),
            Err(cause) => {
                tracing::error!(%cause, "cannot read a response from its spool file");
                Err(FillError::Aborted)
            }
        }
    }
}

async fn begin(spools: &Arc<BodySpools>) -> Option<SpoolFilePart> {
    let reservation = spools.memory().try_reserve(FILE_MEMORY)?;
    Some(SpoolFilePart {
        file: spools.file().await.ok()?,
        reservation: Arc::new(reservation),
        read: 0,
        reading: None,
    })
}

/// Passes on bytes without a reservation: the upstream waits until every reader has taken them. It does not wait until they
/// have been sent, because a reader that keeps a piece while it waits for the next would wait forever.
async fn forward_unreserved(writer: &mut FillWriter, chunk: Bytes) -> Result<(), FillError> {
    writer.put(chunk).map_err(unread)?;
    writer.below(1).await.map_err(unread)
}

/// Bytes, and the reservation that is released with their last reference.
struct SpoolBytes<T> {
    bytes: Bytes,
    _reservation: T,
}

impl<T> AsRef<[u8]> for SpoolBytes<T> {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Copies a small chunk into a separate buffer: it may be a part of a much larger buffer that has no reservation.
fn unshared(chunk: &Bytes) -> Bytes {
    if chunk.len() < SMALL {
        Bytes::copy_from_slice(chunk)
    } else {
        chunk.clone()
    }
}

fn unread(_: NoReaders) -> FillError {
    FillError::Aborted
}

/// How far a client may lag behind in memory, in bytes: enough for any page, so that most pages never need the disk.
pub(super) const AHEAD: usize = 256 * 1024;

/// How far one slow reader may lag behind in a fill without a response spool, in bytes.
pub(super) const WINDOW: usize = 1024 * 1024;

/// The divisor of the free memory for the lag of one client: with 8 MiB in total, a hundred clients that never read still get
/// files.
const MAX_SHARE: u64 = 64;

/// The divisor of the free memory for one chunk, for a client that has received everything before.
const MAX_CHUNK: u64 = 4;

/// The bytes that are read from a file at a time.
const PIECE: usize = 16 * 1024;

/// The memory of a client that is fed from a file, in bytes: the piece that is being sent, and the next.
const FILE_MEMORY: u64 = 2 * PIECE as u64;

/// Smaller chunks are copied, in bytes.
const SMALL: usize = 4 * 1024;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use galley_cache::fill::{self, FillHead, FillRead, FillReader, FillSharing};
    use http::{HeaderMap, StatusCode};
    use tokio::time::timeout;

    use super::*;
    use galley_upstream::testing::spools;

    fn begun(window: usize) -> (FillWriter, FillReader) {
        let (mut writer, fill) = fill::fill(window, None);
        let reader = fill.reader().unwrap();
        writer.head(FillHead {
            status: StatusCode::OK,
            fields: HeaderMap::new(),
            share: FillSharing::Private,
            length: None,
        });
        (writer, reader)
    }

    /// Numbered chunks, so that the test can check their order.
    fn chunks(count: u8) -> impl Iterator<Item = Bytes> {
        (0..count).map(|number| Bytes::from(vec![number; 10_000]))
    }

    fn whole(count: u8) -> Vec<u8> {
        chunks(count).flatten().collect()
    }

    async fn rest(mut reader: FillReader) -> Vec<u8> {
        let mut got = Vec::new();
        while let Some(chunk) = reader.next().await.unwrap() {
            got.extend_from_slice(&chunk);
        }
        got
    }

    /// Whether a future does not complete without another event.
    async fn waits(future: impl Future) -> bool {
        timeout(Duration::from_millis(50), future).await.is_err()
    }

    #[tokio::test]
    async fn a_reader_that_keeps_up_needs_no_file_and_gets_each_chunk_at_once() {
        let spools = spools(4_000_000, 1_000_000, 1_000_000);
        let (mut writer, mut reader) = begun(1);
        let mut spool = ResponseSpool::new(&spools, 30_000);
        for chunk in chunks(100) {
            spool.forward(&mut writer, chunk.clone()).await.unwrap();
            assert_eq!(reader.try_next(), Ok(FillRead::Chunk(chunk)));
        }
        assert!(spool.is_clear());
        let counted = spools.counted();
        assert_eq!((counted.memory, counted.disk, counted.responses), (0, 0, 0));
    }

    #[tokio::test]
    async fn a_slow_reader_gets_all_chunks_in_order_and_never_delays_the_upstream() {
        let spools = spools(4_000_000, 10_000_000, 10_000_000);
        let (mut writer, reader) = begun(1);
        let mut spool = ResponseSpool::new(&spools, 30_000);
        // Never waits, although the reader does not read.
        for chunk in chunks(200) {
            spool.forward(&mut writer, chunk).await.unwrap();
        }
        let counted = spools.counted();
        assert_eq!(counted.memory, 30_000 + FILE_MEMORY);
        assert_eq!((counted.disk, counted.responses), (2_000_000 - 30_000, 1));
        let (got, ()) = tokio::join!(rest(reader), spool.end(writer));
        assert!(got == whole(200));
        let after = spools.counted();
        assert_eq!((after.memory, after.disk, after.held_up), (0, 0, 0));
    }

    #[tokio::test]
    async fn a_reader_that_catches_up_is_fed_from_memory_again() {
        let spools = spools(4_000_000, 10_000_000, 10_000_000);
        let (mut writer, mut reader) = begun(1);
        let mut spool = ResponseSpool::new(&spools, 30_000);
        let mut got = Vec::new();
        for chunk in chunks(100) {
            spool.forward(&mut writer, chunk).await.unwrap();
            // Every tenth time the reader takes everything.
            if chunk_number(&got).is_multiple_of(10) {
                while !spool.is_clear() || writer.backlog() > 0 {
                    if let FillRead::Chunk(bytes) = reader.try_next().unwrap() {
                        got.extend_from_slice(&bytes);
                    } else {
                        spool.advance(&mut writer).await.unwrap();
                    }
                }
                assert_eq!(spools.counted().disk, 0);
            }
        }
        let (last, ()) = tokio::join!(rest(reader), spool.end(writer));
        got.extend(last);
        assert!(got == whole(100));
    }

    fn chunk_number(got: &[u8]) -> usize {
        got.len() / 10_000
    }

    #[tokio::test]
    async fn a_hundred_clients_that_never_read_get_files_within_eight_mebibytes() {
        let spools = spools(8 << 20, 1 << 30, 1 << 30);
        let mut all = Vec::new();
        for _ in 0..100 {
            let (mut writer, reader) = begun(1);
            let mut spool = ResponseSpool::new(&spools, AHEAD);
            for chunk in chunks(50) {
                spool.forward(&mut writer, chunk).await.unwrap();
            }
            all.push((spool, writer, reader));
        }
        let counted = spools.counted();
        assert_eq!((counted.responses, counted.held_up), (100, 0));
        assert!(counted.memory <= 8 << 20);
    }

    #[tokio::test]
    async fn without_memory_or_disk_the_client_sets_the_pace_and_nothing_is_buffered() {
        // No memory at all; none for a file; no disk; a file that is too short; streaming, which has no file.
        let cases = [
            (0, 1_000_000, 1_000_000, BufferingMode::Spooled),
            (40_000, 1_000_000, 1_000_000, BufferingMode::Spooled),
            (4_000_000, 0, 1_000_000, BufferingMode::Spooled),
            (4_000_000, 1_000_000, 25_000, BufferingMode::Spooled),
            (4_000_000, 1_000_000, 1_000_000, BufferingMode::Streamed),
        ];
        for (memory, disk, response, mode) in cases {
            let spools = spools(memory, disk, response);
            let (mut writer, reader) = begun(1);
            let mut spool = ResponseSpool::new(&spools, 30_000);
            spool.set_mode(mode);
            let mut forwarding = Box::pin(async move {
                for chunk in chunks(200) {
                    spool.forward(&mut writer, chunk).await.unwrap();
                }
                spool.end(writer).await;
            });
            // The spool may try a file first, on a helper thread.
            let is_held = || spools.counted().held_up == u64::from(mode == BufferingMode::Spooled);
            let mut looks = 0;
            while waits(forwarding.as_mut()).await && !is_held() && looks < 400 {
                looks += 1;
            }
            assert!(
                waits(forwarding.as_mut()).await,
                "{memory} {disk} {response}"
            );
            let counted = spools.counted();
            assert!(counted.memory <= memory && counted.disk <= disk.min(response));
            assert_eq!(counted.held_up, u64::from(mode == BufferingMode::Spooled));
            let (got, ()) = tokio::join!(rest(reader), forwarding);
            assert!(got == whole(200), "{memory} {disk} {response}");
            let after = spools.counted();
            assert_eq!((after.memory, after.disk), (0, 0));
        }
    }

    #[tokio::test]
    async fn a_disconnected_client_ends_the_response() {
        let spools = spools(4_000_000, 10_000_000, 10_000_000);
        let (mut writer, reader) = begun(1);
        let mut spool = ResponseSpool::new(&spools, 30_000);
        for chunk in chunks(50) {
            spool.forward(&mut writer, chunk).await.unwrap();
        }
        assert!(waits(spool.feed_readers(&mut writer)).await);
        drop(reader);
        assert_eq!(spool.feed_readers(&mut writer).await, FillError::Aborted);
        let next = spool.forward(&mut writer, Bytes::from_static(b"x")).await;
        assert_eq!(next, Err(FillError::Aborted));
        drop((spool, writer));
        let after = spools.counted();
        assert_eq!((after.memory, after.disk), (0, 0));
    }
}
