//! Tests: the examples of RFC 9204, malformed sections and frames, and properties.

mod connection;
mod qpack;
mod request;

use super::*;
use crate::hpack::Block;

/// Names and values.
type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn fields(block: &Block) -> Fields {
    let to_owned = |(name, value): (&[u8], &[u8])| (name.to_vec(), value.to_vec());
    block.fields().map(to_owned).collect()
}

fn owned(list: &[(&str, &str)]) -> Fields {
    let own = |(name, value): &(&str, &str)| (name.as_bytes().to_vec(), value.as_bytes().to_vec());
    list.iter().map(own).collect()
}

/// A HEADERS frame.
fn headers(list: &[(&str, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    let frame = begin_headers(&mut out);
    for (name, value) in list {
        write_field(&mut out, name.as_bytes(), value.as_bytes());
    }
    end_headers(&mut out, frame);
    out
}

/// A frame.
fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(&mut out, kind);
    varint::write(&mut out, payload.len() as u64);
    out.extend_from_slice(payload);
    out
}

const GET: [(&str, &str); 4] = [
    (":method", "GET"),
    (":scheme", "https"),
    (":authority", "a.test"),
    (":path", "/x?y"),
];
