//! Reading: every byte is verified before it leaves.
//!
//! A small body is read whole into memory that was reserved first; a larger one, or one for which there is no memory,
//! is read block by block from the open file, which stays readable when the entry is removed or replaced meanwhile. Of
//! such a one the first megabyte is verified before anything leaves, and again as it does: a page that is found to be
//! damaged on the way cannot be taken back, only broken off.
//! A file that is not exactly what we wrote, under this key, for this generation and these rules, is a miss and is
//! removed; one that could not be read is a miss and stays.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::format::{self, BLOCK, Bad, FIXED, Fixed, StoredHeader};
use super::index::IndexLookup;
use super::moment::DiskClock;
use super::seal::{FileName, SiteName};
use super::{Disk, DiskShared};
use crate::body::StoredBody;
use crate::budget::{MemoryBudget, Reservation};
use crate::entry::{Entry, EntryParts};

/// What a look-up came to.
#[derive(Debug)]
pub enum DiskLookup {
    /// The entry. Whether it may answer is for `Epochs::prove` and `galley_policy::decide` to say.
    Found(OnDisk),
    /// Nothing usable under this key.
    Absent,
}

/// An entry that was on the disk. Its age goes on from the moment of the look-up.
#[derive(Debug)]
pub enum OnDisk {
    /// With its body, paid for by the budget: fit for `Memory::put`.
    Whole(Arc<Entry>),
    /// Without its body, which is to be read from the file; the entry knows the same pieces.
    Pieces(Arc<Entry>, Arc<BodyPieces>),
}

impl OnDisk {
    /// The entry, wherever its body is.
    pub fn into_entry(self) -> Arc<Entry> {
        match self {
            Self::Whole(entry) | Self::Pieces(entry, _) => entry,
        }
    }
}

/// A damaged block, or the disk failed: the body cannot be completed. The entry is removed where it is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a stored body cannot be read")]
pub struct DiskReadError;

impl Disk {
    /// Whether [`Disk::get`] may find something. Takes the index's lock for a moment and makes no system call.
    pub fn may_hold(&self, site: SiteName, key_bytes: &[u8]) -> bool {
        let name = self.shared.seal.name(site.id, key_bytes);
        self.shared.index().find(&name) != IndexLookup::Absent
    }

    /// The entry under a key. Blocks; for a helper's thread. Memory for the body comes out of `budget`.
    pub fn get(
        &self,
        site: SiteName,
        key_bytes: &[u8],
        now: DiskClock,
        budget: &MemoryBudget,
    ) -> DiskLookup {
        let shared = &self.shared;
        shared.at(now);
        let name = shared.seal.name(site.id, key_bytes);
        if shared.index().touch(&name, shared.second()) == IndexLookup::Absent {
            return DiskLookup::Absent;
        }
        match shared.look(site, &name, key_bytes, now, budget) {
            Ok(found) => DiskLookup::Found(found),
            Err(miss) => {
                shared.settle(&name, miss);
                DiskLookup::Absent
            }
        }
    }
}

/// Why a file gave no entry.
pub(super) enum Miss {
    /// There is none.
    Gone,
    /// To be removed, if it is still the one that was opened.
    Bad(File),
    /// The call failed; says nothing about the file.
    Failed(io::Error),
}

/// A file with its header read and verified.
pub(super) struct OpenedEntry {
    file: File,
    fixed: Fixed,
    /// The beginning of the file: at least the header, often all of it.
    first: Vec<u8>,
    pub(super) stored: StoredHeader,
}

impl OpenedEntry {
    pub(super) fn fingerprint(&self) -> u64 {
        self.fixed.fingerprint
    }

    pub(super) fn body_length(&self) -> u64 {
        self.fixed.layout.body
    }
}

impl DiskShared {
    fn look(
        self: &Arc<Self>,
        site: SiteName,
        name: &FileName,
        key_bytes: &[u8],
        now: DiskClock,
        budget: &MemoryBudget,
    ) -> Result<OnDisk, Miss> {
        let opened = self.open(name, FIRST)?;
        if opened.stored.parts.key.bytes() != key_bytes
            || opened.fixed.fingerprint != site.fingerprint
        {
            return Err(Miss::Bad(opened.file));
        }
        let small = (opened.fixed.layout.body <= self.limits.in_memory_bytes)
            .then(|| budget.try_reserve(opened.fixed.layout.body))
            .flatten();
        match small {
            Some(reservation) => self.whole(opened, reservation, now).map(OnDisk::Whole),
            None => self.pieces(name, opened, now),
        }
    }

