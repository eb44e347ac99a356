//! Writes a body to the disk while readers receive it, if memory cannot keep it.
//!
//! While the fill keeps all bytes, the recorder only references the same buffers. When the fill stops keeping them, the recorder
//! starts a file with those bytes and continues on a helper thread. A disk that is too slow ends the recording, not
//! the response.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use galley_cache::disk::NotStored;
use galley_cache::entry::Entry;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::disk_cache::{DiskCache, SiteDiskCache};

/// See the module.
pub struct Recorder {
    state: RecorderState,
}

enum RecorderState {
    /// Nothing is recorded.
    Off,
    /// All bytes so far, in case the fill stops keeping them.
    Holding(Box<RecordedHead>, Vec<Bytes>),
    Writing(
        mpsc::Sender<RecorderStep>,
        JoinHandle<Result<(), NotStored>>,
    ),
}

/// The beginning of the file.
struct RecordedHead {
    disk: SiteDiskCache,
    entry: Entry,
    length: Option<u64>,
}

enum RecorderStep {
    Bytes(Bytes),
    /// The body is complete.
    End,
}

impl Recorder {
    /// A recorder that records nothing.
    pub fn off() -> Self {
        Self {
            state: RecorderState::Off,
        }
    }

    /// A recorder for the body of `entry`, which has none yet. `length`: that of the body, if known.
    pub fn ready(disk: SiteDiskCache, entry: Entry, length: Option<u64>) -> Self {
        let head = RecordedHead {
            disk,
            entry,
            length,
        };
        Self {
            state: RecorderState::Holding(Box::new(head), Vec::new()),
        }
    }

    /// Whether the recorder needs the bytes.
    pub fn is_on(&self) -> bool {
        !matches!(self.state, RecorderState::Off)
    }

    /// Whether a file is being written.
    pub fn is_writing(&self) -> bool {
        matches!(self.state, RecorderState::Writing(..))
    }

    /// Records the next bytes. `is_kept`: whether the fill keeps all of them. Waits for the disk only briefly.
    pub async fn push(&mut self, chunk: Bytes, is_kept: bool) {
        match &mut self.state {
            RecorderState::Off => {}
            RecorderState::Holding(_, chunks) => {
                chunks.push(chunk);
                if !is_kept {
                    self.begin().await;
                }
            }
            RecorderState::Writing(..) => self.send(RecorderStep::Bytes(chunk)).await,
        }
    }

    /// Ends a complete body. Returns whether it is on the disk. A body that the fill has kept is not recorded.
    pub async fn finish(mut self) -> bool {
        if matches!(self.state, RecorderState::Writing(..)) {
            self.send(RecorderStep::End).await;
        }
        match self.state {
            RecorderState::Writing(steps, writing) => {
                drop(steps);
                matches!(writing.await, Ok(Ok(())))
            }
            RecorderState::Off | RecorderState::Holding(..) => false,
        }
    }

    async fn begin(&mut self) {
        let RecorderState::Holding(head, chunks) =
            std::mem::replace(&mut self.state, RecorderState::Off)
        else {
            return;
        };
        let cache = Arc::clone(&head.disk.disk);
        let Ok(recorder) = Arc::clone(&cache.recorders).try_acquire_owned() else {
            return cache.count_written(false);
        };
        let (steps, taken) = mpsc::channel(STEPS_AHEAD);
        let writing = spawn_blocking(move || {
            let _recorder = recorder;
            let outcome = write(&cache, &head, taken);
            cache.count_written(outcome.is_ok());
            outcome
        });
        self.state = RecorderState::Writing(steps, writing);
        for chunk in chunks {
            self.send(RecorderStep::Bytes(chunk)).await;
        }
    }

    /// Sends a step to the helper thread. Gives up if the disk is too slow: the incomplete file is never found.
    async fn send(&mut self, step: RecorderStep) {
        let RecorderState::Writing(steps, _) = &self.state else {
            return;
        };
        if !matches!(timeout(SEND_TIMEOUT, steps.send(step)).await, Ok(Ok(()))) {
            self.state = RecorderState::Off;
        }
    }
}

/// Writes the steps, and installs the file if the body is complete.
fn write(
    cache: &DiskCache,
    head: &RecordedHead,
    mut steps: mpsc::Receiver<RecorderStep>,
) -> Result<(), NotStored> {
    let site = head.disk.site;
    let mut opened = cache
        .disk
        .begin(site, &head.entry, head.length, cache.now());
    while let Some(step) = steps.blocking_recv() {
        match (step, &mut opened) {
            // After an error nothing more is written; `commit` returns the error.
            (RecorderStep::Bytes(bytes), Ok(writer)) => drop(writer.write(&bytes)),
            (RecorderStep::Bytes(_), Err(_)) => {}
            (RecorderStep::End, _) => {
                return match opened {
                    Ok(writer) => writer.commit(),
                    Err(why) => {
                        // The new response is newer than the existing file, but is not stored.
                        let (key, born) = (head.entry.key.bytes(), head.entry.born);
                        cache.disk.remove_older(site, key, born);
                        Err(why)
                    }
                };
            }
        }
    }
    Err(NotStored::Incomplete)
}

/// The maximum number of chunks that wait for the helper thread.
const STEPS_AHEAD: usize = 16;

/// The maximum wait of readers for the disk. A slower disk is not usable.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);
