//! The state of a connection, and the client's streams that have one direction: control, QPACK, and unknown ones.
//!
//! Every error here ends the connection.

use super::code::{H3Code, H3Error};
use super::flood::H3Flood;
use super::frame::{
    self, CANCEL_PUSH, GOAWAY, H3Frame, H3FrameReader, MAX_PUSH_ID, PRIORITY_OF_PUSH,
    PRIORITY_OF_REQUEST, SETTINGS,
};
use super::varint;
use crate::priority;

/// What was read from a stream of the client that has one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UniOutput {
    /// The input is used.
    More,
    /// A `PRIORITY_UPDATE`: the urgency, from 0 to 7, of the request on a stream, which may not be open yet, or not any more.
    Priority {
        /// The stream id, of a bidirectional stream of the client.
        stream: u64,
        /// The urgency; 0 is the most urgent.
        urgency: u8,
    },
    /// The stream has an unknown type: `STOP_SENDING` with [`H3Code::StreamCreation`]. It is forgotten, and must not be passed
    /// here again.
    Stop,
}

/// A connection. Its owner keeps the request streams, each with a [`super::RequestReader`].
#[derive(Debug)]
pub struct H3Connection {
    /// The counters of the connection.
    pub flood: H3Flood,
    /// The client's streams that have one direction and are open.
    streams: Vec<UniStream>,
    /// Whether the control, encoder and decoder streams were opened.
    has_critical: [bool; 3],
    has_settings: bool,
    /// The last push id of a `GOAWAY` of the client.
    last_goaway: u64,
    /// The last `MAX_PUSH_ID`.
    max_push: u64,
    control: H3FrameReader,
    control_part: ControlPart,
    /// The bytes of the instruction that is being read on the decoder stream.
    decoder_bytes: u32,
}

#[derive(Clone, Copy, Debug)]
struct UniStream {
    id: u64,
    kind: UniKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UniKind {
    /// The type has not been read: its first bytes, and their number.
    Unknown([u8; 8], u8),
    Control,
    Encoder,
    Decoder,
}

#[derive(Clone, Copy, Debug)]
enum ControlPart {
    FrameHead,
    Payload(H3Frame),
    Skipped(u64),
}

impl H3Connection {
    /// A connection that begins at `now_ms`; see [`H3Flood::new`].
    pub fn new(now_ms: u64) -> Self {
        Self {
            flood: H3Flood::new(now_ms),
            streams: Vec::new(),
            has_critical: [false; 3],
            has_settings: false,
            last_goaway: u64::MAX,
            max_push: 0,
            control: H3FrameReader::default(),
            control_part: ControlPart::FrameHead,
            decoder_bytes: 0,
        }
    }

    /// Reads bytes of the stream with this id, in order, from the front of `input` up to the next output. A stream exists from
    /// its first bytes until [`Self::end_uni`] or [`UniOutput::Stop`].
    pub fn read_uni(&mut self, stream: u64, input: &mut &[u8]) -> Result<UniOutput, H3Error> {
        loop {
            match self.kind(stream)? {
                UniKind::Unknown(bytes, have) => {
                    let Some((first, rest)) = input.split_first() else {
                        return Ok(UniOutput::More);
                    };
                    *input = rest;
                    let Some(kind) = self.kind_of(bytes, have, *first)? else {
                        *input = &[];
                        self.streams.retain(|one| one.id != stream);
                        return Ok(UniOutput::Stop);
                    };
                    if let Some(one) = self.streams.iter_mut().find(|one| one.id == stream) {
                        one.kind = kind;
                    }
                }
                UniKind::Control => return self.read_control(input),
                UniKind::Encoder => return self.read_encoder(input),
                UniKind::Decoder => return self.read_decoder(input),
            }
        }
    }

    /// Judges the end of a stream, whether by its last byte or by a reset.
    ///
    /// Errors: `ClosedCriticalStream` for the control and QPACK streams (RFC 9114 section 6.2.1).
    pub fn end_uni(&mut self, stream: u64) -> Result<(), H3Error> {
        let place = self.streams.iter().position(|one| one.id == stream);
        let ended = place.map(|place| self.streams.swap_remove(place).kind);
        match ended {
            Some(UniKind::Control | UniKind::Encoder | UniKind::Decoder) => {
                Err(connection(H3Code::ClosedCriticalStream))
            }
            // Also a stream that ends before its type is known (RFC 9114 section 6.2).
            Some(UniKind::Unknown(..)) | None => self.flood.idle(1),
        }
    }

