//! Records of FastCGI 1.0 (specification section 3.3): the eight-byte header, and the fixed bodies of `BEGIN_REQUEST` and
//! `END_REQUEST`.
//!
//! ```text
//! offset 0        1       2..3       4..5             6               7
//!        version  type    requestId  contentLength    paddingLength   reserved
//!        (1)              big-endian big-endian 0..=65535             then content, then padding
//! ```
//!
//! Only the form is checked here (the version, a known length); the exchange decides which record is allowed when.

use bytes::BufMut;

/// The length of a record's header, in bytes.
pub const HEADER_BYTES: usize = 8;
/// The maximum content of a record, in bytes.
pub const MAX_CONTENT: usize = 65_535;
/// The only version of the protocol.
pub const VERSION: u8 = 1;
/// The id of every request of Galley; id 0 is for management records.
pub const REQUEST_ID: u16 = 1;
/// `FCGI_KEEP_CONN`: the responder does not close the connection after `END_REQUEST`.
pub const KEEP_CONNECTION: u8 = 1;

/// The type of a record, by its number in the specification (section 8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordType {
    /// 1, to the responder: a request starts.
    BeginRequest,
    /// 2, to the responder. Galley closes the connection to abort, since PHP-FPM does not read this record.
    AbortRequest,
    /// 3, from the responder: the request has ended.
    EndRequest,
    /// 4, to the responder: a stream of name-value pairs.
    Params,
    /// 5, to the responder: the request body.
    Stdin,
    /// 6, from the responder: the CGI response.
    Stdout,
    /// 7, from the responder: messages for the log.
    Stderr,
    /// 8, to a filter; unused by responders.
    Data,
    /// 9, management: a query for limits.
    GetValues,
    /// 10, management: its response.
    GetValuesResult,
    /// 11, management: a record had an unknown type.
    UnknownType,
}

impl RecordType {
    const ALL: [RecordType; 11] = [
        RecordType::BeginRequest,
        RecordType::AbortRequest,
        RecordType::EndRequest,
        RecordType::Params,
        RecordType::Stdin,
        RecordType::Stdout,
        RecordType::Stderr,
        RecordType::Data,
        RecordType::GetValues,
        RecordType::GetValuesResult,
        RecordType::UnknownType,
    ];

    /// The type with this number, or `None` if the specification does not define it.
    pub fn from_code(code: u8) -> Option<RecordType> {
        RecordType::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The type number.
    pub fn code(self) -> u8 {
        match self {
            RecordType::BeginRequest => 1,
            RecordType::AbortRequest => 2,
            RecordType::EndRequest => 3,
            RecordType::Params => 4,
            RecordType::Stdin => 5,
            RecordType::Stdout => 6,
            RecordType::Stderr => 7,
            RecordType::Data => 8,
            RecordType::GetValues => 9,
            RecordType::GetValuesResult => 10,
            RecordType::UnknownType => 11,
        }
    }
}

/// The decoded header of a record. The type remains a number, since an unknown one is not always an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The type number; see [`RecordType::from_code`].
    pub code: u8,
    /// The request id; 0 for management records.
    pub id: u16,
    /// The number of content bytes that follow.
    pub content: u16,
    /// The number of padding bytes after the content.
    pub padding: u8,
}

impl Header {
    /// Decodes a header. Fails only if the version is not 1; the reserved byte is ignored.
    pub fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Header, BadRecord> {
        let [
            version,
            code,
            id_1,
            id_0,
            content_1,
            content_0,
            padding,
            _reserved,
        ] = bytes;
        if version != VERSION {
            return Err(BadRecord::Version(version));
        }
        Ok(Header {
            code,
            id: u16::from_be_bytes([id_1, id_0]),
            content: u16::from_be_bytes([content_1, content_0]),
            padding,
        })
    }

    /// Encodes the header.
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let [id_1, id_0] = self.id.to_be_bytes();
        let [content_1, content_0] = self.content.to_be_bytes();
        [
            VERSION,
            self.code,
            id_1,
            id_0,
            content_1,
            content_0,
            self.padding,
            0,
        ]
    }
}

/// Why a record from the responder is invalid. The connection is then closed, because later bytes cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// A version other than 1; usually the peer does not use FastCGI at all.
    #[error("version {0} instead of 1")]
    Version(u8),
    /// A record for a request that was never sent: responses may have been mixed up.
    #[error("request id {0} instead of 1")]
    Id(u16),
    /// A type that a responder may not send.
    #[error("type {0} is not a responder's")]
    Type(u8),
    /// `END_REQUEST` with a length other than 8.
    #[error("END_REQUEST of {0} bytes instead of 8")]
    EndLength(u16),
}

