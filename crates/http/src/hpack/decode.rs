//! Decodes header blocks: lists of fields that refer to the tables or are literals.

use super::error::HpackError::{self, Malformed};
use super::huffman;
use super::table::{DynamicTable, size_of_field};

/// Decodes the header blocks of one direction of a connection, in order.
#[derive(Debug, Default)]
pub struct HpackDecoder {
    table: DynamicTable,
}

/// The fields of a header block in order, including pseudo-header fields.
#[derive(Debug, Default)]
pub struct Block {
    pub(crate) bytes: Vec<u8>,
    spans: Vec<HpackField>,
    list_bytes: usize,
}

/// The position of a field in the bytes: its name, followed by its value.
#[derive(Clone, Copy, Debug)]
struct HpackField {
    at: usize,
    name: usize,
    value: usize,
}

impl Block {
    /// Removes all fields. Keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        self.list_bytes = 0;
    }

    /// The name and value of each field.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.spans.iter().map(|span| {
            let bytes = self.bytes.get(span.at..).unwrap_or_default();
            let (name, rest) = bytes.split_at_checked(span.name).unwrap_or_default();
            (name, rest.get(..span.value).unwrap_or_default())
        })
    }

    /// The size of all fields, also of those that were not kept, as RFC 9113 section 6.5.2 counts it.
    pub fn list_bytes(&self) -> usize {
        self.list_bytes
    }

    /// The memory in use, in bytes.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<HpackField>()
    }

    /// Counts the field whose name and value are at the end, and keeps it if the list is within `most` bytes.
    pub(crate) fn end_field(&mut self, at: usize, name: usize, most: usize) {
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
    /// Decodes a complete block into `block`, whose previous fields are removed. Keeps fields until the list exceeds `most` bytes
    /// ([`Block::list_bytes`]), and fails if it exceeds [`TOO_LARGE`] times as many.
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
                // Only at the start of a block (RFC 7541 section 4.2).
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

    /// Decodes a literal field (RFC 7541 section 6.2).
    fn literal(
        &mut self,
        reader: &mut HpackReader<'_>,
        is_kept: bool,
        most: usize,
        block: &mut Block,
    ) -> Result<(), HpackError> {
        let at = block.bytes.len();
        match reader.integer(if is_kept { 6 } else { 4 })? {
            0 => reader.string(7, &mut block.bytes)?,
            index => {
                let (name, _) = self.table.get(index).ok_or(Malformed)?;
                block.bytes.extend_from_slice(name);
            }
        }
        let name = block.bytes.len() - at;
        reader.string(7, &mut block.bytes)?;
        if is_kept {
            let field = block.bytes.get(at..).unwrap_or_default();
            let (name, value) = field.split_at_checked(name).unwrap_or_default();
            self.table.insert(name, value);
        }
        block.end_field(at, name, most);
        Ok(())
    }
}

/// Reads the primitives of RFC 7541 section 5, which QPACK shares (RFC 9204 section 4.1).
pub(crate) struct HpackReader<'b> {
    pub(crate) rest: &'b [u8],
}

impl HpackReader<'_> {
    fn byte(&mut self) -> Result<u8, HpackError> {
        let (first, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*first)
    }

    /// Reads an integer that starts in the last `bits` bits of a byte. Legitimate ones have at most four more bytes.
    pub(crate) fn integer(&mut self, bits: u32) -> Result<usize, HpackError> {
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

    /// Reads a string whose length starts in the last `bits` bits of a byte, behind the flag for the Huffman code.
    pub(crate) fn string(&mut self, bits: u32, into: &mut Vec<u8>) -> Result<(), HpackError> {
        let flag = 1 << bits;
        let is_coded = self.rest.first().is_some_and(|first| first & flag != 0);
        let length = self.integer(bits)?;
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

/// The maximum size of a list that is decoded to keep the table consistent, as a multiple of the limit for stored fields.
pub const TOO_LARGE: usize = 4;
