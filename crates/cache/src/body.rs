//! Body bytes that know whether the memory budget already counts them.
//!
//! A body that came out of a fill carries its reservation inside the shared buffer, so it is given back when the last
//! clone of the `Bytes` is dropped, wherever that is: in an entry, or in the hand of a slow reader.

use bytes::Bytes;

use crate::budget::Reservation;

/// The whole body of a response, in one piece.
#[derive(Clone, Debug, Default)]
pub struct StoredBody {
    bytes: Bytes,
    reserved: u64,
}

impl StoredBody {
    /// A body whose memory `reservation` pays for as long as any clone of it lives.
    pub fn reserved(bytes: Vec<u8>, reservation: Reservation) -> Self {
        let reserved = reservation.bytes();
        // Boxed, so that no spare capacity is held beyond what was reserved.
        let owner = BodyOwner {
            bytes: bytes.into_boxed_slice(),
            _reservation: reservation,
        };
        Self {
            bytes: Bytes::from_owner(owner),
            reserved,
        }
    }

    /// One body out of pieces: one copy, after which the pieces' own buffers are no longer needed.
    pub(crate) fn join(chunks: &[Bytes], length: usize, reservation: Reservation) -> Self {
        let mut bytes = Vec::with_capacity(length);
        for chunk in chunks {
            bytes.extend_from_slice(chunk);
        }
        Self::reserved(bytes, reservation)
    }

    /// The bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// How many of the bytes a reservation pays for.
    pub fn reserved_bytes(&self) -> u64 {
        self.reserved
    }

    /// The inverse of [`StoredBody::into_parts`].
    pub(crate) fn from_parts(bytes: Bytes, reserved: u64) -> Self {
        Self { bytes, reserved }
    }

    /// The bytes, and how many of them the budget counts already.
    pub(crate) fn into_parts(self) -> (Bytes, u64) {
        (self.bytes, self.reserved)
    }
}

impl From<Bytes> for StoredBody {
    /// A body that no reservation pays for yet; storing it reserves its length.
    fn from(bytes: Bytes) -> Self {
        Self { bytes, reserved: 0 }
    }
}

struct BodyOwner {
    bytes: Box<[u8]>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for BodyOwner {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::MemoryBudget;

    #[test]
    fn the_last_clone_gives_the_reservation_back() {
        let budget = MemoryBudget::new(100);
        let chunks = [Bytes::from_static(b"ab"), Bytes::from_static(b"c")];
        let body = StoredBody::join(&chunks, 3, budget.try_reserve(3).unwrap());
        let slow_reader = body.bytes().slice(1..);
        let (bytes, reserved) = body.into_parts();
        assert_eq!((&bytes[..], reserved), (&b"abc"[..], 3));
        drop(bytes);
        assert_eq!(budget.used(), 3, "a slice still holds all of it");
        drop(slow_reader);
        assert_eq!(budget.used(), 0);
    }
}