/// The content of `END_REQUEST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndStatus {
    /// The program's exit status; from PHP-FPM, that of PHP.
    pub app_status: u32,
    /// Whether the request was served.
    pub protocol_status: ProtocolStatus,
}

impl EndStatus {
    /// Decodes the body of `END_REQUEST` (section 5.5); the three reserved bytes are ignored.
    pub fn decode(body: [u8; 8]) -> EndStatus {
        let [a, b, c, d, protocol, ..] = body;
        EndStatus {
            app_status: u32::from_be_bytes([a, b, c, d]),
            protocol_status: ProtocolStatus::from_code(protocol),
        }
    }
}

/// The protocol status in `END_REQUEST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// 0: normal end.
    RequestComplete,
    /// 1: a second request on one connection was rejected.
    CannotMultiplex,
    /// 2: the program lacks a resource.
    Overloaded,
    /// 3: the program does not know the responder role.
    UnknownRole,
    /// A number that the specification does not define.
    Other(u8),
}

impl ProtocolStatus {
    /// The status with this number.
    pub fn from_code(code: u8) -> ProtocolStatus {
        match code {
            0 => ProtocolStatus::RequestComplete,
            1 => ProtocolStatus::CannotMultiplex,
            2 => ProtocolStatus::Overloaded,
            3 => ProtocolStatus::UnknownRole,
            other => ProtocolStatus::Other(other),
        }
    }
}

/// Appends the header of a record without padding. The type limits `content` to [`MAX_CONTENT`].
pub fn write_header(out: &mut impl BufMut, kind: RecordType, content: u16) {
    out.put_slice(
        &Header {
            code: kind.code(),
            id: REQUEST_ID,
            content,
            padding: 0,
        }
        .encode(),
    );
}

/// Appends `content` as records of `kind`. Appends nothing if `content` is empty, because an empty record ends a stream
/// (section 3.3); only [`write_stream_end`] writes it.
pub fn write_stream(out: &mut impl BufMut, kind: RecordType, content: &[u8]) {
    for piece in content.chunks(MAX_CONTENT) {
        write_header(out, kind, u16::try_from(piece.len()).unwrap_or(u16::MAX));
        out.put_slice(piece);
    }
}

/// Appends the empty record that ends the stream `kind`.
pub fn write_stream_end(out: &mut impl BufMut, kind: RecordType) {
    write_header(out, kind, 0);
}

/// Appends `BEGIN_REQUEST` for the responder role with `FCGI_KEEP_CONN` (section 5.1).
pub fn write_begin(out: &mut impl BufMut) {
    const ROLE_RESPONDER: u8 = 1;
    write_header(out, RecordType::BeginRequest, 8);
    out.put_slice(&[0, ROLE_RESPONDER, KEEP_CONNECTION, 0, 0, 0, 0, 0]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn headers_match_the_specification() {
        let mut out = Vec::new();
        write_begin(&mut out);
        assert_eq!(out, [1, 1, 0, 1, 0, 8, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]);
        out.clear();
        write_stream_end(&mut out, RecordType::Params);
        assert_eq!(out, [1, 4, 0, 1, 0, 0, 0, 0]);
        let status = EndStatus {
            app_status: 0x0102_0304,
            protocol_status: ProtocolStatus::Overloaded,
        };
        assert_eq!(EndStatus::decode([1, 2, 3, 4, 2, 0, 0, 0]), status);
    }

    #[test]
    fn kinds_round_trip() {
        for code in 0..=u8::MAX {
            assert_eq!(
                RecordType::from_code(code).is_some(),
                (1..=11).contains(&code)
            );
            assert_eq!(
                RecordType::from_code(code).map_or(code, RecordType::code),
                code
            );
        }
    }

    #[test]
    fn other_versions_are_rejected() {
        for version in [0, 2, b'H'] {
            assert_eq!(
                Header::decode([version, 6, 0, 1, 0, 0, 0, 0]),
                Err(BadRecord::Version(version))
            );
        }
    }

    #[test]
    fn long_streams_are_split_and_empty_ones_write_nothing() {
        let mut out = Vec::new();
        write_stream(&mut out, RecordType::Stdin, &[]);
        assert!(out.is_empty());
        write_stream(&mut out, RecordType::Stdin, &vec![7; MAX_CONTENT + 1]);
        let (first, second) = out.split_at(HEADER_BYTES + MAX_CONTENT);
        assert_eq!(first[..HEADER_BYTES], [1, 5, 0, 1, 255, 255, 0, 0]);
        assert_eq!(second, [1, 5, 0, 1, 0, 1, 0, 0, 7]);
    }

    proptest! {
        #[test]
        fn headers_round_trip(code: u8, id: u16, content: u16, padding: u8) {
            let header = Header { code, id, content, padding };
            prop_assert_eq!(Header::decode(header.encode()), Ok(header));
        }
    }
}
