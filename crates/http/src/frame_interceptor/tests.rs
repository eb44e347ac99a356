//! Tests: sorting of frames, connection errors, and the library's view of the connection.

use proptest::prelude::*;

use super::frame::*;
use super::*;
use crate::hpack::decode::HpackDecoder;
use crate::hpack::{self, Block};

/// A connection and the bytes that its library receives.
struct TestConnection {
    interceptor: FrameInterceptor,
    block: Block,
    through: Vec<u8>,
}

/// The heads that one call of [`TestConnection::take`] has read.
type Heads = Vec<(u32, Vec<(Vec<u8>, Vec<u8>)>)>;

fn fields(block: &Block) -> Vec<(Vec<u8>, Vec<u8>)> {
    let own = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
    block.fields().map(own).collect()
}

impl TestConnection {
    fn new() -> Self {
        Self {
            interceptor: FrameInterceptor::new(4_000),
            block: Block::default(),
            through: Vec::new(),
        }
    }

    /// Sorts the bytes in pieces. Heads of the streams that `ours` selects are answered.
    fn take(
        &mut self,
        bytes: &[u8],
        piece: usize,
        ours: impl Fn(u32) -> bool,
    ) -> Result<Heads, FrameError> {
        let mut heads = Vec::new();
        let mut input = Vec::new();
        for piece in bytes.chunks(piece.max(1)) {
            input.extend_from_slice(piece);
            let mut rest = input.as_slice();
            while let InterceptorOutput::Head(opening) =
                self.interceptor
                    .next(&mut rest, &mut self.through, &mut self.block)?
            {
                heads.push((opening.stream, fields(&self.block)));
                if !(ours(opening.stream) && self.interceptor.may_respond(&opening, &self.block)) {
                    self.interceptor
                        .pass(&opening, &self.block, &mut self.through);
                }
            }
            let left = rest.len();
            input.drain(..input.len() - left);
        }
        Ok(heads)
    }

