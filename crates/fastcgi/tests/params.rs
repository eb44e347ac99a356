//! The PARAMS stream: a responder reads what was written.

#[path = "responder_side/params.rs"]
mod params;
#[path = "responder_side/records.rs"]
mod records;

use galley_fastcgi::Error;
use galley_fastcgi::params::{MAX_BYTES, write};
use galley_fastcgi::record::{MAX_CONTENT, RecordType};
use proptest::prelude::*;

use self::params::read;
use self::records::{ParsedRecord, parse};

/// Joins the content of the PARAMS records, and checks that the stream ends exactly at the end.
fn joined(mut bytes: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    loop {
        let Ok(ParsedRecord::Whole {
            header,
            content,
            length,
        }) = parse(bytes)
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
