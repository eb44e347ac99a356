//! Header compression of HTTP/2 (RFC 7541), as far as a server needs it: decoding blocks of a client, with its dynamic
//! table, and writing fields as literals.
//!
//! Decoding accepts any input, and is bounded: a block yields at most the bytes that the caller requested, however often an
//! index repeats a long field. Fields beyond that are counted, and the table is kept consistent, but nothing is copied.
//! Nothing is allocated once a [`Block`] and a table have grown to the size that a client uses.
//!
//! Written fields never refer to the dynamic table and are never inserted into it, so two writers may write blocks to the
//! same connection.

pub(super) mod decode;
mod error;
mod huffman;
mod table;
mod write;

pub(crate) use self::decode::HpackReader;
pub use self::decode::{Block, HpackDecoder, TOO_LARGE};
pub use self::error::HpackError;
pub use self::table::TABLE_BYTES;
pub(crate) use self::write::{lines_of, write_integer};
pub use self::write::{write_field, write_lines, write_status};

#[cfg(test)]
mod tests;
