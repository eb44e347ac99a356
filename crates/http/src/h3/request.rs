//! Reads the stream of a request: one field section, the body in DATA frames, perhaps trailers (RFC 9114 section 4.1).

use super::code::{H3Code, H3Error};
use super::flood::{H3Flood, REQUEST_REFILL};
use super::frame::{self, DATA, H3Frame, H3FrameReader, HEADERS};
use super::qpack::decode_section;
use crate::h2;
use crate::hpack::{Block, HpackError};

/// What was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutput<'i> {
    /// The input is used.
    More,
    /// The field section of the request is in the block.
    Head,
    /// The field section exceeds the limit; its first fields may be in the block. The response is 431, or the stream is
    /// reset. Everything behind it is skipped.
    HeadTooLarge,
    /// Bytes of the body, a part of the input, at least one.
    Data(&'i [u8]),
}

/// The reader of one request stream.
#[derive(Debug)]
pub struct RequestReader {
    frames: H3FrameReader,
    part: RequestPart,
    stage: RequestStage,
    /// The bytes that the body still needs, if its length was announced.
    left: Option<u64>,
    most: usize,
    /// The tokens that the buffered part of a section has cost.
    charged: u32,
}

/// The position within a frame.
#[derive(Clone, Copy, Debug)]
enum RequestPart {
    FrameHead,
    Section(usize),
    Data(u64),
    Skipped(u64),
    /// Nothing is read any more.
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestStage {
    Head,
    Body,
    /// The trailers were read.
    End,
}

impl RequestReader {
    /// A reader for a new stream. `most`: the maximum size of a field section in bytes, as [`Block::list_bytes`] counts, and
    /// of its encoded form.
    pub fn new(most: usize) -> Self {
        Self {
            frames: H3FrameReader::default(),
            part: RequestPart::FrameHead,
            stage: RequestStage::Head,
            left: None,
            most,
            charged: 0,
        }
    }

