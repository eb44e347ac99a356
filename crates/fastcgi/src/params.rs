//! Name-value pairs of the PARAMS stream (specification section 3.4).
//!
//! Each pair is name length, value length, name, value. A length below 128 is one byte; a longer one is four bytes
//! big-endian with the highest bit set, so at most 2^31 - 1. The pairs form one stream: a pair may span records. The caller
//! decides which variables are sent, and ensures that clients cannot define them.

use bytes::BufMut;

use crate::Error;
use crate::record::{self, RecordType};

/// The maximum encoded size of all pairs of a request, in bytes. Request heads have a much lower limit; this one bounds the
/// output buffer, which is filled before the first write.
pub const MAX_BYTES: usize = 1024 * 1024;

/// Appends the whole PARAMS stream with its final empty record. `out` is not changed on [`Error::Variables`].
pub fn write(
    out: &mut impl BufMut,
    variables: &[(impl AsRef<[u8]>, impl AsRef<[u8]>)],
) -> Result<(), Error> {
    let pairs = || {
        variables
            .iter()
            .map(|(name, value)| (name.as_ref(), value.as_ref()))
    };
    let bytes = pairs().fold(0_usize, |sum, (name, value)| {
        sum.saturating_add(encoded_length(name, value))
    });
    if bytes > MAX_BYTES {
        return Err(Error::Variables { bytes });
    }
    let mut all = Vec::with_capacity(bytes);
    for (name, value) in pairs() {
        write_length(&mut all, name.len());
        write_length(&mut all, value.len());
        all.put_slice(name);
        all.put_slice(value);
    }
    record::write_stream(out, RecordType::Params, &all);
    record::write_stream_end(out, RecordType::Params);
    Ok(())
}

/// Decodes the joined content of a PARAMS stream, for the responder's side. `None` if it is incomplete or a length exceeds
/// the rest.
pub fn read(mut stream: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut pairs = Vec::new();
    while !stream.is_empty() {
        let name_length = read_length(&mut stream)?;
        let value_length = read_length(&mut stream)?;
        let (name, rest) = stream.split_at_checked(name_length)?;
        let (value, rest) = rest.split_at_checked(value_length)?;
        pairs.push((name.to_vec(), value.to_vec()));
        stream = rest;
    }
    Some(pairs)
}

fn encoded_length(name: &[u8], value: &[u8]) -> usize {
    let prefix = |length: usize| if length < LONG { 1 } else { 4 };
    prefix(name.len()) + prefix(value.len()) + name.len() + value.len()
}

/// Appends a length, which is below [`MAX_BYTES`] and hence below 2^31.
fn write_length(out: &mut Vec<u8>, length: usize) {
    match u8::try_from(length) {
        Ok(short) if length < LONG => out.push(short),
        _ => out.put_u32(u32::try_from(length).unwrap_or(u32::MAX) | LONG_FLAG),
    }
}

fn read_length(stream: &mut &[u8]) -> Option<usize> {
    let (&first, rest) = stream.split_first()?;
    if usize::from(first) < LONG {
        *stream = rest;
        return Some(usize::from(first));
    }
    let (four, rest) = stream.split_first_chunk::<4>()?;
    *stream = rest;
    usize::try_from(u32::from_be_bytes(*four) & !LONG_FLAG).ok()
}

/// The first length that needs four bytes.
const LONG: usize = 128;
const LONG_FLAG: u32 = 1 << 31;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::{MAX_CONTENT, ParsedRecord};

    /// Joins the content of the PARAMS records, and checks that the stream ends exactly at the end.
    fn joined(mut bytes: &[u8]) -> Vec<u8> {
        let mut stream = Vec::new();
        loop {
            let Ok(ParsedRecord::Whole {
                header,
                content,
                length,
            }) = record::parse(bytes)
            else {
                panic!("cut stream")
            };
            assert_eq!((header.code, header.id), (RecordType::Params.code(), 1));
            bytes = &bytes[length..];
            if content.is_empty() {
                assert!(bytes.is_empty());
                return stream;
            }
            stream.extend_from_slice(content);
        }
    }

    #[test]
    fn lengths_have_one_or_four_bytes() {
        for (length, prefix) in [
            (0, vec![0]),
            (127, vec![127]),
            (128, vec![0x80, 0, 0, 128]),
            (255, vec![0x80, 0, 0, 255]),
            (70_000, vec![0x80, 1, 0x11, 0x70]),
        ] {
            let mut out = Vec::new();
            write(&mut out, &[(b"A".to_vec(), vec![b'x'; length])]).unwrap();
            let stream = joined(&out);
            assert_eq!(stream[0], 1);
            assert_eq!(stream[1..=prefix.len()], prefix, "length {length}");
            assert_eq!(stream.len(), 1 + prefix.len() + 1 + length);
        }
    }

    #[test]
    fn a_pair_may_span_records() {
        let variables = vec![
            (b"FIRST".to_vec(), vec![b'a'; MAX_CONTENT - 20]),
            (vec![b'N'; 300], vec![b'b'; 200_000]),
        ];
        let mut out = Vec::new();
        write(&mut out, &variables).unwrap();
        assert_eq!(read(&joined(&out)), Some(variables));
    }

    #[test]
    fn too_many_bytes_are_rejected_before_anything_is_written() {
        let mut out = Vec::new();
        let result = write(&mut out, &[(b"A".to_vec(), vec![0; MAX_BYTES])]);
        assert!(matches!(result, Err(Error::Variables { bytes }) if bytes == MAX_BYTES + 6));
        assert!(out.is_empty());
        write(&mut out, &[(b"A".to_vec(), vec![0; MAX_BYTES - 6])]).unwrap();
    }

    #[test]
    fn incomplete_streams_are_rejected() {
        let mut out = Vec::new();
        write(&mut out, &[(b"NAME".to_vec(), vec![b'v'; 130])]).unwrap();
        let stream = joined(&out);
        for end in 1..stream.len() {
            assert_eq!(read(&stream[..end]), None, "cut at {end}");
        }
    }

    proptest! {
        #[test]
        fn read_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = read(&bytes);
        }

        #[test]
        fn pairs_round_trip(variables in proptest::collection::vec(
            (proptest::collection::vec(any::<u8>(), 0..300), proptest::collection::vec(any::<u8>(), 0..3000)), 0..40)) {
            let mut out = Vec::new();
            write(&mut out, &variables).unwrap();
            prop_assert_eq!(read(&joined(&out)), Some(variables));
        }
    }
}
