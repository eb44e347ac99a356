//! Parses bytes of the responder into events, record by record.
//!
//! Content is passed on as it is received, without waiting for the end of its record and without a copy. Only STDOUT, STDERR
//! and `END_REQUEST` of request 1 are accepted. Management records (id 0, types `GET_VALUES_RESULT` and `UNKNOWN_TYPE`) are
//! skipped, although Galley never requests them. Everything else is rejected, because a record with another id may be part
//! of the response to another request. The result does not depend on how the bytes were split.

use bytes::{Buf, BytesMut};

use crate::event::FastCgiEvent;
use crate::record::{BadRecord, EndStatus, HEADER_BYTES, Header, REQUEST_ID, RecordType};

/// A parser of records. It keeps the position within a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordParser {
    at: RecordPosition,
}

#[derive(Clone, Copy, Debug)]
enum RecordPosition {
    Header,
    /// `left` bytes of content, then `padding`.
    Content {
        stream: OutputStream,
        left: usize,
        padding: usize,
    },
    /// The eight bytes of `END_REQUEST`, then padding.
    End {
        padding: usize,
    },
    /// Bytes that are ignored: padding, management records.
    Skip {
        left: usize,
    },
}

#[derive(Clone, Copy, Debug)]
enum OutputStream {
    Stdout,
    Stderr,
}

impl RecordParser {
    pub(crate) fn new() -> RecordParser {
        RecordParser {
            at: RecordPosition::Header,
        }
    }

    /// Removes the next event from `input`; `None` if more bytes are needed. Events of streams are never empty.
    pub(crate) fn next(&mut self, input: &mut BytesMut) -> Result<Option<FastCgiEvent>, BadRecord> {
        loop {
            match self.at {
                RecordPosition::Header => {
                    let Some(bytes) = input.first_chunk::<HEADER_BYTES>() else {
                        return Ok(None);
                    };
                    let header = Header::decode(*bytes)?;
                    self.at = position_after(header)?;
                    input.advance(HEADER_BYTES);
                }
                RecordPosition::Content {
                    left: 0, padding, ..
                } => self.at = RecordPosition::Skip { left: padding },
                RecordPosition::Content {
                    stream,
                    left,
                    padding,
                } => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let piece = input.split_to(left.min(input.len())).freeze();
                    self.at = RecordPosition::Content {
                        stream,
                        left: left - piece.len(),
                        padding,
                    };
                    return Ok(Some(match stream {
                        OutputStream::Stdout => FastCgiEvent::Stdout(piece),
                        OutputStream::Stderr => FastCgiEvent::Stderr(piece),
                    }));
                }
                RecordPosition::End { padding } => {
                    let Some(body) = input.first_chunk::<END_BYTES>() else {
                        return Ok(None);
                    };
                    let status = EndStatus::decode(*body);
                    input.advance(END_BYTES);
                    self.at = RecordPosition::Skip { left: padding };
                    self.skip(input);
                    return Ok(Some(FastCgiEvent::End(status)));
                }
                RecordPosition::Skip { .. } => {
                    if !self.skip(input) {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Whether the last record was consumed completely, with its padding.
    pub(crate) fn is_between_records(&self) -> bool {
        matches!(self.at, RecordPosition::Header)
    }

    /// Discards bytes to be skipped; true if none remain.
    fn skip(&mut self, input: &mut BytesMut) -> bool {
        if let RecordPosition::Skip { left } = self.at {
            let here = left.min(input.len());
            input.advance(here);
            self.at = if here == left {
                RecordPosition::Header
            } else {
                RecordPosition::Skip { left: left - here }
            };
        }
        self.is_between_records()
    }
}

fn position_after(header: Header) -> Result<RecordPosition, BadRecord> {
    let (left, padding) = (usize::from(header.content), usize::from(header.padding));
    let kind = RecordType::from_code(header.code);
    match (header.id, kind) {
        (0, Some(RecordType::GetValuesResult | RecordType::UnknownType)) => {
            Ok(RecordPosition::Skip {
                left: left + padding,
            })
        }
        (REQUEST_ID, Some(RecordType::Stdout)) => Ok(RecordPosition::Content {
            stream: OutputStream::Stdout,
            left,
            padding,
        }),
        (REQUEST_ID, Some(RecordType::Stderr)) => Ok(RecordPosition::Content {
            stream: OutputStream::Stderr,
            left,
            padding,
        }),
        (REQUEST_ID, Some(RecordType::EndRequest)) if left == END_BYTES => {
            Ok(RecordPosition::End { padding })
        }
        (REQUEST_ID, Some(RecordType::EndRequest)) => Err(BadRecord::EndLength(header.content)),
        (0 | REQUEST_ID, _) => Err(BadRecord::Type(header.code)),
        (id, _) => Err(BadRecord::Id(id)),
    }
}

/// The size of the body of `END_REQUEST`.
const END_BYTES: usize = 8;
