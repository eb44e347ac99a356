//! The interface of the log.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::SystemTime;

use galley_policy::purge::Purge;
use galley_sys::Lock;

use super::error::OpenError;
use super::files::{Directory, LogDirectory};
use super::fold;
use super::format::{Generation, Image, LoggedPurge, RecordStamp, RunStart};
use super::limits::{LogLimits, NAME};
use super::queue::{LogShared, LogStatus};
use super::scan::{Scanned, scan};
use super::ticket::{Durability, DurableTicket, RestartEffect};
use super::writer::{
    InstallError, LogFileState, LogWriterThread, NameDurability, OpenLogFile, remove_log, replace,
};
use crate::purge_table::PurgeTable;

/// The result of [`PurgeLog::open`].
#[derive(Debug)]
pub struct OpenedLog {
    /// The log.
    pub log: PurgeLog,
    /// Entries of another generation count as purged. The log's generation may change later: [`PurgeLog::generation`].
    pub generation: Generation,
    /// The number at which all counters begin.
    pub start: u64,
    /// The purges of earlier runs, folded. The numbers of each site rise.
    pub purges: Vec<LoggedPurge>,
    /// The state of the log on the disk, for the operator.
    pub found: LogContents,
}

impl OpenedLog {
    /// Restores the purge table of a site. Call it once for each site, before the table is used.
    pub fn replay(&self, site: &str, table: &PurgeTable) {
        for logged in self.purges.iter().filter(|logged| logged.site == site) {
            table.replay(logged.number, &logged.purge);
        }
        table.lift(self.start);
    }
}

/// The log that [`PurgeLog::open`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogContents {
    /// No log: the first start, or the first one after a loss. A new generation begins.
    Nothing,
    /// A log that was read completely.
    Whole,
    /// A log, followed by this number of bytes of a record that was never acknowledged. Those bytes were removed.
    Torn(usize),
    /// A log that cannot be used, and why. A new generation begins.
    Unreadable(String),
}

/// The log. Dropping it writes the queue and ends the thread.
#[derive(Debug)]
pub struct PurgeLog {
    shared: Arc<LogShared>,
    /// The writer thread. `None` after closing.
    writer: Lock<Option<JoinHandle<()>>>,
}

impl PurgeLog {
    /// Locks `dir`, which is created if needed, reads its log and begins a new run. Blocks for a few milliseconds and two
    /// fdatasyncs. A log that can be read but not written is still replayed; tickets then report that purges are lost.
    pub fn open(dir: &Path, now: SystemTime) -> Result<OpenedLog, OpenError> {
        let directory = Directory::lock(dir)?;
        Self::start(Box::new(directory), LogLimits::default(), now)
    }

    /// Publishes a purge of `site` in `table`, which must have been replayed, and adds it to the log. The purge is in effect
    /// when this returns, and may be acknowledged when the ticket is ready. After several purges, waiting for the last ticket
    /// is enough. `now` is the time in the record. A site's name has at most 1,024 bytes. Does not wait for the disk.
    pub fn publish(
        &self,
        site: &str,
        table: &PurgeTable,
        purge: &Purge,
        now: SystemTime,
    ) -> Published {
        // Inside the critical section of the site's counter, so that numbers rise in the file as in memory.
        let published = table.publish_with(purge, |number| Published {
            number,
            ticket: self
                .shared
                .append(site, RecordStamp { number, at: now }, purge),
        });
        self.shared.wake();
        published
    }

    /// The generation that new entries get, and that entries must have when they are read. It changes when a lost log is
    /// created again.
    pub fn generation(&self) -> Generation {
        self.shared.status().generation
    }

    /// Whether purges are written to the disk, as of the last batch.
    pub fn durability(&self) -> Durability {
        self.shared.status().durability
    }

    /// Writes the queue, ends the thread and closes the directory, so that another process may open the log. Later purges take
    /// effect but are not written. Blocks.
    pub fn close(&self) {
        self.shared.close();
        let writer = self.writer.lock().take();
        if let Some(writer) = writer {
            // If the thread panicked, all waiters have been notified.
            let _ = writer.join();
            self.shared.fail_queue(RestartEffect::MayForget);
        }
    }

