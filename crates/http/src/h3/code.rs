//! The error codes of HTTP/3, and what they end.

use std::fmt;

/// An error code (RFC 9114 section 8.1, RFC 9204 section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum H3Code {
    /// `H3_NO_ERROR`: also for a request whose body is not needed any more.
    NoError = 0x100,
    /// `H3_INTERNAL_ERROR`.
    InternalError = 0x102,
    /// `H3_STREAM_CREATION_ERROR`: also for a stream of an unknown type, which is not read.
    StreamCreation = 0x103,
    /// `H3_CLOSED_CRITICAL_STREAM`.
    ClosedCriticalStream = 0x104,
    /// `H3_FRAME_UNEXPECTED`.
    FrameUnexpected = 0x105,
    /// `H3_FRAME_ERROR`.
    FrameError = 0x106,
    /// `H3_EXCESSIVE_LOAD`.
    ExcessiveLoad = 0x107,
    /// `H3_ID_ERROR`.
    IdError = 0x108,
    /// `H3_SETTINGS_ERROR`.
    SettingsError = 0x109,
    /// `H3_MISSING_SETTINGS`.
    MissingSettings = 0x10a,
    /// `H3_REQUEST_REJECTED`: the request was not processed, and may be sent again.
    RequestRejected = 0x10b,
    /// `H3_REQUEST_CANCELLED`.
    RequestCancelled = 0x10c,
    /// `H3_REQUEST_INCOMPLETE`.
    RequestIncomplete = 0x10d,
    /// `H3_MESSAGE_ERROR`.
    MessageError = 0x10e,
    /// `QPACK_DECOMPRESSION_FAILED`.
    DecompressionFailed = 0x200,
    /// `QPACK_ENCODER_STREAM_ERROR`.
    EncoderStream = 0x201,
    /// `QPACK_DECODER_STREAM_ERROR`.
    DecoderStream = 0x202,
}

impl H3Code {
    /// The code as QUIC transports it.
    pub fn value(self) -> u64 {
        self as u64
    }
}

impl fmt::Display for H3Code {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:#x}", self.value())
    }
}

/// A violation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum H3Error {
    /// The stream ends (`RESET_STREAM` and `STOP_SENDING`); others continue.
    #[error("stream error {0}")]
    Stream(H3Code),
    /// The connection ends (`CONNECTION_CLOSE`).
    #[error("connection error {0}")]
    Connection(H3Code),
}
