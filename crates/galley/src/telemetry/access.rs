//! The access log: one line per request, from every core to one writer thread.
//!
//! A core formats into its own buffer and passes it on, when it is full or at a tick, through a bounded channel; it never
//! waits. If the writer is too slow, lines are dropped and counted, and the writer reports how many. The order is kept per
//! core, not between cores. [`AccessLog::close`] writes everything that was passed on, within a time limit.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use galley_config::LogTarget;
use jiff::tz::TimeZone;

use super::line::Formatter;
use super::sink::Sink;

pub use super::line::LineForm;
pub use super::record::{AccessRecord, Words};

/// A handle on one access log; clones mean the same log.
#[derive(Clone, Debug)]
pub struct AccessLog {
    form: Arc<LineForm>,
    /// `None`: the log is off.
    open: Option<Arc<OpenedLogs>>,
}

/// The buffer of one core. Dropped with lines in it, it hands them over.
#[derive(Debug)]
pub struct LogWriter {
    /// `None`: the log is off.
    open: Option<OpenWriter>,
}

#[derive(Debug)]
struct OpenedLogs {
    sender: SyncSender<Message>,
    shared: Arc<LogShared>,
    /// Closes when the writer thread has ended.
    ended: Mutex<Receiver<()>>,
}

/// What cores, handles and the writer thread share.
#[derive(Debug, Default)]
struct LogShared {
    /// Set by [`AccessLog::reopen`], taken by the writer thread.
    reopen: AtomicBool,
    /// Lines that were not written; added to by cores and by the writer thread.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct OpenWriter {
    formatter: Formatter,
    buffer: Vec<u8>,
    /// Lines in `buffer`.
    lines: u64,
    sender: SyncSender<Message>,
    shared: Arc<LogShared>,
    /// Buffers that come back empty, so that a busy core need not allocate.
    home: (SyncSender<Vec<u8>>, Receiver<Vec<u8>>),
}

enum Message {
    Lines {
        bytes: Vec<u8>,
        count: u64,
        home: SyncSender<Vec<u8>>,
    },
    /// Look at the flags.
    Wake,
    Close,
}

impl AccessLog {
    /// Opens the target and starts the writer thread; for [`LogTarget::Off`] there is neither.
    ///
    /// Errors: the file cannot be opened, the thread cannot be started.
    pub fn open(target: &LogTarget, form: LineForm) -> io::Result<Self> {
        let form = Arc::new(form);
        let Some(sink) = Sink::open(target)? else {
            return Ok(Self { form, open: None });
        };
        let (sender, receiver) = sync_channel(MOST_BUFFERS);
        let (ending, ended) = sync_channel(0);
        let shared = Arc::new(LogShared::default());
        let thread = WriterThread {
            receiver,
            sink,
            shared: Arc::clone(&shared),
            reported: 0,
            reported_at: None,
        };
        std::thread::Builder::new()
            .name("access-log".to_owned())
            .spawn(move || {
                thread.run();
                drop(ending);
            })?;
        let open = OpenedLogs {
            sender,
            shared,
            ended: Mutex::new(ended),
        };
        Ok(Self {
            form,
            open: Some(Arc::new(open)),
        })
    }

    /// A buffer for one core.
    pub fn writer(&self) -> LogWriter {
        LogWriter {
            open: self
                .open
                .as_ref()
                .map(|open| OpenWriter::new(open, &self.form)),
        }
    }

    /// Has the writer open its file again before the next line, for a file that was moved away. Never waits.
    pub fn reopen(&self) {
        if let Some(open) = &self.open {
            open.shared.reopen.store(true, Ordering::Release);
            // A full channel has messages in it, and each of them wakes the writer as well.
            let _ = open.sender.try_send(Message::Wake);
        }
    }

    /// Lines that were dropped since the start: the writer could not keep up, or could not write.
    pub fn dropped(&self) -> u64 {
        self.open
            .as_ref()
            .map_or(0, |open| open.shared.dropped.load(Ordering::Relaxed))
    }

