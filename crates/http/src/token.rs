//! The byte classes of HTTP fields (RFC 9110 sections 5.5 and 5.6.2).
//!
//! Parsing and writing use the same table, so Galley cannot send what it rejects from clients.

/// Whether the byte may occur in a token: a method, a field name, a transfer coding.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    TOKEN.get(usize::from(byte)).copied().unwrap_or_default()
}

/// Whether the bytes are one token; an empty slice is not.
pub(crate) fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().all(|&byte| is_token_byte(byte))
}

/// Whether a token equals the name `lower`, ignoring case. `lower` is in lower case.
pub(crate) fn is_name<const LENGTH: usize>(token: &[u8], lower: &[u8; LENGTH]) -> bool {
    // Among the bytes of tokens, only a capital becomes a letter, a digit or `-` when this bit is set.
    let differ = |token: &[u8; LENGTH]| {
        let pairs = token.iter().zip(lower);
        pairs.fold(0, |bits, (one, other)| bits | ((one | 0x20) ^ other)) != 0
    };
    token.try_into().is_ok_and(|token| !differ(token))
}

/// Whether the byte may occur in a field value: HTAB, SP, visible ASCII and obs-text; no other control character.
pub(crate) fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// The members of a comma-separated list, trimmed. Empty members are returned, too: their meaning depends on the field.
/// Quoted strings are not supported, so use it only for fields whose members are tokens.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim)
}

/// Removes the optional white space (only SP and HTAB) at both ends.
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
    fn token_bytes_match_rfc_9110() {
        assert!(is_token(b"Content-Length") && is_token(b"!#$%&'*+-.^_`|~09azAZ"));
        assert!(!is_token(b""));
        for byte in b"\0\t\r\n \"(),/:;<=>?@[\\]{}\x7f\x80\xff" {
            assert!(!is_token_byte(*byte), "{byte:#x}");
        }
    }

    #[test]
    fn values_allow_no_control_character_but_tab() {
        for byte in 0..=255 {
            let control = byte < b' ' || byte == 0x7f;
            assert_eq!(is_value_byte(byte), !control || byte == b'\t', "{byte:#x}");
        }
    }

    #[test]
    fn members_are_trimmed_and_empty_members_are_kept() {
        let found: Vec<_> = members(b" a,\tb c ,,d\t").collect();
        assert_eq!(found, [&b"a"[..], b"b c", b"", b"d"]);
        assert_eq!(trim(b"\x0ba\xa0"), b"\x0ba\xa0");
        assert_eq!(trim(b" \t "), b"");
    }
}
