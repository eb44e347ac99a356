//! Tests of field sections.

use http::StatusCode;
use proptest::prelude::*;

use super::*;
use crate::h2::PseudoFields;
use crate::hpack::HpackError::{self, Malformed, TooLarge};

fn decoded(section: &[u8]) -> Result<Fields, HpackError> {
    let mut block = Block::default();
    decode_section(section, 1 << 20, &mut block).map(|()| fields(&block))
}

/// The section in a HEADERS frame.
fn section_of(frame: &[u8]) -> &[u8] {
    let mut rest = frame;
    assert_eq!(varint::read(&mut rest), Some(1));
    assert_eq!(varint::read(&mut rest), Some(rest.len() as u64));
    rest
}

/// RFC 9204 appendix B.1: a literal field with a name reference; the others need a dynamic table.
#[test]
fn the_examples_of_the_rfc_are_decoded() {
    let section = b"\x00\x00\x51\x0b/index.html";
    assert_eq!(
        decoded(section).unwrap(),
        owned(&[(":path", "/index.html")])
    );
    assert_eq!(decoded(b"\x03\x81\x10\x11"), Err(Malformed));
    assert_eq!(decoded(b"\x05\x00\x80\xc1\x81"), Err(Malformed));
    // RFC 7541 appendix C.4, as QPACK encodes it: indices, and a string in the Huffman code.
    let section = b"\x00\x00\xd1\xd6\xc1\x50\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff";
    let wanted = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
    ];
    assert_eq!(decoded(section).unwrap(), owned(&wanted));
    // A literal name in the Huffman code: `custom-key` of RFC 7541 appendix C.4.3.
    let section = b"\x00\x00\x2f\x01\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x01a";
    assert_eq!(decoded(section).unwrap(), owned(&[("custom-key", "a")]));
}