    fn kind(&mut self, stream: u64) -> Result<UniKind, H3Error> {
        if let Some(one) = self.streams.iter().find(|one| one.id == stream) {
            return Ok(one.kind);
        }
        // QUIC permits fewer at once.
        if self.streams.len() >= MAX_UNI_STREAMS {
            return Err(connection(H3Code::ExcessiveLoad));
        }
        let kind = UniKind::Unknown([0; 8], 0);
        self.streams.push(UniStream { id: stream, kind });
        Ok(kind)
    }

    /// The kind of a stream, with one more byte of its type (RFC 9114 section 6.2); `None`: an unknown one.
    fn kind_of(
        &mut self,
        mut bytes: [u8; 8],
        have: u8,
        next: u8,
    ) -> Result<Option<UniKind>, H3Error> {
        if let Some(slot) = bytes.get_mut(usize::from(have)) {
            *slot = next;
        }
        let have = have + 1;
        let mut known = bytes.get(..usize::from(have)).unwrap_or_default();
        let Some(kind) = varint::read(&mut known) else {
            return Ok(Some(UniKind::Unknown(bytes, have)));
        };
        let (kind, place) = match kind {
            0x00 => (UniKind::Control, 0),
            0x02 => (UniKind::Encoder, 1),
            0x03 => (UniKind::Decoder, 2),
            // A push: only servers push.
            0x01 => return Err(connection(H3Code::StreamCreation)),
            _ => {
                self.flood.idle(UNKNOWN_STREAM_COST)?;
                return Ok(None);
            }
        };
        let has = self.has_critical.get_mut(place);
        if has.is_some_and(|has| std::mem::replace(has, true)) {
            return Err(connection(H3Code::StreamCreation));
        }
        Ok(Some(kind))
    }

    fn read_control(&mut self, input: &mut &[u8]) -> Result<UniOutput, H3Error> {
        loop {
            match self.control_part {
                ControlPart::FrameHead => match self.control.next(input) {
                    None => return Ok(UniOutput::More),
                    Some(frame) => self.control_part = self.begin(frame)?,
                },
                ControlPart::Payload(frame) => {
                    let length = usize::try_from(frame.length).unwrap_or(usize::MAX);
                    // The payload borrows the reader.
                    let mut reader = std::mem::take(&mut self.control);
                    let output = match reader.payload(input, length) {
                        None => {
                            self.control = reader;
                            return Ok(UniOutput::More);
                        }
                        Some(payload) => self.evaluate(frame.kind, payload)?,
                    };
                    self.control_part = ControlPart::FrameHead;
                    if let Some(output) = output {
                        return Ok(output);
                    }
                }
                ControlPart::Skipped(0) => self.control_part = ControlPart::FrameHead,
                ControlPart::Skipped(_) if input.is_empty() => return Ok(UniOutput::More),
                ControlPart::Skipped(rest) => {
                    let skipped = frame::take(input, rest);
                    self.control_part = ControlPart::Skipped(rest - skipped.len() as u64);
                }
            }
        }
    }

    /// Decides what to do with a frame on the control stream.
    fn begin(&mut self, frame: H3Frame) -> Result<ControlPart, H3Error> {
        match frame.kind {
            SETTINGS if !self.has_settings => {}
            _ if !self.has_settings => return Err(connection(H3Code::MissingSettings)),
            SETTINGS => return Err(connection(H3Code::FrameUnexpected)),
            GOAWAY | MAX_PUSH_ID | CANCEL_PUSH | PRIORITY_OF_REQUEST | PRIORITY_OF_PUSH => {}
            kind if frame::is_known(kind) => return Err(connection(H3Code::FrameUnexpected)),
            _ => return frame::skip(frame.length, &mut self.flood).map(ControlPart::Skipped),
        }
        if frame.length > MAX_CONTROL_FRAME {
            return Err(connection(H3Code::ExcessiveLoad));
        }
        self.flood.idle(1)?;
        Ok(ControlPart::Payload(frame))
    }

