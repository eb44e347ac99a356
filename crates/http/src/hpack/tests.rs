//! Tests of blocks: the examples of RFC 7541, malformed blocks, and properties.

use proptest::prelude::*;

use super::error::HpackError::Malformed;
use super::*;
use crate::hpack::table::size_of_field;

fn fields(block: &Block) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    block
        .fields()
        .map(|(name, value)| (text(name), text(value)))
        .collect()
}

fn decode(decoder: &mut HpackDecoder, encoded: &[u8]) -> Result<Vec<(String, String)>, HpackError> {
    let mut block = Block::default();
    decoder.decode(encoded, 1 << 20, &mut block)?;
    Ok(fields(&block))
}

fn owned(list: &[(&str, &str)]) -> Vec<(String, String)> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    list.iter().map(own).collect()
}

/// RFC 7541 appendix C.3 and C.4: three requests, plain and coded.
#[test]
fn the_examples_of_the_rfc_are_decoded() {
    let plain: [&[u8]; 3] = [
        b"\x82\x86\x84\x41\x0fwww.example.com",
        b"\x82\x86\x84\xbe\x58\x08no-cache",
        b"\x82\x87\x85\xbf\x40\x0acustom-key\x0ccustom-value",
    ];
    let coded: [&[u8]; 3] = [
        b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
        b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf",
        b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
    ];
    let wanted = [
        owned(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "www.example.com"),
        ]),
        owned(&[
            (":method", "GET"),
            (":scheme", "http"),
            (":path", "/"),
            (":authority", "www.example.com"),
            ("cache-control", "no-cache"),
        ]),
        owned(&[
            (":method", "GET"),
            (":scheme", "https"),
            (":path", "/index.html"),
            (":authority", "www.example.com"),
            ("custom-key", "custom-value"),
        ]),
    ];
    for blocks in [plain, coded] {
        let mut decoder = HpackDecoder::default();
        for (block, wanted) in blocks.iter().zip(&wanted) {
            assert_eq!(&decode(&mut decoder, block).unwrap(), wanted);
        }
    }
}

#[test]
fn malformed_blocks_are_rejected() {
    for (what, block) in [
        ("index 0", &b"\x80"[..]),
        ("an index that is not there", b"\xbe"),
        ("the name of an index that is not there", b"\x7f\x00\x01a"),
        ("an integer without an end", b"\xff\xff\xff\xff\xff\xff\xff"),
        ("a string that is cut off", b"\x00\x05abc"),
        ("a value that is missing", b"\x00\x01a"),
        ("a table larger than allowed", b"\x3f\xe2\x1f"),
        ("a size behind a field", b"\x82\x20"),
        ("padding of zeros", b"\x00\x81\x00\x00"),
    ] {
        assert_eq!(
            decode(&mut HpackDecoder::default(), block),
            Err(Malformed),
            "{what}"
        );
    }
    assert_eq!(
        decode(&mut HpackDecoder::default(), b"\x20\x3f\xe1\x1f\x82")
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn the_oldest_fields_are_evicted() {
    let mut decoder = HpackDecoder::default();
    // A table of two fields of 34 bytes.
    let block = b"\x3f\x25\x40\x01a\x011\x40\x01b\x012\x40\x01c\x013\xbe\xbf";
    let wanted = owned(&[("a", "1"), ("b", "2"), ("c", "3"), ("c", "3"), ("b", "2")]);
    assert_eq!(decode(&mut decoder, block).unwrap(), wanted);
    assert_eq!(decode(&mut decoder, b"\xc0"), Err(Malformed));
    // A field larger than the table empties it.
    let long = "v".repeat(60);
    let block = [b"\x40\x01d\x3c", long.as_bytes()].concat();
    assert_eq!(
        decode(&mut decoder, &block).unwrap(),
        owned(&[("d", &long)])
    );
    assert_eq!(decode(&mut decoder, b"\xbe"), Err(Malformed));
}

#[test]
fn fields_beyond_the_limit_are_counted_but_not_kept() {
    let mut decoder = HpackDecoder::default();
    let mut block = Block::default();
    let long = "v".repeat(100);
    let mut encoded = [b"\x40\x01a\x64", long.as_bytes()].concat();
    encoded.extend(std::iter::repeat_n(0xbe, 7));
    encoded.extend_from_slice(b"\x40\x01z\x011");
    decoder.decode(&encoded, 300, &mut block).unwrap();
    assert_eq!(block.list_bytes(), 133 * 8 + 34);
    assert_eq!(fields(&block), owned(&[("a", &long), ("a", &long)]));
    assert!(block.capacity() < 2_000);
    // The table is consistent nevertheless.
    assert_eq!(decode(&mut decoder, b"\xbe").unwrap(), owned(&[("z", "1")]));
    encoded.extend(std::iter::repeat_n(0xbf, 1_000));
    assert_eq!(
        decoder.decode(&encoded, 300, &mut block),
        Err(HpackError::TooLarge)
    );
    assert!(block.list_bytes() <= TOO_LARGE * 300 + 133);
}

#[test]
fn lines_become_fields() {
    let mut encoded = Vec::new();
    write_status(&mut encoded, http::StatusCode::OK);
    write_lines(
        &mut encoded,
        b"content-type: text/html\r\nx-a: b: c\r\nx-empty: \r\n",
    );
    write_status(&mut encoded, http::StatusCode::IM_A_TEAPOT);
    let wanted = owned(&[
        (":status", "200"),
        ("content-type", "text/html"),
        ("x-a", "b: c"),
        ("x-empty", ""),
        (":status", "418"),
    ]);
    assert_eq!(
        decode(&mut HpackDecoder::default(), &encoded).unwrap(),
        wanted
    );
}

proptest! {
    // Written fields are decoded again, and do not change the table.
    #[test]
    fn literals_survive_a_round_trip(
        list in proptest::collection::vec(("(:path|etag|x-[a-z]{0,200}|cookie)", "[ -~]{0,300}"), 0..20),
    ) {
        let mut encoded = Vec::new();
        for (name, value) in &list {
            write_field(&mut encoded, name.as_bytes(), value.as_bytes());
        }
        let mut decoder = HpackDecoder::default();
        let mut block = Block::default();
        decoder.decode(&encoded, 1 << 20, &mut block).unwrap();
        let read: Vec<_> = block.fields().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        let wanted: Vec<_> = list.iter().map(|(n, v)| (n.clone().into_bytes(), v.clone().into_bytes())).collect();
        prop_assert_eq!(read, wanted);
        prop_assert_eq!(decode(&mut decoder, b"\xbe"), Err(Malformed));
    }

    // The result is bounded by the limit, for any input.
    #[test]
    fn any_blocks_are_decoded_or_rejected(
        blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..6),
        most in 0..600_usize,
    ) {
        let mut decoder = HpackDecoder::default();
        let mut block = Block::default();
        for encoded in blocks {
            if decoder.decode(&encoded, most, &mut block).is_err() {
                break;
            }
            let kept: usize = block.fields().map(|(n, v)| size_of_field(n.len(), v.len())).sum();
            prop_assert!(kept <= most && kept <= block.list_bytes());
            prop_assert!((kept == block.list_bytes()) == (block.list_bytes() <= most));
        }
    }
}
