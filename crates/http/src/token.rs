//! The byte classes of HTTP fields (RFC 9110 section 5.6.2 and 5.5).
//!
//! There is one table for parsing and writing, so what is rejected from a client can also not be sent to one.

/// Whether the byte may occur in a token: a method, a field name, a transfer coding.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    TOKEN.get(usize::from(byte)).copied().unwrap_or_default()
}

/// Whether all of it is one token; an empty one is not.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// Whether a token is the name `lower`, which is written in lower case.
pub(crate) fn is_name<const LENGTH: usize>(token: &[u8], lower: &[u8; LENGTH]) -> bool {
    // No byte of a token becomes a letter, a digit or `-` by that bit but the capital of the letter.
    let differ = |token: &[u8; LENGTH]| {
        let pairs = token.iter().zip(lower);
        pairs.fold(0, |bits, (one, other)| bits | ((one | 0x20) ^ other)) != 0
    };
    token.try_into().is_ok_and(|token| !differ(token))
}

/// Whether the byte may occur in a field value: HTAB, SP, visible ASCII and the obs-text bytes; no other control.
pub(crate) fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// The members of a comma list without the white space around them. Empty members are returned too: their meaning depends on
/// the field. Quoted strings are not supported: for fields whose members are tokens.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim)
}

/// Without the optional white space (SP and HTAB, nothing else) at both ends.
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let allowed = b"!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut at = 0;
    while at < allowed.len() {
        table[allowed[at] as usize] = true;
        at += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_those_of_rfc_9110() {
        assert!(is_token(b"Content-Length") && is_token(b"!#$%&'*+-.^_`|~09azAZ"));
        assert!(!is_token(b""));
        for byte in b"\0\t\r\n \"(),/:;<=>?@[\\]{}\x7f\x80\xff" {
            assert!(!is_token_byte(*byte), "{byte:#x}");
        }
    }

    #[test]
    fn values_have_no_controls_but_the_tab() {
        for byte in 0..=255 {
            let control = byte < b' ' || byte == 0x7f;
            assert_eq!(is_value_byte(byte), !control || byte == b'\t', "{byte:#x}");
        }
    }

    #[test]
    fn members_are_trimmed_and_empty_ones_kept() {
        let found: Vec<_> = members(b" a,\tb c ,,d\t").collect();
        assert_eq!(found, [&b"a"[..], b"b c", b"", b"d"]);
        assert_eq!(trim(b"\x0ba\xa0"), b"\x0ba\xa0");
        assert_eq!(trim(b" \t "), b"");
    }
}