    /// Writes all that was handed over and ends the writer thread. Waits for it, but gives up after a few seconds: a
    /// reader of standard output that has stopped reading must not keep the process from ending.
    pub fn close(self) {
        let Some(open) = self.open else { return };
        let deadline = Instant::now() + PATIENCE;
        let mut message = Message::Close;
        while let Err(TrySendError::Full(back)) = open.sender.try_send(message) {
            if Instant::now() > deadline {
                return;
            }
            message = back;
            // The standard library's channel has no send with a deadline; this loop runs only when it is full.
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let ended = open.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

impl LogWriter {
    /// Adds the line of a request. Never waits; drops the line when buffer and channel are full.
    pub fn write(&mut self, record: &AccessRecord<'_>) {
        let Some(open) = &mut self.open else { return };
        if open.is_full() && !open.hand_over() {
            open.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        open.formatter.line(record, &mut open.buffer);
        open.lines += 1;
        if open.is_full() {
            open.hand_over();
        }
    }

    /// Hands over what there is; the core calls it at its tick. Never waits; what the channel cannot take stays.
    pub fn flush(&mut self) {
        if let Some(open) = &mut self.open {
            open.hand_over();
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.flush();
    }
}

impl OpenWriter {
    fn new(open: &OpenedLogs, form: &LineForm) -> Self {
        Self {
            formatter: Formatter::new(form, TimeZone::system()),
            buffer: Vec::with_capacity(BUFFER_BYTES),
            lines: 0,
            sender: open.sender.clone(),
            shared: Arc::clone(&open.shared),
            home: sync_channel(2),
        }
    }

    fn is_full(&self) -> bool {
        self.buffer.len() >= BUFFER_BYTES - ORDINARY_LINE
    }

    /// Whether the buffer is empty afterwards.
    fn hand_over(&mut self) -> bool {
        if self.buffer.is_empty() {
            return true;
        }
        let next = self.home.1.try_recv().unwrap_or_default();
        let bytes = std::mem::replace(&mut self.buffer, next);
        let message = Message::Lines {
            bytes,
            count: self.lines,
            home: self.home.0.clone(),
        };
        match self.sender.try_send(message) {
            Ok(()) => {
                self.lines = 0;
                self.buffer.reserve(BUFFER_BYTES);
                true
            }
            Err(TrySendError::Full(message)) => {
                if let Message::Lines { bytes, .. } = message {
                    let spare = std::mem::replace(&mut self.buffer, bytes);
                    let _ = self.home.0.try_send(spare);
                }
                false
            }
            Err(TrySendError::Disconnected(_)) => {
                self.shared.dropped.fetch_add(self.lines, Ordering::Relaxed);
                self.lines = 0;
                true
            }
        }
    }
}

struct WriterThread {
    receiver: Receiver<Message>,
    sink: Sink,
    shared: Arc<LogShared>,
    /// Dropped lines that the operator has been told about, and when.
    reported: u64,
    reported_at: Option<Instant>,
}

impl WriterThread {
    fn run(mut self) {
        while let Ok(message) = self.receiver.recv() {
            if self.shared.reopen.swap(false, Ordering::AcqRel)
                && let Err(cause) = self.sink.reopen()
            {
                tracing::error!(%cause, "cannot reopen the access log; the old file remains in use");
            }
            match message {
                Message::Lines {
                    mut bytes,
                    count,
                    home,
                } => {
                    self.write(&bytes, count);
                    bytes.clear();
                    // One enormous line must not make a buffer large for ever.
                    bytes.shrink_to(BUFFER_BYTES);
                    let _ = home.try_send(bytes);
                }
                Message::Wake => {}
                Message::Close => break,
            }
            self.report_dropped(Instant::now());
        }
    }

    fn write(&mut self, bytes: &[u8], count: u64) {
        if let Err(cause) = self.sink.write(bytes) {
            self.shared.dropped.fetch_add(count, Ordering::Relaxed);
            if self.may_report(Instant::now()) {
                tracing::error!(%cause, "cannot write the access log");
            }
        }
    }

    fn report_dropped(&mut self, now: Instant) {
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        if dropped > self.reported && self.may_report(now) {
            tracing::warn!(lines = dropped - self.reported, "access lines were dropped");
            self.reported = dropped;
            self.reported_at = Some(now);
        }
    }

    fn may_report(&self, now: Instant) -> bool {
        self.reported_at
            .is_none_or(|at| now.duration_since(at) >= Duration::from_secs(1))
    }
}

/// Some hundreds of lines: large enough that a write costs nothing per line, small enough to be held per core.
const BUFFER_BYTES: usize = 64 << 10;
/// A buffer with less room than this is full; a longer line makes it grow for once.
const ORDINARY_LINE: usize = 2 << 10;
/// Together a mebibyte of lines that wait for the writer.
const MOST_BUFFERS: usize = 16;
/// For a disk that is slow, not for a reader that is gone.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
