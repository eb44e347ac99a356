//! The access log: one line per request, from all threads to one writer thread.
//!
//! A front thread formats lines into a buffer, and sends it through a bounded channel when it is full and at each timer tick,
//! without ever waiting. If the writer is too slow, lines are dropped and counted, and the writer reports their number. The
//! order of lines is preserved per thread, not between threads. [`AccessLog::close`] writes all lines that were sent, within a
//! time limit.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant};

use galley_config::LogTarget;
use galley_sys::Lock;
use jiff::tz::TimeZone;

use super::line::Formatter;
use super::sink::LogSink;

pub use super::line::LineForm;
pub use super::record::{AccessRecord, LoggedHeadParts};

/// A handle to one access log; clones refer to the same log.
#[derive(Clone, Debug)]
pub struct AccessLog {
    form: Arc<LineForm>,
    /// `None`: the log is off.
    open: Option<Arc<OpenedLogs>>,
}

/// The buffer of one front thread. Dropping it sends its lines.
#[derive(Debug)]
pub struct LogWriter {
    /// `None`: the log is off.
    open: Option<OpenWriter>,
}

#[derive(Debug)]
struct OpenedLogs {
    sender: SyncSender<Message>,
    shared: Arc<LogShared>,
    /// Disconnected when the writer thread has ended.
    ended: Lock<Receiver<()>>,
}

/// The state that front threads, handles and the writer thread share.
#[derive(Debug, Default)]
struct LogShared {
    /// Set by [`AccessLog::reopen`], reset by the writer thread.
    reopen: AtomicBool,
    /// The number of lines that were not written.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct OpenWriter {
    formatter: Formatter,
    buffer: Vec<u8>,
    /// The number of lines in `buffer`.
    lines: u64,
    sender: SyncSender<Message>,
    shared: Arc<LogShared>,
    /// Returns empty buffers, so that a busy thread need not allocate.
    spares: (SyncSender<Vec<u8>>, Receiver<Vec<u8>>),
}

enum Message {
    Lines {
        bytes: Vec<u8>,
        count: u64,
        spares: SyncSender<Vec<u8>>,
    },
    /// Check the flags.
    Wake,
    Close,
}

impl AccessLog {
    /// Opens the target and starts the writer thread; for [`LogTarget::Off`] it does neither.
    ///
    /// Errors: the file cannot be opened, or the thread cannot be started.
    pub fn open(target: &LogTarget, form: LineForm) -> io::Result<Self> {
        let form = Arc::new(form);
        let Some(sink) = LogSink::open(target)? else {
            return Ok(Self { form, open: None });
        };
        let (sender, receiver) = sync_channel(MAX_BUFFERS);
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
            ended: Lock::new(ended),
        };
        Ok(Self {
            form,
            open: Some(Arc::new(open)),
        })
    }

    /// Creates a buffer for one front thread.
    pub fn writer(&self) -> LogWriter {
        LogWriter {
            open: self
                .open
                .as_ref()
                .map(|open| OpenWriter::new(open, &self.form)),
        }
    }

    /// Makes the writer reopen its file before the next line, after the file was renamed. Never waits.
    pub fn reopen(&self) {
        if let Some(open) = &self.open {
            open.shared.reopen.store(true, Ordering::Release);
            // If the channel is full, its messages wake the writer as well.
            let _ = open.sender.try_send(Message::Wake);
        }
    }

    /// The number of lines dropped since the start, because the writer was too slow or could not write.
    pub fn dropped(&self) -> u64 {
        self.open
            .as_ref()
            .map_or(0, |open| open.shared.dropped.load(Ordering::Relaxed))
    }

    /// Writes all lines that were sent, and ends the writer thread. Waits for it, but only a few seconds: if the reader of standard
    /// output has stopped reading, the process must still be able to end.
    pub fn close(self) {
        let Some(open) = self.open else { return };
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        let mut message = Message::Close;
        while let Err(TrySendError::Full(back)) = open.sender.try_send(message) {
            if Instant::now() > deadline {
                return;
            }
            message = back;
            // The standard library's channel has no send with a deadline; this loop only runs while the channel is full.
            std::thread::park_timeout(Duration::from_millis(1));
        }
        let ended = open.ended.lock();
        let _ = ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

impl LogWriter {
    /// Adds the line of a request. Never waits; drops the line if both the buffer and the channel are full.
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

    /// Sends the buffered lines; called at each timer tick. Never waits; if the channel is full, the lines stay in the buffer.
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
            spares: sync_channel(2),
        }
    }

    fn is_full(&self) -> bool {
        self.buffer.len() >= BUFFER_BYTES - ORDINARY_LINE
    }

    /// Sends the buffer. Returns whether it is empty afterwards.
    fn hand_over(&mut self) -> bool {
        if self.buffer.is_empty() {
            return true;
        }
        let next = self.spares.1.try_recv().unwrap_or_default();
        let bytes = std::mem::replace(&mut self.buffer, next);
        let message = Message::Lines {
            bytes,
            count: self.lines,
            spares: self.spares.0.clone(),
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
                    let _ = self.spares.0.try_send(spare);
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
    sink: LogSink,
    shared: Arc<LogShared>,
    /// The number of dropped lines that were reported to the operator, and the time of the last report.
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
                    spares,
                } => {
                    self.write(&bytes, count);
                    bytes.clear();
                    // A single very long line must not keep the buffer large.
                    bytes.shrink_to(BUFFER_BYTES);
                    let _ = spares.try_send(bytes);
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

/// Some hundreds of lines: large enough that the cost of a write per line is negligible, small enough for one buffer per thread.
const BUFFER_BYTES: usize = 64 << 10;
/// A buffer with less free space than this is full; a longer line enlarges it once.
const ORDINARY_LINE: usize = 2 << 10;
/// The maximum number of buffers that wait for the writer, a mebibyte in total.
const MAX_BUFFERS: usize = 16;
/// How long closing waits for a slow disk, or a reader that has stopped.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests;
