//! The allowances of frames, in every state of a stream.

use galley_http::frame_interceptor::PREFACE;

use super::*;

fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
    frame_of(1, kind, flags, length.into())
}

fn frame_of(stream: u32, kind: u8, flags: u8, length: u16) -> Vec<u8> {
    let [high, low] = length.to_be_bytes();
    let mut bytes = vec![0, high, low, kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(std::iter::repeat_n(7, length.into()));
    bytes
}

fn after_preface() -> FloodDetector {
    let mut floods = FloodDetector::new(0);
    floods.receive(PREFACE, 0);
    floods
}

#[test]
fn frames_are_found_in_pieces_of_any_size() {
    assert_eq!(PREFACE.len(), usize::try_from(PREFACE_BYTES).unwrap());
    let bytes = [
        PREFACE.to_vec(),
        frame(SETTINGS, 0, 6),
        frame(HEADERS, END_HEADERS, 200),
        frame(RST_STREAM, 0, 4),
        frame_of(3, HEADERS, END_HEADERS, 0),
    ]
    .concat();
    for piece in [1, 2, 9, 10, 64, 1000] {
        let mut floods = FloodDetector::new(0);
        for piece in bytes.chunks(piece) {
            floods.receive(piece, 0);
        }
        let wanted = Http2ConnectionCounts {
            streams: 2,
            resets_by_client: 1,
            resets_by_galley: 0,
        };
        assert_eq!(floods.counts, wanted, "in pieces of {piece}");
        assert_eq!(floods.flood(), None);
    }
}

#[test]
fn a_head_is_incomplete_until_its_last_byte() {
    let mut floods = after_preface();
    let head = [
        frame(HEADERS, 0, 5),
        frame(CONTINUATION, 0, 0),
        frame(CONTINUATION, END_HEADERS, 3),
    ]
    .concat();
    let (last, first) = head.split_last().unwrap();
    assert!(!floods.is_mid_head());
    for byte in first {
        floods.receive(&[*byte], 0);
    }
    assert!(floods.is_mid_head());
    floods.receive(&[*last], 0);
    assert!(!floods.is_mid_head());
}

#[test]
fn resets_of_either_side_use_one_allowance() {
    let mut floods = after_preface();
    for _ in 0..RESETS.most / 2 {
        floods.receive(&frame(RST_STREAM, 0, 4), 0);
        floods.send(&frame(RST_STREAM, 0, 4), 0);
    }
    assert_eq!(floods.flood(), None);
    floods.send(&frame(RST_STREAM, 0, 4), 1000);
    assert_eq!(floods.flood(), None, "a second has passed");
    for _ in 0..RESETS.per_s {
        floods.receive(&frame(RST_STREAM, 0, 4), 1000);
    }
    assert_eq!(floods.flood(), Some(FrameKind::Resets));
}

#[test]
fn frames_without_content_are_allowed_only_with_requests_and_data() {
    for (kind, flags, length) in [
        (6, 0, 8),
        (SETTINGS, 0, 0),
        (8, 0, 4),
        (2, 0, 5),
        (DATA, 0, 0),
        (DATA, PADDED, 9),
        (77, 0, 9),
    ] {
        let mut floods = after_preface();
        let mut sent = 0;
        while floods.flood().is_none() {
            floods.receive(&frame(kind, flags, length), 0);
            sent += 1;
            assert!(sent <= IDLE_FRAMES.most + 1, "kind {kind}");
        }
        assert_eq!(floods.flood(), Some(FrameKind::IdleFrames));
    }
    for (length, is_flood) in [(1000_u32, false), (1, true)] {
        let data = [&length.to_be_bytes()[1..], &[DATA, 0, 0, 0, 0, 1]].concat();
        let data = [data, vec![7; usize::try_from(length).unwrap()]].concat();
        let mut floods = after_preface();
        for _ in 0..10_000 {
            floods.send(&data, 0);
            floods.receive(&frame(8, 0, 4), 0);
            floods.receive(&frame(8, 0, 4), 0);
        }
        assert_eq!(floods.flood().is_some(), is_flood, "windows of {length}");
    }
}

/// A state of stream 1, and the frames that lead to it: those that are received, and whether Galley then resets the stream.
type StreamState = (&'static str, &'static [(u8, u8)], bool);

const STATES: &[StreamState] = &[
    ("idle", &[], false),
    ("open", &[(HEADERS, END_HEADERS)], false),
    ("half-closed", &[(HEADERS, END_HEADERS | END_STREAM)], false),
    (
        "half-closed after data",
        &[(HEADERS, END_HEADERS), (DATA, END_STREAM)],
        false,
    ),
    (
        "half-closed after trailers",
        &[(HEADERS, END_HEADERS), (HEADERS, END_HEADERS | END_STREAM)],
        false,
    ),
    (
        "reset by the client",
        &[(HEADERS, END_HEADERS), (RST_STREAM, 0)],
        false,
    ),
    ("reset by galley", &[(HEADERS, END_HEADERS)], true),
];

fn in_state((_, received, is_reset): StreamState) -> FloodDetector {
    let mut floods = after_preface();
    for (kind, flags) in received {
        floods.receive(&frame(*kind, *flags, 4), 0);
    }
    if is_reset {
        floods.send(&frame(RST_STREAM, 0, 4), 0);
    }
    floods
}

#[test]
fn every_frame_costs_something_in_every_state_of_a_stream_unless_it_is_useful() {
    for state in STATES {
        // All types of RFC 9113 section 6, and one that it does not define.
        for kind in (0..=9).chain([77]) {
            for flags in [0, 1, END_HEADERS, END_HEADERS | END_STREAM, PADDED] {
                for length in [0, 4, 600] {
                    let is_data = kind == DATA && length == 600 && flags & END_STREAM == 0;
                    let is_useful = is_data && state.0 == "open";
                    let mut floods = in_state(*state);
                    for _ in 0..=IDLE_FRAMES.most + REQUEST_REFILL {
                        floods.receive(&frame_of(1, kind, flags, length), 0);
                    }
                    assert_eq!(
                        floods.flood().is_none(),
                        is_useful,
                        "{}: type {kind}, flags {flags}, {length} bytes",
                        state.0
                    );
                }
            }
        }
    }
}

#[test]
fn new_requests_with_bodies_and_trailers_are_no_flood() {
    let mut floods = after_preface();
    for stream in (1..20_000).step_by(2) {
        floods.receive(&frame_of(stream, HEADERS, END_HEADERS, 40), 0);
        floods.receive(&frame_of(stream, DATA, 0, 600), 0);
        floods.receive(&frame_of(stream, HEADERS, END_HEADERS | END_STREAM, 20), 0);
    }
    assert_eq!(floods.flood(), None);
    assert_eq!(floods.counts.streams, 10_000);
    assert!(floods.requests.open.is_empty());
    // Heads on streams that are over, with other streams in between.
    for stream in (1..200).step_by(2) {
        floods.receive(&frame_of(stream, HEADERS, END_HEADERS, 40), 0);
    }
    assert_eq!(floods.flood(), Some(FrameKind::IdleFrames));
}

#[test]
fn the_memory_for_open_requests_is_bounded() {
    let mut floods = after_preface();
    for stream in (1..100_000).step_by(2) {
        floods.receive(&frame_of(stream, HEADERS, END_HEADERS, 4), 0);
    }
    assert_eq!(floods.requests.open.len(), MAX_OPEN);
}