#[test]
fn malformed_sections_are_rejected() {
    for (what, section) in [
        ("no prefix", &b""[..]),
        ("half a prefix", b"\x00"),
        ("required inserts", b"\x01\x00"),
        ("a negative base", b"\x00\x80"),
        (
            "a base without an end",
            b"\x00\x7f\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        ),
        ("a field of the dynamic table", b"\x00\x00\x80"),
        ("a name of the dynamic table", b"\x00\x00\x40\x01a"),
        ("a field behind the base", b"\x00\x00\x10"),
        ("a name behind the base", b"\x00\x00\x00\x01a"),
        ("index 99", b"\x00\x00\xff\x24"),
        (
            "an index without an end",
            b"\x00\x00\xff\xff\xff\xff\xff\xff\xff",
        ),
        ("the name of index 99", b"\x00\x00\x5f\x54\x01a"),
        ("a string that is cut off", b"\x00\x00\x23abc"),
        (
            "a string of 2^62 bytes",
            b"\x00\x00\x27\xff\xff\xff\xff\xff\xff\xff\xff\x3f",
        ),
        ("a value that is missing", b"\x00\x00\x21a"),
        ("padding of zeros", b"\x00\x00\x21a\x81\x00"),
    ] {
        assert_eq!(decoded(section), Err(Malformed), "{what}");
    }
    assert_eq!(decoded(b"\x00\x00").unwrap(), []);
    assert_eq!(
        decoded(b"\x00\x7f\x05\xff\x23").unwrap(),
        owned(&[("x-frame-options", "sameorigin")])
    );
}

#[test]
fn the_static_table_is_that_of_the_rfc() {
    // Some entries of appendix A; a client that is not ours reads all of them in the end-to-end tests.
    for (index, entry) in [
        (0, (":authority", "")),
        (15, (":method", "CONNECT")),
        (24, (":status", "103")),
        (25, (":status", "200")),
        (31, ("accept-encoding", "gzip, deflate, br")),
        (46, ("content-type", "application/json")),
        (59, ("vary", "accept-encoding")),
        (63, (":status", "100")),
        (72, ("accept-language", "")),
        (95, ("user-agent", "")),
        (98, ("x-frame-options", "sameorigin")),
    ] {
        assert_eq!(static_table::STATIC.get(index), Some(&entry));
    }
}

#[test]
fn written_references_name_their_fields() {
    for (name, value) in static_table::STATIC {
        let frame = headers(&[(name, value), (name, "other")]);
        let read = decoded(section_of(&frame)).unwrap();
        assert_eq!(read, owned(&[(name, value), (name, "other")]));
    }
    let mut out = Vec::new();
    write_status(&mut out, StatusCode::OK);
    write_field(&mut out, b"content-encoding", b"gzip");
    write_field(&mut out, b"x-frame-options", b"deny");
    write_field(&mut out, b"server", b"x");
    assert_eq!(out, b"\xd9\xeb\xff\x22\x5f\x4d\x01x");
}

#[test]
fn lines_become_fields() {
    let mut out = Vec::new();
    let frame = begin_headers(&mut out);
    write_status(&mut out, StatusCode::IM_A_TEAPOT);
    write_lines(
        &mut out,
        b"content-type: text/html\r\nx-a: b: c\r\nx-empty: \r\n",
    );
    end_headers(&mut out, frame);
    let wanted = [
        (":status", "418"),
        ("content-type", "text/html"),
        ("x-a", "b: c"),
        ("x-empty", ""),
    ];
    assert_eq!(decoded(section_of(&out)).unwrap(), owned(&wanted));
}

#[test]
fn long_sections_have_a_longer_length() {
    for bytes in [0, 16_370, 16_379, 16_380, 20_000, 70_000] {
        let value = "v".repeat(bytes);
        let mut out = vec![1, 2, 3];
        let frame = begin_headers(&mut out);
        write_field(&mut out, b"x", value.as_bytes());
        end_headers(&mut out, frame);
        let read = decoded(section_of(&out[3..])).unwrap();
        assert_eq!(read, owned(&[("x", &value)]));
    }
}

#[test]
fn a_list_beyond_the_limit_ends_the_section() {
    let mut block = Block::default();
    // Two bytes of the client become 108 bytes of the list.
    let repeated = [&[0, 0][..], &[0xff, 22].repeat(1_000)].concat();
    assert_eq!(decode_section(&repeated, 1_000, &mut block), Err(TooLarge));
    assert!(block.list_bytes() < 1_200 && block.capacity() < 4_000);
    assert_eq!(block.fields().count(), 9);
    // What follows is not examined.
    let section = b"\x00\x00\xd1\xd1\x00";
    assert_eq!(decode_section(section, 50, &mut block), Err(TooLarge));
    assert_eq!(decode_section(section, 100, &mut block), Err(Malformed));
}

fn line(fields: &[(&str, &str)]) -> Result<(String, Option<String>, String), H3Error> {
    let mut block = Block::default();
    decode_section(section_of(&headers(fields)), 1 << 20, &mut block).unwrap();
    request_line(&block).map(|line| {
        let PseudoFields {
            method,
            authority,
            target,
            ..
        } = line;
        (method.into(), authority.map(Into::into), target.into())
    })
}

#[test]
fn pseudo_fields_become_the_request_line() {
    let wanted = ("GET".into(), Some("a.test".into()), "/x?y".into());
    assert_eq!(line(&GET), Ok(wanted.clone()));
    assert_eq!(line(&[&GET[..], &[("x", "")]].concat()), Ok(wanted));
    let [method, scheme, authority, path] = GET;
    assert_eq!(
        line(&[method, scheme, path, ("host", "a.test")]).unwrap().1,
        None
    );
    let connect = (":method", "CONNECT");
    let wanted = ("CONNECT".into(), Some("a.test".into()), "a.test".into());
    assert_eq!(line(&[connect, authority]), Ok(wanted));
    for fields in [
        &[][..],
        &[method, scheme, authority],
        &[method, authority, path],
        &[scheme, authority, path],
        &[method, scheme, authority, (":path", "")],
        &[method, scheme, (":authority", ""), path],
        &[method, scheme, authority, path, path],
        &[method, scheme, authority, path, (":protocol", "websocket")],
        &[method, scheme, authority, path, (":status", "200")],
        &[method, scheme, authority, ("x", "y"), path],
        &[method, scheme, authority, path, (":Path", "/")],
        &[connect],
        &[connect, authority, path],
        &[connect, authority, scheme],
        &[connect, scheme, authority, path, (":protocol", "websocket")],
    ] {
        let malformed = H3Error::Stream(H3Code::MessageError);
        assert_eq!(line(fields), Err(malformed), "{fields:?}");
    }
}

proptest! {
    #[test]
    fn written_fields_survive_a_round_trip(
        list in proptest::collection::vec(("(:path|etag|vary|:status|x-[a-z]{0,200}|cookie)", "(200|origin|[ -~]{0,300})"), 0..20),
    ) {
        let list: Vec<_> = list.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let frame = headers(&list);
        prop_assert_eq!(decoded(section_of(&frame)).unwrap(), owned(&list));
    }

    // The result is bounded by the limit, for any input.
    #[test]
    fn any_sections_are_decoded_or_rejected(
        mut section in proptest::collection::vec(any::<u8>(), 0..300),
        most in 0..600_usize,
        has_prefix in any::<bool>(),
    ) {
        if has_prefix {
            section.splice(0..0, [0, 0]);
        }
        let mut block = Block::default();
        let result = decode_section(&section, most, &mut block);
        let kept: usize = block.fields().map(|(n, v)| n.len() + v.len() + 32).sum();
        prop_assert!(kept <= most);
        prop_assert!(block.capacity() <= 2 * most + 4 * section.len() + 2_000);
        if result.is_ok() {
            prop_assert_eq!(kept, block.list_bytes());
        }
    }
}