    fn evaluate(&mut self, kind: u64, mut payload: &[u8]) -> Result<Option<UniOutput>, H3Error> {
        if kind == SETTINGS {
            self.has_settings = true;
            return check_settings(payload).map(|()| None);
        }
        let id = varint::read(&mut payload).ok_or(connection(H3Code::FrameError))?;
        let has_more = !payload.is_empty();
        let is_valid = match kind {
            PRIORITY_OF_REQUEST if id % 4 == 0 => {
                let urgency = priority::urgency(payload);
                let stream = id;
                return Ok(Some(UniOutput::Priority { stream, urgency }));
            }
            GOAWAY | MAX_PUSH_ID if has_more => return Err(connection(H3Code::FrameError)),
            // It must not rise (RFC 9114 section 5.2).
            GOAWAY => std::mem::replace(&mut self.last_goaway, id) >= id,
            // It must not fall (RFC 9114 section 7.2.7).
            MAX_PUSH_ID => std::mem::replace(&mut self.max_push, id) <= id,
            // Nothing is pushed, so no push has an id.
            _ => false,
        };
        is_valid.then_some(None).ok_or(connection(H3Code::IdError))
    }

    /// The only instruction for a table without capacity is to have none (RFC 9204 section 4.3.1).
    fn read_encoder(&mut self, input: &mut &[u8]) -> Result<UniOutput, H3Error> {
        for byte in std::mem::take(input) {
            if *byte != SET_CAPACITY_0 {
                return Err(connection(H3Code::EncoderStream));
            }
            self.flood.idle(1)?;
        }
        Ok(UniOutput::More)
    }

    /// The only instruction without a dynamic table is the cancellation of a stream (RFC 9204 section 4.4.2).
    fn read_decoder(&mut self, input: &mut &[u8]) -> Result<UniOutput, H3Error> {
        for byte in std::mem::take(input) {
            let has_more = match self.decoder_bytes {
                0 if byte & 0xc0 == STREAM_CANCELLATION => {
                    self.flood.idle(1)?;
                    byte & 0x3f == 0x3f
                }
                1..=MAX_MORE_BYTES => byte & 0x80 != 0,
                _ => return Err(connection(H3Code::DecoderStream)),
            };
            self.decoder_bytes = if has_more { self.decoder_bytes + 1 } else { 0 };
        }
        Ok(UniOutput::More)
    }
}

/// Checks the client's settings (RFC 9114 section 7.2.4). None of them changes what Galley sends.
fn check_settings(payload: &[u8]) -> Result<(), H3Error> {
    let mut rest = payload;
    while !rest.is_empty() {
        let before = payload.len() - rest.len();
        let (id, value) = (varint::read(&mut rest), varint::read(&mut rest));
        let (Some(id), Some(_)) = (id, value) else {
            return Err(connection(H3Code::FrameError));
        };
        // Those of HTTP/2 are reserved (RFC 9114 section 11.2.2).
        let is_reserved = matches!(id, 0x00 | 0x02..=0x05);
        if is_reserved || has_setting(payload.get(..before).unwrap_or_default(), id) {
            return Err(connection(H3Code::SettingsError));
        }
    }
    Ok(())
}

fn has_setting(mut settings: &[u8], wanted: u64) -> bool {
    while let Some(id) = varint::read(&mut settings) {
        if id == wanted {
            return true;
        }
        varint::read(&mut settings);
    }
    false
}

fn connection(code: H3Code) -> H3Error {
    H3Error::Connection(code)
}

/// The maximum number of streams with one direction that are open at once: three are needed, and
/// clients add one or two of reserved types.
const MAX_UNI_STREAMS: usize = 16;

/// The maximum length of a frame on the control stream, in bytes. Settings of browsers have about 30, priorities less.
const MAX_CONTROL_FRAME: u64 = 256;

/// A stream costs QUIC more than a frame.
const UNKNOWN_STREAM_COST: u32 = 10;

const SET_CAPACITY_0: u8 = 0x20;
const STREAM_CANCELLATION: u8 = 0x40;
/// The bytes of an integer of 62 bits behind the first.
const MAX_MORE_BYTES: u32 = 9;
