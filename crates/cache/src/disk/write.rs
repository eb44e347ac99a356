//! Storing entries: reserve, write under a temporary name, rename.
//!
//! The rename, under the lock of the name, installs a file completely or not at all. It does not replace an entry with a greater
//! `born`. Nothing is synced: a file may be damaged after a power failure, and is a miss then. If a newer entry could not be
//! stored, the older file is removed, so that it is not found later.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::format::{self, StoredOrigin};
use super::health::PauseReason;
use super::index::{IndexEntry, IndexLookup, units};
use super::layout::{self, BLOCK, Layout};
use super::moment::DiskClock;
use super::seal::{FileName, SiteId, SiteName};
use super::shared::{Disk, DiskShared};
use crate::entry::Entry;

/// Why an entry was not stored. The response is sent all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotStored {
    /// The body or the head exceeds its maximum size.
    #[error("larger than the largest object allowed")]
    TooLarge,
    /// A limit is reached by entries that are being written or could not be evicted.
    #[error("the limit of the disk cache is reached")]
    NoRoom,
    /// The plain body is not in memory.
    #[error("its plain body is not in memory")]
    NotPlain,
    /// The key has an entry with a greater `born`.
    #[error("a newer entry is already stored")]
    Superseded,
    /// The files on the disk are still being counted.
    #[error("the disk cache is still being counted")]
    Scanning,
    /// The body's length differs from the announced length.
    #[error("the length of the body differs from the announced length")]
    Incomplete,
    /// Storing is off because of an error of the disk.
    #[error("{0}")]
    Off(PauseReason),
    /// `Disk::close` was called.
    #[error("the disk cache is closed")]
    Closed,
}

impl Disk {
    /// Stores an entry with its whole plain body. Blocks; for a helper thread.
    pub fn put(&self, site: SiteName, entry: &Entry, now: DiskClock) -> Result<(), NotStored> {
        let name = self.shared.seal.name(site.id, entry.key.bytes());
        let outcome = self.shared.put(site, &name, entry, now);
        if outcome.is_err_and(|why| why != NotStored::Superseded) {
            self.shared.remove_older_file(&name, entry.born);
        }
        outcome
    }

    /// Begins to store a response whose body is received in pieces. `head` is the entry without its body; `length` is that of
    /// the body, if known. Uses 64 KiB of memory.
    pub fn begin(
        &self,
        site: SiteName,
        head: &Entry,
        length: Option<u64>,
        now: DiskClock,
    ) -> Result<EntryWriter, NotStored> {
        let name = self.shared.seal.name(site.id, head.key.bytes());
        EntryWriter::begin(&self.shared, site, name, head, length, now)
    }

    /// Removes the entry of a key unless its `born` is greater than `born`. Call it after a newer response was received
    /// completely and was not passed to [`Disk::put`] or [`EntryWriter::commit`], which do this themselves.
    pub fn remove_older(&self, site: SiteName, key_bytes: &[u8], born: u64) {
        let name = self.shared.seal.name(site.id, key_bytes);
        self.shared.remove_older_file(&name, born);
    }
}

impl DiskShared {
    fn put(
        self: &Arc<Self>,
        site: SiteName,
        name: &FileName,
        entry: &Entry,
        now: DiskClock,
    ) -> Result<(), NotStored> {
        let bytes = entry.body().ok_or(NotStored::NotPlain)?;
        let body = bytes.len() as u64;
        self.admit(body, now)?;
        let mut file = self.header(site, name, entry, now)?;
        let layout = Layout {
            header: file.len(),
            body,
        };
        let space = SpaceReservation::reserve(self, site.id, &layout)?;
        let table = layout::table(bytes, &self.seal);
        layout::seal_header(&mut file, layout.body, &table, &self.seal);
        let temporary = Temporary::create(self)?;
        if layout.total() <= BLOCK as u64 {
            // One write: the copy costs less than a second call.
            file.extend_from_slice(bytes);
            file.extend_from_slice(&table);
            temporary.write(&file, 0)?;
        } else {
            temporary.write(&file, 0)?;
            temporary.write(bytes, layout.header as u64)?;
            temporary.write(&table, layout.table_at())?;
        }
        self.install(name, entry.born, &layout, temporary, space)
    }

    /// Whether a body of this length may be stored now.
    fn admit(&self, body: u64, now: DiskClock) -> Result<(), NotStored> {
        self.at(now);
        if self.closed.load(Ordering::Relaxed) {
            return Err(NotStored::Closed);
        }
        if !self.index().is_whole() {
            return Err(NotStored::Scanning);
        }
        self.check_size(body)?;
        self.breaker.admit(now.tick).map_err(NotStored::Off)?;
        // Before the directory grows, the removal of the snapshot must be as durable as later changes: after a power failure, a
        // snapshot without them must not reappear.
        if !self.synced.load(Ordering::Relaxed) {
            match self.lock.sync_all() {
                // Some file systems cannot sync directories. Then nothing better is possible.
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {}
                synced => synced.map_err(|error| self.failed(&error))?,
            }
            self.synced.store(true, Ordering::Relaxed);
        }
        Ok(())
    }

