//! A body on the disk that is read in blocks.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;

use super::layout::{self, BLOCK, InvalidFile};
use super::seal::FileName;
use super::shared::DiskShared;

/// A block is damaged or the disk failed, so the body cannot be completed. A damaged entry is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored body cannot be read")]
pub struct DiskReadError;

/// Why a read failed.
pub(super) enum ReadFailure {
    Bad,
    Failed(io::Error),
}

impl From<InvalidFile> for ReadFailure {
    fn from(InvalidFile: InvalidFile) -> Self {
        Self::Bad
    }
}

pub(super) fn read_at(file: &File, at: u64, length: usize) -> Result<Vec<u8>, ReadFailure> {
    let mut bytes = vec![0; length];
    fill(file, at, &mut bytes)?;
    Ok(bytes)
}

pub(super) fn fill(file: &File, at: u64, bytes: &mut [u8]) -> Result<(), ReadFailure> {
    match file.read_exact_at(bytes, at) {
        // Truncated while it was read.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(ReadFailure::Bad),
        read => read.map_err(ReadFailure::Failed),
    }
}

/// A body on the disk that is read in pieces, by any number of threads. Keeps the file open and uses 8 bytes of memory for each
/// 64 KiB of the body.
pub struct BodyPieces {
    pub(super) shared: Arc<DiskShared>,
    pub(super) name: FileName,
    pub(super) file: File,
    pub(super) body_at: u64,
    pub(super) length: u64,
    pub(super) sums: Box<[u64]>,
}

impl BodyPieces {
    /// The length of the whole body.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The bytes of `range` up to the end of the 64 KiB block in which it begins; empty only at the end of the range or the
    /// body. Reads and verifies that one block. Blocks.
    pub fn read(&self, range: &Range<u64>) -> Result<Bytes, DiskReadError> {
        self.read_into(range, Vec::new())
    }

    /// Like [`BodyPieces::read`], with a buffer from the caller: memory that one of many helper threads allocates and another
    /// thread drops is not fully released. `buffer` should have the length [`BodyPieces::longest_piece`]. Its contents are
    /// overwritten.
    pub fn read_into(&self, range: &Range<u64>, buffer: Vec<u8>) -> Result<Bytes, DiskReadError> {
        let end = range.end.min(self.length);
        if range.start >= end {
            return Ok(Bytes::new());
        }
        let block = range.start / BLOCK as u64;
        let begins = block * BLOCK as u64;
        let ends = (begins + BLOCK as u64).min(self.length);
        let bytes = self.block(block, begins, ends, buffer)?;
        // All three positions are within one block.
        let within = |at: u64| usize::try_from(at - begins).unwrap_or(BLOCK);
        Ok(bytes.slice(within(range.start)..within(end.min(ends))))
    }

    pub(super) fn beginning_is_damaged(&self) -> bool {
        let mut at = 0;
        let end = self.length.min(BEGINNING);
        while at < end {
            match self.read(&(at..end)) {
                Ok(piece) => at += piece.len() as u64,
                Err(DiskReadError) => return true,
            }
        }
        false
    }

    /// The maximum length of a piece, in bytes.
    pub fn longest_piece(&self) -> usize {
        usize::try_from(self.length).map_or(BLOCK, |length| length.min(BLOCK))
    }

    fn block(
        &self,
        number: u64,
        begins: u64,
        ends: u64,
        mut bytes: Vec<u8>,
    ) -> Result<Bytes, DiskReadError> {
        let length = usize::try_from(ends - begins).map_err(|_| DiskReadError)?;
        bytes.clear();
        bytes.resize(length, 0);
        let sum = usize::try_from(number)
            .ok()
            .and_then(|number| self.sums.get(number..=number))
            .ok_or(DiskReadError)?;
        let read = fill(&self.file, self.body_at + begins, &mut bytes)
            .and_then(|()| Ok(layout::check(&bytes, sum, &self.shared.seal)?));
        match read {
            Ok(()) => Ok(bytes.into()),
            Err(ReadFailure::Bad) => {
                self.shared.discard(&self.name, &self.file);
                Err(DiskReadError)
            }
            Err(ReadFailure::Failed(error)) => {
                self.shared.read_failed(&error);
                Err(DiskReadError)
            }
        }
    }
}

impl std::fmt::Debug for BodyPieces {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pieces")
            .field("name", &self.name)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

/// The part that is verified before a body is sent in pieces: more than most pages have, and a megabyte is hashed in less than
/// one millisecond.
const BEGINNING: u64 = 1 << 20;
