//! Fast search for bytes of a class, sixteen at a time, and fast comparison of names.
//!
//! A plain loop compares byte by byte if it may end early; otherwise it leaves up to fifteen bytes for a remainder loop.
//! These functions have no branch for each byte and no remainder, so the compiler emits a few vector instructions.

/// Whether `is` is true for any byte. It should consist of comparisons only.
pub fn has(bytes: &[u8], is: impl Fn(u8) -> bool) -> bool {
    let of = |chunk: &[u8; 16]| chunk.iter().fold(false, |found, &byte| found | is(byte));
    let Some(last) = bytes.last_chunk::<16>() else {
        let of = |chunk: &[u8]| chunk.iter().fold(false, |found, &byte| found | is(byte));
        return match (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
            (Some(first), Some(last)) => of(first) | of(last),
            _ => of(bytes),
        };
    };
    let (chunks, _) = bytes.as_chunks::<16>();
    // The last sixteen bytes overlap the chunks, which costs less than a loop over the remaining ones.
    chunks
        .iter()
        .fold(of(last), |found, chunk| found | of(chunk))
}

/// Whether `is` is true for any byte and the next one.
pub fn has_pair(bytes: &[u8], is: impl Fn(u8, u8) -> bool) -> bool {
    let of = |chunk: &[u8; 17]| {
        let pairs = chunk.iter().zip(chunk.iter().skip(1));
        pairs.fold(false, |found, (&one, &next)| found | is(one, next))
    };
    let Some(last) = bytes.last_chunk::<17>() else {
        let pairs = bytes.iter().zip(bytes.iter().skip(1));
        return pairs.fold(false, |found, (&one, &next)| found | is(one, next));
    };
    let mut classes = of(last);
    let mut rest = bytes;
    while let Some(chunk) = rest.first_chunk::<17>() {
        classes |= of(chunk);
        rest = rest.get(16..).unwrap_or_default();
    }
    classes
}

/// Whether the name of a field is `lower`, which is in lower case. Equivalent to `eq_ignore_ascii_case` for tokens (RFC 9110
/// section 5.6.2), but takes a few instructions instead of a loop over bytes.
pub fn is_name<const LENGTH: usize>(token: &[u8], lower: &[u8; LENGTH]) -> bool {
    // With that bit set, no byte of a token becomes a letter, a digit or `-`, except the capital of the letter.
    let differ = |token: &[u8; LENGTH]| {
        let pairs = token.iter().zip(lower);
        pairs.fold(0, |bits, (one, other)| bits | ((one | 0x20) ^ other)) != 0
    };
    token.try_into().is_ok_and(|token| !differ(token))
}

/// Whether a byte is a `tchar` (RFC 9110 section 5.6.2).
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_equal_in_any_case() {
        for byte in (0..=255_u8).filter(u8::is_ascii_graphic) {
            let is_token = byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
            for lower in b"abcdefghijklmnopqrstuvwxyz0123456789-" {
                let is_same = byte.eq_ignore_ascii_case(lower);
                if is_token {
                    assert_eq!(is_name(&[byte], &[*lower]), is_same, "{byte:#x}");
                }
            }
        }
        assert!(is_name(b"Accept-Encoding", b"accept-encoding"));
        assert!(!is_name(b"Accept-Encodin", b"accept-encoding"));
        assert!(!is_name(b"", b"a") && is_name(b"", b""));
    }

    #[test]
    fn every_position_is_examined() {
        for length in 0..70 {
            let mut text = vec![b'a'; length];
            assert!(!has(&text, |byte| byte == b'x'));
            for place in 0..length {
                text[place] = b'x';
                assert!(has(&text, |byte| byte == b'x'), "{place} of {length}");
                let begins = has_pair(&text, |one, next| one == b'x' && next == b'a');
                assert_eq!(begins, place + 1 < length, "{place} of {length}");
                let ends = has_pair(&text, |one, next| one == b'a' && next == b'x');
                assert_eq!(ends, place > 0, "{place} of {length}");
                text[place] = b'a';
            }
        }
    }
}