    fn header(
        &self,
        site: SiteName,
        name: &FileName,
        head: &Entry,
        now: DiskClock,
    ) -> Result<Vec<u8>, NotStored> {
        let origin = StoredOrigin {
            generation: self.generation(),
            name: *name,
            fingerprint: site.fingerprint,
            stamp: self.boot.stamp(now),
            age: head.age(now.tick),
        };
        format::header(head, &origin).ok_or(NotStored::TooLarge)
    }

    fn check_size(&self, body: u64) -> Result<(), NotStored> {
        if body > self.limits.object_bytes {
            return Err(NotStored::TooLarge);
        }
        Ok(())
    }

    /// Renames a complete file to its final name, unless the existing file has a greater `born`.
    fn install(
        &self,
        name: &FileName,
        born: u64,
        layout: &Layout,
        mut temporary: Temporary,
        mut space: SpaceReservation,
    ) -> Result<(), NotStored> {
        let writer = self.writer(name);
        if self.closed.load(Ordering::Relaxed) {
            return Err(NotStored::Closed);
        }
        if self.is_resident(name) && self.born(name).is_some_and(|there| there > born) {
            // The file was written, so the disk works.
            self.breaker.succeeded();
            return Err(NotStored::Superseded);
        }
        let place = self.place.file(name);
        let mut renamed = self.files.rename(&temporary.path, &place);
        if is_missing(&renamed) {
            // The directory does not exist yet, or was removed.
            renamed = self
                .files
                .make_dir(&self.place.bucket(name.bucket()))
                .and_then(|()| self.files.rename(&temporary.path, &place));
        }
        renamed.map_err(|error| self.failed(&error))?;
        temporary.installed = true;
        space.settle(name, layout);
        drop(writer);
        self.breaker.succeeded();
        Ok(())
    }

    /// Removes the file of a name unless it is newer than the entry that could not be stored.
    fn remove_older_file(&self, name: &FileName, born: u64) {
        if self.index().find(name) == IndexLookup::Absent {
            return;
        }
        let _writer = self.writer(name);
        if self.born(name).is_some_and(|there| there <= born) {
            self.unlink(name);
        }
    }

    fn is_resident(&self, name: &FileName) -> bool {
        matches!(self.index().find(name), IndexLookup::Resident(_))
    }

    /// Records an error of the disk.
    pub(super) fn failed(&self, error: &io::Error) -> NotStored {
        NotStored::Off(self.breaker.failed(error, self.now()))
    }
}

/// A body being written. If it is dropped, nothing is stored.
pub struct EntryWriter {
    shared: Arc<DiskShared>,
    name: FileName,
    born: u64,
    header: Vec<u8>,
    length: Option<u64>,
    /// The last block, which is not full yet.
    block: Vec<u8>,
    /// The number of body bytes before `block`.
    written: u64,
    table: Vec<u8>,
    /// `None` after a failure.
    open: Option<(Temporary, SpaceReservation)>,
    failure: Option<NotStored>,
}

impl EntryWriter {
    fn begin(
        shared: &Arc<DiskShared>,
        site: SiteName,
        name: FileName,
        head: &Entry,
        length: Option<u64>,
        now: DiskClock,
    ) -> Result<Self, NotStored> {
        let body = length.unwrap_or(0);
        shared.admit(body, now)?;
        let header = shared.header(site, &name, head, now)?;
        let layout = Layout {
            header: header.len(),
            body,
        };
        let space = SpaceReservation::reserve(shared, site.id, &layout)?;
        let temporary = Temporary::create(shared)?;
        Ok(Self {
            shared: Arc::clone(shared),
            name,
            born: head.born,
            header,
            length,
            block: Vec::with_capacity(BLOCK),
            written: 0,
            table: Vec::new(),
            open: Some((temporary, space)),
            failure: None,
        })
    }

