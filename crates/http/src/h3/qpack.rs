//! Decodes field sections (RFC 9204 section 4.5). References to the dynamic table are errors, because there is none.

use super::static_table::STATIC;
use crate::hpack::HpackError::{self, Malformed, TooLarge};
use crate::hpack::{Block, HpackReader};

/// Decodes a complete section into `block`, whose previous fields are removed.
///
/// Errors: `Malformed` (`QPACK_DECOMPRESSION_FAILED`); `TooLarge` as soon as the list has more than `most` bytes
/// ([`Block::list_bytes`], as RFC 9114 section 4.2.2 counts): the fields before that are in `block`, the rest is not examined.
/// Limits: `block` grows by at most 8/5 of the section's bytes beyond `most`.
pub fn decode_section(encoded: &[u8], most: usize, block: &mut Block) -> Result<(), HpackError> {
    block.clear();
    let mut reader = HpackReader { rest: encoded };
    read_prefix(&mut reader)?;
    while let Some(&first) = reader.rest.first() {
        let at = block.bytes.len();
        let name = if first & INDEXED != 0 {
            let (name, value) = entry(&mut reader, first & IS_STATIC_INDEXED != 0, 6)?;
            block.bytes.extend_from_slice(name.as_bytes());
            block.bytes.extend_from_slice(value.as_bytes());
            name.len()
        } else {
            if first & NAME_REFERENCE != 0 {
                let (name, _) = entry(&mut reader, first & IS_STATIC_NAME != 0, 4)?;
                block.bytes.extend_from_slice(name.as_bytes());
            } else if first & LITERAL_NAME != 0 {
                reader.string(3, &mut block.bytes)?;
            } else {
                // A reference to the dynamic table, counted from the base.
                return Err(Malformed);
            }
            let name = block.bytes.len() - at;
            reader.string(7, &mut block.bytes)?;
            name
        };
        block.end_field(at, name, most);
        if block.list_bytes() > most {
            return Err(TooLarge);
        }
    }
    Ok(())
}

/// Reads the prefix of a section (RFC 9204 section 4.5.1). Without references to the dynamic table the base has no effect,
/// but a negative one is an error.
fn read_prefix(reader: &mut HpackReader<'_>) -> Result<(), HpackError> {
    let required_inserts = reader.integer(8)?;
    let is_negative = reader.rest.first().is_some_and(|first| first & 0x80 != 0);
    if required_inserts != 0 || is_negative {
        return Err(Malformed);
    }
    reader.integer(7).map(|_| ())
}

/// The entry of the static table that a reference with an index of `bits` bits names.
fn entry(
    reader: &mut HpackReader<'_>,
    is_static: bool,
    bits: u32,
) -> Result<(&'static str, &'static str), HpackError> {
    let index = reader.integer(bits)?;
    let entry = is_static.then(|| STATIC.get(index)).flatten();
    entry.copied().ok_or(Malformed)
}

/// `1Txxxxxx`: name and value by index.
pub(super) const INDEXED: u8 = 0x80;
pub(super) const IS_STATIC_INDEXED: u8 = 0x40;
/// `01NTxxxx`: the name by index.
pub(super) const NAME_REFERENCE: u8 = 0x40;
pub(super) const IS_STATIC_NAME: u8 = 0x10;
/// `001NHxxx`: the name as a string.
pub(super) const LITERAL_NAME: u8 = 0x20;
