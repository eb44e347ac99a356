//! The thread that owns the file.
//!
//! For each batch it takes all queued records, appends them, calls fdatasync, wakes the waiters, and writes the mark. A failed
//! write or fdatasync is never repeated on the same file, because after a failed fdatasync the contents of the disk are
//! unknown. The file is removed, so that a restart purges everything, and a new one with a new generation is created as soon
//! as possible. Instead of the earlier purges, the new file contains one number for each site, below which everything
//! is purged.
//!
//! Only [`replace`] installs a complete file: a crash leaves the old file or the new one.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::files::{LogDirectory, LogFile};
use super::fold::fold;
use super::format::{Chain, Generation, Image, LoggedPurge, MARK_AT, RunStart, mark};
use super::limits::{LogLimits, NAME};
use super::queue::{LogBatch, LogShared};
use super::scan::scan;
use super::ticket::{Durability, NotDurable, RestartEffect};

/// See the module.
pub(super) struct LogWriterThread {
    pub(super) files: Box<dyn LogDirectory>,
    pub(super) shared: Arc<LogShared>,
    pub(super) limits: LogLimits,
    /// The first number of this run's counters.
    pub(super) start: RunStart,
    pub(super) names: NameDurability,
    pub(super) state: LogFileState,
}

/// The file, if it can be written.
pub(super) enum LogFileState {
    Writing(OpenLogFile),
    /// There is no file. The next attempt to create one is at `retry_at`.
    Lost {
        loss: NotDurable,
        retry_at: Instant,
    },
}

impl LogFileState {
    /// The state of a lost log, and the outcome for its tickets.
    pub(super) fn lost(
        reason: Arc<str>,
        restart: RestartEffect,
        limits: LogLimits,
    ) -> (Self, Durability) {
        let loss = NotDurable { reason, restart };
        let retry_at = Instant::now() + limits.retry;
        (
            Self::Lost {
                loss: loss.clone(),
                retry_at,
            },
            Durability::Lost(loss),
        )
    }
}

/// The open file, durable up to `length`.
pub(super) struct OpenLogFile {
    file: Box<dyn LogFile>,
    length: u64,
    records: usize,
    header: Chain,
    chain: Chain,
    compact_above: CompactionSizes,
}

/// The size at which the file is compacted.
#[derive(Clone, Copy)]
struct CompactionSizes {
    bytes: u64,
    records: usize,
}

impl OpenLogFile {
    /// A file with the contents `image`. It is compacted when it has doubled, so that records that cannot be folded are not
    /// folded every time.
    pub(super) fn new(file: Box<dyn LogFile>, image: &Image, limits: LogLimits) -> Self {
        let length = image.bytes.len() as u64;
        Self {
            file,
            length,
            records: image.records,
            header: image.header(),
            chain: image.chain,
            compact_above: CompactionSizes {
                bytes: limits.file_bytes.max(length.saturating_mul(2)),
                records: limits.records.max(image.records).saturating_mul(2),
            },
        }
    }

    /// Writes a batch durably.
    fn append(&mut self, batch: &mut LogBatch) -> io::Result<()> {
        batch.settle_overflow();
        self.chain.seal(&mut batch.bytes);
        self.file.write_at(&batch.bytes, self.length)?;
        self.file.sync()?;
        self.length += batch.bytes.len() as u64;
        self.records += batch.records;
        Ok(())
    }

    /// Writes how much has been acknowledged. It becomes durable with the next batch or when the system writes it. A mark that
    /// is behind, or was not written, only has the effect that a lost end of the file looks like one that was never
    /// acknowledged.
    fn move_mark(&mut self) {
        let bytes = mark(&self.header, self.length);
        let _ = self.file.write_at(&bytes, MARK_AT as u64);
    }

    fn needs_compaction(&self) -> bool {
        self.length > self.compact_above.bytes || self.records > self.compact_above.records
    }
}

impl LogWriterThread {
    /// Runs until the log is closed and the queue is empty.
    pub(super) fn run(mut self) {
        while let Some(batch) = self.shared.take(self.retry_delay()) {
            self.write_batch(batch);
        }
    }

    pub(super) fn write_batch(&mut self, mut batch: LogBatch) {
        match &mut self.state {
            LogFileState::Writing(open) => match open.append(&mut batch) {
                Ok(()) => {
                    batch.finish(Durability::Kept);
                    open.move_mark();
                    if open.needs_compaction() {
                        self.compact();
                    }
                }
                Err(error) => batch.finish(self.lose(&error)),
            },
            LogFileState::Lost { loss, retry_at } => {
                let outcome = if *retry_at <= Instant::now() {
                    self.recover()
                } else {
                    Durability::Lost(loss.clone())
                };
                batch.finish(outcome);
            }
        }
    }

    fn retry_delay(&self) -> Option<Duration> {
        match &self.state {
            LogFileState::Writing(_) => None,
            LogFileState::Lost { retry_at, .. } => {
                Some(retry_at.saturating_duration_since(Instant::now()))
            }
        }
    }

    /// Removes the file and returns the outcome for every purge that is not on the disk.
    fn lose(&mut self, error: &io::Error) -> Durability {
        let restart;
        (restart, self.names) = remove_log(&*self.files, self.names);
        self.stay_lost(error, restart)
    }

    fn stay_lost(&mut self, error: &io::Error, restart: RestartEffect) -> Durability {
        let (state, outcome) = LogFileState::lost(error.to_string().into(), restart, self.limits);
        self.state = state;
        self.shared
            .set_status(|status| status.durability = outcome.clone());
        outcome
    }

