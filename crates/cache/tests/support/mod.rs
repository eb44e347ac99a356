//! Bodies of test entries, for the tests of the disk and of the cache model.

use std::sync::Arc;

use galley_cache::disk::{DiskLookup, OnDisk};
use galley_cache::entry::Entry;

/// Pseudorandom bytes from a seed, so that wrong bytes are detected.
pub fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| next()).collect();
    bytes.truncate(length);
    bytes
}

/// The entry and its complete body; `None` if there is no entry or its body cannot be read completely.
pub fn read_body(lookup: DiskLookup) -> Option<(Arc<Entry>, Vec<u8>)> {
    match lookup {
        DiskLookup::Absent => None,
        DiskLookup::Found(OnDisk::Whole(entry)) => {
            let body = entry.body().unwrap().to_vec();
            Some((entry, body))
        }
        DiskLookup::Found(OnDisk::Pieces(entry, pieces)) => {
            let mut body = Vec::new();
            while (body.len() as u64) < pieces.length() {
                let piece = pieces.read(&(body.len() as u64..pieces.length())).ok()?;
                assert!(!piece.is_empty(), "no progress");
                body.extend_from_slice(&piece);
            }
            Some((entry, body))
        }
    }
}
