//! How much memory the differences to dictionaries use.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use crate::encoded::EncodedEntry;

/// The memory that the forms by dictionary of a site may use together: a tenth of that of the pages that were compared with dictionaries.
///
/// Each of these pages brings a tenth of the memory that it uses without such a form. So a form within that tenth always has room, and
/// pages whose forms need less leave the rest to others.
#[derive(Debug)]
pub struct DifferenceRoom {
    /// Bytes that are left: the sum of the shares. Written by shares.
    pub(crate) left: AtomicI64,
    /// The bytes of the smallest form that has found no room; `u64::MAX`: none. Written by shares and [`Self::has_room_again`].
    refused: AtomicU64,
}

impl Default for DifferenceRoom {
    fn default() -> Self {
        Self {
            left: AtomicI64::new(0),
            refused: AtomicU64::new(u64::MAX),
        }
    }
}

impl DifferenceRoom {
    /// Whether a form that has found no room would find it now; true once, until a form is refused again.
    pub fn has_room_again(&self) -> bool {
        let refused = self.refused.swap(u64::MAX, Ordering::Relaxed);
        let has_room = signed(refused) <= self.left.load(Ordering::Relaxed);
        if !has_room {
            self.refused.fetch_min(refused, Ordering::Relaxed);
        }
        has_room
    }
}

/// What one page adds to the room of its site, or takes from it. Copies of the page have the same share; the last one returns it.
pub struct DifferenceShare {
    pub(crate) room: Arc<DifferenceRoom>,
    bytes: AtomicI64,
}

impl DifferenceShare {
    /// The share of a page that was not compared yet: nothing.
    pub fn new(room: &Arc<DifferenceRoom>) -> Arc<Self> {
        Arc::new(Self {
            room: Arc::clone(room),
            bytes: AtomicI64::new(0),
        })
    }

    /// Adds the tenth of a page that has no form by dictionary.
    pub fn add(&self, tenth: i64) {
        self.set(tenth);
    }

    /// Adds the tenth of a page and takes the memory of `form`. Returns false, and changes nothing, if there is no room.
    pub fn take(&self, tenth: i64, form: &EncodedEntry) -> bool {
        let (before, left) = self.set(tenth - signed(form.weight()));
        if left < 0 {
            self.set(before);
            self.room
                .refused
                .fetch_min(form.weight(), Ordering::Relaxed);
        }
        left >= 0
    }

    /// Returns the share before, and what is left in the room. Concurrent calls change the room by what they change the share.
    fn set(&self, bytes: i64) -> (i64, i64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        let more = bytes - before;
        let left = self.room.left.fetch_add(more, Ordering::Relaxed) + more;
        (before, left)
    }
}

impl Drop for DifferenceShare {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl fmt::Debug for DifferenceShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DifferenceShare").field(&self.bytes).finish()
    }
}

/// The memory of a share, with the counters of its `Arc`.
pub(crate) fn weight_of(share: Option<&Arc<DifferenceShare>>) -> u64 {
    share.map_or(0, |share| 16 + size_of_val(&**share) as u64)
}

pub(crate) fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