    /// Creates a new file with a new generation. It covers everything published so far.
    fn recover(&mut self) -> Durability {
        let (covered, floors) = self.shared.take_floors();
        let begun = Generation::random()
            .map_err(InstallError::Unnamed)
            .and_then(|generation| {
                let image = Image::new(generation, self.start, &floors);
                let file = replace(&*self.files, &image)?;
                Ok((generation, OpenLogFile::new(file, &image, self.limits)))
            });
        let outcome = match begun {
            Ok((generation, open)) => {
                self.state = LogFileState::Writing(open);
                self.names = NameDurability::Durable;
                self.shared.set_status(|status| {
                    status.generation = generation;
                    status.durability = Durability::Kept;
                });
                Durability::Kept
            }
            Err(failed) => self.fail_again(&failed),
        };
        covered.finish(outcome.clone());
        outcome
    }

    /// Handles another failure. If no old log could reappear, and the new one did not get its name, there still is no log.
    fn fail_again(&mut self, failed: &InstallError) -> Durability {
        match (failed, &self.state) {
            (InstallError::Unnamed(error), LogFileState::Lost { loss, .. })
                if loss.restart == RestartEffect::PurgesAll =>
            {
                self.stay_lost(error, RestartEffect::PurgesAll)
            }
            (InstallError::Unnamed(error), _) => self.lose(error),
            (InstallError::Named(error), _) => {
                self.names = NameDurability::InDoubt;
                self.lose(error)
            }
        }
    }

    /// Rewrites the file with the records that still count. If that fails, the existing file stays, and grows.
    fn compact(&mut self) {
        let LogFileState::Writing(open) = &mut self.state else {
            return;
        };
        let image = match read_folded(&*self.files, self.limits, open.length) {
            Ok(image) => image,
            Err(error) => {
                // A restart could not read the file either.
                self.lose(&error);
                return;
            }
        };
        match replace(&*self.files, &image) {
            Ok(file) => *open = OpenLogFile::new(file, &image, self.limits),
            Err(InstallError::Unnamed(_)) => {
                open.compact_above.bytes =
                    open.compact_above.bytes.max(open.length).saturating_mul(2);
                open.compact_above.records = open
                    .compact_above
                    .records
                    .max(open.records)
                    .saturating_mul(2);
            }
            Err(InstallError::Named(error)) => {
                self.names = NameDurability::InDoubt;
                self.lose(&error);
            }
        }
    }
}

/// If the writer panics, purges are in effect but not on the disk, now and later.
impl Drop for LogWriterThread {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared
                .fail_queue(remove_log(&*self.files, self.names).0);
        }
    }
}

/// The contents of the file, folded, with the same generation. `length` is the number of bytes written. A different length
/// means damage.
fn read_folded(files: &dyn LogDirectory, limits: LogLimits, length: u64) -> io::Result<Image> {
    let bytes = files.read(NAME, limits.max_file_bytes)?;
    let scanned = scan(&bytes).map_err(io::Error::other)?;
    if scanned.end as u64 != length || bytes.len() as u64 != length {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let newest = scanned.purges.iter().map(|logged| logged.at).max();
    let now = newest.unwrap_or(SystemTime::UNIX_EPOCH);
    let purges: Vec<LoggedPurge> = fold(scanned.purges, limits.into(), now);
    Ok(Image::new(scanned.generation, scanned.start, &purges))
}

/// Replaces the existing file by a new one. The bytes are durable before the file gets its name, and the name is durable before
/// anything is appended.
pub(super) fn replace(
    files: &dyn LogDirectory,
    image: &Image,
) -> Result<Box<dyn LogFile>, InstallError> {
    let written = || -> io::Result<Box<dyn LogFile>> {
        let mut file = files.create(NEW_NAME)?;
        file.write_at(&image.bytes, 0)?;
        file.sync()?;
        Ok(file)
    };
    let file = written().map_err(|error| {
        // An incomplete file uses space that the disk may not have.
        let _ = files.remove(NEW_NAME);
        InstallError::Unnamed(error)
    })?;
    let renamed = files.rename(NEW_NAME, NAME).and_then(|()| files.sync());
    renamed.map_err(InstallError::Named)?;
    Ok(file)
}

/// Why a file could not be installed.
pub(super) enum InstallError {
    /// The file did not get its name.
    Unnamed(io::Error),
    /// The file may have got its name, but not durably.
    Named(io::Error),
}

/// Whether a power failure may undo a change of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameDurability {
    /// No change can be undone.
    Durable,
    /// A name was changed since the directory was last synced.
    InDoubt,
}

impl NameDurability {
    pub(super) fn of(synced: &io::Result<()>) -> Self {
        match synced {
            Ok(()) => Self::Durable,
            Err(_) => Self::InDoubt,
        }
    }
}

/// Makes a restart find no log, or an empty one: both purge everything. Removing and truncating need no space. Either is
/// enough, and if the directory is not writable, the file often is.
pub(super) fn remove_log(
    files: &dyn LogDirectory,
    names: NameDurability,
) -> (RestartEffect, NameDurability) {
    let emptied = files.empty(NAME);
    let removed = files.remove(NAME);
    let synced = files.sync();
    let is_gone = removed.is_ok() && synced.is_ok();
    // The truncated file is the one with the name after a power failure, too.
    let is_empty = emptied.is_ok() && (synced.is_ok() || names == NameDurability::Durable);
    let restart = if is_gone || is_empty {
        RestartEffect::PurgesAll
    } else {
        RestartEffect::MayForget
    };
    (restart, NameDurability::of(&synced))
}

/// The name of a new file before it is installed. A leftover of a crash is overwritten.
const NEW_NAME: &str = "purges.new";
