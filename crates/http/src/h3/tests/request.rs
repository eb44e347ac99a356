//! Tests of request streams.

use proptest::prelude::*;

use super::*;

/// What a stream gave, and how it ended.
#[derive(Debug, Default, PartialEq)]
struct StreamOutcome {
    heads: Vec<Fields>,
    too_large: usize,
    body: Vec<u8>,
    /// The result of reading, or that of the end.
    end: Option<H3Error>,
}

fn read<'b>(pieces: impl IntoIterator<Item = &'b [u8]>, most: usize) -> StreamOutcome {
    let mut outcome = StreamOutcome::default();
    let mut reader = RequestReader::new(most);
    let mut flood = H3Flood::new(0);
    let mut block = Block::default();
    for piece in pieces {
        let mut rest = piece;
        loop {
            match reader.next(&mut rest, &mut block, &mut flood) {
                Ok(RequestOutput::More) => break,
                Ok(RequestOutput::HeadTooLarge) => outcome.too_large += 1,
                Ok(RequestOutput::Data(data)) => {
                    assert!(!data.is_empty());
                    outcome.body.extend_from_slice(data);
                }
                Ok(RequestOutput::Head) => {
                    let length = block.fields().find(|(name, _)| *name == b"content-length");
                    if let Some((_, [digit @ b'0'..=b'9'])) = length {
                        reader.expect_body(u64::from(digit - b'0'));
                    }
                    outcome.heads.push(fields(&block));
                }
                Err(error) => {
                    outcome.end = Some(error);
                    return outcome;
                }
            }
        }
        assert!(rest.is_empty());
        assert!(reader.capacity() <= 2 * most + 8);
    }
    outcome.end = reader.end().err();
    outcome
}

fn whole(stream: &[Vec<u8>]) -> StreamOutcome {
    read([stream.concat().as_slice()], 1_000)
}

const MESSAGE: H3Error = H3Error::Stream(H3Code::MessageError);
const UNEXPECTED: H3Error = H3Error::Connection(H3Code::FrameUnexpected);
const LOAD: H3Error = H3Error::Connection(H3Code::ExcessiveLoad);

#[test]
fn a_request_has_a_head_a_body_and_trailers() {
    let grease = frame(0x21 + 0x1f * 7, b"any");
    let stream = [
        grease.clone(),
        headers(&GET),
        frame(0, b"ab"),
        grease.clone(),
        frame(0, b""),
        frame(0, b"c"),
        headers(&[("x-sum", "1")]),
        grease,
    ];
    let outcome = whole(&stream);
    assert_eq!(outcome.heads, [owned(&GET)]);
    assert_eq!((outcome.body.as_slice(), outcome.end), (&b"abc"[..], None));
    let bytes = stream.concat();
    for at in 0..bytes.len() {
        let (first, second) = bytes.split_at(at);
        assert_eq!(read([first, second], 1_000), outcome, "{at}");
    }
    assert_eq!(read(bytes.chunks(1), 1_000), outcome);
}

#[test]
fn errors_have_the_codes_of_the_rfc() {
    let get = || headers(&GET);
    let incomplete = H3Error::Stream(H3Code::RequestIncomplete);
    let cut = H3Error::Connection(H3Code::FrameError);
    let compression = H3Error::Connection(H3Code::DecompressionFailed);
    let (none, more) = (|| headers(&[]), || frame(0, b"a"));
    for (what, stream, wanted) in [
        ("nothing", vec![], incomplete),
        ("no head", vec![frame(0x21, b"")], incomplete),
        ("half a type", vec![get(), vec![0x40]], cut),
        ("half a head", vec![get()[..9].to_vec()], cut),
        ("half a body", vec![get(), vec![0, 2, b'a']], cut),
        ("a body that is absent", vec![get(), vec![0, 2]], cut),
        ("half a frame", vec![get(), vec![0x21, 1]], cut),
        ("data first", vec![more()], UNEXPECTED),
        (
            "data behind trailers",
            vec![get(), none(), more()],
            UNEXPECTED,
        ),
        ("trailers twice", vec![get(), none(), none()], UNEXPECTED),
        (
            "pseudo-header fields in trailers",
            vec![get(), get()],
            MESSAGE,
        ),
        (
            "capitals in trailers",
            vec![get(), headers(&[("X", "1")])],
            MESSAGE,
        ),
        (
            "line ends in trailers",
            vec![get(), headers(&[("x", "1\r\ny: 2")])],
            MESSAGE,
        ),
        (
            "a malformed section",
            vec![frame(1, b"\x02\x80")],
            compression,
        ),
        (
            "a long unknown frame",
            vec![get(), vec![0x21, 0x80, 1, 0, 0]],
            LOAD,
        ),
    ] {
        assert_eq!(whole(&stream).end, Some(wanted), "{what}");
    }
    // Frames of other streams, those of HTTP/2, and pushes.
    for kind in [2, 3, 4, 5, 6, 7, 8, 9, 0x0d, 0xf_0700, 0xf_0701] {
        for stream in [vec![frame(kind, b"")], vec![get(), frame(kind, b"")]] {
            assert_eq!(whole(&stream).end, Some(UNEXPECTED), "{kind:#x}");
        }
    }
}

#[test]
fn a_body_has_its_announced_length() {
    let head = || headers(&[&GET[..], &[("content-length", "2")]].concat());
    let longest = vec![0, 0xff, 255, 255, 255, 255, 255, 255, 255];
    for (what, frames, wanted) in [
        ("a longer body", vec![frame(0, b"abc")], Some(MESSAGE)),
        ("a shorter body", vec![frame(0, b"a")], Some(MESSAGE)),
        ("no body", vec![], Some(MESSAGE)),
        ("the longest body", vec![longest], Some(MESSAGE)),
        (
            "the announced body",
            vec![frame(0, b"a"), frame(0, b"b")],
            None,
        ),
    ] {
        let stream = [vec![head()], frames].concat();
        assert_eq!(whole(&stream).end, wanted, "{what}");
    }
}

