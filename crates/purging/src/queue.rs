//! A bounded queue of pages to be written to the disk. No caller blocks on it.
//!
//! If the queue is full, a page is not written. Its older copy must not be found after a restart either, so a job that removes
//! that copy is queued instead, which uses almost no memory.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};

use galley_cache::disk::SiteName;
use galley_cache::entry::Entry;
use galley_cache::key::Key;
use galley_sys::Lock;

/// A job of the writer.
pub(super) enum WriteJob {
    /// Writes an entry.
    Put(SiteName, Arc<Entry>),
    /// Removes the entry of a key unless its `born` is greater than `born`.
    RemoveOlder { site: SiteName, key: Key, born: u64 },
}

/// See the module.
#[derive(Default)]
pub(super) struct WriteQueue {
    state: Lock<WriteQueueState>,
    filled: Condvar,
}

#[derive(Default)]
struct WriteQueueState {
    jobs: VecDeque<WriteJob>,
    puts: usize,
    is_closed: bool,
}

impl WriteQueue {
    /// Queues a page. If the queue is full, queues the removal of its older copy and returns false. Never waits.
    pub(super) fn put(&self, site: SiteName, entry: &Arc<Entry>) -> bool {
        let mut state = self.state.lock();
        let has_room = state.puts < MAX_PUTS;
        if has_room {
            state.puts += 1;
            self.push(state, WriteJob::Put(site, Arc::clone(entry)));
        } else {
            let (key, born) = (entry.key.clone(), entry.born);
            self.push(state, WriteJob::RemoveOlder { site, key, born });
        }
        has_room
    }

    pub(super) fn forget(&self, site: SiteName, key: Key, born: u64) {
        self.push(self.state.lock(), WriteJob::RemoveOlder { site, key, born });
    }

    /// The next job; `None` if the queue is closed and empty. Blocks.
    pub(super) fn next(&self) -> Option<WriteJob> {
        let mut state = self.state.lock();
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

    /// Rejects further jobs. Queued jobs are still done.
    pub(super) fn close(&self) {
        self.state.lock().is_closed = true;
        self.filled.notify_all();
    }

    /// The number of queued jobs.
    pub(super) fn len(&self) -> usize {
        self.state.lock().jobs.len()
    }

    fn push(&self, mut state: MutexGuard<'_, WriteQueueState>, job: WriteJob) {
        if state.is_closed || state.jobs.len() >= MAX_JOBS {
            return;
        }
        state.jobs.push_back(job);
        drop(state);
        self.filled.notify_one();
    }
}

/// The maximum number of queued pages. Their memory stays reserved until they are written.
const MAX_PUTS: usize = 256;

/// The maximum number of queued jobs, most of them removals, while the disk does not respond.
const MAX_JOBS: usize = 100_000;

#[cfg(test)]
mod tests {
    use super::*;
    use galley_cache::disk::{Disk, DiskClock, DiskLimits};
    use galley_cache::entry::EntryParts;
    use galley_policy::time::Tick;

    use galley_cache::testing;

    #[test]
    fn a_page_rejected_by_the_queue_still_removes_its_older_copy() {
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
        for number in 0..=MAX_PUTS {
            assert_eq!(queue.put(site, &entry(number)), number < MAX_PUTS);
        }
        queue.close();
        queue.forget(site, Key::new(b"late"), 1);
        assert_eq!(queue.len(), MAX_PUTS + 1);
        for _ in 0..MAX_PUTS {
            assert!(matches!(queue.next(), Some(WriteJob::Put(..))));
        }
        match queue.next() {
            Some(WriteJob::RemoveOlder { key, born, .. }) => {
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
