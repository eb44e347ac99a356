//! Writes frames, and field sections with references to the static table and plain strings.

use http::StatusCode;

use super::frame::{DATA, GOAWAY, HEADERS, SETTINGS};
use super::qpack::{INDEXED, IS_STATIC_INDEXED, IS_STATIC_NAME, LITERAL_NAME, NAME_REFERENCE};
use super::static_table::STATIC;
use super::varint;
use crate::hpack::{lines_of, write_integer};

/// The beginning of our control stream: its type, and the settings. `most`: the maximum size of a field section in bytes.
///
/// The table of QPACK has its default capacity, 0, so Galley opens no QPACK streams (RFC 9204 section 4.2).
pub fn write_control_stream(out: &mut Vec<u8>, most: u64) {
    let mut setting = Vec::with_capacity(16);
    varint::write(&mut setting, MAX_FIELD_SECTION_SIZE);
    varint::write(&mut setting, most);
    varint::write(out, CONTROL);
    write_frame_head(out, SETTINGS, setting.len() as u64);
    out.extend_from_slice(&setting);
}

/// Appends a `GOAWAY` for the control stream: requests on `stream` and above are not processed. The id must be that of a
/// bidirectional stream of the client, and must not rise.
pub fn write_goaway(out: &mut Vec<u8>, stream: u64) {
    let mut id = Vec::with_capacity(8);
    varint::write(&mut id, stream);
    write_frame_head(out, GOAWAY, id.len() as u64);
    out.extend_from_slice(&id);
}

/// Appends the head of a DATA frame whose payload has `bytes` bytes.
pub fn write_data_head(out: &mut Vec<u8>, bytes: u64) {
    write_frame_head(out, DATA, bytes);
}

/// A HEADERS frame that is being written.
#[derive(Debug)]
#[must_use]
pub struct OpenHeaders {
    /// The position of its section.
    at: usize,
}

/// Begins a HEADERS frame. [`write_status`] follows, then fields, then [`end_headers`].
pub fn begin_headers(out: &mut Vec<u8>) -> OpenHeaders {
    varint::write(out, HEADERS);
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    let at = out.len();
    // The prefix of a section without references to the dynamic table.
    out.extend_from_slice(&[0, 0]);
    OpenHeaders { at }
}

/// Ends a HEADERS frame, whose length is known now.
#[expect(clippy::needless_pass_by_value, reason = "a frame ends once")]
pub fn end_headers(out: &mut Vec<u8>, frame: OpenHeaders) {
    let OpenHeaders { at } = frame;
    let length = (out.len() - at) as u64;
    if let Ok(short) = u16::try_from(length)
        && short < TWO_BYTES
    {
        let bytes = (short | TWO_BYTES).to_be_bytes();
        if let Some(place) = out.get_mut(at - LENGTH_BYTES..at) {
            place.copy_from_slice(&bytes);
        }
        return;
    }
    let mut bytes = Vec::with_capacity(8);
    varint::write(&mut bytes, length);
    out.splice(at - LENGTH_BYTES..at, bytes);
}

/// Appends `:status`.
pub fn write_status(out: &mut Vec<u8>, status: StatusCode) {
    write_field(out, b":status", status.as_str().as_bytes());
}

/// Appends a field. The name must be in lower case.
pub fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let mut named = None;
    for &(first, count) in ranges_of(name) {
        named = named.or(Some(first));
        let entries = STATIC.iter().enumerate().skip(first).take(count);
        for (index, (_, known)) in entries {
            if known.as_bytes() == value {
                return write_integer(out, INDEXED | IS_STATIC_INDEXED, 6, index);
            }
        }
    }
    if let Some(index) = named {
        write_integer(out, NAME_REFERENCE | IS_STATIC_NAME, 4, index);
    } else {
        write_integer(out, LITERAL_NAME, 3, name.len());
        out.extend_from_slice(name);
    }
    write_integer(out, 0, 7, value.len());
    out.extend_from_slice(value);
}

/// Appends fields from lines of `name: value` and CRLF.
pub fn write_lines(out: &mut Vec<u8>, lines: &[u8]) {
    for (name, value) in lines_of(lines) {
        write_field(out, name, value);
    }
}

fn write_frame_head(out: &mut Vec<u8>, kind: u64, length: u64) {
    varint::write(out, kind);
    varint::write(out, length);
}

/// The entries of the static table with a name: the first index of each range, and the number of entries. Only for names of
/// response fields.
fn ranges_of(name: &[u8]) -> &'static [(usize, usize)] {
    match name {
        b":status" => &[(24, 5), (63, 9)],
        b"accept-ranges" => &[(32, 1)],
        b"access-control-allow-credentials" => &[(73, 2)],
        b"access-control-allow-headers" => &[(33, 2), (75, 1)],
        b"access-control-allow-methods" => &[(76, 3)],
        b"access-control-allow-origin" => &[(35, 1)],
        b"access-control-expose-headers" => &[(79, 1)],
        b"age" => &[(2, 1)],
        b"alt-svc" => &[(83, 1)],
        b"cache-control" => &[(36, 6)],
        b"content-disposition" => &[(3, 1)],
        b"content-encoding" => &[(42, 2)],
        b"content-length" => &[(4, 1)],
        b"content-security-policy" => &[(85, 1)],
        b"content-type" => &[(44, 11)],
        b"date" => &[(6, 1)],
        b"etag" => &[(7, 1)],
        b"expect-ct" => &[(87, 1)],
        b"last-modified" => &[(10, 1)],
        b"link" => &[(11, 1)],
        b"location" => &[(12, 1)],
        b"server" => &[(92, 1)],
        b"set-cookie" => &[(14, 1)],
        b"strict-transport-security" => &[(56, 3)],
        b"timing-allow-origin" => &[(93, 1)],
        b"vary" => &[(59, 2)],
        b"x-content-type-options" => &[(61, 1)],
        b"x-frame-options" => &[(97, 2)],
        b"x-xss-protection" => &[(62, 1)],
        _ => &[],
    }
}

/// The type of a control stream.
const CONTROL: u64 = 0x00;

/// `SETTINGS_MAX_FIELD_SECTION_SIZE`.
const MAX_FIELD_SECTION_SIZE: u64 = 0x06;

/// The bytes for the length of a HEADERS frame: enough for nearly all.
const LENGTH_BYTES: usize = 2;

/// The first integer that has more than two bytes; its bit marks those of two bytes.
const TWO_BYTES: u16 = 0x4000;
