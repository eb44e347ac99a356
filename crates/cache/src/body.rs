//! Bodies that know whether the memory budget already counts them.
//!
//! The body of a finished fill contains its reservation inside the shared buffer. The reservation is released when the last
//! clone of the `Bytes` is dropped, whether an entry or a slow reader owns it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use galley_sys::OwnPages;
use siphasher::sip128::{Hasher128, SipHasher24};

use crate::budget::{OutOfBudget, Reservation};
use crate::sync::Lock;

/// The whole body of a response, in one buffer.
#[derive(Clone, Debug, Default)]
pub struct StoredBody {
    bytes: Bytes,
    reserved: u64,
    /// The owner of the bytes, if they are in pages of their own.
    pages: Option<Arc<BodyOwner>>,
}

impl StoredBody {
    /// A body with a reservation that lasts until the last clone of the body is dropped.
    pub fn reserved(bytes: Vec<u8>, reservation: Reservation) -> Self {
        let reserved = reservation.bytes();
        Self {
            bytes: Bytes::from_owner(BodyOwner::new(bytes, reservation)),
            reserved,
            pages: None,
        }
    }

    /// As [`StoredBody::reserved`], in pages of its own if the body is long enough: see [`StoredBody::pages`].
    pub fn in_pages(bytes: Vec<u8>, mut reservation: Reservation) -> Self {
        let missing = (OwnPages::size_of(bytes.len()) - bytes.len()) as u64;
        if !SENT_FROM_PAGES.contains(&bytes.len()) || reservation.try_grow(missing).is_err() {
            return Self::reserved(bytes, reservation);
        }
        let Ok(pages) = OwnPages::copy_of(&bytes) else {
            return Self::reserved(bytes, reservation);
        };
        let bytes = BodyBytes::Pages(pages);
        let owner = Arc::new(BodyOwner { bytes, reservation });
        Self {
            pages: Some(Arc::clone(&owner)),
            ..Self::shared(owner)
        }
    }

    fn shared(owner: Arc<BodyOwner>) -> Self {
        Self {
            reserved: owner.reservation.bytes(),
            bytes: Bytes::from_owner(SharedOwner(owner)),
            pages: None,
        }
    }

    /// Joins pieces into one body, by copying. The pieces' buffers are not needed afterwards. `reservation` grows to the length of
    /// the body; `None`: there is no memory.
    pub fn join(pieces: &[Bytes], mut reservation: Reservation) -> Option<Self> {
        let length: usize = pieces.iter().map(Bytes::len).sum();
        let missing = (length as u64).saturating_sub(reservation.bytes());
        reservation.try_grow(missing).ok()?;
        Some(Self::reserved(pieces.concat(), reservation))
    }

    /// The bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The same bytes, if the kernel can send them without copying them.
    pub fn pages(&self) -> Option<&OwnPages> {
        match &self.pages.as_ref()?.bytes {
            BodyBytes::Pages(pages) => Some(pages),
            BodyBytes::Heap(_) => None,
        }
    }

    /// The number of bytes that the reservation covers.
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved
    }
}

/// The bytes without spare capacity. They are copied if there is some, because an allocator that shrinks a block in place, as
/// mimalloc does down to half of it, keeps the rest.
fn exact(bytes: Vec<u8>) -> Box<[u8]> {
    if bytes.capacity() == bytes.len() {
        bytes.into_boxed_slice()
    } else {
        Box::from(&bytes[..])
    }
}

/// Identifies the bytes of a body within this process. The key is random, so clients cannot construct two bodies with the same
/// digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BodyDigest(u128);

impl BodyDigest {
    pub(crate) fn of(body: &[u8]) -> Self {
        static KEY: OnceLock<[u64; 2]> = OnceLock::new();
        let [first, second] = KEY.get_or_init(|| {
            let random = RandomState::new();
            [random.hash_one(1), random.hash_one(2)]
        });
        let mut hasher = SipHasher24::new_with_keys(*first, *second);
        hasher.write(body);
        Self(hasher.finish128().as_u128())
    }
}

impl From<Bytes> for StoredBody {
    /// A body without a reservation. Storing it reserves its length.
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

/// A body that is received for one client, in pieces. Their memory is reserved.
#[derive(Debug)]
pub struct ReceivedBody {
    pieces: Vec<Bytes>,
    length: u64,
    room: Reservation,
}

impl ReceivedBody {
    /// No bytes yet. `room`: what is reserved already.
    pub fn new(room: Reservation) -> Self {
        Self {
            pieces: Vec::new(),
            length: 0,
            room,
        }
    }

    /// The number of bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Adds the next piece.
    pub fn push(&mut self, piece: Bytes) -> Result<(), OutOfBudget> {
        self.length += piece.len() as u64;
        let missing = self.length.saturating_sub(self.room.bytes());
        self.room.try_grow_for_client(missing)?;
        self.pieces.push(piece);
        Ok(())
    }