#[test]
fn only_a_section_in_pieces_is_buffered() {
    let (mut flood, mut block) = (H3Flood::new(0), Block::default());
    let head = headers(&GET);
    let mut reader = RequestReader::new(1_000);
    let read = reader.next(&mut head.as_slice(), &mut block, &mut flood);
    assert_eq!((read, reader.capacity()), (Ok(RequestOutput::Head), 0));
    // The announced length of 1,000 bytes is not reserved.
    let mut reader = RequestReader::new(1_000);
    let begun = [&[1, 0x43, 0xe8][..], &[0; 10]].concat();
    let read = reader.next(&mut begun.as_slice(), &mut block, &mut flood);
    assert_eq!(read, Ok(RequestOutput::More));
    assert!((10..=20).contains(&reader.capacity()) && reader.is_mid_head());
}

#[test]
fn sections_that_do_not_end_are_a_flood() {
    let value = "v".repeat(30_000);
    let head = headers(&[&GET[..], &[("x", &value)]].concat());
    let (begun, end) = head.split_at(head.len() - 1);
    let mut flood = H3Flood::new(0);
    let mut block = Block::default();
    let mut begin = |flood: &mut H3Flood| {
        let mut reader = RequestReader::new(40_000);
        for mut piece in begun.chunks(1_000) {
            reader.next(&mut piece, &mut block, flood)?;
        }
        Ok::<_, H3Error>(reader)
    };
    // Sections that end cost nothing.
    let mut last = Block::default();
    for _ in 0..200 {
        let mut reader = begin(&mut flood).unwrap();
        let read = reader.next(&mut { end }, &mut last, &mut flood);
        assert_eq!(read, Ok(RequestOutput::Head));
    }
    let waiting: Vec<_> = std::iter::from_fn(|| begin(&mut flood).ok()).collect();
    let bytes: usize = waiting.iter().map(RequestReader::capacity).sum();
    assert!((20..=40).contains(&waiting.len()) && bytes <= 2_200_000);
    assert!(flood.is_overdrawn());
}

#[test]
fn heads_beyond_the_limit_are_skipped() {
    let value = "v".repeat(1_000);
    let large = headers(&[&GET[..], &[("x", &value)]].concat());
    // Within the limit only as long as it is encoded.
    let many = headers(&[("x", ""); 100]);
    for head in [
        large,
        many,
        vec![1, 0xff, 255, 255, 255, 255, 255, 255, 255],
    ] {
        let head = [head, frame(0, b"body"), frame(4, b"?")].concat();
        for outcome in [read([head.as_slice()], 1_000), read(head.chunks(1), 1_000)] {
            assert_eq!((outcome.too_large, outcome.end), (1, None));
            assert!(outcome.heads.is_empty() && outcome.body.is_empty());
        }
    }
    // Before its bytes arrive.
    assert_eq!(read([&[1, 0x44, 0][..]], 1_000).too_large, 1);
    let trailers = vec![headers(&GET), headers(&[("x", &value)])];
    let refused = H3Error::Stream(H3Code::ExcessiveLoad);
    assert_eq!(whole(&trailers).end, Some(refused));
}

#[test]
fn frames_without_use_are_a_flood() {
    for useless in [frame(0, b""), frame(0, b"a"), frame(0x21, b"")] {
        let mut stream = vec![headers(&GET)];
        stream.extend(std::iter::repeat_n(useless, 900));
        assert_eq!(whole(&stream).end, None);
        stream.extend_from_within(1..200);
        assert_eq!(whole(&stream).end, Some(LOAD));
    }
    let mut stream = vec![headers(&GET)];
    stream.extend(std::iter::repeat_n(frame(0, &[0; 256]), 5_000));
    assert_eq!(whole(&stream).end, None);
}

/// Frames of all kinds, complete and well-formed, or not.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let name = "(:method|:path|x|te|content-length|[a-zA-Z:]{0,5})";
    let field = (name, "(GET|/|2|[ -~]{0,30}|\r)");
    let section = proptest::collection::vec(field, 0..6).prop_map(|list| {
        let list: Vec<_> = list.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        headers(&list)
    });
    let payload = || proptest::collection::vec(any::<u8>(), 0..80);
    prop_oneof![
        3 => section,
        3 => payload().prop_map(|payload| frame(0, &payload)),
        1 => payload().prop_map(|payload| frame(1, &payload)),
        1 => (0..0x40_u64, payload()).prop_map(|(kind, payload)| frame(kind, &payload)),
        1 => payload(),
    ]
}

proptest! {
    #[test]
    fn the_outcome_does_not_depend_on_the_split(
        stream in proptest::collection::vec(any_frame(), 0..8),
        cuts in proptest::collection::vec(0..500_usize, 0..8),
        most in 0..400_usize,
    ) {
        let bytes = stream.concat();
        let outcome = read([bytes.as_slice()], most);
        prop_assert_eq!(&read(bytes.chunks(1), most), &outcome);
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]);
        prop_assert_eq!(&read(pieces, most), &outcome);
    }

    #[test]
    fn any_bytes_are_read_or_rejected(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let outcome = read([bytes.as_slice()], 100);
        prop_assert_eq!(read(bytes.chunks(3), 100), outcome);
    }
}
