//! Pages that wait to be written to the disk: a bounded queue on which nobody blocks.
//!
//! If the queue is full, a page is not written. Its older copy must not come back after a restart either, so the command to
//! remove that copy is queued in its place, which takes almost no memory.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use galley_cache::disk::SiteName;
use galley_cache::entry::Entry;
use galley_cache::key::Key;

/// One thing to do.
pub(super) enum WriteJob {
    /// Write this entry.
    Put(SiteName, Arc<Entry>),
    /// Remove the entry of a key unless it was born after `born`.
    Forget { site: SiteName, key: Key, born: u64 },
}

/// See the module.
#[derive(Default)]
pub(super) struct WriteQueue {
    state: Mutex<WriteQueueState>,
    filled: Condvar,
}

#[derive(Default)]
struct WriteQueueState {
    jobs: VecDeque<WriteJob>,
    puts: usize,
    is_closed: bool,
}

impl WriteQueue {
    /// Queues a page, or its removal if there is no room; false: then. Never waits.
    pub(super) fn put(&self, site: SiteName, entry: &Arc<Entry>) -> bool {
        let mut state = self.lock();
        let has_room = state.puts < MOST_PUTS;
        if has_room {
            state.puts += 1;
            self.push(state, WriteJob::Put(site, Arc::clone(entry)));
        } else {
            let (key, born) = (entry.key.clone(), entry.born);
            self.push(state, WriteJob::Forget { site, key, born });
        }
        has_room
    }

    pub(super) fn forget(&self, site: SiteName, key: Key, born: u64) {
        self.push(self.lock(), WriteJob::Forget { site, key, born });
    }

    /// The next job; `None` when it is closed and empty. Blocks.
    pub(super) fn next(&self) -> Option<WriteJob> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                if matches!(job, WriteJob::Put(..)) {
                    state.puts -= 1;
                }
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state = self
                .filled
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Accepts nothing more; the contents are still written.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    /// Jobs waiting.
    pub(super) fn len(&self) -> usize {
        self.lock().jobs.len()
    }

    fn push(&self, mut state: MutexGuard<'_, WriteQueueState>, job: WriteJob) {
        if state.is_closed || state.jobs.len() >= MOST_JOBS {
            return;
        }
        state.jobs.push_back(job);
        drop(state);
        self.filled.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, WriteQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pages that may wait; their memory is theirs, and reserved, until they are written.
const MOST_PUTS: usize = 256;

/// Orders to remove that may wait behind a disk that hangs.
const MOST_JOBS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use galley_cache::disk::{Disk, DiskClock, DiskLimits};
    use galley_cache::entry::EntryParts;
    use galley_policy::time::Tick;

    use crate::testing;

    #[test]
    fn a_page_that_does_not_fit_the_queue_still_removes_its_older_copy() {
        let folder = tempfile::tempdir().unwrap();
        let now = DiskClock {
            tick: Tick(0),
            wall: std::time::SystemTime::UNIX_EPOCH,
        };
        let limits = DiskLimits {
            bytes: 1 << 20,
            site_bytes: None,
            object_bytes: 1 << 10,
            inactive: std::time::Duration::from_secs(60),
            in_memory_bytes: 1 << 10,
        };
        let disk = Disk::open(folder.path(), limits, [0; 16], now).unwrap();
        let site = disk.site("s", 0);
        let queue = WriteQueue::default();
        for number in 0..=MOST_PUTS {
            assert_eq!(queue.put(site, &entry(number)), number < MOST_PUTS);
        }
        queue.close();
        queue.forget(site, Key::new(b"late"), 1);
        assert_eq!(queue.len(), MOST_PUTS + 1);
        for _ in 0..MOST_PUTS {
            assert!(matches!(queue.next(), Some(WriteJob::Put(..))));
        }
        match queue.next() {
            Some(WriteJob::Forget { key, born, .. }) => {
                assert_eq!((key.bytes(), born), (&b"256"[..], 256));
            }
            _ => panic!("the last one is to be removed"),
        }
        assert!(queue.next().is_none());
    }

    fn entry(number: usize) -> Arc<Entry> {
        Arc::new(Entry::new(EntryParts {
            key: Key::new(number.to_string().as_bytes()),
            born: number as u64,
            ..testing::page()
        }))
    }
}
