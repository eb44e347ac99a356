//! Records as a responder parses them.

use galley_fastcgi::BadRecord;
use galley_fastcgi::record::{HEADER_BYTES, Header};

/// The result of [`parse`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedRecord<'b> {
    /// More bytes are needed.
    Partial,
    /// A complete record with its padding.
    Whole {
        /// The header.
        header: Header,
        /// The content without the padding.
        content: &'b [u8],
        /// The size of the record in bytes: header, content and padding.
        length: usize,
    },
}

/// Parses one complete record at the start of `bytes`.
pub fn parse(bytes: &[u8]) -> Result<ParsedRecord<'_>, BadRecord> {
    let Some((head, rest)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Ok(ParsedRecord::Partial);
    };
    let header = Header::decode(*head)?;
    let (content, padding) = (usize::from(header.content), usize::from(header.padding));
    match rest.get(..content) {
        Some(slice) if rest.len() >= content + padding => Ok(ParsedRecord::Whole {
            header,
            content: slice,
            length: HEADER_BYTES + content + padding,
        }),
        _ => Ok(ParsedRecord::Partial),
    }
}
