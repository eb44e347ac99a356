//! Escapes untrusted text in log lines.
//!
//! For any input, the output has no line break, no quote that ends a field early, and no terminal escape sequence. Each field is
//! truncated, so that one request cannot fill a disk.

use galley_policy::classes;

/// Appends `bytes` for a field in quotes: printable ASCII unchanged, every other byte, `"` and `\` as `\xHH`. Truncates the
/// input to [`MAX_BYTES`] bytes.
pub(super) fn quoted(out: &mut Vec<u8>, bytes: &[u8]) {
    ascii(out, bytes, |byte| {
        !matches!(byte, b' '..=b'~') || byte == b'"' || byte == b'\\'
    });
}

/// As [`quoted`], for an unquoted field, where a space is escaped as well.
pub(super) fn bare(out: &mut Vec<u8>, bytes: &[u8]) {
    ascii(out, bytes, |byte| {
        !matches!(byte, b'!'..=b'~') || byte == b'"' || byte == b'\\'
    });
}

/// Appends `bytes` as a JSON string with quotes (RFC 8259 section 7): invalid UTF-8 becomes U+FFFD, control characters become
/// `\u00HH`. Truncates the input to [`MAX_BYTES`] bytes.
pub(super) fn json(out: &mut Vec<u8>, bytes: &[u8]) {
    let (bytes, is_cut) = cut(bytes);
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                // DEL, C1 and the two line separators, which JSON permits but other readers treat as line ends.
                '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}' => unicode(out, c),
                c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    if is_cut {
        out.extend_from_slice(CUT);
    }
    out.push(b'"');
}

fn ascii(out: &mut Vec<u8>, bytes: &[u8], is_odd: impl Fn(u8) -> bool) {
    let (bytes, is_cut) = cut(bytes);
    // Nearly all fields need no escapes.
    if classes::has(bytes, &is_odd) {
        for &byte in bytes {
            if is_odd(byte) {
                out.extend_from_slice(&[b'\\', b'x', hex(byte >> 4), hex(byte & 15)]);
            } else {
                out.push(byte);
            }
        }
    } else {
        out.extend_from_slice(bytes);
    }
    if is_cut {
        out.extend_from_slice(CUT);
    }
}

/// Writes `\uHHHH`; only for characters of the basic plane.
fn unicode(out: &mut Vec<u8>, c: char) {
    let [_, _, high, low] = u32::from(c).to_be_bytes();
    out.extend_from_slice(b"\\u");
    for byte in [high, low] {
        out.extend_from_slice(&[hex(byte >> 4), hex(byte & 15)]);
    }
}

fn cut(bytes: &[u8]) -> (&[u8], bool) {
    match bytes.get(..MAX_BYTES) {
        Some(start) if bytes.len() > MAX_BYTES => (start, true),
        _ => (bytes, false),
    }
}

fn hex(nibble: u8) -> u8 {
    match nibble {
        0..=9 => b'0' + nibble,
        _ => b'a' + (nibble - 10),
    }
}

/// The maximum length of a field, in bytes: longer than any legitimate field that people read in a log.
pub(super) const MAX_BYTES: usize = 1024;
const CUT: &[u8] = b"...";

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn with(escape: impl Fn(&mut Vec<u8>, &[u8]), bytes: &[u8]) -> String {
        let mut out = Vec::new();
        escape(&mut out, bytes);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn forged_lines_stay_one_field() {
        let table: [(&[u8], &str, &str); 6] = [
            (b"/a?b=c", "/a?b=c", r#""/a?b=c""#),
            (b"a b", "a b", r#""a b""#),
            (
                b"\" 200 0 \"x\r\n",
                r"\x22 200 0 \x22x\x0d\x0a",
                r#""\" 200 0 \"x\u000d\u000a""#,
            ),
            (b"\\x22", r"\x5cx22", r#""\\x22""#),
            (b"\x1b[31m\x7f", r"\x1b[31m\x7f", r#""\u001b[31m\u007f""#),
            (b"\xc3\xa4\xff", r"\xc3\xa4\xff", "\"\u{e4}\u{fffd}\""),
        ];
        for (bytes, text, in_json) in table {
            assert_eq!(with(quoted, bytes), text);
            assert_eq!(with(json, bytes), in_json);
        }
        assert_eq!(with(bare, b"a b"), r"a\x20b");
        assert_eq!(with(json, "\u{2028}".as_bytes()), r#""\u2028""#);
    }

    #[test]
    fn long_fields_are_truncated() {
        let exact = "x".repeat(MAX_BYTES);
        assert_eq!(with(quoted, exact.as_bytes()), exact);
        assert_eq!(
            with(quoted, "x".repeat(MAX_BYTES + 1).as_bytes()),
            format!("{exact}...")
        );
        assert_eq!(
            with(json, "x".repeat(9 * MAX_BYTES).as_bytes()),
            format!("\"{exact}...\"")
        );
    }

    proptest! {
        #[test]
        fn quoted_text_is_printable_and_reversible(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let text = with(quoted, &bytes);
            prop_assert!(text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'"'));
            let mut back = Vec::new();
            let mut rest = text.as_bytes();
            while let [first, tail @ ..] = rest {
                if *first == b'\\' {
                    back.push(u8::from_str_radix(std::str::from_utf8(&tail[1..3]).unwrap(), 16).unwrap());
                    rest = &tail[3..];
                } else {
                    back.push(*first);
                    rest = tail;
                }
            }
            prop_assert_eq!(back, bytes);
        }

        #[test]
        fn json_is_a_string_of_one_line(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let text = with(json, &bytes);
            prop_assert!(!text.contains(['\n', '\r']));
            let read: String = serde_json::from_str(&text).unwrap();
            if bytes.len() <= MAX_BYTES {
                prop_assert_eq!(read, String::from_utf8_lossy(&bytes));
            }
        }
    }
}