    /// Writes the next bytes of the body. After an error nothing more is written and all calls return that error; the caller
    /// may drop the writer and continue sending. Blocks while a full block is written.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), NotStored> {
        while !bytes.is_empty() {
            self.check()?;
            let free = BLOCK - self.block.len();
            let (now, later) = bytes.split_at(free.min(bytes.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == BLOCK {
                let flushed = self.flush();
                self.note(flushed)?;
            }
        }
        self.check()
    }

    /// Completes the file and installs it. Call it also after a failed write, when the body has been received completely: it
    /// fails again, but removes an older entry. Blocks.
    pub fn commit(mut self) -> Result<(), NotStored> {
        let outcome = self.complete();
        // An incomplete body does not make the existing entry obsolete.
        let is_newer = |why| !matches!(why, NotStored::Superseded | NotStored::Incomplete);
        if outcome.is_err_and(is_newer) {
            self.shared.remove_older_file(&self.name, self.born);
        }
        outcome
    }

    fn complete(&mut self) -> Result<(), NotStored> {
        self.check()?;
        if !self.block.is_empty() {
            self.flush()?;
        }
        if self.length.is_some_and(|length| length != self.written) {
            return Err(NotStored::Incomplete);
        }
        let layout = self.layout(self.written);
        let (temporary, space) = self.open.take().ok_or(NotStored::Incomplete)?;
        layout::seal_header(
            &mut self.header,
            self.written,
            &self.table,
            &self.shared.seal,
        );
        temporary.write(&self.table, layout.table_at())?;
        temporary.write(&self.header, 0)?;
        self.shared
            .install(&self.name, self.born, &layout, temporary, space)
    }

    fn flush(&mut self) -> Result<(), NotStored> {
        let layout = self.layout(self.written + self.block.len() as u64);
        if self.length.is_some_and(|length| layout.body > length) {
            return Err(NotStored::Incomplete);
        }
        self.shared.check_size(layout.body)?;
        let Some((temporary, space)) = self.open.as_mut() else {
            return Err(NotStored::Incomplete);
        };
        space.grow(&layout)?;
        temporary.write(&self.block, layout.header as u64 + self.written)?;
        let sum = self.shared.seal.sum_of(&self.block);
        self.table.extend_from_slice(&sum.to_le_bytes());
        self.written = layout.body;
        self.block.clear();
        Ok(())
    }

    fn layout(&self, body: u64) -> Layout {
        Layout {
            header: self.header.len(),
            body,
        }
    }

    fn check(&self) -> Result<(), NotStored> {
        self.failure.map_or(Ok(()), Err)
    }

    fn note(&mut self, outcome: Result<(), NotStored>) -> Result<(), NotStored> {
        if let Err(why) = outcome {
            self.failure = Some(why);
            // Releases space and memory immediately.
            self.open = None;
            self.block = Vec::new();
        }
        outcome
    }
}

/// A file with a temporary name. Removed unless it was installed.
struct Temporary {
    shared: Arc<DiskShared>,
    path: PathBuf,
    file: File,
    installed: bool,
}

impl Temporary {
    fn create(shared: &Arc<DiskShared>) -> Result<Self, NotStored> {
        let number = shared.temporaries.fetch_add(1, Ordering::Relaxed);
        let path = shared.place.temporary(number);
        let mut created = shared.files.create(&path);
        if is_missing(&created) {
            created = shared
                .files
                .make_dir(&shared.place.temporaries())
                .and_then(|()| shared.files.create(&path));
        }
        Ok(Self {
            file: created.map_err(|error| shared.failed(&error))?,
            shared: Arc::clone(shared),
            path,
            installed: false,
        })
    }

    fn write(&self, bytes: &[u8], offset: u64) -> Result<(), NotStored> {
        self.shared
            .files
            .write_at(&self.file, bytes, offset)
            .map_err(|error| self.shared.failed(&error))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.installed {
            // A leftover file is removed at the next start.
            let _ = self.shared.files.remove(&self.path);
        }
    }
}

/// Space reserved for one file. Released unless it became a row.
struct SpaceReservation {
    shared: Arc<DiskShared>,
    site: SiteId,
    units: u32,
}

impl SpaceReservation {
    fn reserve(shared: &Arc<DiskShared>, site: SiteId, layout: &Layout) -> Result<Self, NotStored> {
        let units = units(layout.total());
        shared.reserve(site, units)?;
        Ok(Self {
            shared: Arc::clone(shared),
            site,
            units,
        })
    }

    /// Reserves space for a growing body: some in advance if there is plenty, so that not each block needs a reservation; only
    /// the required space if entries must be evicted for it.
    fn grow(&mut self, layout: &Layout) -> Result<(), NotStored> {
        let missing = units(layout.total()).saturating_sub(self.units);
        if missing == 0 {
            return Ok(());
        }
        let ahead = missing + STEP;
        let has_plenty = self.shared.index().try_reserve(self.site, ahead).is_ok();
        if !has_plenty {
            self.shared.reserve(self.site, missing)?;
        }
        self.units += if has_plenty { ahead } else { missing };
        Ok(())
    }

    /// Replaces the reservation by the row of the stored file, with its actual size.
    fn settle(&mut self, name: &FileName, layout: &Layout) {
        let second = self.shared.second();
        let mut index = self.shared.index();
        index.release_units(self.site, self.units);
        self.units = 0;
        index.insert(IndexEntry::new(*name, units(layout.total()), second));
    }
}

impl Drop for SpaceReservation {
    fn drop(&mut self) {
        if self.units > 0 {
            self.shared.index().release_units(self.site, self.units);
        }
    }
}

fn is_missing<T>(outcome: &io::Result<T>) -> bool {
    outcome
        .as_ref()
        .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// The number of units that a body of unknown length reserves in advance: 1 MiB.
const STEP: u32 = 256;
