//! HTTP/3 (RFC 9114) as a server needs it, with the static table of QPACK alone (RFC 9204). Sans I/O.
//!
//! QUIC is elsewhere: it delivers the bytes of each stream in order. A [`RequestReader`] reads the stream of a request: its
//! field section becomes a [`crate::hpack::Block`], as over HTTP/2, and [`request_line()`] its request line; from there on
//! [`crate::h2::head`] judges it. An [`H3Connection`] reads the streams of the client that have one direction. The functions
//! `write_*` append frames and field sections to a buffer of the caller.
//!
//! Invariants: the same bytes give the same result however they are split, unless their pieces are a flood; at most one field section or one small frame of
//! a stream is buffered; reading a complete section and writing allocate nothing once the buffers of the caller have grown.
//! [`H3Flood`] counts everything that causes work without purpose.
//!
//! There is no dynamic table: its capacity is 0, so a client cannot make Galley keep state, and no section waits for
//! another stream. There are no pushes, no extended CONNECT and no datagrams.

mod code;
mod connection;
mod flood;
mod frame;
mod qpack;
mod request;
mod request_line;
mod static_table;
mod varint;
mod write;

pub use self::code::{H3Code, H3Error};
pub use self::connection::{H3Connection, UniOutput};
pub use self::flood::H3Flood;
pub use self::qpack::decode_section;
pub use self::request::{RequestOutput, RequestReader};
pub use self::request_line::request_line;
pub use self::write::{
    OpenHeaders, begin_headers, end_headers, write_control_stream, write_data_head, write_field,
    write_goaway, write_lines, write_status,
};

#[cfg(test)]
mod tests;
