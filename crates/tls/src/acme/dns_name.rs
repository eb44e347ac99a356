//! DNS names in their wire format and in their canonical form for signatures (RFC 1035 section 3.1, RFC 4034 section 6.2).

/// A name in lower case in wire format: each label after its length, then a zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DnsName(Vec<u8>);

impl DnsName {
    /// Reads `_acme-challenge.example.com`, with or without a final dot. `None`: the name is invalid.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('.').unwrap_or(text);
        let mut bytes = Vec::with_capacity(text.len() + 2);
        for label in text.split('.') {
            let length = u8::try_from(label.len()).ok()?;
            let is_plain = label
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
            if !(1..=MAX_LABEL).contains(&length) || !is_plain {
                return None;
            }
            bytes.push(length);
            bytes.extend(label.bytes().map(|byte| byte.to_ascii_lowercase()));
        }
        bytes.push(0);
        (bytes.len() <= MAX_NAME).then_some(Self(bytes))
    }

    /// The name in wire format.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The bytes after the name at the beginning of `bytes`, which may end with a pointer. `None`: the name is invalid.
pub(super) fn skip(bytes: &[u8]) -> Option<&[u8]> {
    let mut rest = bytes;
    loop {
        match rest {
            [0, rest @ ..] | [0xc0..=0xff, _, rest @ ..] => return Some(rest),
            [length @ 1..=MAX_LABEL, label @ ..] => {
                rest = label.get(usize::from(*length)..)?;
            }
            _ => return None,
        }
    }
}

/// The limits of RFC 1035 section 2.3.4, in bytes.
const MAX_LABEL: u8 = 63;
const MAX_NAME: usize = 255;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_are_encoded_as_labels() {
        let wanted: &[u8] = b"\x0f_acme-challenge\x07example\x03com\0";
        for text in [
            "_acme-challenge.example.com",
            "_ACME-challenge.Example.com.",
        ] {
            assert_eq!(DnsName::parse(text).unwrap().bytes(), wanted);
        }
        let long = "a".repeat(64);
        let many = "a.".repeat(128);
        for text in [
            "",
            ".",
            "a..b",
            ".a",
            "a b",
            "ä",
            long.as_str(),
            many.as_str(),
        ] {
            assert_eq!(DnsName::parse(text), None, "{text}");
        }
    }

    #[test]
    fn skipping_a_name_includes_its_pointer() {
        for (bytes, rest) in [
            (&b"\x01a\0rest"[..], Some(&b"rest"[..])),
            (b"\0rest", Some(b"rest")),
            (b"\x01a\xc0\x0crest", Some(b"rest")),
            (b"\xc0\x0crest", Some(b"rest")),
            (b"\x01a", None),
            (b"\x05a\0", None),
            (b"\xc0", None),
            (b"\x41a\0", None),
            (b"", None),
        ] {
            assert_eq!(skip(bytes), rest, "{bytes:?}");
        }
    }

    proptest! {
        #[test]
        fn encoded_names_are_skipped(text in "[a-z0-9_-]{1,63}(\\.[a-z0-9-]{1,63}){0,3}", rest: Vec<u8>) {
            if let Some(name) = DnsName::parse(&text) {
                let bytes = [name.bytes(), &rest].concat();
                prop_assert_eq!(skip(&bytes), Some(rest.as_slice()));
            }
        }
    }
}
