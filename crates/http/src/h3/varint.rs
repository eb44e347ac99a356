//! Integers of QUIC (RFC 9000 section 16): the first two bits are the length of the rest.

/// Reads an integer from the front of `input`; `None` if it is incomplete.
pub(super) fn read(input: &mut &[u8]) -> Option<u64> {
    let (first, _) = input.split_first()?;
    let (bytes, rest) = input.split_at_checked(1 << (first >> 6))?;
    *input = rest;
    let all = |number: u64, byte: &u8| (number << 8) | u64::from(*byte);
    let first = u64::from(first & 0x3f);
    Some(bytes.iter().skip(1).fold(first, all))
}

/// Appends an integer in its shortest form; larger ones than [`MOST`] become it.
pub(super) fn write(out: &mut Vec<u8>, number: u64) {
    let number = number.min(MOST);
    let log_length = match number {
        0..0x40 => 0,
        0x40..0x4000 => 1,
        0x4000..0x4000_0000 => 2,
        _ => 3,
    };
    let bytes = (number | (log_length << ((8 << log_length) - 2))).to_be_bytes();
    out.extend_from_slice(bytes.get(8 - (1 << log_length)..).unwrap_or_default());
}

/// The largest integer.
pub(super) const MOST: u64 = (1 << 62) - 1;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 9000 appendix A.1.
    #[test]
    fn the_examples_of_the_rfc_are_read() {
        for (mut bytes, number) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
        ] {
            let mut written = Vec::new();
            write(&mut written, number);
            assert_eq!(written, bytes);
            assert_eq!((read(&mut bytes), bytes.len()), (Some(number), 0));
        }
        assert_eq!(read(&mut &[0x40, 0x25][..]), Some(37));
        assert_eq!(read(&mut &[][..]), None);
    }

    proptest! {
        #[test]
        fn every_integer_survives_a_round_trip(number in 0..=MOST) {
            let mut written = Vec::new();
            write(&mut written, number);
            let (_, short) = written.split_last().unwrap();
            prop_assert_eq!(read(&mut { short }), None);
            prop_assert_eq!(read(&mut written.as_slice()), Some(number));
        }
    }
}
