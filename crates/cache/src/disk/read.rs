//! Reading entries: every byte is verified before it is sent.
//!
//! A small body is read whole into reserved memory. A larger one, or one without a reservation, is read block by block from
//! the open file, which stays readable if the entry is removed or replaced in the meantime. The first megabyte of such a body
//! is verified before anything is sent, and every block again when it is sent: damage that is found later can only end the
//! response early.
//!
//! A file that differs in any way from what this process would write under this key, generation and rules is a miss and is
//! removed. A file that could not be read is a miss and stays.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::format::{self, StoredHeader};
use super::index::IndexLookup;
use super::layout::{self, FIXED, FixedHeader, InvalidFile};
use super::moment::DiskClock;
use super::pieces::{BodyPieces, ReadFailure, fill, read_at};
use super::seal::{FileName, SiteName};
use super::shared::{Disk, DiskShared};
use crate::body::StoredBody;
use crate::budget::{MemoryBudget, Reservation};
use crate::entry::{Entry, EntryParts};

/// The result of a lookup.
#[derive(Debug)]
pub enum DiskLookup {
    /// The entry. `PurgeTable::validity` and `galley_policy::decide` decide whether it may be sent.
    Found(OnDisk),
    /// The key has no usable entry.
    Absent,
}

/// An entry from the disk. Its age continues from the time of the lookup.
#[derive(Debug)]
pub enum OnDisk {
    /// With its body, reserved from the budget: suitable for `Memory::put`.
    Whole(Arc<Entry>),
    /// Without its body, which must be read from the file. The entry contains the same pieces.
    Pieces(Arc<Entry>, Arc<BodyPieces>),
}

impl OnDisk {
    /// The entry, wherever its body is stored.
    pub fn into_entry(self) -> Arc<Entry> {
        match self {
            Self::Whole(entry) | Self::Pieces(entry, _) => entry,
        }
    }
}

impl Disk {
    /// Whether [`Disk::get`] may find an entry. Locks the index briefly and makes no system call.
    pub fn may_hold(&self, site: SiteName, key_bytes: &[u8]) -> bool {
        let name = self.shared.seal.name(site.id, key_bytes);
        self.shared.index().find(&name) != IndexLookup::Absent
    }

    /// The entry of a key. Reserves memory for the body from `budget`. Blocks; for a helper thread.
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

/// Why a file contained no entry.
pub(super) enum Miss {
    /// The file does not exist.
    Gone,
    /// The file must be removed, if it is still the one that was opened.
    Bad(File),
    /// The call failed, which says nothing about the file.
    Failed(io::Error),
}

/// A file with its header read and verified.
pub(super) struct OpenedEntry {
    file: File,
    fixed: FixedHeader,
    /// The beginning of the file: at least the header, often the whole file.
    first: Vec<u8>,
    pub(super) stored: StoredHeader,
}

impl OpenedEntry {
    pub(super) fn fingerprint(&self) -> u64 {
        self.fixed.fingerprint
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

    /// Opens an entry's file and reads its header. The first read requests `first` bytes.
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
            Err(ReadFailure::Bad) => Err(Miss::Bad(file)),
            Err(ReadFailure::Failed(error)) => Err(Miss::Failed(error)),
        }
    }

    fn read_header(
        &self,
        file: &File,
        name: &FileName,
        first: usize,
    ) -> Result<(FixedHeader, Vec<u8>, StoredHeader), ReadFailure> {
        let length = file.metadata().map_err(ReadFailure::Failed)?.len();
        let first = usize::try_from(length).unwrap_or(first).min(first);
        let mut bytes = read_at(file, 0, first)?;
        let fixed = layout::fixed(&bytes)?;
        let is_ours = fixed.generation == self.generation() && fixed.name == *name;
        if !is_ours || fixed.layout.total() != length {
            return Err(ReadFailure::Bad);
        }
        let header = fixed.layout.header;
        if header > bytes.len() {
            let rest = read_at(file, bytes.len() as u64, header - bytes.len())?;
            bytes.extend_from_slice(&rest);
        }
        let stored = format::stored(bytes.get(..header).ok_or(InvalidFile)?, &self.seal)?;
        Ok((fixed, bytes, stored))
    }