    /// Opens an entry's file and reads its header; the first read asks for `first` bytes.
    pub(super) fn open(&self, name: &FileName, first: usize) -> Result<OpenedEntry, Miss> {
        let file = match File::open(self.place.file(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Miss::Gone),
            opened => opened.map_err(Miss::Failed)?,
        };
        match self.read_header(&file, name, first) {
            Ok((fixed, first, stored)) => Ok(OpenedEntry {
                file,
                fixed,
                first,
                stored,
            }),
            Err(Flaw::Bad) => Err(Miss::Bad(file)),
            Err(Flaw::Failed(error)) => Err(Miss::Failed(error)),
        }
    }

    fn read_header(
        &self,
        file: &File,
        name: &FileName,
        first: usize,
    ) -> Result<(Fixed, Vec<u8>, StoredHeader), Flaw> {
        let length = file.metadata().map_err(Flaw::Failed)?.len();
        let first = usize::try_from(length).unwrap_or(first).min(first);
        let mut bytes = read_at(file, 0, first)?;
        let fixed = format::fixed(&bytes)?;
        let is_ours = fixed.generation == self.generation() && fixed.name == *name;
        if !is_ours || fixed.layout.total() != length {
            return Err(Flaw::Bad);
        }
        let header = fixed.layout.header;
        if header > bytes.len() {
            let rest = read_at(file, bytes.len() as u64, header - bytes.len())?;
            bytes.extend_from_slice(&rest);
        }
        let stored = format::stored(bytes.get(..header).ok_or(Bad)?, &self.seal)?;
        Ok((fixed, bytes, stored))
    }

    fn whole(
        &self,
        opened: OpenedEntry,
        reservation: Reservation,
        now: DiskClock,
    ) -> Result<Arc<Entry>, Miss> {
        let layout = opened.fixed.layout;
        let read = || -> Result<Vec<u8>, Flaw> {
            let length = usize::try_from(layout.body).map_err(|_| Flaw::Bad)?;
            let body = opened.range(layout.header as u64, length)?;
            let table = usize::try_from(layout.blocks() * 8).map_err(|_| Flaw::Bad)?;
            let table = opened.range(layout.table_at(), table)?;
            let sums = format::sums(&table, &opened.fixed, &self.seal)?;
            format::check(&body, &sums, &self.seal)?;
            Ok(body)
        };
        match read() {
            Ok(body) => {
                let body = StoredBody::reserved(body, reservation);
                Ok(self.entry(opened.stored, body, now))
            }
            Err(Flaw::Bad) => Err(Miss::Bad(opened.file)),
            Err(Flaw::Failed(error)) => Err(Miss::Failed(error)),
        }
    }

    fn pieces(
        self: &Arc<Self>,
        name: &FileName,
        opened: OpenedEntry,
        now: DiskClock,
    ) -> Result<OnDisk, Miss> {
        let layout = opened.fixed.layout;
        let read = || -> Result<Box<[u64]>, Flaw> {
            let table = usize::try_from(layout.blocks() * 8).map_err(|_| Flaw::Bad)?;
            let table = opened.range(layout.table_at(), table)?;
            Ok(format::sums(&table, &opened.fixed, &self.seal)?)
        };
        let sums = match read() {
            Ok(sums) => sums,
            Err(Flaw::Bad) => return Err(Miss::Bad(opened.file)),
            Err(Flaw::Failed(error)) => return Err(Miss::Failed(error)),
        };
        let parts = self.parts(opened.stored, StoredBody::default(), now);
        let pieces = BodyPieces {
            shared: Arc::clone(self),
            name: *name,
            file: opened.file,
            body_at: layout.header as u64,
            length: layout.body,
            sums,
        };
        if pieces.beginning_is_damaged() {
            // It has been removed, or counted as a failure of the disk.
            return Err(Miss::Gone);
        }
        let pieces = Arc::new(pieces);
        let entry = Entry::in_pieces(parts, Arc::clone(&pieces));
        Ok(OnDisk::Pieces(Arc::new(entry), pieces))
    }

    /// An entry whose age goes on from `now`.
    pub(super) fn entry(
        &self,
        stored: StoredHeader,
        body: StoredBody,
        now: DiskClock,
    ) -> Arc<Entry> {
        Arc::new(Entry::new(self.parts(stored, body, now)))
    }

    fn parts(&self, stored: StoredHeader, body: StoredBody, now: DiskClock) -> EntryParts {
        let StoredHeader { mut parts, stamp } = stored;
        parts.life.initial_age = self
            .boot
            .age(&stamp, parts.life.initial_age, &parts.life, now);
        EntryParts {
            body,
            stored_at: now.tick,
            ..parts
        }
    }

    /// When the file under a name was born; `None` where there is none that could be used.
    pub(super) fn born(&self, name: &FileName) -> Option<u64> {
        let opened = self.open(name, FIXED + 2048).ok()?;
        Some(opened.stored.parts.born)
    }

