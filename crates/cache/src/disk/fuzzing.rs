//! Parses arbitrary bytes as the file of a stored page: unchanged, and with correct magic, lengths and checksums, so that the
//! code after the checks is reached.

use super::format;
use super::layout::{self, FIXED};
use super::seal::DirectoryKey;

/// Panics if a parser of the format panics.
pub fn disk_entry(bytes: &[u8]) {
    let seal = DirectoryKey::new([7; 16]);
    read(bytes, &seal);
    if bytes.len() < FIXED {
        return;
    }
    let mut sealed = bytes.to_vec();
    sealed[..6].copy_from_slice(&layout::fuzzing_beginning());
    let length = u32::try_from(sealed.len() - FIXED).unwrap_or(u32::MAX);
    sealed[172..176].copy_from_slice(&length.to_le_bytes());
    layout::seal_header(&mut sealed, 0, &[], &seal);
    read(&sealed, &seal);
}

fn read(bytes: &[u8], seal: &DirectoryKey) {
    let Ok(fixed) = layout::fixed(bytes) else {
        return;
    };
    let (header, rest) = match bytes.split_at_checked(fixed.layout.header) {
        Some(parts) => parts,
        None => return,
    };
    let _ = format::stored(header, seal);
    if let Ok(sums) = layout::sums(rest, &fixed, seal) {
        let _ = layout::check(rest, &sums, seal);
    }
}
