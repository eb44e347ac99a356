//! Writes the head of a response and the frames of its chunks.
//!
//! Only this module writes the framing fields and Connection, from [`Length`] and [`ConnectionField`]; the same fields from
//! an upstream are dropped. A field with a name or value that could end its line early is dropped whole, so an upstream
//! cannot split a response in two (RFC 9110 section 5.5, RFC 9112 section 11.1).
//!
//! It does not handle Date, Server or the meaning of a status, and it does not see the body: the caller ensures that the body
//! has the announced length.

use std::io::Write;

use http::StatusCode;

use crate::token::{is_token, is_value_byte};

/// How the response's body is delimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Content-Length in bytes; a response to HEAD has it without the body.
    Known(u64),
    /// Transfer-Encoding: chunked. Only for HTTP/1.1.
    Chunked,
    /// The end of the connection ends the body. `Connection: close` is always written.
    UntilClose,
    /// No body and no framing field: 1xx, 204 and 304. Any other length counts as this one for those statuses.
    None,
}

/// The Connection field of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionField {
    /// The connection persists; the response states it for an HTTP/1.0 client.
    KeepAlive10,
    /// The connection persists, which is the default of HTTP/1.1: no field is written.
    KeepAlive,
    /// The connection ends after this response.
    Close,
    /// `101 Switching Protocols`: `Connection: upgrade` is written, and the Upgrade field is forwarded.
    Upgrade,
}

/// Requests the body that the client announced with `Expect: 100-continue`.
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
const OK_LINE: &[u8] = b"HTTP/1.1 200 OK\r\n";
/// Follows the data of every chunk.
pub const CHUNK_END: &[u8] = b"\r\n";
/// Ends a chunked body: the last chunk without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends status line, fields and the empty line to `out`.
///
/// A status outside 100..=999 becomes 500. Fields are written if the name is a token and the value contains no control
/// character but HTAB; hop-by-hop fields (RFC 9110 section 7.6.1) and Content-Length are never written. The version is
/// always 1.1 (RFC 9110 section 6.2), also for HTTP/1.0 clients.
pub fn write_head<'a>(
    out: &mut Vec<u8>,
    status: u16,
    fields: impl Iterator<Item = (&'a str, &'a [u8])>,
    length: Length,
    connection: ConnectionField,
) {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let (length, connection) = permitted(status, length, connection);
    write_status_line(out, status);
    for (name, value) in fields {
        if may_write(name, value, connection) {
            write_field(out, name.as_bytes(), value);
        }
    }
    write_end(out, length, connection);
}

/// As [`write_head`], for complete field lines. `lines`: pieces that together are lines of `name: value` and CRLF. They come
/// from [`HeaderMap`](http::HeaderMap)s or are made by the caller, and contain no framing fields.
pub fn write_stored<'a>(
    out: &mut Vec<u8>,
    status: StatusCode,
    lines: impl Iterator<Item = &'a [u8]>,
    length: Length,
    connection: ConnectionField,
) {
    let (length, connection) = permitted(status, length, connection);
    if status == StatusCode::OK {
        out.extend_from_slice(OK_LINE);
    } else {
        write_status_line(out, status);
    }
    // Not a `for` loop, which would check the end of each part of the chained iterator for each piece.
    lines.for_each(|piece| out.extend_from_slice(piece));
    write_end(out, length, connection);
}

/// The framing fields that the status permits.
fn permitted(
    status: StatusCode,
    length: Length,
    connection: ConnectionField,
) -> (Length, ConnectionField) {
    let length = match status.as_u16() {
        100..=199 | 204 | 304 => Length::None,
        _ => length,
    };
    match length {
        Length::UntilClose => (length, ConnectionField::Close),
        _ => (length, connection),
    }
}

fn write_end(out: &mut Vec<u8>, length: Length, connection: ConnectionField) {
    match length {
        Length::Known(bytes) => {
            out.extend_from_slice(b"Content-Length: ");
            out.extend_from_slice(itoa::Buffer::new().format(bytes).as_bytes());
            if connection == ConnectionField::KeepAlive {
                // The end of most heads, in one write.
                return out.extend_from_slice(b"\r\n\r\n");
            }
            out.extend_from_slice(b"\r\n");
        }
        Length::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
        Length::UntilClose | Length::None => {}
    }
    match connection {
        ConnectionField::KeepAlive10 => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        ConnectionField::KeepAlive => {}
        ConnectionField::Close => out.extend_from_slice(b"Connection: close\r\n"),
        ConnectionField::Upgrade => out.extend_from_slice(b"Connection: upgrade\r\n"),
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the size line of a chunk of `len` bytes; the data and [`CHUNK_END`] must follow. Writes nothing if `len` is zero,
/// because an empty chunk ends the body: then neither data nor [`CHUNK_END`] may follow.
pub fn write_chunk_head(out: &mut Vec<u8>, len: usize) {
    if len == 0 {
        return;
    }
    write!(out, "{len:x}\r\n").expect("a Vec takes every write");
}

fn write_status_line(out: &mut Vec<u8>, status: StatusCode) {
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    // The space is required also before an empty reason (RFC 9112 section 4).
    out.push(b' ');
    out.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
}

fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

fn may_write(name: &str, value: &[u8], connection: ConnectionField) -> bool {
    is_token(name.as_bytes())
        && value.iter().all(|&byte| is_value_byte(byte))
        && !is_framing(name, connection)
}

/// Whether only this module may write the field: it concerns the connection or the framing of the body.
fn is_framing(name: &str, connection: ConnectionField) -> bool {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    match name.len() {
        2 => is("te"),
        7 => is("trailer") || (is("upgrade") && connection != ConnectionField::Upgrade),
        10 => is("connection") || is("keep-alive"),
        14 => is("content-length"),
        16 => is("proxy-connection"),
        17 => is("transfer-encoding"),
        _ => false,
    }
}