    /// Does what a miss calls for.
    pub(super) fn settle(&self, name: &FileName, miss: Miss) {
        match miss {
            Miss::Gone => self.forget_if_gone(name),
            Miss::Bad(file) => self.discard(name, &file),
            Miss::Failed(error) => {
                self.read_failed(&error);
            }
        }
    }

    fn read_failed(&self, error: &io::Error) {
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        self.gate.read_failed(error, self.now());
    }

    fn forget_if_gone(&self, name: &FileName) {
        let _writer = self.writer(name);
        let there = std::fs::symlink_metadata(self.place.file(name));
        if there.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            self.index().remove(name);
        }
    }

    /// Removes a bad file, unless a new one has taken its place since it was opened.
    fn discard(&self, name: &FileName, file: &File) {
        let _writer = self.writer(name);
        let identity = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let opened = file.metadata().map(identity).ok();
        let there = std::fs::symlink_metadata(self.place.file(name))
            .map(identity)
            .ok();
        if opened == there {
            self.counters.damaged.fetch_add(1, Ordering::Relaxed);
            self.unlink(name);
        }
    }
}

/// What can be wrong with a read.
enum Flaw {
    Bad,
    Failed(io::Error),
}

impl From<Bad> for Flaw {
    fn from(Bad: Bad) -> Self {
        Self::Bad
    }
}

impl OpenedEntry {
    /// A part of the file, from what is already in memory as far as that goes.
    fn range(&self, at: u64, length: usize) -> Result<Vec<u8>, Flaw> {
        let from = usize::try_from(at)
            .unwrap_or(usize::MAX)
            .min(self.first.len());
        let known = &self.first[from..];
        let known = &known[..known.len().min(length)];
        if known.len() == length {
            return Ok(known.to_vec());
        }
        let mut bytes = vec![0; length];
        bytes[..known.len()].copy_from_slice(known);
        fill(
            &self.file,
            at.saturating_add(known.len() as u64),
            &mut bytes[known.len()..],
        )?;
        Ok(bytes)
    }
}

fn read_at(file: &File, at: u64, length: usize) -> Result<Vec<u8>, Flaw> {
    let mut bytes = vec![0; length];
    fill(file, at, &mut bytes)?;
    Ok(bytes)
}

fn fill(file: &File, at: u64, bytes: &mut [u8]) -> Result<(), Flaw> {
    match file.read_exact_at(bytes, at) {
        // Cut while we read.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(Flaw::Bad),
        read => read.map_err(Flaw::Failed),
    }
}

/// A body on the disk, to be read in pieces, from several threads if need be. Holds the file open and 8 bytes of memory
/// for each 64 KiB of it.
pub struct BodyPieces {
    shared: Arc<DiskShared>,
    name: FileName,
    file: File,
    body_at: u64,
    length: u64,
    sums: Box<[u64]>,
}

impl BodyPieces {
    /// Length of the whole body.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The bytes of `range` up to the end of the 64 KiB block it begins in; empty only where the range or the body ends.
    /// Reads and verifies that one block. Blocks.
    pub fn read(&self, range: &Range<u64>) -> Result<Bytes, DiskReadError> {
        self.read_into(range, Vec::new())
    }

    /// The same, in memory of the caller's: what a helper thread of many allocates itself, it keeps in part when another
    /// has dropped it. `buffer` is best as long as [`BodyPieces::longest_piece`]; its contents go.
    pub fn read_into(&self, range: &Range<u64>, buffer: Vec<u8>) -> Result<Bytes, DiskReadError> {
        let end = range.end.min(self.length);
        if range.start >= end {
            return Ok(Bytes::new());
        }
        let block = range.start / BLOCK as u64;
        let begins = block * BLOCK as u64;
        let ends = (begins + BLOCK as u64).min(self.length);
        let bytes = self.block(block, begins, ends, buffer)?;
        // All three lie within one block.
        let within = |at: u64| usize::try_from(at - begins).unwrap_or(BLOCK);
        Ok(bytes.slice(within(range.start)..within(end.min(ends))))
    }

    fn beginning_is_damaged(&self) -> bool {
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

    /// In bytes.
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
            .and_then(|()| Ok(format::check(&bytes, sum, &self.shared.seal)?));
        match read {
            Ok(()) => Ok(bytes.into()),
            Err(Flaw::Bad) => {
                self.shared.discard(&self.name, &self.file);
                Err(DiskReadError)
            }
            Err(Flaw::Failed(error)) => {
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

/// A usual page with its header comes in one read.
const FIRST: usize = 16 * 1024;

/// What is verified before a body is handed out in pieces: pages are far shorter, and a megabyte is hashed in less than one
/// millisecond.
const BEGINNING: u64 = 1 << 20;
