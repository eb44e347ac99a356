//! When a key was last changed, and by whom.
//!
//! The store compares a lease with the last change of the key by *another* process: a process may change a value again that it has changed
//! itself. Keys without a value keep their [`Touch`] in a bounded queue; what falls out of it raises the floor, which counts for every key.
//! So the table loses precision only in the safe direction: it refuses a value that it could have stored.

use std::collections::{HashMap, VecDeque};

/// The last change of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Touch {
    /// The counter after the change.
    pub(crate) at: u64,
    /// The process that made it.
    pub(crate) writer: u64,
    /// The counter after the last change of any process other than `writer`.
    pub(crate) foreign: u64,
}

impl Touch {
    /// The touch after a change by `writer`.
    pub(crate) fn next(self, at: u64, writer: u64) -> Self {
        let foreign = if self.writer == writer {
            self.foreign
        } else {
            self.at
        };
        Self {
            at,
            writer,
            foreign,
        }
    }

    /// Whether a value that `writer` read at `lease` includes every change of other processes.
    pub(crate) fn permits(self, lease: u64, writer: u64) -> bool {
        let other = if self.writer == writer {
            self.foreign
        } else {
            self.at
        };
        other <= lease
    }
}

/// The touches of keys that have no value.
#[derive(Debug, Default)]
pub(crate) struct Touches {
    by_key: HashMap<u64, Touch>,
    queue: VecDeque<(u64, u64)>,
    floor: u64,
}

impl Touches {
    /// The touch of a key; the floor, if nothing newer is known.
    pub(crate) fn find(&self, hash: u64) -> Touch {
        let floor = Touch {
            at: self.floor,
            writer: NOBODY,
            foreign: self.floor,
        };
        match self.by_key.get(&hash) {
            Some(touch) if touch.at > self.floor => Touch {
                foreign: touch.foreign.max(self.floor),
                ..*touch
            },
            _ => floor,
        }
    }

    pub(crate) fn note(&mut self, hash: u64, touch: Touch) {
        if touch.at <= self.floor {
            return;
        }
        self.by_key.insert(hash, touch);
        self.queue.push_back((hash, touch.at));
        while self.queue.len() > MAX_TOUCHES {
            let Some((hash, at)) = self.queue.pop_front() else {
                break;
            };
            if self.by_key.get(&hash).is_some_and(|touch| touch.at == at) {
                self.by_key.remove(&hash);
                self.floor = self.floor.max(at);
            }
        }
    }

    /// Every key counts as changed at this counter.
    pub(crate) fn raise(&mut self, floor: u64) {
        self.by_key.clear();
        self.queue.clear();
        self.floor = self.floor.max(floor);
    }
}

/// No process has this number.
const NOBODY: u64 = 0;

/// 40 bytes each: less than a megabyte. A request of a second is safe from the floor while a site makes fewer changes in it.
const MAX_TOUCHES: usize = 16_384;

/// The group of a key: its first byte is the group's length.
pub(crate) fn group(key: &[u8]) -> &[u8] {
    let Some((length, rest)) = key.split_first() else {
        return b"";
    };
    rest.get(..usize::from(*length)).unwrap_or_default()
}
