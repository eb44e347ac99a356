//! What a version of HTTP does for one request: it receives the body and sends interim responses, and decides nothing.

use bytes::Bytes;
use galley_http::body::BodyReader;
use galley_http::framing::Framing;

use super::Core;
use super::speed::ReceiveProgress;
use crate::fault::Fault;
use crate::upstream::interim::Interim;

/// What a protocol does for one request.
pub(super) trait Protocol {
    /// Tells a client that waits for it that its body is wanted (RFC 9110 §10.1.1).
    async fn send_continue(&mut self) -> Result<(), ClientGone>;

    /// The next part of the body, of at most [`crate::body::streamed_body::PART_BYTES`]; `None` at the end. Cancel-safe.
    async fn body_part(
        &mut self,
        core: &Core,
        body: &mut ArrivingBody,
    ) -> Result<Option<Bytes>, BodyError>;

    /// Sends an interim response (RFC 9110 §15.2). Errors: the client has gone.
    async fn send_interim(&mut self, interim: Interim) -> Result<(), ClientGone>;

    /// Ready when the client has gone.
    async fn closed(&mut self);
}

/// The client has closed the connection or reset the stream.
pub(super) struct ClientGone;

/// Why a body could not be received.
pub(super) enum BodyError {
    Gone,
    /// It came too slowly.
    Late,
    Fault(Fault),
}

impl From<Fault> for BodyError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<ClientGone> for BodyError {
    fn from(_: ClientGone) -> Self {
        Self::Gone
    }
}

/// A request body as its protocol receives it.
pub(super) struct ArrivingBody {
    /// Its end in the bytes of HTTP/1.
    pub(super) reader: BodyReader,
    /// Bytes that it may still have, for HTTP/2, whose frames tell the end.
    pub(super) room: u64,
    /// The speed of the client; `None`: it is not being waited for.
    pub(super) progress: Option<ReceiveProgress>,
}

impl ArrivingBody {
    /// A body of at most `limit` bytes, of which none has arrived.
    pub(super) fn new(framing: &Framing<'_>, limit: u64) -> Self {
        Self {
            reader: BodyReader::new(framing.body, limit),
            room: limit,
            progress: None,
        }
    }
}
