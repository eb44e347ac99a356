//! A log without a writer thread: tests of interleavings run the writer step by step.

use std::io;
use std::time::Duration;

use super::sim::{Left, Op, Sim};
use super::{LogLimits, OpenedLog, PurgeLog, now};
use crate::log::files::{LogDirectory, LogFile};
use crate::log::writer::LogWriterThread;
use crate::sync::point;

/// The directory of such a log.
#[derive(Clone, Default)]
pub(crate) struct Directory(Sim);

impl Directory {
    /// Opens the log. At most `records` purges are kept exactly.
    pub(crate) fn open(&self, records: usize) -> (OpenedLog, ManualWriter) {
        let limits = LogLimits {
            records,
            retry: Duration::ZERO,
            ..LogLimits::default()
        };
        let files = Box::new(WithSchedulingPoints(self.0.clone()));
        begin(files, limits)
    }

    /// The directory after `kill -9` or a power failure. `choice` selects one of its possible states.
    pub(crate) fn after_crash(&self, choice: usize) -> Self {
        let left = Left::every().nth(choice % 16).unwrap_or(Left::SYNCED);
        Self(self.0.reboot(left))
    }

    /// Makes syncs of files fail or succeed.
    pub(crate) fn fails(&self, fails: bool) {
        let faults: &[Op] = if fails { &[Op::SyncFile] } else { &[] };
        self.0.fail(faults);
    }
}

/// Opens the log in a directory without scheduling points.
pub(super) fn open(sim: &Sim, limits: LogLimits) -> (OpenedLog, ManualWriter) {
    begin(Box::new(sim.clone()), limits)
}

fn begin(files: Box<dyn LogDirectory>, limits: LogLimits) -> (OpenedLog, ManualWriter) {
    let (opened, writer) = PurgeLog::begin(files, limits, now()).unwrap();
    (opened, ManualWriter(writer))
}

/// The writer.
pub(crate) struct ManualWriter(LogWriterThread);

impl ManualWriter {
    /// Writes the queued records.
    pub(crate) fn write_batch(&mut self) {
        if let Some(batch) = self.0.shared.take(Some(Duration::ZERO)) {
            self.0.write_batch(batch);
        }
    }
}

/// A directory with a scheduling point before each operation. No operation is in progress at that point.
struct WithSchedulingPoints(Sim);

impl LogDirectory for WithSchedulingPoints {
    fn read(&self, name: &str, limit: usize) -> io::Result<Vec<u8>> {
        self.0.read(name, limit)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn LogFile>> {
        point();
        Ok(Box::new(SteppedFile(self.0.create(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        point();
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        point();
        self.0.remove(name)
    }

    fn empty(&self, name: &str) -> io::Result<()> {
        point();
        self.0.empty(name)
    }

    fn sync(&self) -> io::Result<()> {
        point();
        self.0.sync()
    }
}

struct SteppedFile(Box<dyn LogFile>);

impl LogFile for SteppedFile {
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        point();
        self.0.write_at(bytes, offset)
    }

    fn sync(&mut self) -> io::Result<()> {
        point();
        self.0.sync()
    }
}
