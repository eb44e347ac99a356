//! Tests of the streams with one direction.

use proptest::prelude::*;

use super::*;

/// What the bytes of the streams give, in this order.
fn read<'b>(
    pieces: impl IntoIterator<Item = (u64, &'b [u8])>,
) -> (Vec<UniOutput>, Option<H3Error>) {
    let mut connection = H3Connection::new(0);
    let mut outputs = Vec::new();
    let mut stopped = None;
    for (stream, mut piece) in pieces {
        if stopped == Some(stream) {
            continue;
        }
        loop {
            match connection.read_uni(stream, &mut piece) {
                Ok(UniOutput::More) => break,
                Ok(output) => {
                    outputs.push(output);
                    if output == UniOutput::Stop {
                        stopped = Some(stream);
                        break;
                    }
                }
                Err(error) => return (outputs, Some(error)),
            }
        }
        assert!(piece.is_empty());
    }
    (outputs, None)
}

/// The control stream with settings, followed by frames.
fn control(frames: &[Vec<u8>]) -> Vec<u8> {
    let settings = frame(4, b"\x06\x44\x00\x01\x00\x07\x00\x21\x05");
    [&[0][..], &settings, &frames.concat()].concat()
}

fn end_of(stream: &[u8]) -> Option<H3Error> {
    let at_once = read([(2, stream)]);
    assert_eq!(read(stream.chunks(1).map(|byte| (2, byte))), at_once);
    at_once.1
}

#[test]
fn control_frames_are_read() {
    let stream = control(&[
        frame(0xf_0700, b"\x04u=1, i"),
        frame(0x21, b"grease"),
        frame(7, b"\x0a"),
        frame(7, b"\x05"),
        frame(0x0d, b"\x01"),
        frame(0x0d, b"\x01"),
        frame(0xf_0700, b"\x40\x08"),
    ]);
    let of = |stream, urgency| UniOutput::Priority { stream, urgency };
    let (outputs, end) = read([(2, stream.as_slice())]);
    assert_eq!((outputs, end), (vec![of(4, 1), of(8, 3)], None));
    assert_eq!(end_of(&stream), None);
    let mut own = Vec::new();
    write_control_stream(&mut own, 36_096);
    write_goaway(&mut own, 4_000);
    assert_eq!(own, b"\x00\x04\x05\x06\x80\x00\x8d\x00\x07\x02\x4f\xa0");
    assert_eq!(end_of(&own), None);
}

#[test]
fn errors_of_the_control_stream_have_the_codes_of_the_rfc() {
    for (what, frames, code) in [
        ("settings twice", frame(4, b""), H3Code::FrameUnexpected),
        ("data", frame(0, b""), H3Code::FrameUnexpected),
        ("a head", frame(1, b""), H3Code::FrameUnexpected),
        ("a promise", frame(5, b""), H3Code::FrameUnexpected),
        ("a ping of HTTP/2", frame(6, b""), H3Code::FrameUnexpected),
        ("a window of HTTP/2", frame(8, b""), H3Code::FrameUnexpected),
        (
            "a push that is canceled",
            frame(3, b"\x00"),
            H3Code::IdError,
        ),
        (
            "a priority of a push",
            frame(0xf_0701, b"\x00u=1"),
            H3Code::IdError,
        ),
        (
            "a priority of our stream",
            frame(0xf_0700, b"\x01u=1"),
            H3Code::IdError,
        ),
        (
            "a priority without a stream",
            frame(0xf_0700, b""),
            H3Code::FrameError,
        ),
        (
            "a push id that falls",
            [frame(0x0d, b"\x02"), frame(0x0d, b"\x01")].concat(),
            H3Code::IdError,
        ),
        (
            "a last id that rises",
            [frame(7, b"\x04"), frame(7, b"\x05")].concat(),
            H3Code::IdError,
        ),
        (
            "an id that is cut off",
            frame(7, b"\x40"),
            H3Code::FrameError,
        ),
        (
            "bytes behind an id",
            frame(7, b"\x04\x04"),
            H3Code::FrameError,
        ),
        ("a long frame", frame(7, &[0; 300]), H3Code::ExcessiveLoad),
        (
            "a long unknown frame",
            vec![0x21, 0x80, 1, 0, 0],
            H3Code::ExcessiveLoad,
        ),
    ] {
        assert_eq!(
            end_of(&control(&[frames])),
            Some(H3Error::Connection(code)),
            "{what}"
        );
    }
}

#[test]
fn errors_of_the_settings_have_the_codes_of_the_rfc() {
    for (what, stream, code) in [
        ("no settings", frame(7, b"\x00"), H3Code::MissingSettings),
        (
            "an unknown frame first",
            frame(0x21, b""),
            H3Code::MissingSettings,
        ),
        (
            "a setting of HTTP/2",
            frame(4, b"\x03\x10"),
            H3Code::SettingsError,
        ),
        (
            "a setting twice",
            frame(4, b"\x06\x00\x33\x01\x06\x00"),
            H3Code::SettingsError,
        ),
        ("half a setting", frame(4, b"\x06"), H3Code::FrameError),
        ("half a value", frame(4, b"\x06\x40"), H3Code::FrameError),
    ] {
        let stream = [&[0][..], &stream].concat();
        assert_eq!(end_of(&stream), Some(H3Error::Connection(code)), "{what}");
    }
    assert_eq!(end_of(&[0, 4, 0]), None);
}