    fn whole(
        &self,
        opened: OpenedEntry,
        reservation: Reservation,
        now: DiskClock,
    ) -> Result<Arc<Entry>, Miss> {
        let layout = opened.fixed.layout;
        let read = || -> Result<Vec<u8>, ReadFailure> {
            let length = usize::try_from(layout.body).map_err(|_| ReadFailure::Bad)?;
            let body = opened.range(layout.header as u64, length)?;
            let table = usize::try_from(layout.blocks() * 8).map_err(|_| ReadFailure::Bad)?;
            let table = opened.range(layout.table_at(), table)?;
            let sums = layout::sums(&table, &opened.fixed, &self.seal)?;
            layout::check(&body, &sums, &self.seal)?;
            Ok(body)
        };
        match read() {
            Ok(body) => {
                let body = StoredBody::reserved(body, reservation);
                Ok(self.entry(opened.stored, body, now))
            }
            Err(ReadFailure::Bad) => Err(Miss::Bad(opened.file)),
            Err(ReadFailure::Failed(error)) => Err(Miss::Failed(error)),
        }
    }

    fn pieces(
        self: &Arc<Self>,
        name: &FileName,
        opened: OpenedEntry,
        now: DiskClock,
    ) -> Result<OnDisk, Miss> {
        let layout = opened.fixed.layout;
        let read = || -> Result<Box<[u64]>, ReadFailure> {
            let table = usize::try_from(layout.blocks() * 8).map_err(|_| ReadFailure::Bad)?;
            let table = opened.range(layout.table_at(), table)?;
            Ok(layout::sums(&table, &opened.fixed, &self.seal)?)
        };
        let sums = match read() {
            Ok(sums) => sums,
            Err(ReadFailure::Bad) => return Err(Miss::Bad(opened.file)),
            Err(ReadFailure::Failed(error)) => return Err(Miss::Failed(error)),
        };
        let stored = self.aged(opened.stored, now);
        let pieces = BodyPieces {
            shared: Arc::clone(self),
            name: *name,
            file: opened.file,
            body_at: layout.header as u64,
            length: layout.body,
            sums,
        };
        if pieces.beginning_is_damaged() {
            // The file has been removed, or was counted as a failure of the disk.
            return Err(Miss::Gone);
        }
        let pieces = Arc::new(pieces);
        let entry = Entry::in_pieces(stored.parts, Arc::clone(&pieces));
        Ok(OnDisk::Pieces(
            Arc::new(stored.composition.of(entry)),
            pieces,
        ))
    }

    /// An entry whose age continues from `now`.
    pub(super) fn entry(
        &self,
        stored: StoredHeader,
        body: StoredBody,
        now: DiskClock,
    ) -> Arc<Entry> {
        let StoredHeader {
            parts, composition, ..
        } = self.aged(stored, now);
        Arc::new(composition.of(Entry::new(EntryParts { body, ..parts })))
    }

    fn aged(&self, mut stored: StoredHeader, now: DiskClock) -> StoredHeader {
        let lifetime = &stored.parts.lifetime;
        let age = self
            .boot
            .age(&stored.stamp, lifetime.initial_age, lifetime, now);
        stored.parts.lifetime.initial_age = age;
        stored.parts.stored_at = now.tick;
        stored
    }

    /// `born` of the file with a name; `None`: there is no usable file.
    pub(super) fn born(&self, name: &FileName) -> Option<u64> {
        let opened = self.open(name, FIXED + 2048).ok()?;
        Some(opened.stored.parts.born)
    }

    /// Handles a miss: removes the row or the file, or counts a failure.
    pub(super) fn settle(&self, name: &FileName, miss: Miss) {
        match miss {
            Miss::Gone => self.forget_if_missing(name),
            Miss::Bad(file) => self.discard(name, &file),
            Miss::Failed(error) => {
                self.read_failed(&error);
            }
        }
    }
}

impl OpenedEntry {
    /// A part of the file. Uses the bytes that are in memory.
    fn range(&self, at: u64, length: usize) -> Result<Vec<u8>, ReadFailure> {
        let from = usize::try_from(at)
            .unwrap_or(usize::MAX)
            .min(self.first.len());
        let buffered = &self.first[from..];
        let buffered = &buffered[..buffered.len().min(length)];
        if buffered.len() == length {
            return Ok(buffered.to_vec());
        }
        let mut bytes = vec![0; length];
        bytes[..buffered.len()].copy_from_slice(buffered);
        fill(
            &self.file,
            at.saturating_add(buffered.len() as u64),
            &mut bytes[buffered.len()..],
        )?;
        Ok(bytes)
    }
}

/// One read is enough for a typical page with its header.
const FIRST: usize = 16 * 1024;
