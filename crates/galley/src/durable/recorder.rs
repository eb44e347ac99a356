//! Writes a body to the disk while readers receive it, because the memory has no room for it.
//!
//! While the fill keeps all bytes, the recorder only holds the same buffers. When the fill stops keeping them, the recorder
//! starts a file with the bytes it holds and continues on a helper thread. A disk that is too slow ends the recording, not
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
    /// All bytes so far, in case that the fill does not keep them.
    Holding(Box<RecordedHead>, Vec<Bytes>),
    Writing(
        mpsc::Sender<RecorderStep>,
        JoinHandle<Result<(), NotStored>>,
    ),
}

/// What the file begins with.
struct RecordedHead {
    disk: SiteDiskCache,
    entry: Entry,
    length: Option<u64>,
}

enum RecorderStep {
    Bytes(Bytes),
    /// The body was whole.
    End,
}

impl Recorder {
    /// Records nothing.
    pub fn off() -> Self {
        Self {
            state: RecorderState::Off,
        }
    }

    /// Ready to record the body of `entry`, which has none yet; `length` if it is known.
    pub fn ready(shelved: SiteDiskCache, entry: Entry, length: Option<u64>) -> Self {
        let head = RecordedHead {
            disk: shelved,
            entry,
            length,
        };
        Self {
            state: RecorderState::Holding(Box::new(head), Vec::new()),
        }
    }

    /// Whether it wants bytes.
    pub fn is_on(&self) -> bool {
        !matches!(self.state, RecorderState::Off)
    }

    /// Whether a file is being written.
    pub fn is_writing(&self) -> bool {
        matches!(self.state, RecorderState::Writing(..))
    }

    /// Takes the next bytes; `is_kept`: whether the fill keeps all of them. Waits for the disk for a moment at most.
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

    /// The body is whole. Gives whether it is on the disk now; what the fill has kept is not recorded.
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
        let shelf = Arc::clone(&head.disk.disk);
        let Ok(recorder) = Arc::clone(&shelf.recorders).try_acquire_owned() else {
            return shelf.count_written(false);
        };
        let (steps, taken) = mpsc::channel(STEPS_AHEAD);
        let writing = spawn_blocking(move || {
            let _recorder = recorder;
            let outcome = write(&shelf, &head, taken);
            shelf.count_written(outcome.is_ok());
            outcome
        });
        self.state = RecorderState::Writing(steps, writing);
        for chunk in chunks {
            self.send(RecorderStep::Bytes(chunk)).await;
        }
    }

    /// Gives up on a disk that is too slow: the unfinished file will not be found.
    async fn send(&mut self, step: RecorderStep) {
        let RecorderState::Writing(steps, _) = &self.state else {
            return;
        };
        if !matches!(timeout(PATIENCE, steps.send(step)).await, Ok(Ok(()))) {
            self.state = RecorderState::Off;
        }
    }
}

/// Writes what comes, and puts the file in its place if the end comes too.
fn write(
    shelf: &DiskCache,
    head: &RecordedHead,
    mut steps: mpsc::Receiver<RecorderStep>,
) -> Result<(), NotStored> {
    let site = head.disk.site;
    let mut begun = shelf
        .disk
        .begin(site, &head.entry, head.length, shelf.now());
    while let Some(step) = steps.blocking_recv() {
        match (step, &mut begun) {
            // After an error nothing is written any more; `commit` gives it.
            (RecorderStep::Bytes(bytes), Ok(writer)) => drop(writer.write(&bytes)),
            (RecorderStep::Bytes(_), Err(_)) => {}
            (RecorderStep::End, _) => {
                return match begun {
                    Ok(writer) => writer.commit(),
                    Err(why) => {
                        // The new response is newer than the file there, and is not there itself.
                        let (key, born) = (head.entry.key.bytes(), head.entry.born);
                        shelf.disk.remove_older(site, key, born);
                        Err(why)
                    }
                };
            }
        }
    }
    Err(NotStored::Incomplete)
}

/// Chunks that may wait for the helper thread.
const STEPS_AHEAD: usize = 16;

/// How long readers may wait for the disk in all this; beyond it the disk is unusable.
const PATIENCE: Duration = Duration::from_secs(1);