    /// Reads from the front of `input` up to the next output. A field section is decoded into `block`, also that of trailers,
    /// which are checked and dropped.
    ///
    /// Errors: those of RFC 9114; `MessageError` also for a body longer than announced; `ExcessiveLoad` for a flood. After an
    /// error the reader must not be used.
    /// Cost: no allocation if the whole section is in `input`; otherwise it is buffered.
    pub fn next<'i>(
        &mut self,
        input: &mut &'i [u8],
        block: &mut Block,
        flood: &mut H3Flood,
    ) -> Result<RequestOutput<'i>, H3Error> {
        loop {
            match self.part {
                RequestPart::FrameHead => match self.frames.next(input) {
                    None => return Ok(RequestOutput::More),
                    Some(frame) => self.begin(frame, flood)?,
                },
                RequestPart::Section(length) => {
                    let Some(section) = self.frames.payload(input, length) else {
                        let tokens = self.frames.buffered() / BYTES_PER_TOKEN;
                        let tokens = u32::try_from(tokens).unwrap_or(u32::MAX);
                        flood.idle(tokens - std::mem::replace(&mut self.charged, tokens))?;
                        return Ok(RequestOutput::More);
                    };
                    let decoded = decode_section(section, self.most, block);
                    self.frames.release();
                    flood.refund(std::mem::take(&mut self.charged));
                    self.part = RequestPart::FrameHead;
                    if let Some(output) = self.end_section(decoded, block, flood)? {
                        return Ok(output);
                    }
                }
                RequestPart::Data(0) | RequestPart::Skipped(0) => {
                    self.part = RequestPart::FrameHead;
                }
                RequestPart::Ignored if self.stage == RequestStage::Head => {
                    self.stage = RequestStage::End;
                    return Ok(RequestOutput::HeadTooLarge);
                }
                _ if input.is_empty() => return Ok(RequestOutput::More),
                RequestPart::Data(rest) => {
                    let data = frame::take(input, rest);
                    self.part = RequestPart::Data(rest - data.len() as u64);
                    return Ok(RequestOutput::Data(data));
                }
                RequestPart::Skipped(rest) => {
                    let skipped = frame::take(input, rest);
                    self.part = RequestPart::Skipped(rest - skipped.len() as u64);
                }
                RequestPart::Ignored => *input = &[],
            }
        }
    }

    /// Sets the length of the body that the head announces. Must be called before the next call of [`Self::next`].
    pub fn expect_body(&mut self, length: u64) {
        self.left = Some(length);
    }

    /// Judges the end of the stream: to be called once all bytes before it were read.
    ///
    /// Errors: `Connection(FrameError)` within a frame; `Stream(RequestIncomplete)` without a head; `Stream(MessageError)` if
    /// the body is shorter than announced.
    pub fn end(&self) -> Result<(), H3Error> {
        match self.part {
            RequestPart::Ignored => return Ok(()),
            RequestPart::Data(0) | RequestPart::Skipped(0) => {}
            RequestPart::FrameHead if self.frames.is_between_frames() => {}
            _ => return Err(H3Error::Connection(H3Code::FrameError)),
        }
        if self.stage == RequestStage::Head {
            return Err(H3Error::Stream(H3Code::RequestIncomplete));
        }
        match self.left {
            None | Some(0) => Ok(()),
            Some(_) => Err(H3Error::Stream(H3Code::MessageError)),
        }
    }

    /// Whether a part of the head was received, but not all of it.
    pub fn is_mid_head(&self) -> bool {
        self.stage == RequestStage::Head
    }

    /// The memory of a section that is incomplete, in bytes.
    pub fn capacity(&self) -> usize {
        self.frames.capacity()
    }

    /// Decides what to do with a frame.
    fn begin(&mut self, frame: H3Frame, flood: &mut H3Flood) -> Result<(), H3Error> {
        let H3Frame { kind, length } = frame;
        self.part = match (kind, self.stage) {
            (HEADERS, RequestStage::Head | RequestStage::Body) => {
                match usize::try_from(length) {
                    Ok(length) if length <= self.most => RequestPart::Section(length),
                    // No client encodes fields in more bytes than they have.
                    _ if self.stage == RequestStage::Head => RequestPart::Ignored,
                    _ => return Err(H3Error::Stream(H3Code::ExcessiveLoad)),
                }
            }
            (DATA, RequestStage::Body) => {
                flood.data(length)?;
                if let Some(left) = &mut self.left {
                    let rest = left.checked_sub(length);
                    *left = rest.ok_or(H3Error::Stream(H3Code::MessageError))?;
                }
                RequestPart::Data(length)
            }
            _ if frame::is_known(kind) => {
                return Err(H3Error::Connection(H3Code::FrameUnexpected));
            }
            _ => RequestPart::Skipped(frame::skip(length, flood)?),
        };
        Ok(())
    }

    fn end_section(
        &mut self,
        decoded: Result<(), HpackError>,
        block: &Block,
        flood: &mut H3Flood,
    ) -> Result<Option<RequestOutput<'static>>, H3Error> {
        let is_head = self.stage == RequestStage::Head;
        self.stage = match self.stage {
            RequestStage::Head => RequestStage::Body,
            RequestStage::Body | RequestStage::End => RequestStage::End,
        };
        match decoded {
            Err(HpackError::Malformed) => Err(H3Error::Connection(H3Code::DecompressionFailed)),
            Err(HpackError::TooLarge) if is_head => {
                self.part = RequestPart::Ignored;
                Ok(Some(RequestOutput::HeadTooLarge))
            }
            Err(HpackError::TooLarge) => Err(H3Error::Stream(H3Code::ExcessiveLoad)),
            Ok(()) if is_head => {
                flood.request();
                Ok(Some(RequestOutput::Head))
            }
            Ok(()) if h2::are_trailers(block) => {
                flood.idle(REQUEST_REFILL)?;
                Ok(None)
            }
            Ok(()) => Err(H3Error::Stream(H3Code::MessageError)),
        }
    }
}

/// The bytes of sections in pieces that cost a token until they are complete: at most about a megabyte waits on a connection.
const BYTES_PER_TOKEN: usize = 1024;
