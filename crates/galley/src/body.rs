//! A request's body, taken in whole before PHP is asked.
//!
//! Small bodies stay in memory; larger ones go to an unlinked temporary file, so that a 100 MB upload costs a buffer and a
//! slow one holds no PHP worker. The file is written and read on the runtime's helper threads, never on a front core.
//! Limits are the caller's: it stops pushing when the site's `request_body` is reached.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::task::spawn_blocking;

/// A body that has arrived completely.
#[derive(Debug, Default)]
pub enum RequestBody {
    /// There is none.
    #[default]
    Empty,
    /// In memory.
    Memory(Bytes),
    /// In an unlinked file, positioned at its start.
    File {
        /// The file.
        file: File,
        /// Its length in bytes.
        length: u64,
    },
}

impl RequestBody {
    /// Length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Empty => 0,
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File { length, .. } => *length,
        }
    }

    /// A reader from the start of the body. The descriptor is shared: one reader at a time.
    pub fn reader(&self) -> io::Result<BodyReader> {
        Ok(match self {
            Self::Empty => BodyReader::Memory(None),
            Self::Memory(bytes) => BodyReader::Memory(Some(bytes.clone())),
            Self::File { file, .. } => {
                let mut file = file.try_clone()?;
                file.seek(SeekFrom::Start(0))?;
                BodyReader::File {
                    file: tokio::fs::File::from_std(file),
                    buffer: BytesMut::new(),
                }
            }
        })
    }
}

/// Reads a [`RequestBody`] in chunks.
pub enum BodyReader {
    /// At most one chunk is left.
    Memory(Option<Bytes>),
    /// Chunks of a file.
    File {
        /// The file, read on helper threads.
        file: tokio::fs::File,
        /// Where the next chunk is read into.
        buffer: BytesMut,
    },
}

impl BodyReader {
    /// The next chunk, `None` at the end.
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        match self {
            Self::Memory(chunk) => Poll::Ready(Ok(chunk.take())),
            Self::File { file, buffer } => {
                buffer.resize(CHUNK, 0);
                let mut target = ReadBuf::new(buffer);
                std::task::ready!(std::pin::Pin::new(file).poll_read(cx, &mut target))?;
                let filled = target.filled().len();
                let chunk = buffer.split_to(filled).freeze();
                Poll::Ready(Ok((filled > 0).then_some(chunk)))
            }
        }
    }
}

/// Collects a body as it arrives.
#[derive(Debug, Default)]
pub struct Spool {
    memory: BytesMut,
    file: Option<File>,
    written: u64,
}

impl Spool {
    /// Adds a chunk. Errors are those of the temporary file (a full disk, say).
    pub async fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        self.memory.extend_from_slice(chunk);
        if self.memory.len() < self.threshold() {
            return Ok(());
        }
        self.flush().await
    }

    /// Everything that has arrived.
    pub async fn finish(mut self) -> io::Result<RequestBody> {
        if self.file.is_none() {
            return Ok(if self.memory.is_empty() {
                RequestBody::Empty
            } else {
                RequestBody::Memory(self.memory.freeze())
            });
        }
        self.flush().await?;
        let length = self.written;
        Ok(self
            .file
            .map_or(RequestBody::Empty, |file| RequestBody::File {
                file,
                length,
            }))
    }

    fn threshold(&self) -> usize {
        if self.file.is_some() {
            WRITE_AT_ONCE
        } else {
            IN_MEMORY
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let chunk = self.memory.split();
        let file = self.file.take();
        let (file, chunk) = spawn_blocking(move || -> io::Result<(File, BytesMut)> {
            let mut file = match file {
                Some(file) => file,
                None => tempfile::tempfile()?,
            };
            file.write_all(&chunk)?;
            Ok((file, chunk))
        })
        .await
        .map_err(io::Error::other)??;
        self.written += chunk.len() as u64;
        self.file = Some(file);
        // The buffer serves again: an upload costs two buffers, not one per chunk.
        self.memory = chunk;
        self.memory.clear();
        Ok(())
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

/// Bodies up to this stay in memory: every form, not most uploads.
const IN_MEMORY: usize = 64 * 1024;
/// Bytes per write to the temporary file, and so the memory that an upload costs.
const WRITE_AT_ONCE: usize = 256 * 1024;
/// Bytes per read from it: two FastCGI records.
const CHUNK: usize = 128 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    async fn through(length: usize, piece: usize) -> (RequestBody, Vec<u8>, Vec<u8>) {
        let sent: Vec<u8> = (0..length)
            .map(|i| u8::try_from(i % 251).unwrap())
            .collect();
        let mut spool = Spool::default();
        for chunk in sent.chunks(piece) {
            spool.push(chunk).await.unwrap();
        }
        let body = spool.finish().await.unwrap();
        let mut reader = body.reader().unwrap();
        let mut got = Vec::new();
        while let Some(chunk) = poll_fn(|cx| reader.poll_chunk(cx)).await.unwrap() {
            got.extend_from_slice(&chunk);
        }
        (body, sent, got)
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
            let (body, sent, got) = through(length, 8191).await;
            assert_eq!(
                matches!(body, RequestBody::File { .. }),
                in_file,
                "{length}"
            );
            assert_eq!(body.length(), length as u64);
            assert!(sent == got, "{length} bytes came back changed");
        }
    }

    #[tokio::test]
    async fn a_body_can_be_read_twice_for_a_retry() {
        let (body, sent, _) = through(200_000, 70_000).await;
        let mut reader = body.reader().unwrap();
        let mut got = Vec::new();
        while let Some(chunk) = poll_fn(|cx| reader.poll_chunk(cx)).await.unwrap() {
            got.extend_from_slice(&chunk);
        }
        assert!(sent == got);
    }
}
