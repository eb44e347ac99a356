//! Decompresses the plain body of a stored page from its gzip form, and verifies it.
//!
//! One call decompresses the whole body into memory that was reserved before. It never returns more bytes than the page had, and
//! never different ones: the checksum of gzip and the page's digest must match.

use flate2::{Decompress, FlushDecompress, Status};
use galley_cache::budget::{MemoryBudget, Reservation};
use galley_cache::entry::{EncodedEntry, Entry};
use galley_policy::encoding::Coding;

/// Why a page cannot be unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// The memory limit is reached.
    #[error("the memory limit is reached")]
    NoMemory,
    /// The stored form is damaged, so the entry is useless.
    #[error("a stored compressed page is damaged")]
    Damaged,
}

/// Whether a page with these encoded forms can be packed.
pub fn is_packable(coded: &[EncodedEntry]) -> bool {
    form(coded).is_some()
}

/// The same page with its plain body, whose memory is reserved in `budget`. Clients that need it at the same time share it.
pub fn unpack(packed: &Entry, budget: &MemoryBudget) -> Result<Entry, UnpackError> {
    packed.unpacked(|| inflate(packed, budget))
}

fn form(coded: &[EncodedEntry]) -> Option<&EncodedEntry> {
    coded.iter().find(|one| one.coding == Coding::Gzip)
}

fn inflate(packed: &Entry, budget: &MemoryBudget) -> Result<(Vec<u8>, Reservation), UnpackError> {
    let form = form(packed.coded()).ok_or(UnpackError::Damaged)?;
    let length = usize::try_from(packed.length()).map_err(|_| UnpackError::Damaged)?;
    let reserve = |bytes| budget.try_reserve(bytes).ok_or(UnpackError::NoMemory);
    let _decoder = reserve(DECODER_MEMORY)?;
    let reservation = reserve(packed.length())?;
    let mut plain = Vec::with_capacity(length.saturating_add(SPARE_BYTES));
    let mut inflate = Decompress::new_gzip(WINDOW);
    let status = inflate.decompress_vec(form.body.bytes(), &mut plain, FlushDecompress::Finish);
    if !matches!(status, Ok(Status::StreamEnd)) || !packed.is_packed_form_of(&plain) {
        return Err(UnpackError::Damaged);
    }
    Ok((plain, reservation))
}

/// The window in bits; gzip has no other.
const WINDOW: u8 = 15;

/// Additional output bytes, so that the decoder reaches the end of the stream when the body is complete, and detects a body that is
/// too long.
const SPARE_BYTES: usize = 64;

/// The memory of the decoder with its window, in bytes.
const DECODER_MEMORY: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use galley_cache::entry::{CompressionStep, EntryParts};
    use http::HeaderMap;

    use super::*;
    use crate::encode;
    use galley_cache::testing;

    fn page(plain: &[u8]) -> Entry {
        Entry::new(EntryParts {
            body: Bytes::copy_from_slice(plain).into(),
            ..testing::page()
        })
    }

    fn packed(plain: &[u8], coded: Vec<u8>) -> Entry {
        let form = EncodedEntry::new(Coding::Gzip, &HeaderMap::new(), Bytes::from(coded).into());
        let page = page(plain).with_coded(&HeaderMap::new(), vec![form], CompressionStep::Quick);
        page.packed()
    }

    fn gzip(plain: &[u8]) -> Vec<u8> {
        encode::whole(plain, Coding::Gzip, 5, &|| {}).unwrap()
    }

    #[test]
    fn the_plain_body_is_restored_and_its_memory_is_reserved() {
        let budget = MemoryBudget::new(64 << 20);
        for length in [0, 1, 1000, 47_000, 1 << 20] {
            let plain: Vec<u8> = (0..length).map(|n: u32| (n % 251) as u8).collect();
            let packed = packed(&plain, gzip(&plain));
            assert!(packed.is_packed() && packed.body().is_none());
            assert_eq!(packed.length(), u64::from(length));
            let unpacked = unpack(&packed, &budget).unwrap();
            assert_eq!(unpacked.body().unwrap(), &plain[..]);
            assert_eq!(unpacked.weight(), packed.weight() + u64::from(length));
            assert_eq!(budget.used(), u64::from(length));
        }
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn clients_share_the_restored_body_while_one_of_them_needs_it() {
        let plain = vec![b'a'; 5000];
        let page = packed(&plain, gzip(&plain));
        // Memory for one.
        let budget = MemoryBudget::new(DECODER_MEMORY + 5000);
        let first = unpack(&page, &budget).unwrap().body().cloned().unwrap();
        let second = unpack(&page, &budget).unwrap().body().cloned().unwrap();
        assert_eq!(first.as_ptr(), second.as_ptr());
        drop(first);
        assert_eq!((budget.used(), &second[..]), (5000, &plain[..]));
        drop(second);
        assert_eq!(budget.used(), 0);
        assert!(unpack(&page, &budget).is_ok(), "restored again");
    }

    #[test]
    fn different_bytes_are_never_returned() {
        let budget = MemoryBudget::new(64 << 20);
        let plain = vec![b'a'; 5000];
        let coded = gzip(&plain);
        let damage = |at: usize| {
            let mut coded = coded.clone();
            coded[at] ^= 1;
            coded
        };
        let (longer, shorter, other) = (vec![b'a'; 5001], vec![b'a'; 4999], vec![b'b'; 5000]);
        let cut = coded[..coded.len() - 1].to_vec();
        let mut wrong: Vec<_> = (10..coded.len()).map(damage).collect();
        wrong.extend([gzip(&longer), gzip(&shorter), gzip(&other), cut, Vec::new()]);
        for coded in wrong {
            let outcome = unpack(&packed(&plain, coded), &budget);
            assert_eq!(outcome.err(), Some(UnpackError::Damaged));
        }
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn without_memory_nothing_is_unpacked() {
        let plain = vec![b'a'; 5000];
        let page = packed(&plain, gzip(&plain));
        for limit in [0, DECODER_MEMORY, DECODER_MEMORY + 4999] {
            let outcome = unpack(&page, &MemoryBudget::new(limit));
            assert_eq!(outcome.err(), Some(UnpackError::NoMemory));
        }
        assert!(unpack(&page, &MemoryBudget::new(DECODER_MEMORY + 5000)).is_ok());
    }
}
