//! Header compression of HTTP/2 (RFC 7541), as far as a server needs it: reading what a client sends, with its dynamic table,
//! and writing fields as literals.
//!
//! Reading is total, and bounded by what came: a block gives at most the bytes that its reader asked for, however often an
//! index repeats a long field; beyond that the fields are counted, and the table is kept right, but nothing is copied.
//! Nothing is allocated once a [`Block`] and a table have grown to what a client uses.
//!
//! Written fields never refer to the dynamic table and never enter it, so that blocks of two writers may follow each other on
//! one connection.

mod huffman;
mod table;
mod write;

use self::table::DynamicTable;
pub use self::write::{write_field, write_lines, write_status};

/// A block that was not read to its end. What follows on its connection cannot be read either (RFC 7541 section 2.3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HpackError {
    /// `COMPRESSION_ERROR`.
    #[error("the header block is malformed")]
    Malformed,
    /// Its fields are several times as many bytes as were to be kept: nobody asks so, and repeating a long field costs its
    /// client one byte.
    #[error("the header block is far too large")]
    TooLarge,
}

use HpackError::Malformed;

/// Reads the blocks of one direction of one connection, in their order.
#[derive(Debug, Default)]
pub struct HpackDecoder {
    table: DynamicTable,
}

/// The fields of a block, in their order; pseudo-header fields among them.
#[derive(Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    spans: Vec<HpackField>,
    list_bytes: usize,
}

/// Where a field lies in the bytes: its name, and behind it its value.
#[derive(Clone, Copy, Debug)]
struct HpackField {
    at: usize,
    name: usize,
    value: usize,
}

impl Block {
    /// Empties it, and keeps its room.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.list_bytes = 0;
    }

    /// Name and value of each field.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.spans.iter().map(|span| {
            let bytes = self.bytes.get(span.at..).unwrap_or_default();
            let (name, rest) = bytes.split_at_checked(span.name).unwrap_or_default();
            (name, rest.get(..span.value).unwrap_or_default())
        })
    }

    /// The size of all that came, as RFC 9113 section 6.5.2 counts it, also of what was not kept.
    pub fn list_bytes(&self) -> usize {
        self.list_bytes
    }

    /// Bytes of memory that it holds.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<HpackField>()
    }

    /// Counts the field whose name and value stand at the end, and keeps it if there is room.
    fn end_field(&mut self, at: usize, name: usize, most: usize) {
        let value = self.bytes.len().saturating_sub(at + name);
        self.list_bytes = self.list_bytes.saturating_add(size_of_field(name, value));
        if self.list_bytes <= most {
            self.spans.push(HpackField { at, name, value });
        } else {
            self.bytes.truncate(at);
        }
    }
}

impl HpackDecoder {
    /// Reads a whole block into `block`, which is emptied. Of the fields those are kept that come before the list has more than
    /// `most` bytes ([`Block::list_bytes`]); [`TOO_LARGE`] times as many end it.
    pub fn decode(
        &mut self,
        encoded: &[u8],
        most: usize,
        block: &mut Block,
    ) -> Result<(), HpackError> {
        block.clear();
        let mut reader = HpackReader { rest: encoded };
        let mut may_resize = true;
        while let Some(&first) = reader.rest.first() {
            if first & 0xe0 == 0x20 {
                // RFC 7541 section 4.2: at the beginning of a block alone.
                let size = reader.integer(5)?;
                if !may_resize || !self.table.resize(size) {
                    return Err(Malformed);
                }
                continue;
            }
            may_resize = false;
            if block.list_bytes > most.saturating_mul(TOO_LARGE) {
                return Err(HpackError::TooLarge);
            }
            if first & 0x80 == 0 {
                let is_kept = first & 0x40 != 0;
                self.literal(&mut reader, is_kept, most, block)?;
                continue;
            }
            let index = reader.integer(7)?;
            let (name, value) = self.table.get(index).ok_or(Malformed)?;
            let at = block.bytes.len();
            if block.list_bytes <= most {
                block.bytes.extend_from_slice(name);
                block.bytes.extend_from_slice(value);
                block.end_field(at, name.len(), most);
            } else {
                let size = size_of_field(name.len(), value.len());
                block.list_bytes = block.list_bytes.saturating_add(size);
            }
        }
        Ok(())
    }

    /// RFC 7541 section 6.2.
    fn literal(
        &mut self,
        reader: &mut HpackReader<'_>,
        is_kept: bool,
        most: usize,
        block: &mut Block,
    ) -> Result<(), HpackError> {
        let at = block.bytes.len();
        match reader.integer(if is_kept { 6 } else { 4 })? {
            0 => reader.string(&mut block.bytes)?,
            index => {
                let (name, _) = self.table.get(index).ok_or(Malformed)?;
                block.bytes.extend_from_slice(name);
            }
        }
        let name = block.bytes.len() - at;
        reader.string(&mut block.bytes)?;
        if is_kept {
            let field = block.bytes.get(at..).unwrap_or_default();
            let (name, value) = field.split_at_checked(name).unwrap_or_default();
            self.table.insert(name, value);
        }
        block.end_field(at, name, most);
        Ok(())
    }
}

/// The primitives of RFC 7541 section 5.
struct HpackReader<'b> {
    rest: &'b [u8],
}

impl HpackReader<'_> {
    fn byte(&mut self) -> Result<u8, HpackError> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*first)
    }

    /// An integer that begins in the last `bits` bits of a byte. No honest one needs more than four bytes behind it.
    fn integer(&mut self, bits: u32) -> Result<usize, HpackError> {
        let mask = (1_usize << bits) - 1;
        let mut number = usize::from(self.byte()?) & mask;
        if number < mask {
            return Ok(number);
        }
        for place in 0..4 {
            let byte = self.byte()?;
            number += usize::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }

    fn string(&mut self, into: &mut Vec<u8>) -> Result<(), HpackError> {
        let is_coded = self.rest.first().is_some_and(|first| first & 0x80 != 0);
        let length = self.integer(7)?;
        let (text, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        if is_coded {
            huffman::decode(text, into)
        } else {
            into.extend_from_slice(text);
            Ok(())
        }
    }
}

/// Bytes of the table, as RFC 7541 section 4.1 counts them: what a side that says nothing allows (RFC 9113 section 6.5.2).
pub const TABLE_BYTES: u32 = 4096;

/// How many times as much as is kept is read to keep the table right.
pub const TOO_LARGE: usize = 4;

/// RFC 7541 section 4.1, RFC 9113 section 6.5.2.
const fn size_of_field(name: usize, value: usize) -> usize {
    name.saturating_add(value).saturating_add(32)
}

#[cfg(test)]
mod tests;
