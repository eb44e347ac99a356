//! Byte classes of heads, sixteen bytes at a time.
//!
//! It uses registers that every processor of the architecture has (SSE2, NEON), so nothing is detected at run time. It only
//! determines the class of a byte; callers decide what the class means. A test compares every byte with [`crate::token`].

use wide::u8x16;

/// The control characters in 64 bytes: all below SP (including CR, LF and HTAB) and DEL. Bit n is byte n.
pub(crate) fn controls(block: &[u8; 64]) -> u64 {
    let (quarters, _) = block.as_chunks::<16>();
    quarters.iter().rev().fold(0, |marks, quarter| {
        marks << 16 | u64::from(controls_of(quarter))
    })
}

/// The number of bytes before the first that is not a letter, a digit or `-`; 16 if there is none.
///
/// Field names may contain other bytes, too, but hardly any client sends them: the caller then uses [`crate::token`].
pub(crate) fn usual_name(bytes: &[u8; 16]) -> usize {
    let others = !usual(bytes);
    others.trailing_zeros().min(16) as usize
}

/// Whether all bytes are visible ASCII.
pub(crate) fn is_visible(bytes: &[u8]) -> bool {
    let (chunks, rest) = bytes.as_chunks::<16>();
    let has_other = |chunk: &[u8; 16]| {
        chunk
            .iter()
            .fold(false, |other, byte| other | !byte.is_ascii_graphic())
    };
    let before = chunks
        .iter()
        .fold(false, |other, chunk| other | has_other(chunk));
    // Checks the last sixteen bytes once more: cheaper than checking the rest byte by byte.
    !before
        && bytes.last_chunk::<16>().map_or_else(
            || rest.iter().all(u8::is_ascii_graphic),
            |last| !has_other(last),
        )
}

/// Bit n: byte n is a control character.
fn controls_of(bytes: &[u8; 16]) -> u16 {
    let bytes = u8x16::new(*bytes);
    mask(is_at_most(bytes, 0x1f) | bytes.simd_eq(u8x16::splat(0x7f)))
}

/// Bit n: byte n is a letter, a digit or `-`.
fn usual(bytes: &[u8; 16]) -> u16 {
    let bytes = u8x16::new(*bytes);
    let lower = bytes | u8x16::splat(0x20);
    let letter = is_at_most(lower - u8x16::splat(b'a'), 25);
    let digit = is_at_most(bytes - u8x16::splat(b'0'), 9);
    mask(letter | digit | bytes.simd_eq(u8x16::splat(b'-')))
}

fn is_at_most(bytes: u8x16, most: u8) -> u8x16 {
    bytes.min(u8x16::splat(most)).simd_eq(bytes)
}

fn mask(bytes: u8x16) -> u16 {
    let [low, high, ..] = bytes.to_bitmask().to_le_bytes();
    u16::from_le_bytes([low, high])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::{is_token_byte, is_value_byte};

    #[test]
    fn classes_match_the_token_tables_for_every_byte() {
        for byte in 0..=255_u8 {
            for place in 0..16 {
                let mut bytes = [b'a'; 16];
                bytes[place] = byte;
                let bit = |is: bool| u16::from(is) << place;
                assert_eq!(controls_of(&bytes), bit(byte.is_ascii_control()));
                let is_usual = byte.is_ascii_alphanumeric() || byte == b'-';
                assert_eq!(!usual(&bytes), bit(!is_usual), "{byte:#x}");
                assert_eq!(is_visible(&bytes), byte.is_ascii_graphic(), "{byte:#x}");
            }
            let is_usual = usual_name(&[byte; 16]) == 16;
            assert!(!is_usual || is_token_byte(byte), "{byte:#x}");
            let is_control = controls(&[byte; 64]) != 0;
            assert_eq!(is_control && byte != b'\t', !is_value_byte(byte));
        }
    }

    #[test]
    fn positions_are_counted_from_the_first_byte() {
        let mut block = [b' '; 64];
        for place in [0, 15, 16, 40, 63] {
            block[place] = b'\r';
            assert_eq!(controls(&block), 1 << place);
            block[place] = b' ';
        }
        assert_eq!(usual_name(b"host: a.example "), 4);
        assert_eq!(usual_name(b":host: a.example"), 0);
    }

    #[test]
    fn bytes_after_the_last_full_block_are_checked() {
        for length in 0..40 {
            let mut bytes = vec![b'x'; length];
            assert!(is_visible(&bytes));
            for place in 0..length {
                bytes[place] = b' ';
                assert!(!is_visible(&bytes), "{place} of {length}");
                bytes[place] = b'x';
            }
        }
    }
}