#[test]
fn nothing_refers_to_a_dynamic_table() {
    // The examples of RFC 9204 appendix B, and the only instructions that have no effect.
    for (stream, wanted) in [
        (&b"\x02\x20\x20"[..], None),
        (
            b"\x02\x3f\xbd\x01",
            Some(H3Error::Connection(H3Code::EncoderStream)),
        ),
        (
            b"\x02\xc0\x0fwww.example.com",
            Some(H3Error::Connection(H3Code::EncoderStream)),
        ),
        (
            b"\x02\x4acustom-key",
            Some(H3Error::Connection(H3Code::EncoderStream)),
        ),
        (
            b"\x02\x02",
            Some(H3Error::Connection(H3Code::EncoderStream)),
        ),
        (b"\x03\x48\x48", None),
        (b"\x03\x7f\x80\x80\x80\x80\x80\x80\x80\x80\x01\x48", None),
        (
            b"\x03\x7f\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
            Some(H3Error::Connection(H3Code::DecoderStream)),
        ),
        (
            b"\x03\x84",
            Some(H3Error::Connection(H3Code::DecoderStream)),
        ),
        (
            b"\x03\x01",
            Some(H3Error::Connection(H3Code::DecoderStream)),
        ),
        (
            b"\x03\x00",
            Some(H3Error::Connection(H3Code::DecoderStream)),
        ),
    ] {
        assert_eq!(end_of(stream), wanted, "{stream:?}");
    }
}

#[test]
fn streams_are_known_by_their_type() {
    let creation = Some(H3Error::Connection(H3Code::StreamCreation));
    assert_eq!(end_of(b"\x01\x00"), creation, "a push");
    for kind in [&b"\x00"[..], b"\x02", b"\x03"] {
        assert_eq!(read([(2, kind), (6, kind)]).1, creation, "twice");
    }
    // Unknown streams do not disturb others, and are not read.
    let stream = control(&[]);
    let (first, second) = stream.split_at(3);
    let long = [b"\x40".as_slice(), &b"\x21"[..]];
    let outcome = read([
        (2, first),
        (6, long[0]),
        (10, b"\x02"),
        (6, long[1]),
        (2, second),
    ]);
    assert_eq!(outcome, (vec![UniOutput::Stop], None));
}

#[test]
fn critical_streams_must_not_end() {
    for kind in [0, 2, 3] {
        let mut connection = H3Connection::new(0);
        connection.read_uni(2, &mut &[kind][..]).unwrap();
        let closed = connection.end_uni(2).err();
        assert_eq!(
            closed,
            Some(H3Error::Connection(H3Code::ClosedCriticalStream))
        );
    }
    let mut connection = H3Connection::new(0);
    connection.read_uni(2, &mut &[0x21][..]).unwrap();
    connection.read_uni(6, &mut &[0x40][..]).unwrap();
    for stream in [2, 6, 10] {
        assert_eq!(connection.end_uni(stream), Ok(()));
    }
}

#[test]
fn useless_frames_streams_and_resets_are_a_flood() {
    let flood = Some(H3Error::Connection(H3Code::ExcessiveLoad));
    for useless in [
        frame(0x21, b""),
        frame(0xf_0700, b"\x00"),
        frame(0x0d, b"\x00"),
        frame(7, b"\x00"),
    ] {
        assert_eq!(end_of(&control(&vec![useless.clone(); 900])), None);
        assert_eq!(end_of(&control(&vec![useless; 1_001])), flood);
    }
    for useless in [b"\x02\x20", b"\x03\x40"] {
        let stream = [&useless[..1], &useless[1..].repeat(1_001)].concat();
        assert_eq!(end_of(&stream), flood);
    }
    // Streams, one after the other and at once.
    let mut connection = H3Connection::new(0);
    let ended = (0..2_000).find_map(|stream| {
        let read = connection.read_uni(stream, &mut &[0x21][..]);
        read.err().or_else(|| connection.end_uni(stream).err())
    });
    assert_eq!(ended, flood);
    let mut connection = H3Connection::new(0);
    let ended = (0..20).find_map(|stream| connection.read_uni(stream, &mut &[0x40][..]).err());
    assert_eq!(ended, flood);
    // Resets; time permits more.
    let mut flood = H3Flood::new(0);
    assert_eq!((0..300).filter(|_| flood.reset().is_err()).count(), 100);
    assert!(flood.is_overdrawn());
    let mut flood = H3Flood::new(0);
    for seconds in 0..300 {
        flood.set_time(seconds * 1_000);
        assert_eq!(flood.reset(), Ok(()));
    }
    assert_eq!((flood.starve(19), flood.starve(2).is_err()), (Ok(()), true));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_rejected(
        kind in 0..5_u8,
        has_settings in any::<bool>(),
        mut bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let start = if has_settings { control(&[]) } else { vec![kind] };
        bytes.splice(0..0, start);
        let at_once = read([(2, bytes.as_slice())]);
        prop_assert_eq!(read(bytes.chunks(1).map(|byte| (2, byte))), at_once);
    }
}