    /// The frames that were passed to the library: kind, stream and length.
    fn passed(&self) -> Vec<(u8, u32, usize)> {
        let mut rest = self.through.as_slice();
        let mut frames = Vec::new();
        while let Some(frame) = FrameHeader::read(rest) {
            frames.push((frame.kind, frame.stream, frame.length));
            rest = &rest[FRAME_HEAD + frame.length..];
        }
        assert!(rest.is_empty());
        frames
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    FrameHeader {
        length: payload.len(),
        kind,
        flags,
        stream,
    }
    .write(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn setting(id: u16, value: u32) -> Vec<u8> {
    let payload = [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &payload)
}

const WHOLE: u8 = END_HEADERS | END_STREAM;

/// `GET /`, with a field that is inserted into the table.
const GET: &[u8] = b"\x82\x86\x84\x40\x01a\x01b";
/// The same request, with the field from the table.
const AGAIN: &[u8] = b"\x82\x86\x84\xbe";

#[test]
fn heads_are_intercepted_and_other_frames_are_passed() {
    let bytes = [
        setting(INITIAL_WINDOW_SIZE, 1 << 20),
        frame(HEADERS, WHOLE, 1, GET),
        frame(WINDOW_UPDATE, 0, 1, &[0, 0, 1, 0]),
        frame(RST_STREAM, 0, 1, &[0; 4]),
        frame(HEADERS, END_HEADERS, 3, AGAIN),
        frame(DATA, 0, 3, b"body"),
        frame(WINDOW_UPDATE, 0, 3, &[0, 0, 1, 0]),
        frame(6, 0, 0, &[0; 8]),
        frame(HEADERS, END_STREAM, 5, &AGAIN[..2]),
        frame(CONTINUATION, 0, 5, b""),
        frame(CONTINUATION, END_HEADERS, 5, &AGAIN[2..]),
        frame(PRIORITY, 0, 99, &[0; 5]),
        frame(WINDOW_UPDATE, 0, 1, &[0, 0, 1, 0]),
    ]
    .concat();
    for piece in [1, 5, 9, 40, 1_000] {
        let mut connection = TestConnection::new();
        let heads = connection
            .take(&bytes, piece, |stream| stream != 3)
            .unwrap();
        let numbers: Vec<u32> = heads.iter().map(|(stream, _)| *stream).collect();
        assert_eq!(numbers, [1, 3, 5], "in pieces of {piece}");
        assert!(heads.iter().all(|(_, fields)| fields == &heads[0].1));
        let wanted = [
            (SETTINGS, 0, 6),
            (HEADERS, 3, connection.passed()[1].2),
            (DATA, 3, 4),
            (WINDOW_UPDATE, 3, 4),
            (6, 0, 8),
            (PRIORITY, 99, 5),
            // Older than a stream of the library, which regards it as closed.
            (WINDOW_UPDATE, 1, 4),
        ];
        assert_eq!(connection.passed(), wanted, "in pieces of {piece}");
    }
}

#[test]
fn padding_and_priority_are_read() {
    let padded = [&[3][..], &[0, 0, 0, 7, 9], GET, &[0; 3]].concat();
    let bytes = frame(HEADERS, WHOLE | PADDED | HAS_PRIORITY, 1, &padded);
    let mut connection = TestConnection::new();
    let heads = connection.take(&bytes, 1_000, |_| false).unwrap();
    assert_eq!(heads[0].1.last().unwrap(), &(b"a".to_vec(), b"b".to_vec()));
    assert!(
        connection
            .through
            .get(FRAME_HEAD..)
            .unwrap()
            .starts_with(&[0, 0, 0, 7, 9])
    );
    assert_eq!(connection.through[4], WHOLE | HAS_PRIORITY);
}

#[test]
fn stream_and_window_violations_have_their_error_code() {
    let first = frame(HEADERS, WHOLE, 1, GET);
    let after = |frame: Vec<u8>| [first.clone(), frame].concat();
    check_errors(&[
        (
            "data of a stream that was answered",
            after(frame(DATA, 0, 1, b"x")),
            FrameError::StreamClosed,
        ),
        (
            "a head of the same",
            after(frame(HEADERS, WHOLE, 1, AGAIN)),
            FrameError::StreamClosed,
        ),
        (
            "no window at all",
            after(frame(WINDOW_UPDATE, 0, 1, &[0; 4])),
            FrameError::Protocol,
        ),
        (
            "a reset of three bytes",
            after(frame(RST_STREAM, 0, 1, &[0; 3])),
            FrameError::FrameSize,
        ),
        (
            "an even number",
            frame(HEADERS, WHOLE, 2, GET),
            FrameError::Protocol,
        ),
        (
            "no number",
            frame(HEADERS, WHOLE, 0, GET),
            FrameError::Protocol,
        ),
    ]);
}

#[test]
fn connection_errors_have_the_code_of_their_cause() {
    let many = frame(CONTINUATION, 0, 1, b"").repeat(6);
    check_errors(&[
        (
            "a continuation of nothing",
            frame(CONTINUATION, END_HEADERS, 1, GET),
            FrameError::Protocol,
        ),
        (
            "another stream's continuation",
            [frame(HEADERS, 0, 1, GET), frame(CONTINUATION, 4, 3, b"")].concat(),
            FrameError::Protocol,
        ),
        (
            "a frame within a head",
            [frame(HEADERS, 0, 1, GET), frame(6, 0, 0, &[0; 8])].concat(),
            FrameError::Protocol,
        ),
        (
            "continuations without end",
            [frame(HEADERS, 0, 1, GET), many].concat(),
            FrameError::TooLarge,
        ),
        (
            "padding beyond the frame",
            frame(HEADERS, WHOLE | PADDED, 1, &[9, 0x82]),
            FrameError::Protocol,
        ),
        (
            "no room for a priority",
            frame(HEADERS, WHOLE | HAS_PRIORITY, 1, &[0; 4]),
            FrameError::FrameSize,
        ),
        (
            "a frame that is too large",
            frame(77, 0, 0, &vec![0; MAX_FRAME + 1]),
            FrameError::FrameSize,
        ),
        (
            "a window that is too large",
            frame(WINDOW_UPDATE, 0, 0, &[0x7f, 255, 255, 255]),
            FrameError::FlowControl,
        ),
        (
            "a block that cannot be read",
            frame(HEADERS, WHOLE, 1, b"\x80"),
            FrameError::Compression,
        ),
    ]);
}

fn check_errors(cases: &[(&str, Vec<u8>, FrameError)]) {
    for (what, bytes, wanted) in cases {
        let mut connection = TestConnection::new();
        let taken = connection.take(bytes, 1_000_000, |_| true);
        assert_eq!(taken.as_ref().err(), Some(wanted), "{what}");
    }
}

#[test]
fn a_head_beyond_the_limit_exceeds_the_limit_of_the_library() {
    let mut block = Vec::new();
    hpack::write_field(&mut block, b"a", &[b'v'; 3_000]);
    hpack::write_field(&mut block, b"b", &[b'v'; 3_000]);
    let mut connection = TestConnection::new();
    let bytes = frame(HEADERS, WHOLE, 1, &block);
    connection.take(&bytes, 1_000_000, |_| false).unwrap();
    let mut all = Block::default();
    let passed = connection.through.get(FRAME_HEAD..).unwrap();
    HpackDecoder::default()
        .decode(passed, 1 << 20, &mut all)
        .unwrap();
    assert!(all.list_bytes() > 4_000);
    let block = block.repeat(3);
    let bytes = frame(HEADERS, WHOLE, 3, &block[..MAX_FRAME]);
    let decoded = connection.take(&bytes, 1_000_000, |_| false);
    assert!(matches!(
        decoded,
        Err(FrameError::TooLarge | FrameError::Compression)
    ));
}

#[test]
fn a_head_with_missing_fields_is_not_answered() {
    let mut connection = TestConnection::new();
    let mut block = GET.to_vec();
    hpack::write_field(&mut block, b"a", &[b'v'; 3_990]);
    hpack::write_field(&mut block, b"cookie", b"session=1");
    let heads = connection.take(&frame(HEADERS, WHOLE, 1, &block), 1_000, |_| true);
    let heads = heads.unwrap();
    let (_, fields) = heads.first().unwrap();
    assert!(fields.iter().all(|(name, _)| name != b"cookie"));
    assert_eq!(connection.passed().first().map(|frame| frame.1), Some(1));
}

#[test]
fn a_stub_only_opens_the_stream() {
    for (flags, priority) in [(WHOLE, &b""[..]), (WHOLE | HAS_PRIORITY, b"\0\0\0\0\x05")] {
        let mut connection = TestConnection::new();
        let mut input = frame(HEADERS, flags, 1, &[priority, GET].concat());
        let mut rest = input.as_slice();
        let step =
            connection
                .interceptor
                .next(&mut rest, &mut connection.through, &mut connection.block);
        let Ok(InterceptorOutput::Head(opening)) = step else {
            panic!("{step:?}");
        };
        connection
            .interceptor
            .pass_stub(&opening, &mut connection.through);
        input.clear();
        let head = FrameHeader::read(&connection.through).unwrap();
        assert_eq!((head.kind, head.flags, head.stream), (HEADERS, flags, 1));
        let payload = connection.through.get(FRAME_HEAD..).unwrap();
        let mut block = Block::default();
        let encoded = payload.strip_prefix(priority).unwrap();
        HpackDecoder::default()
            .decode(encoded, 4_000, &mut block)
            .unwrap();
        assert_eq!(
            block.fields().next(),
            Some((&b":method"[..], &b"PARSED"[..]))
        );
        assert_eq!(block.fields().count(), 4);
    }
}

#[test]
fn a_smaller_table_makes_the_library_respond() {
    let mut connection = TestConnection::new();
    let larger = setting(HEADER_TABLE_SIZE, 65_536);
    let first = [larger, frame(HEADERS, WHOLE, 1, GET)].concat();
    connection.take(&first, 1_000, |_| true).unwrap();
    assert_eq!(connection.passed().len(), 1);
    let smaller = setting(HEADER_TABLE_SIZE, 4_096);
    let second = [smaller, frame(HEADERS, WHOLE, 3, AGAIN)].concat();
    connection.take(&second, 1_000, |_| true).unwrap();
    assert_eq!(connection.passed().len(), 3);
}

/// The window that a library has after these frames.
fn library_window(through: &[u8]) -> u32 {
    let mut connection = TestConnection::new();
    connection.through = through.to_vec();
    let mut rest = connection.through.as_slice();
    let mut window = 65_535;
    while let Some(frame) = FrameHeader::read(rest) {
        let end = FRAME_HEAD + frame.length;
        if frame.kind == WINDOW_UPDATE && frame.stream == 0 {
            window += u32::from_be_bytes(rest[FRAME_HEAD..end].try_into().unwrap());
        }
        rest = &rest[end..];
    }
    window
}

#[test]
fn the_window_is_shared() {
    let mut connection = TestConnection::new();
    assert!(
        !connection.interceptor.take_window(1),
        "all of it is the library's"
    );
    let more = frame(WINDOW_UPDATE, 0, 0, &1_000_000_u32.to_be_bytes());
    connection.take(&more, 1_000, |_| true).unwrap();
    assert!(connection.passed().is_empty());
    assert!(
        !connection.interceptor.take_window(70_000),
        "more than a stream has"
    );
    connection
        .take(&setting(INITIAL_WINDOW_SIZE, 500_000), 1_000, |_| true)
        .unwrap();
    assert!(
        connection.interceptor.take_window(400_000) && !connection.interceptor.take_window(500_001)
    );
    // The library has a stream: it gets half of 665,535 bytes.
    connection
        .take(&frame(HEADERS, WHOLE, 1, GET), 1_000, |_| false)
        .unwrap();
    assert_eq!(library_window(&connection.through), 665_535 / 2);
    assert!(!connection.interceptor.take_window(400_000));
    // The library sends all of it, and what it gets after that, until the window is used up.
    let mut sent = 0;
    while library_window(&connection.through) > sent {
        let bytes = library_window(&connection.through) - sent;
        sent += bytes;
        connection
            .interceptor
            .library_sent(bytes, &mut connection.through);
    }
    assert_eq!(sent, 665_535);
    assert!(!connection.interceptor.take_window(1));
    // The library gets the first part of a new window, so that its next stream can begin.
    connection.interceptor.library_rests();
    connection.take(&more, 1_000, |_| true).unwrap();
    assert_eq!(library_window(&connection.through) - sent, 65_535);
    assert!(connection.interceptor.take_window(400_000));
}

/// Encodes fields like a client that inserts them into its table and refers to them.
fn encoded(list: &[(u8, u8)], known: &mut Vec<(u8, u8)>) -> Vec<u8> {
    let mut block = Vec::new();
    for field in list {
        match known.iter().rev().position(|other| other == field) {
            Some(place) if place < 60 => block.push(0x80 | u8::try_from(62 + place).unwrap()),
            _ => {
                block.extend_from_slice(&[0x40, 1, b'a' + field.0 % 26, 1, b'a' + field.1 % 26]);
                known.push(*field);
            }
        }
    }
    block
}

proptest! {
    // However heads are divided between the two sides, both read the fields that the client wrote.
    #[test]
    fn both_read_the_same_fields(
        requests in proptest::collection::vec((proptest::collection::vec((0..9_u8, 0..9_u8), 0..6), any::<bool>()), 1..20),
        piece in 1..80_usize,
    ) {
        let mut known = Vec::new();
        let mut bytes = Vec::new();
        for (number, (list, _)) in requests.iter().enumerate() {
            let block = encoded(list, &mut known);
            let (one, two) = block.split_at(block.len() / 2);
            let stream = u32::try_from(number * 2 + 1).unwrap();
            bytes.extend(frame(HEADERS, END_STREAM, stream, one));
            bytes.extend(frame(CONTINUATION, END_HEADERS, stream, two));
        }
        let mut connection = TestConnection::new();
        let ours = |stream: u32| requests[usize::try_from(stream / 2).unwrap()].1;
        let heads = connection.take(&bytes, piece, ours).unwrap();
        prop_assert_eq!(heads.len(), requests.len());
        for ((_, fields), (list, _)) in heads.iter().zip(&requests) {
            let wanted: Vec<_> = list.iter().map(|(n, v)| (vec![b'a' + n % 26], vec![b'a' + v % 26])).collect();
            prop_assert_eq!(fields, &wanted);
        }
        let mut library = TestConnection::new();
        let passed = library.take(&connection.through, 1_000, |_| true).unwrap();
        let wanted: Heads = heads.into_iter().filter(|(stream, _)| !ours(*stream)).collect();
        prop_assert_eq!(passed, wanted);
    }

    // Any bytes are sorted or rejected, and the result does not depend on how they are split.
    #[test]
    fn results_do_not_depend_on_the_split(
        frames in proptest::collection::vec((0..11_u8, any::<u8>(), 0..8_u32, proptest::collection::vec(any::<u8>(), 0..30)), 0..12),
        piece in 1..40_usize,
    ) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(kind, flags, stream, payload)| frame(*kind, *flags, *stream, payload)).collect();
        let (mut one, mut other) = (TestConnection::new(), TestConnection::new());
        let ours = |stream: u32| stream.is_multiple_of(3);
        let whole = one.take(&bytes, usize::MAX, ours);
        prop_assert_eq!(other.take(&bytes, piece, ours), whole.clone());
        if whole.is_ok() {
            prop_assert_eq!(one.through, other.through);
        }
    }
}
