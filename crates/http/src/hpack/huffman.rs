//! The Huffman code of strings (RFC 7541 section 5.2 and appendix B).
//!
//! It is canonical: the codes follow from their lengths alone. Short codes, which make up nearly all of a head, are looked
//! up by the next nine bits; longer ones are found by their length.

use super::error::HpackError::{self, Malformed};

/// Appends the decoded text of `coded`.
pub(super) fn decode(coded: &[u8], into: &mut Vec<u8>) -> Result<(), HpackError> {
    // No code is shorter than five bits.
    into.reserve(coded.len() / 5 * 8 + 8);
    let mut bytes = coded.iter();
    // The unread bits are the most significant ones.
    let (mut bits, mut count) = (0_u64, 0_u32);
    loop {
        while count <= u64::BITS - 8
            && let Some(byte) = bytes.next()
        {
            bits |= u64::from(*byte) << (u64::BITS - 8 - count);
            count += 8;
        }
        let (symbol, length) = next(bits);
        if length > count {
            // The rest is padding: fewer than eight one bits.
            let is_padding = count < 8 && bits.leading_ones() >= count;
            return is_padding.then_some(()).ok_or(Malformed);
        }
        // The last symbol marks the end of a string, and must not occur in one.
        into.push(u8::try_from(symbol).map_err(|_| Malformed)?);
        bits <<= length;
        count -= length;
    }
}

/// The symbol of the leading code, and the length of the code.
fn next(bits: u64) -> (u16, u32) {
    let prefix = usize::try_from(bits >> (u64::BITS - SHORT)).unwrap_or_default();
    match SHORT_CODES.get(prefix) {
        Some(&(symbol, length)) if length > 0 => (symbol, length),
        _ => long(bits),
    }
}

#[cold]
fn long(bits: u64) -> (u16, u32) {
    for length in SHORT + 1..=MAX_CODE_BITS {
        let code = u32::try_from(bits >> (u64::BITS - length)).unwrap_or(u32::MAX);
        let Some(row) = BY_LENGTH.get(length as usize) else {
            break;
        };
        let place = code.wrapping_sub(row.first);
        if place < row.count {
            let symbol = IN_ORDER.get((row.before + place) as usize);
            return (symbol.copied().unwrap_or(END), length);
        }
    }
    (END, MAX_CODE_BITS)
}

/// The codes of one length.
#[derive(Clone, Copy)]
struct CodeRow {
    first: u32,
    count: u32,
    /// The number of shorter codes.
    before: u32,
}

/// Bits of the prefix that is looked up in the table.
const SHORT: u32 = 9;
const MAX_CODE_BITS: u32 = 30;
/// The end-of-string symbol.
const END: u16 = 256;

/// The lengths of the codes of all symbols.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// All symbols, sorted by the length of the code, then by symbol.
static IN_ORDER: [u16; 257] = {
    let mut order = [0; 257];
    let mut place = 0;
    let mut length = 0;
    while length <= MAX_CODE_BITS {
        let mut symbol = 0;
        while symbol <= END {
            if LENGTHS[symbol as usize] as u32 == length {
                order[place] = symbol;
                place += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    order
};

static BY_LENGTH: [CodeRow; MAX_CODE_BITS as usize + 1] = {
    let none = CodeRow {
        first: 0,
        count: 0,
        before: 0,
    };
    let mut rows = [none; MAX_CODE_BITS as usize + 1];
    let (mut code, mut before, mut length) = (0, 0, 1);
    while length <= MAX_CODE_BITS as usize {
        code <<= 1;
        let (mut count, mut symbol) = (0, 0);
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as usize == length {
                count += 1;
            }
            symbol += 1;
        }
        rows[length] = CodeRow {
            first: code,
            count,
            before,
        };
        code += count;
        before += count;
        length += 1;
    }
    rows
};

/// For each prefix of nine bits: the symbol that it begins with, and the length of the code; 0: the code is longer.
static SHORT_CODES: [(u16, u32); 1 << SHORT] = {
    let mut codes = [(0, 0); 1 << SHORT];
    let mut length = 1;
    while length <= SHORT {
        let row = BY_LENGTH[length as usize];
        let mut place = 0;
        while place < row.count {
            let from = (row.first + place) << (SHORT - length);
            let mut at = from;
            while at < from + (1 << (SHORT - length)) {
                codes[at as usize] = (IN_ORDER[(row.before + place) as usize], length);
                at += 1;
            }
            place += 1;
        }
        length += 1;
    }
    codes
};

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits = String::new();
        for byte in text {
            let length = usize::from(LENGTHS[usize::from(*byte)]);
            let row = BY_LENGTH[length];
            let place = IN_ORDER
                .iter()
                .position(|s| *s == u16::from(*byte))
                .unwrap();
            let code = row.first + u32::try_from(place).unwrap() - row.before;
            write!(bits, "{code:0length$b}").unwrap();
        }
        while !bits.len().is_multiple_of(8) {
            bits.push('1');
        }
        let bytes = bits.as_bytes().chunks(8);
        bytes
            .map(|bits| u8::from_str_radix(std::str::from_utf8(bits).unwrap(), 2).unwrap())
            .collect()
    }

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, HpackError> {
        let mut text = Vec::new();
        decode(coded, &mut text).map(|()| text)
    }

    #[test]
    fn the_examples_of_the_rfc_are_decoded() {
        // RFC 7541 appendix C.4 and C.6.
        let coded = [
            0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff,
        ];
        assert_eq!(decoded(&coded).unwrap(), b"www.example.com");
        assert_eq!(encode(b"www.example.com"), coded);
        let coded = [
            0xd0, 0x7a, 0xbe, 0x94, 0x10, 0x54, 0xd4, 0x44, 0xa8, 0x20, 0x05, 0x95, 0x04, 0x0b,
            0x81, 0x66, 0xe0, 0x82, 0xa6, 0x2d, 0x1b, 0xff,
        ];
        assert_eq!(decoded(&coded).unwrap(), b"Mon, 21 Oct 2013 20:13:21 GMT");
        assert_eq!(decoded(b"").unwrap(), b"");
    }

    #[test]
    fn invalid_padding_and_symbols_are_malformed() {
        // Padding of zeros, eight bits of padding, and the end-of-string symbol.
        for coded in [
            &[0b0000_0000_u8][..],
            &[0b0000_0111, 0xff],
            &[0xff],
            &[0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
        ] {
            assert_eq!(decoded(coded), Err(Malformed), "{coded:?}");
        }
        assert_eq!(decoded(&[0b0000_0111]).unwrap(), b"0");
    }

    proptest! {
        #[test]
        fn every_text_survives_a_round_trip(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(decoded(&encode(&text)).unwrap(), text);
        }

        // The text is encoded as an encoder would have written it: each text has only one coding.
        #[test]
        fn any_bytes_are_decoded_or_rejected(coded in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(text) = decoded(&coded) {
                prop_assert_eq!(encode(&text), coded);
            }
        }
    }
}