    /// The whole body in one buffer, with its reservation.
    pub fn joined(self) -> (Vec<u8>, Reservation) {
        let Self {
            pieces,
            length,
            mut room,
        } = self;
        room.shrink_to(length);
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or_default());
        // Each piece is freed once it is copied, so that both are hardly ever there in full.
        for piece in pieces {
            bytes.extend_from_slice(&piece);
        }
        (bytes, room)
    }
}

/// The restored body of a packed entry. All who need it at the same time share it, so that clients that do not read do not
/// multiply it; the last one frees it.
#[derive(Debug, Default)]
pub(crate) struct RestoredBody {
    in_use: Lock<Weak<BodyOwner>>,
}

impl RestoredBody {
    /// The body that is in use, else the one that `restore` returns. One thread restores at a time; the others wait for it.
    pub(crate) fn get_or_restore<E>(
        &self,
        restore: impl FnOnce() -> Result<(Vec<u8>, Reservation), E>,
    ) -> Result<StoredBody, E> {
        let mut in_use = self.in_use.lock();
        if let Some(owner) = in_use.upgrade() {
            return Ok(StoredBody::shared(owner));
        }
        let (bytes, reservation) = restore()?;
        let owner = Arc::new(BodyOwner::new(bytes, reservation));
        *in_use = Arc::downgrade(&owner);
        Ok(StoredBody::shared(owner))
    }
}

#[derive(Debug)]
struct BodyOwner {
    bytes: BodyBytes,
    reservation: Reservation,
}

#[derive(Debug)]
enum BodyBytes {
    Heap(Box<[u8]>),
    Pages(OwnPages),
}

impl BodyOwner {
    fn new(bytes: Vec<u8>, reservation: Reservation) -> Self {
        Self {
            bytes: BodyBytes::Heap(exact(bytes)),
            reservation,
        }
    }
}

impl AsRef<[u8]> for BodyOwner {
    fn as_ref(&self) -> &[u8] {
        match &self.bytes {
            BodyBytes::Heap(bytes) => bytes,
            BodyBytes::Pages(pages) => pages,
        }
    }
}

struct SharedOwner(Arc<BodyOwner>);

impl AsRef<[u8]> for SharedOwner {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}

/// The lengths of bodies in pages of their own, in bytes. Sending a shorter one copies it in less time; a longer one does not fit
/// into the queue of a socket.
const SENT_FROM_PAGES: RangeInclusive<usize> = 64 * 1024..=640 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::MemoryBudget;

    #[test]
    fn the_last_clone_gives_the_reservation_back() {
        let budget = MemoryBudget::new(100);
        let chunks = [Bytes::from_static(b"ab"), Bytes::from_static(b"c")];
        let body = StoredBody::join(&chunks, budget.try_reserve(0).unwrap()).unwrap();
        let slow_reader = body.bytes().slice(1..);
        assert_eq!((&body.bytes()[..], body.reserved_bytes()), (&b"abc"[..], 3));
        drop(body);
        assert_eq!(budget.used(), 3, "a slice still holds all of it");
        drop(slow_reader);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_long_body_is_in_pages_of_its_own_while_there_are_any() {
        let budget = MemoryBudget::new(1 << 30);
        let body = |length: usize| {
            let room = budget.try_reserve(length as u64).unwrap();
            StoredBody::in_pages(vec![7; length], room)
        };
        let [shortest, longest] = [*SENT_FROM_PAGES.start(), *SENT_FROM_PAGES.end()];
        for (length, is_in_pages) in [
            (0, false),
            (shortest - 1, false),
            (shortest + 1, true),
            (longest, true),
            (longest + 1, false),
        ] {
            let body = body(length);
            assert_eq!(body.pages().is_some(), is_in_pages, "{length}");
            assert!(body.pages().is_none_or(|pages| **pages == *body.bytes()));
            assert!(*body.bytes() == vec![7; length], "{length}");
            // Whole pages are counted, until the last clone is gone.
            let counted = if is_in_pages {
                OwnPages::size_of(length)
            } else {
                length
            };
            assert_eq!(budget.used(), counted as u64, "{length}");
            let slow_reader = body.bytes().clone();
            drop(body);
            assert_eq!(budget.used(), counted as u64, "{length}");
            drop(slow_reader);
            assert_eq!(budget.used(), 0, "{length}");
        }
        let all: Vec<OwnPages> = (0..=1 << 20)
            .map_while(|_| OwnPages::copy_of(b"a").ok())
            .collect();
        let other = body(shortest);
        assert!(other.pages().is_none() && other.bytes().len() == shortest);
        drop(all);
        assert!(body(shortest).pages().is_some());
    }
}