    pub(super) fn start(
        files: Box<dyn LogDirectory>,
        limits: LogLimits,
        now: SystemTime,
    ) -> Result<OpenedLog, OpenError> {
        let (mut opened, writer) = Self::begin(files, limits, now)?;
        let thread = std::thread::Builder::new().name("purge-log".to_owned());
        let thread = thread.spawn(|| writer.run()).map_err(OpenError::System)?;
        *opened.log.writer.get_mut() = Some(thread);
        Ok(opened)
    }

    /// Opens the log without starting the thread.
    pub(super) fn begin(
        files: Box<dyn LogDirectory>,
        limits: LogLimits,
        now: SystemTime,
    ) -> Result<(OpenedLog, LogWriterThread), OpenError> {
        // The last run may have ended before its names were durable.
        let mut names = NameDurability::of(&files.sync());
        let (past, found) = read(&*files, limits);
        let fresh = || Generation::random().map_err(OpenError::System);
        let mut generation = past
            .as_ref()
            .map_or_else(fresh, |past| Ok(past.generation))?;
        let highest = past.as_ref().map_or(0, |past| past.highest);
        let purges = past.map_or_else(Vec::new, |past| past.purges);
        let purges = fold::fold(purges, limits.into(), now);
        let start = RunStart {
            number: highest.saturating_add(GAP),
            at: now,
        };
        let image = Image::new(generation, start, &purges);
        let (state, durability) = match replace(&*files, &image) {
            Ok(file) => (
                LogFileState::Writing(OpenLogFile::new(file, &image, limits)),
                Durability::Kept,
            ),
            Err(failed) => {
                let (error, before) = match failed {
                    InstallError::Unnamed(error) => (error, names),
                    InstallError::Named(error) => (error, NameDurability::InDoubt),
                };
                let restart;
                (restart, names) = remove_log(&*files, before);
                if restart == RestartEffect::MayForget {
                    // The next run may find the log of the last one, and assign the numbers of this run again.
                    generation = fresh()?;
                }
                LogFileState::lost(error.to_string().into(), restart, limits)
            }
        };
        let status = LogStatus {
            generation,
            durability,
        };
        let shared = Arc::new(LogShared::new(start.number, limits, status, &purges));
        let writer = LogWriterThread {
            files,
            shared: Arc::clone(&shared),
            limits,
            start,
            names,
            state,
        };
        let log = Self {
            shared,
            writer: Lock::new(None),
        };
        let opened = OpenedLog {
            log,
            generation,
            start: start.number,
            purges,
            found,
        };
        Ok((opened, writer))
    }
}

impl Drop for PurgeLog {
    fn drop(&mut self) {
        self.close();
    }
}

/// A purge that is in effect.
#[derive(Debug)]
pub struct Published {
    /// The number of the purge.
    pub number: u64,
    /// Ready when the purge may be acknowledged.
    pub ticket: DurableTicket,
}

/// The distance between the highest number in the log and the first number of a run. Published purges that are not in the log
/// are in memory, with more than 50 bytes each, so there are never that many. The numbers suffice for a billion runs.
const GAP: u64 = 1 << 32;

/// The contents of the log, if they are valid.
fn read(files: &dyn LogDirectory, limits: LogLimits) -> (Option<Scanned>, LogContents) {
    let bytes = match files.read(NAME, limits.max_file_bytes) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return (None, LogContents::Nothing);
        }
        Err(error) => return (None, LogContents::Unreadable(error.to_string())),
    };
    match scan(&bytes) {
        Ok(past) => {
            let contents = match bytes.len() - past.end {
                0 => LogContents::Whole,
                torn => LogContents::Torn(torn),
            };
            (Some(past), contents)
        }
        Err(why) => (None, LogContents::Unreadable(why.to_string())),
    }
}
